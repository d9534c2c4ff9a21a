"""The file that a participant starts from."""

import re
from collections.abc import Iterator, Sequence

from hpc_board.domain.board_options import utc_words
from hpc_board.domain.gpus import languages_of
from hpc_board.domain.submission import MARKERS
from hpc_board.errors import InputError
from hpc_board.model.gpu import Gpu
from hpc_board.model.names import suggestion
from hpc_board.model.task import Language, Task, language_of
from hpc_board.model.text import one_line, printable

_IN_PYTHON = ("Python", "Triton", "CuteDSL")
_BY_LANGUAGE = {Language.PY: "Python", Language.CPP: "C++", Language.CU: "CUDA", Language.HIP: "HIP"}
_DIRECTIVE = re.compile(rf"(?:#|//)(?:{'|'.join(MARKERS)})(?:\s|\Z)")
_DESCRIPTION_LINES_MAX = 60
_LINE_CHARACTERS_MAX = 200


def starter(task: Task, language: str | None = None, gpus: Sequence[Gpu] = ()) -> str:
    """Return the task's template in `language` below a header with its name, GPUs, description and deadline.

    `gpus` are those on which the task may run here; the header names the ones among them that run the language.

    Raises:
        InputError: as `template_name` has it.
    """
    name = template_name(task, language)
    mark = "#" if name in _IN_PYTHON else "//"
    fitting = [gpu.name for gpu in fitting_gpus(name, gpus)]
    note = no_gpu(task, name, gpus) if gpus and not fitting else ""
    header = "".join(f"{line}\n" for line in _header(task, mark, fitting, note))
    return f"{header}\n{_without_directives(task.templates[name])}"


def fitting_gpus(template: str, gpus: Sequence[Gpu]) -> list[Gpu]:
    """Return those of `gpus` that run the language of a template."""
    language = next((each for each, plain in _BY_LANGUAGE.items() if plain == template), Language.PY)
    return [gpu for gpu in gpus if language in languages_of(gpu)]


def no_gpu(task: Task, template: str, gpus: Sequence[Gpu]) -> str:
    """Return the sentence for a template whose language none of `gpus` runs."""
    return f"{task.name} has no GPU on this board that runs {template}, only {', '.join(gpu.name for gpu in gpus)}."


def _header(task: Task, mark: str, gpus: Sequence[str], note: str) -> Iterator[str]:
    """Yield comment lines without an empty one among them: the parser of directives stops at any other line."""
    yield f"{mark}!POPCORN leaderboard {task.name}"
    if task.gpus and gpus:
        yield f"{mark}!POPCORN gpus {' '.join(gpus)}"
    yield mark
    yield f"{mark} A start for {task.name}. What to do:"
    yield mark
    lines = printable(task.description).strip().splitlines()
    for line in lines[:_DESCRIPTION_LINES_MAX]:
        # A backslash at the end of a line of C would extend the comment over the next line.
        yield f"{mark} > {one_line(line, _LINE_CHARACTERS_MAX)}".rstrip("\\ ")
    if len(lines) > _DESCRIPTION_LINES_MAX:
        yield f"{mark} > ... (all of it: hpc-board task {task.name})"
    yield mark
    yield f"{mark} Deadline: {utc_words(task.deadline)}"
    if task.gpus and gpus:
        yield f"{mark} The second line names the GPUs that a submission goes to where no --gpu is given."
    elif gpus:
        yield f"{mark} A second line `{mark}!POPCORN gpus {' '.join(gpus)}` sends it there where no --gpu is given."
    elif note:
        yield f"{mark} {note}"


def _without_directives(template: str) -> str:
    """Return the template without the directives of its header, which may name another board, or lines before it."""
    lines = template.removeprefix("\ufeff").splitlines(keepends=True)
    end = next((number for number, line in enumerate(lines) if not line.startswith(("#", "//"))), len(lines))
    header = [line for line in lines[:end] if not _DIRECTIVE.match(line)]
    return "".join([*header, *lines[end:]]).lstrip("\r\n")


def _by_ending(task: Task, file_name: str) -> str | None:
    """Return the template for a file of this name: the plain one of its language, else the only one for it."""
    language = language_of(file_name)
    if language is None:
        return None
    plain = _BY_LANGUAGE[language]
    fitting = [name for name in task.templates if name == plain or (language is Language.PY and name in _IN_PYTHON)]
    return plain if plain in fitting else fitting[0] if len(fitting) == 1 else None


def compiled_header() -> str:
    """Return the header that compiled submissions include, as the harness gives it to the compiler."""
    from hpc_board.harness.build.toolchain import header_text

    return header_text()


def template_name(task: Task, language: str | None, file_name: str = "") -> str:
    """Return the name of the requested template.

    `language` is that name, or the language of submissions that the template is for; without one, the ending of
    `file_name` chooses among several.

    Raises:
        InputError: the task has no template, several of which neither `language` nor `file_name` chooses one, or none
            in that language.
    """
    if not task.templates:
        raise InputError(
            f"task {task.name} has no template",
            hint=f"`hpc-board task {task.name}` shows what your file has to define.",
        )
    names = ", ".join(task.templates)
    if language is None:
        if len(task.templates) > 1:
            fitting = _by_ending(task, file_name)
            if fitting is None:
                raise InputError(f"task {task.name} has several templates: {names}", hint="Choose one with --language.")
            return fitting
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
