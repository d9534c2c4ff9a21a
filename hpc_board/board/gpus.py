"""The GPUs of a board's settings, and their availability."""

from typing import TYPE_CHECKING

from hpc_board.domain.gpus import allowed_gpus
from hpc_board.model.gpu import Gpu, GpuStatus
from hpc_board.model.task import Task

if TYPE_CHECKING:
    from hpc_board.board.context import Context


class Gpus:
    """The GPUs of the settings."""

    def __init__(self, context: "Context") -> None:
        self._context = context

    def all(self) -> tuple[Gpu, ...]:
        """Return the GPUs of the settings, in their order."""
        return self._context.settings.gpus

    def get(self, name: str) -> Gpu:
        """Return the GPU of the settings called `name`, compared without case.

        Raises:
            InputError: no GPU has this name; the hint offers the nearest one.
        """
        return self._context.gpu(name)

    def allowed(self, task: Task) -> tuple[Gpu, ...]:
        """Return the GPUs of the settings that `task` allows."""
        return allowed_gpus(task, self._context.settings.gpus)

    def statuses(self) -> list[GpuStatus]:
        """Return the availability of every GPU of the settings, with the reason if its cluster does not answer.

        All clients of the board together ask a cluster at most every `poll_seconds`.
        """
        return self._context.clusters.gpu_statuses()
