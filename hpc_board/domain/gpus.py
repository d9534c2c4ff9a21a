"""The GPUs of a board: the one with a name, those that a task allows, and the languages that each runs."""

from collections.abc import Sequence

from hpc_board.errors import InputError
from hpc_board.model.gpu import Device, Gpu
from hpc_board.model.names import suggestion
from hpc_board.model.task import COMPILED, ON_CUDA, ON_GPUS, Language, Task, Template
from hpc_board.model.text import one_line

_LANGUAGES = {
    Device.CPU: (Language.PY, Language.CPP),
    Device.CUDA: (Language.PY, Language.CU),
    Device.HIP: (Language.PY, Language.HIP),
}


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


def languages_of(gpu: Gpu) -> tuple[Language, ...]:
    """Return the languages of the submissions that `gpu` runs; an emulated one compiles all of them."""
    return tuple(Language) if gpu.emulated else _LANGUAGES[gpu.device]


def runs_template(gpu: Gpu, template: str) -> bool:
    """Return whether `gpu` runs the program of a template; an emulated one runs Triton by its interpreter."""
    interpreted = gpu.emulated and template == Template.TRITON
    if gpu.device is Device.CPU and template in ON_GPUS and not interpreted:
        return False
    if gpu.device is Device.HIP and template in ON_CUDA:
        return False
    return COMPILED.get(template, Language.PY) in languages_of(gpu)


def allowed_gpus(task: Task, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Return the GPUs of `gpus` on which `task` may run: those it names, or all, that run one of its languages."""
    return tuple(each for each in _named(task, gpus) if _runs(each, task))


def unfit_gpus(task: Task, gpus: Sequence[Gpu]) -> str:
    """Return a sentence about the GPUs of `gpus` that `task` names though they run none of its languages, else ""."""
    unfit = [each.name for each in _named(task, gpus) if task.gpus and not _runs(each, task)]
    return f"no submission in {' or '.join(task.accepted)} runs on {', '.join(unfit)}." if unfit else ""


def none_allowed(task: Task, gpus: Sequence[Gpu]) -> InputError:
    """Return the error of a task that may run on none of `gpus`, those of the board."""
    named = _named(task, gpus)
    if not named:
        return InputError(
            f"{task.name} has no GPU here: it may run on {', '.join(map(one_line, task.gpus)) or 'every GPU'}.",
            hint=f"This board has: {', '.join(each.name for each in gpus) or 'none'}.",
        )
    languages = ", ".join(dict.fromkeys(language for each in named for language in languages_of(each)))
    return InputError(
        f"{task.name} is a task in {', '.join(task.accepted)}; none of its GPUs here "
        f"({', '.join(each.name for each in named)}) runs that.",
        hint=f"They run {languages}. A GPU's languages follow from its `device` in the settings.",
    )


def _named(task: Task, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Return the GPUs of `gpus` that `task` names, or all if it names none."""
    named = {name.casefold() for name in task.gpus}
    return tuple(each for each in gpus if not named or each.name.casefold() in named)


def _runs(gpu: Gpu, task: Task) -> bool:
    return any(language in languages_of(gpu) for language in task.accepted)
