"""Who has filled a disk: what was free in a scratch folder's file system at first, and what lies in the folder now."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_FULL_BYTES, _FULL_FILES = 2**20, 16
_FILLED_BYTES_MIN, _FILLED_FILES_MIN = 2**26, 10_000
_FILES_MAX = 200_000
_BLOCK_BYTES = 512


class Disk:
    """The file system of a scratch folder, as it was when an evaluation began."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._free = _free(folder)

    def filled(self) -> str:
        """In words, that what lies in the folder has filled the file system; "" where that is not so.

        The file system is full, and at least half of what was free at first is in the folder: neither was it full
        before, nor have others filled it.
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
    """The bytes and the files that there is room for."""
    found = os.statvfs(folder)
    # A file system without a table of files has no number of free ones.
    return found.f_bavail * found.f_frsize, found.f_favail if found.f_files else _FILES_MAX


def _held(folder: Path) -> tuple[int, int]:
    """The bytes and the files in a folder, of so many files at most that nobody is kept busy by counting."""
    held_bytes = held_files = 0
    for blocks in _blocks_of_files(folder):
        held_bytes += blocks * _BLOCK_BYTES
        held_files += 1
        if held_files == _FILES_MAX:
            break
    return held_bytes, held_files


def _blocks_of_files(folder: Path) -> Iterator[int]:
    """The blocks of each file and folder in a folder, however deep it is nested."""
    waiting = [str(folder)]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                yield entry.stat(follow_symlinks=False).st_blocks
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
