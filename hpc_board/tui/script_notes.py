"""Remarks on site-specific parts of batch scripts."""

from collections.abc import Iterator

from hpc_board.model.gpu import Gpu
from hpc_board.schedulers import Remark, kind_of


def unusual(gpu: Gpu, script: str) -> tuple[Remark, ...]:
    """Return remarks on the script of a job for `gpu`."""
    lines = script.splitlines()
    return tuple(_remarks(gpu, lines))


def _remarks(gpu: Gpu, lines: list[str]) -> Iterator[Remark]:
    if gpu.template is not None:
        yield Remark(f"Script from the template of the settings: {gpu.template}")
    yield from kind_of(gpu.cluster).remarks(gpu, lines)
    if gpu.container is not None:
        yield Remark(f"The job runs in a container: {gpu.container.runtime}, {gpu.container.image}")
    if gpu.emulated:
        yield Remark(f"{gpu.name} is emulated on a CPU: the times are not those of the GPU.")
