"""What in a batch script comes from the settings of a site, and would surprise who knows others."""

from collections.abc import Iterator

from hpc_board.model.gpu import Gpu
from hpc_board.schedulers import Remark, kind_of


def unusual(gpu: Gpu, script: str) -> tuple[Remark, ...]:
    """The remarks on the script of a job for `gpu`."""
    lines = script.splitlines()
    return tuple(_remarks(gpu, lines))


def _remarks(gpu: Gpu, lines: list[str]) -> Iterator[Remark]:
    if gpu.template is not None:
        yield Remark(f"The settings' own template makes this script: {gpu.template}")
    yield from kind_of(gpu.cluster).remarks(gpu, lines)
    if gpu.container is not None:
        yield Remark(f"All of it runs in a container: {gpu.container.runtime}, {gpu.container.image}")
    if gpu.emulated:
        yield Remark(f"{gpu.name} is emulated on a CPU here: the times say nothing about it.")
