"""The file that a participant starts from."""

import re
from collections.abc import Iterator, Sequence

from hpc_board.domain.board_options import utc_words
from hpc_board.domain.gpus import runs_template
from hpc_board.domain.submission import MARKERS
from hpc_board.errors import InputError
from hpc_board.model.gpu import Gpu
from hpc_board.model.names import suggestion
from hpc_board.model.task import Language, Task, TaskFile, Template, language_of
from hpc_board.model.text import one_line, printable

_OTHER_NAMES = {"pytorch": Template.PYTHON, **{str(language): Template.of(language) for language in Language}}
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
    mark = "#" if Template(name).language is Language.PY else "//"
    fitting = [gpu.name for gpu in fitting_gpus(name, gpus)]
    note = no_gpu(task, name, gpus) if gpus and not fitting else ""
    header = "".join(f"{line}\n" for line in _header(task, mark, fitting, note))
    return f"{header}\n{template_code(task, name)}"


def fitting_gpus(template: str, gpus: Sequence[Gpu]) -> list[Gpu]:
    """Return those of `gpus` that run the programs of a template."""
    return [gpu for gpu in gpus if runs_template(gpu, template)]


def no_gpu(task: Task, template: str, gpus: Sequence[Gpu]) -> str:
    """Return the sentence for a template whose language none of `gpus` runs."""
    return f"{task.name} has no GPU on this board that runs {template}, only {', '.join(gpu.name for gpu in gpus)}."


def _header(task: Task, mark: str, gpus: Sequence[str], note: str) -> Iterator[str]:
    """Yield comment lines without an empty one among them: the parser of directives stops at any other line."""
    yield f"{mark}!POPCORN leaderboard {task.name}"
    if task.gpus and gpus:
        yield f"{mark}!POPCORN gpus {' '.join(gpus)}"
    yield mark
    yield f"{mark} Template for {task.name}. The task:"
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
        yield f"{mark} The second line lists the GPUs to which a submission is sent without --gpu."
    elif gpus:
        yield f"{mark} A second line `{mark}!POPCORN gpus {' '.join(gpus)}` sends it there if --gpu is not given."
    elif note:
        yield f"{mark} {note}"


def reference_file(task: Task) -> TaskFile | None:
    """Return the file with the reference of a task: the first of that name, or the first one; None if it has none."""
    files = [file for file in task.files if file.text is not None]
    return next((file for file in files if file.name.startswith("reference")), next(iter(files), None))


def template_code(task: Task, name: str) -> str:
    """Return a template without the directives of its header, which may name another board, or lines before it."""
    lines = task.templates[name].removeprefix("\ufeff").splitlines(keepends=True)
    end = next((number for number, line in enumerate(lines) if not line.startswith(("#", "//"))), len(lines))
    header = [line for line in lines[:end] if not _DIRECTIVE.match(line)]
    return "".join([*header, *lines[end:]]).lstrip("\r\n")


def compiled_header() -> str:
    """Return the header that compiled submissions include, as the harness gives it to the compiler."""
    from hpc_board.harness.build.toolchain import header_text

    return header_text()


def template_name(task: Task, language: str | None, file_name: str = "") -> str:
    """Return the name of the requested template.

    `language` is that name in any case and without its punctuation, or the language of submissions that the template is
    for; without one, it is the plain template of the language of `file_name`, or the only one that the name permits.

    Raises:
        InputError: the task has no template, several of which neither `language` nor `file_name` chooses one, or none
            in that language or for that file; or the file's ending is that of another language.
    """
    if not task.templates:
        raise InputError(
            f"task {task.name} has no template",
            hint=f"`hpc-board task {task.name}` shows what your file must define.",
        )
    names = ", ".join(task.templates)
    if language is None:
        of_file = language_of(file_name)
        fitting = [name for name in task.templates if of_file in (None, Template(name).language)]
        if not fitting:
            raise InputError(f"task {task.name} has no template for {file_name}.", hint=f"It has: {names}.")
        if of_file is not None and (plain := Template.of(of_file)) in fitting:
            return plain
        if len(fitting) > 1:
            raise InputError(
                f"task {task.name} has several templates: {names}",
                hint="Choose one with --language; `language=` in Python.",
            )
        return fitting[0]
    known = {_plain(name): Template(name) for name in Template} | _OTHER_NAMES
    wanted = known.get(_plain(language))
    if wanted is None:
        near = suggestion(language, [str(name) for name in Template])
        raise InputError(f"unknown language {language}.{near}", hint=f"task {task.name} has templates for: {names}.")
    if str(wanted) not in task.templates:
        raise InputError(f"task {task.name} has no template for {wanted}.", hint=f"It has: {names}.")
    if language_of(file_name) not in (None, wanted.language):
        raise InputError(f"the extension of {file_name} does not match the language {wanted}.")
    return str(wanted)


def _plain(name: str) -> str:
    return re.sub(r"[\s._-]", "", name.casefold())
