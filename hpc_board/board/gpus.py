"""The GPUs of a board's settings, and what is free of them."""

from hpc_board.board.context import Context
from hpc_board.model.gpu import Gpu, GpuStatus
from hpc_board.model.task import Task
from hpc_board.runs import drafts as intake


class Gpus:
    """The GPUs of the settings."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def get(self, name: str) -> Gpu:
        """The GPU of the settings called `name`, however it is capitalized.

        Raises:
            InputError: there is none; the nearest name is offered.
        """
        return intake.gpu(name, self._context.settings.gpus)

    def allowed(self, task: Task) -> tuple[Gpu, ...]:
        """The GPUs of the settings on which `task` may run."""
        return intake.allowed_gpus(task, self._context.settings.gpus)

    def statuses(self) -> list[GpuStatus]:
        """Every GPU of the settings with what is free of it; a cluster that does not answer says why.

        A cluster is asked at most every `poll_seconds` for all clients of the board together.
        """
        return self._context.clusters.gpu_statuses()
