"""The file that a participant starts from."""

from hpc_board.errors import InputError
from hpc_board.model.names import suggestion
from hpc_board.model.submission import directives
from hpc_board.model.task import Language, Task

_IN_PYTHON = ("Python", "Triton", "CuteDSL")
_BY_LANGUAGE = {Language.PY: "Python", Language.CPP: "C++", Language.CU: "CUDA", Language.HIP: "HIP"}


def starter(task: Task, language: str | None = None) -> str:
    """The task's template in `language`, with the task's name in its header.

    `language` is the name of a template, or of the language of submissions that it is for.

    Raises:
        InputError: the task has no template, several and `language` names none, or none in that language.
    """
    name = _template(task, language)
    text = task.templates[name]
    if directives(text).leaderboard is not None:
        return text
    return f"{'#' if name in _IN_PYTHON else '//'}!POPCORN leaderboard {task.name}\n{text}"


def compiled_header() -> str:
    """The header that compiled submissions include, as the harness gives it to the compiler."""
    from hpc_board.harness.toolchain import header_text

    return header_text()


def _template(task: Task, language: str | None) -> str:
    """The name of the template that is meant."""
    if not task.templates:
        raise InputError(
            f"task {task.name} has no template",
            hint=f"`hpc-board task {task.name}` shows what your file has to define.",
        )
    names = ", ".join(task.templates)
    if language is None:
        if len(task.templates) > 1:
            raise InputError(f"task {task.name} has several templates: {names}", hint="Choose one with --language.")
        return next(iter(task.templates))
    wanted = language.casefold()
    wanted = next((name for short, name in _BY_LANGUAGE.items() if short == wanted), wanted).casefold()
    found = next((name for name in task.templates if name.casefold() == wanted), None)
    if found is None:
        raise InputError(
            f"task {task.name} has no template for {language}.{suggestion(language, task.templates)}",
            hint=f"It has: {names}.",
        )
    return found
