"""Zip archives from anywhere: unpacked only where nothing in them can reach out of their folder or fill the disk."""

import io
import os
import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from hpc_board.errors import DocumentError, Fault, InputError
from hpc_board.files import read_bytes
from hpc_board.model.text import one_line

ARCHIVE_BYTES_MAX = 32 * 2**20
"""An archive larger than this is not opened."""

UNPACKED_BYTES_MAX = 128 * 2**20
"""An archive whose files have more bytes than this together is not unpacked."""

ENTRIES_MAX = 10_000
"""An archive of more files and folders than this is not opened."""

RATIO_MAX = 200
"""The maximum ratio of a file's size to its compressed size, above `_RATIO_FREE_BYTES`."""

_RATIO_FREE_BYTES = 2**20
_DEPTH_MAX = 32
_FAULTS_SHOWN_MAX = 100
_ENTRY_MARK = b"PK\x01\x02"
_ENCRYPTED = 0x1
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
    """Unpack the zip archive at `path` into the empty folder `target`, or nothing if it has faults.

    Raises:
        InputError: it cannot be read, or is not an archive.
        DocumentError: its entries have faults; all of them are listed.
    """
    name = one_line(str(path), 300)
    data = read_bytes(path, ARCHIVE_BYTES_MAX)
    # Each entry that is read takes hundreds of bytes of memory, so they are counted before.
    if data.count(_ENTRY_MARK) > ENTRIES_MAX:
        raise InputError(f"{name} contains more than {ENTRIES_MAX:,} files.", hint=_HINT)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if faults := list(_faults(entries)):
                shown = faults[:_FAULTS_SHOWN_MAX]
                if len(faults) > len(shown):
                    shown.append(Fault("", f"{len(faults) - len(shown)} more faults are not shown"))
                raise DocumentError(name, shown, hint=_HINT)
            for entry in entries:
                _write(archive, entry, target)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError) as error:
        raise InputError(f"{name} is not a zip archive, or is damaged: {one_line(str(error))}.", hint=_HINT) from error
    except OSError as error:
        raise InputError(
            f"{name} cannot be unpacked into {target}: {error.strerror or error}.",
            hint="Check the free space, or set TMPDIR to another folder.",
        ) from error


def _write(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path) -> None:
    path = target / entry.filename
    if _is_folder(entry):
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # The entry yields at most the size that was checked, even if its bytes hold more.
    with archive.open(entry) as unpacked, path.open("xb") as file:
        shutil.copyfileobj(unpacked, file)


def _faults(entries: list[zipfile.ZipInfo]) -> Iterator[Fault]:
    """Yield why the entries may not be unpacked, each fault with the entry's name."""
    files: dict[PurePosixPath, str] = {}
    folders: set[PurePosixPath] = set()
    total = 0
    for entry in entries:
        shown = one_line(entry.orig_filename) or "an entry without a name"
        faults = [Fault(shown, message) for message in _faults_of(entry)]
        yield from faults
        total += entry.file_size
        if faults:
            # Among them are names with thousands of folders, each of which would take the memory of all those above.
            continue
        path = PurePosixPath(entry.filename)
        if path in files or (path in folders and not _is_folder(entry)):
            yield Fault(shown, "has the same name as another entry")
        elif any(parent in files for parent in path.parents):
            yield Fault(shown, "is below another file")
        folders.update(path.parents)
        if _is_folder(entry):
            folders.add(path)
        else:
            files[path] = shown
    if total > UNPACKED_BYTES_MAX:
        yield Fault("", f"its files are too large: {total:,} bytes (limit {UNPACKED_BYTES_MAX:,})")


def _is_folder(entry: zipfile.ZipInfo) -> bool:
    return entry.filename.endswith("/")


def _faults_of(entry: zipfile.ZipInfo) -> Iterator[str]:
    name = entry.orig_filename
    path = PurePosixPath(name)
    if not name.isprintable() or "\\" in name:
        yield "has a name with control characters or backslashes"
    elif path.is_absolute() or name[1:2] == ":":
        yield "has an absolute path"
    elif ".." in path.parts:
        yield "is outside of its folder"
    elif not path.parts or len(path.parts) > _DEPTH_MAX or any(len(os.fsencode(part)) > 255 for part in path.parts):
        yield "has an invalid file name, or too many parent folders"
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind == stat.S_IFLNK:
        yield "is a link"
    elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        yield "is a device, a pipe or a socket"
    if entry.flag_bits & _ENCRYPTED:
        yield "is encrypted"
    if entry.compress_type not in _METHODS:
        yield "is compressed by another method than deflate"
    if entry.file_size > max(_RATIO_FREE_BYTES, RATIO_MAX * entry.compress_size):
        yield f"is a zip bomb: {entry.file_size:,} bytes from {entry.compress_size:,}"
