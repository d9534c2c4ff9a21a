"""The GPUs of a board: the one with a name, and those that a task allows."""

from collections.abc import Sequence

from hpc_board.errors import InputError
from hpc_board.model.gpu import Gpu
from hpc_board.model.names import suggestion
from hpc_board.model.task import Task
from hpc_board.model.text import one_line


def gpu(name: str, gpus: Sequence[Gpu]) -> Gpu:
    """Return the GPU of `gpus` with this name, compared without case.

    Raises:
        InputError: no GPU has this name; the hint offers the nearest one.
    """
    for candidate in gpus:
        if candidate.name.casefold() == name.casefold():
            return candidate
    names = [candidate.name for candidate in gpus]
    raise InputError(
        f'unknown GPU "{one_line(name, 80)}".{suggestion(name, names)}',
        hint=f"This board has: {', '.join(names)}.",
    )


def allowed_gpus(task: Task, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Return the GPUs of `gpus` that `task` allows: those it names, or all if it names none."""
    named = {name.casefold() for name in task.gpus}
    return tuple(candidate for candidate in gpus if not named or candidate.name.casefold() in named)
