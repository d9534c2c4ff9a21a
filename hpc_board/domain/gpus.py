"""The GPUs of a board: the one with a name, those that a task allows, and the languages that each runs."""

from collections.abc import Sequence

from hpc_board.errors import InputError
from hpc_board.model.gpu import Device, Gpu
from hpc_board.model.names import suggestion
from hpc_board.model.task import ISOLATED, Language, Task
from hpc_board.model.text import one_line

_DEVICE_OF = {Language.CPP: Device.CPU, Language.CU: Device.CUDA, Language.HIP: Device.HIP}


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


def none_allowed(task: Task, gpus: Sequence[Gpu]) -> InputError:
    """Return the error of a task that allows none of `gpus`, those of the board."""
    return InputError(
        f"{task.name} has no GPU here: it may run on {', '.join(task.gpus) or 'every GPU'}.",
        hint=f"This board has: {', '.join(candidate.name for candidate in gpus) or 'none'}.",
    )


def runs_language(gpu: Gpu, language: Language, task: Task) -> bool:
    """Return whether `gpu` takes submissions of `task` in a language; an emulated one compiles all of them."""
    if language is Language.PY:
        return gpu.device is not Device.HIP or task.harness != ISOLATED
    return gpu.device is _DEVICE_OF[language] or gpu.emulated
