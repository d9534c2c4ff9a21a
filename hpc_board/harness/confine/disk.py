"""The cause of a full disk: free space of a scratch folder's file system at the start, and usage of the folder now."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_FULL_BYTES, _FULL_FILES = 2**20, 16
_FILLED_BYTES_MIN, _FILLED_FILES_MIN = 2**26, 10_000
_FILES_MAX = 200_000
_BLOCK_BYTES = 512


class Disk:
    """The file system of a scratch folder, recorded at the start of an evaluation."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._free = _free(folder)

    def filled(self) -> str:
        """Return a message if the folder's content has filled the file system, else "".

        That requires a full file system, and at least half of the space that was free at the start to be used by the
        folder: neither was it full before, nor have others filled it.
        """
        (free_bytes, free_files), (held_bytes, held_files) = _free(self._folder), _held(self._folder)
        lost_bytes, lost_files = self._free[0] - free_bytes, self._free[1] - free_files
        if free_bytes < _FULL_BYTES and held_bytes >= max(_FILLED_BYTES_MIN, lost_bytes / 2):
            return (
                f"it filled the disk that it shares with the harness: {held_bytes / 2**20:.0f} MiB lie in its folder, "
                f"{self._free[0] / 2**20:.0f} MiB were free before"
            )
        if free_files < _FULL_FILES and held_files >= max(_FILLED_FILES_MIN, lost_files / 2):
            return (
                f"it filled the disk that it shares with the harness: {held_files} files lie in its folder, "
                f"{self._free[1]} could be made before"
            )
        return ""


def _free(folder: Path) -> tuple[int, int]:
    """Return the free bytes and the free files (inodes)."""
    found = os.statvfs(folder)
    # A file system without a fixed inode table reports none free.
    return found.f_bavail * found.f_frsize, found.f_favail if found.f_files else _FILES_MAX


def _held(folder: Path) -> tuple[int, int]:
    """Return the bytes and the files in a folder, up to a maximum of files, so that counting ends in bounded time."""
    held_bytes = held_files = 0
    for blocks in _blocks_of_files(folder):
        held_bytes += blocks * _BLOCK_BYTES
        held_files += 1
        if held_files == _FILES_MAX:
            break
    return held_bytes, held_files


def _blocks_of_files(folder: Path) -> Iterator[int]:
    """Yield the blocks of each file and folder in a folder, at any depth of nesting."""
    waiting = [str(folder)]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                yield entry.stat(follow_symlinks=False).st_blocks
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
