"""The file that a participant starts from."""

from hpc_board.errors import InputError
from hpc_board.model.names import suggestion
from hpc_board.model.submission import directives
from hpc_board.model.task import Language, Task


def starter(task: Task, language: str | None = None) -> str:
    """The task's template in `language`, with the task's name in its header.

    Raises:
        InputError: the task has no template, several and `language` names none, or none in that language.
    """
    text = _template(task, language)
    if directives(text).leaderboard is not None:
        return text
    return f"{'#' if task.language is Language.PY else '//'}!POPCORN leaderboard {task.name}\n{text}"


def _template(task: Task, language: str | None) -> str:
    if not task.templates:
        raise InputError(
            f"task {task.name} has no template",
            hint=f"`hpc-board task {task.name}` shows what your file has to define.",
        )
    names = ", ".join(task.templates)
    if language is None:
        if len(task.templates) > 1:
            raise InputError(f"task {task.name} has several templates: {names}", hint="Choose one with --language.")
        return next(iter(task.templates.values()))
    found = {name.casefold(): text for name, text in task.templates.items()}.get(language.casefold())
    if found is None:
        raise InputError(
            f"task {task.name} has no template for {language}.{suggestion(language, task.templates)}",
            hint=f"It has: {names}.",
        )
    return found
