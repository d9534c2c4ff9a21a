"""Files of a job, read and copied without trust."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from hpc_board.model.files import open_regular
from hpc_board.model.text import printable

_KEPT_BYTES_MAX = 64 * 2**20
_COPY_BYTES = 2**20


def write_files(folder: Path, texts: Mapping[str, bytes]) -> None:
    """Write new files with these `texts`, by their paths in a folder."""
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text)


def head_of(path: Path, limit: int) -> str:
    """Return the first `limit` bytes of a regular file as text that is safe to show; "" if it is missing."""
    file = _opened(path)
    if file is None:
        return ""
    with file:
        return printable(file.read(limit).decode("utf-8", errors="replace"), limit)


def keep(source: Path, target: Path, room_bytes: int) -> int:
    """Copy a regular file to an unused path and return its size; 0 if it is missing, or exceeds 64 MiB or the room."""
    file = _opened(source)
    if file is None:
        return 0
    limit, done = min(room_bytes, _KEPT_BYTES_MAX), 0
    if not 0 < os.fstat(file.fileno()).st_size <= limit:
        file.close()
        return 0
    try:
        with file, target.open("xb") as copy:
            # A file may grow while it is copied.
            while done < limit and (data := file.read(min(_COPY_BYTES, limit - done))):
                done += copy.write(data)
    except FileExistsError:
        return 0
    except OSError:
        target.unlink(missing_ok=True)
        return 0
    return done


def _opened(path: Path) -> BinaryIO | None:
    """Open a file, unless it is a link, a folder, a device or a pipe."""
    try:
        return open_regular(path)
    except OSError:
        return None
