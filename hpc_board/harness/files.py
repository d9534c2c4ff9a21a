"""Files of a job, read and copied without trust."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

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
    """Return the first `limit` bytes of a regular file as text that is safe to show; "" if it cannot be read."""
    try:
        with open_regular(path) as file:
            return printable(file.read(limit).decode("utf-8", errors="replace"), limit)
    except OSError:
        return ""


def keep(source: Path, target: Path, room_bytes: int) -> int:
    """Copy a regular file to an unused path and return its size; 0 if it is missing, or exceeds 64 MiB or the room."""
    limit, done = min(room_bytes, _KEPT_BYTES_MAX), 0
    with suppress(OSError), open_regular(source) as file:
        if not 0 < os.fstat(file.fileno()).st_size <= limit:
            return 0
        try:
            with target.open("xb") as copy:
                # A file may grow while it is copied.
                while done < limit and (data := file.read(min(_COPY_BYTES, limit - done))):
                    done += copy.write(data)
        except FileExistsError:
            return 0
        except OSError:
            target.unlink(missing_ok=True)
            return 0
    return done
