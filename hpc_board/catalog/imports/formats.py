"""The formats that tasks are imported from, each recognised by the contents of a file or a folder."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from hpc_board.catalog.contract import CHECK, GENERATOR, defined, parsed
from hpc_board.catalog.imports import flashinfer, kernelbench, pair
from hpc_board.catalog.imports.licences import licence_of
from hpc_board.domain.imported import Imported
from hpc_board.domain.task_rules import FILE_BYTES_MAX
from hpc_board.errors import DocumentError, Fault, InputError
from hpc_board.files import read_text
from hpc_board.model.task import REFERENCE_ENTRY
from hpc_board.model.text import one_line


class Format(NamedTuple):
    """A format: the problems that it recognises in a file or a folder, and the task of one problem."""

    problems: Callable[[Path], list[Path]]
    task: Callable[[Path, int | None], Imported]


def _files_of(recognised: Callable[[set[str]], bool], parts: set[str]) -> Callable[[Path], list[Path]]:
    """Return a function for the Python files of a source, itself one or a folder of such.

    Beside a whole problem, a file that is not Python or has only some of the `parts` counts too: its faults are told.
    """

    def problems(source: Path) -> list[Path]:
        candidates = [source] if source.is_file() else sorted(source.iterdir())
        names = {each: _names_in(each) for each in candidates if each.suffix == ".py" and each.is_file()}
        if not any(found is not None and recognised(found) for found in names.values()):
            return []
        return [each for each, found in names.items() if found is None or not parts.isdisjoint(found)]

    return problems


def _names_in(path: Path) -> set[str] | None:
    """Return the names that a Python file defines; None if it cannot be read."""
    try:
        return defined(parsed(read_text(path, FILE_BYTES_MAX)))
    except (InputError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


FORMATS = {
    flashinfer.NAME: Format(flashinfer.problems, flashinfer.of_file),
    kernelbench.NAME: Format(_files_of(kernelbench.recognised, kernelbench.NEEDED), kernelbench.of_file),
    pair.NAME: Format(_files_of(pair.recognised, {*pair.REFERENCES, *pair.INPUTS}), pair.of_file),
}
"""Every format by its name, in the order in which a source is tried."""

_PARTS = {kernelbench.NAME: kernelbench.NEEDED, pair.NAME: {*pair.REFERENCES, *pair.INPUTS}}
_OF_REFERENCE = {GENERATOR, REFERENCE_ENTRY, CHECK}

ENDINGS = (".json",)
"""The extensions of files with problems besides that of Python."""


def _nearest(source: Path) -> str | None:
    """Return the format of which a Python file defines the most parts, that of pairs for one that cannot be read.

    None for another file, and for one without a part of any, or with a part of a reference.
    """
    names = _names_in(source) if source.suffix == ".py" else set[str]()
    if names is None:
        return pair.NAME
    name = max(_PARTS, key=lambda each: len(_PARTS[each] & names))
    return None if _PARTS[name].isdisjoint(names) or not _OF_REFERENCE.isdisjoint(names) else name


def tasks_in(
    source: Path, format_name: str | None = None, size_max: int | None = None
) -> Iterator[Imported | DocumentError]:
    """Yield the tasks of the problems in a file or folder, of this format or the first that recognises any.

    A file that none recognises has the faults of the format that is named, or of the nearest one. Sizes above
    `size_max`, if it is given, are replaced by it.

    Raises:
        InputError: the source cannot be read, or holds no problem of the format that is named.
    """
    try:
        forms = FORMATS.values() if format_name is None else [FORMATS[format_name]]
        found = next(((paths, each) for each in forms if (paths := each.problems(source))), None)
        if found is None and source.is_file() and (nearest := format_name or _nearest(source)):
            # Its faults say more than that it is of no format.
            found = [source], FORMATS[nearest]
    except OSError as error:
        raise InputError(
            f"{one_line(str(source), 300)} cannot be read: {error.strerror}.", hint="Check its permissions."
        ) from error
    if found is not None:
        sources = dict[str, Path]()
        for path in found[0]:
            task = _imported(path, found[1], size_max)
            if isinstance(task, DocumentError) or sources.setdefault(task.name, path) is path:
                yield task
            else:
                words = f"{task.name} is also that of {one_line(str(sources[task.name].relative_to(source)), 300)}"
                yield DocumentError(one_line(str(path), 300), [Fault("name", words)])
    elif format_name is not None:
        raise InputError(
            f"{one_line(str(source), 300)} contains no problem in the format {format_name}.",
            hint="Use the folder with the problems' files, or one of these files.",
        )


def _imported(path: Path, form: Format, size_max: int | None) -> Imported | DocumentError:
    try:
        task = form.task(path, size_max)
    except DocumentError as error:
        return error
    except InputError as error:
        return DocumentError(one_line(str(path), 300), [Fault("", error.message)], hint=error.hint)
    return replace(task, licence=licence_of(path))
