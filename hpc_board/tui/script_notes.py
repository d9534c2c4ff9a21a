"""What in a batch script comes from the settings of a site, and would surprise who knows others."""

from collections.abc import Iterator
from dataclasses import dataclass

from hpc_board.model.gpu import Gpu


@dataclass(frozen=True)
class Remark:
    """What is unusual about a script, and the lines of it that say so."""

    words: str
    lines: tuple[str, ...] = ()


def unusual(gpu: Gpu, script: str) -> tuple[Remark, ...]:
    """The remarks on the script of a job for `gpu`."""
    lines = script.splitlines()
    return tuple(_remarks(gpu, lines))


def _remarks(gpu: Gpu, lines: list[str]) -> Iterator[Remark]:
    if gpu.template is not None:
        yield Remark(f"The settings' own template makes this script: {gpu.template}")
    if gpu.sbatch:
        names = [extra.removeprefix("--").partition("=")[0] for extra in gpu.sbatch]
        yield Remark(
            f"The settings' `sbatch` adds {', '.join(f'--{name}' for name in names)}.",
            tuple(line for name in names for line in _lines_of(name, lines)),
        )
    if gpu.reservation:
        yield Remark(f"It waits for the reservation {gpu.reservation}.", _lines_of("reservation", lines))
    if gpu.nodelist or gpu.exclude:
        marked = (*_lines_of("nodelist", lines), *_lines_of("exclude", lines))
        yield Remark("It is kept to some nodes.", marked)
    if gpu.exclusive:
        yield Remark("It takes a whole node for itself.", _lines_of("exclusive", lines))
    if gpu.container is not None:
        yield Remark(f"All of it runs in a container: {gpu.container.runtime}, {gpu.container.image}")
    if gpu.emulated:
        yield Remark(f"{gpu.name} is emulated on a CPU here: the times say nothing about it.")


def _lines_of(option: str, lines: list[str]) -> tuple[str, ...]:
    """The lines that give this option to sbatch."""
    begun = f"#SBATCH --{option}"
    return tuple(line for line in lines if line == begun or line.startswith((f"{begun}=", f"{begun} ")))
