"""The folder in which a participant, or a coding agent, works on a task."""

import shlex
import string
from collections.abc import Sequence

from hpc_board import bundled
from hpc_board.catalog.template import compiled_header, fitting_gpus, reference_file, starter, template_name
from hpc_board.model.gpu import Gpu
from hpc_board.model.task import Task, Template

GUIDE = "AGENTS.md"
"""The file that coding agents read first."""


def files(task: Task, language: str | None, gpus: Sequence[Gpu]) -> dict[str, str]:
    """Return the files by their names: the kernel to change, the reference unless a service keeps it, and the guide.

    `gpus` are those on which the task may run here.

    Raises:
        InputError: the task has no such template.
    """
    name = template_name(task, language, task.submission_name if language is None else "")
    of = Template(name).language
    kernel = f"kernel{of.extensions[0]}"
    reference = None if task.published_version else reference_file(task)
    found = {kernel: starter(task, name, gpus)}
    if reference is not None and "/" not in reference.name and reference.text is not None:
        found[reference.name] = reference.text
    if of.compiled:
        found["hpc_board.h"] = compiled_header()
    return found | {GUIDE: _guide(task, kernel, fitting_gpus(name, gpus), reference.name if reference else "")}


def _guide(task: Task, kernel: str, gpus: Sequence[Gpu], reference: str) -> str:
    text = (bundled.folder("task_starter") / GUIDE).read_text(encoding="utf-8")
    gpu = f" --gpu {shlex.quote(gpus[0].name)}" if gpus else ""
    submit = f"hpc-board submit {kernel}{gpu} --wait"
    values = {
        "task": task.name,
        "kernel": kernel,
        "reference": f"`{reference}` makes the inputs and the right answers."
        if reference
        else "The board keeps the reference.",
        "test": f"{submit} --mode test --json=brief",
        "ranked": f"{submit} --mode ranked --fields id,submission,verdict,message,verdict_line",
        "profile": f"{submit} --mode profile",
    }
    return string.Template(text).substitute(values)
