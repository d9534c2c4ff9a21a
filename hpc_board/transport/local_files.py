"""The files of the machine that hpc-board runs on."""

import errno
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from hpc_board.transport import IsNoFileError, draft_of


class LocalFiles:
    """Files of this machine, and of what it has mounted; safe to use from several threads."""

    def write_folder(self, folder: Path, contents: Mapping[str, bytes]) -> None:
        """Make `folder` with these files in it, whole or not at all; one that is there stays.

        Raises:
            OSError: it cannot be written.
        """
        if folder.is_dir():
            return
        draft = draft_of(folder, contents)
        try:
            draft.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(mode=0o700)
            for name, data in contents.items():
                path = draft / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
            draft.rename(folder)
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)
            raise

    def read(self, path: Path, limit: int, *, end: bool = False) -> bytes:
        """The first `limit` bytes, and one more if there is one, of a file that a job left; or the last ones, if `end`.

        Raises:
            IsNoFileError: it is a link, a folder, a device or a pipe, and was not opened for reading.
            OSError: it is not there, or cannot be read.
        """
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise IsNoFileError(f"{path.name} is no regular file") from error
            raise
        try:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                raise IsNoFileError(f"{path.name} is no regular file")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                if end:
                    file.seek(max(0, facts.st_size - limit))
                return file.read(limit + 1)
        finally:
            os.close(descriptor)

    def is_file(self, path: Path) -> bool:
        """Whether a regular file is there and can be seen: a job may have closed its folder."""
        try:
            return stat.S_ISREG(path.lstat().st_mode)
        except OSError:
            return False
