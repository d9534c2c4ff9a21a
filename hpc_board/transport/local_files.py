"""The files of the machine that hpc-board runs on."""

import itertools
import os
import shutil
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Never

from hpc_board.files import write_whole
from hpc_board.model.files import open_regular
from hpc_board.transport import ENTRIES_MAX, RENEW_SECONDS, Entry, check_paths, draft_of


class LocalFiles:
    """Files of this machine and its mounts; safe to use from several threads."""

    def write_folder(self, folder: Path, contents: Mapping[str, bytes]) -> None:
        check_paths(folder, contents)
        if folder.is_dir():
            return
        draft = draft_of(folder, contents)
        try:
            self._make_folder(draft.parent)
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(mode=0o700)
            for name, data in contents.items():
                _write_new(draft / name, data)
            self._finish(draft)
            draft.rename(folder)
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)
            raise

    def write(self, path: Path, data: bytes) -> None:
        write_whole(path, data, mode=None)

    def ensure(self, path: Path, data: bytes) -> bool:
        with suppress(FileNotFoundError):
            facts = path.lstat()
            if stat.S_ISREG(facts.st_mode) and facts.st_size == len(data):
                if time.time() - facts.st_mtime < RENEW_SECONDS:
                    return False
                os.utime(path)
                return True
        self._make_folder(path.parent)
        self.write(path, data)
        return True

    def entries(self, folder: Path, *, most: int | None = ENTRIES_MAX) -> Sequence[Entry]:
        opened = _open_folder(folder)
        try:
            found = []
            with os.scandir(opened) as entries:
                for entry in itertools.islice(entries, most):
                    # Another client may rename or remove it meanwhile.
                    with suppress(FileNotFoundError):
                        found.append(_entry(entry))
            return found
        finally:
            os.close(opened)

    def remove(self, path: Path) -> None:
        path.unlink()

    def rename(self, source: Path, target: Path) -> None:
        source.rename(target)

    def remove_folder(self, folder: Path, *, alone: bool = False) -> None:
        if folder.is_dir():
            shutil.rmtree(folder)
        if not alone:
            with suppress(OSError):
                folder.parent.rmdir()

    def bytes_in(self, folder: Path) -> int:
        opened = _open_folder(folder)
        try:
            total = 0
            for _, _, names, below in os.fwalk(".", dir_fd=opened, onerror=_raise):
                total += sum(os.stat(name, dir_fd=below, follow_symlinks=False).st_size for name in names)
            return total
        finally:
            os.close(opened)

    def read(self, path: Path, limit: int, *, start: int = 0, end: bool = False) -> bytes:
        folder = _open_folder(path.parent)
        try:
            with self._opened(Path(f"/proc/self/fd/{folder}", path.name)) as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - limit) if end else start)
                return file.read(limit + 1)
        finally:
            os.close(folder)

    def is_file(self, path: Path) -> bool:
        try:
            return stat.S_ISREG(path.lstat().st_mode)
        except OSError:
            return False

    def _make_folder(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _finish(self, draft: Path) -> None:
        """Prepare a folder that was written whole, before it gets its name."""

    def _opened(self, path: Path) -> BinaryIO:
        return open_regular(path)


def _raise(error: OSError) -> Never:
    raise error


def _open_folder(path: Path) -> int:
    """Open a folder; a link in its place is not followed."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _entry(entry: "os.DirEntry[str]") -> Entry:
    if not entry.is_file(follow_symlinks=False):
        return Entry(entry.name, is_folder=entry.is_dir(follow_symlinks=False))
    facts = entry.stat(follow_symlinks=False)
    return Entry(entry.name, size=facts.st_size, modified_at=facts.st_mtime)


def _write_new(path: Path, data: bytes) -> None:
    """Write a new file to the disk, with the folders on its way."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
