"""Zip archives from anywhere: unpacked only where nothing in them can reach out of their folder or fill the disk."""

import io
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from hpc_board.errors import InputError
from hpc_board.files import read_bytes
from hpc_board.model.text import one_line

ARCHIVE_BYTES_MAX = 32 * 2**20
"""An archive larger than this is not opened."""

UNPACKED_BYTES_MAX = 128 * 2**20
"""An archive whose files have more bytes than this together is not unpacked."""

ENTRIES_MAX = 10_000
"""An archive of more files and folders than this is not opened."""

_DEPTH_MAX = 32
_ENTRY_MARK = b"PK\x01\x02"
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_HINT = "Pack the folder again, for example with: python3 -m zipfile -c task.zip FOLDER"


def pack(folder: Path) -> bytes:
    """Return a zip of the regular files in `folder` whose names do not begin with a dot, at any depth.

    Raises:
        InputError: they cannot be read, are too many or too large.
    """
    found = io.BytesIO()
    size = 0
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, path in enumerate(_packable(folder)):
            data = read_bytes(path, UNPACKED_BYTES_MAX)
            size += len(data)
            if number >= ENTRIES_MAX or size > UNPACKED_BYTES_MAX:
                raise InputError(
                    f"{one_line(str(folder), 300)} exceeds the limit of {ENTRIES_MAX:,} files or "
                    f"{UNPACKED_BYTES_MAX:,} bytes.",
                    hint="Use the folder of one task.",
                )
            archive.writestr(str(path.relative_to(folder)), data)
    return found.getvalue()


def _packable(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(".") or entry.name == "__pycache__" or entry.is_symlink():
            continue
        if entry.is_dir():
            yield from _packable(entry)
        elif entry.is_file():
            yield entry


def unpack(path: Path, target: Path) -> None:
    """Unpack the zip archive at `path` into the empty folder `target`, which no entry leaves; links become files.

    Raises:
        InputError: it cannot be read, exceeds a limit, or is not an archive.
    """
    name = one_line(str(path), 300)
    data = read_bytes(path, ARCHIVE_BYTES_MAX)
    # Each entry that is read takes hundreds of bytes of memory, so they are counted before.
    if data.count(_ENTRY_MARK) > ENTRIES_MAX:
        raise InputError(f"{name} contains more than {ENTRIES_MAX:,} files.", hint=_HINT)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _check_entries(archive.infolist(), name)
            archive.extractall(target)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as error:
        raise InputError(f"{name} is not a zip archive, or is damaged: {one_line(str(error))}.", hint=_HINT) from error
    except OSError as error:
        raise InputError(
            f"{name} cannot be unpacked into {target}: {error.strerror or error}.",
            hint=f"{_HINT} On a full disk, set TMPDIR to another folder.",
        ) from error


def _check_entries(entries: list[zipfile.ZipInfo], name: str) -> None:
    # An entry yields at most the size that it states, even if its bytes hold more.
    size = sum(entry.file_size for entry in entries)
    if size > UNPACKED_BYTES_MAX:
        raise InputError(f"{name} is too large: {size:,} bytes unpacked (limit {UNPACKED_BYTES_MAX:,}).", hint=_HINT)
    files: set[PurePosixPath] = set()
    folders: set[PurePosixPath] = set()
    for entry in entries:
        path, shown = PurePosixPath(entry.filename), one_line(entry.filename, 80)
        leaves = path.is_absolute() or ".." in path.parts
        if leaves or not path.parts or any(len(part.encode()) > 255 for part in path.parts):
            raise InputError(f'{name} contains "{shown}", which is not a path within its folder.', hint=_HINT)
        if len(path.parts) > _DEPTH_MAX:
            raise InputError(f"{name} contains more than {_DEPTH_MAX} levels of nested folders.", hint=_HINT)
        if path in files or (path in folders and not entry.is_dir()) or not files.isdisjoint(path.parents):
            raise InputError(f'{name} contains "{shown}" and another file of that name.', hint=_HINT)
        folders |= {path, *path.parents} if entry.is_dir() else set(path.parents)
        files |= set() if entry.is_dir() else {path}
        if len(files) + len(folders) > ENTRIES_MAX:
            raise InputError(f"{name} contains more than {ENTRIES_MAX:,} files and folders.", hint=_HINT)
        if entry.compress_type not in _METHODS:
            raise InputError(f"{name} uses a compression method other than deflate.", hint=_HINT)
