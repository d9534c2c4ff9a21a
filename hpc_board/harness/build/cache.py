"""Cache of compiled submissions: written by the supervisor alone, and verified on every read.

An entry is one file, named by the sha256 of everything that the library depends on: a line of JSON with the name, the
sha256 of the library and the compiler's output, then the library. It is written whole under another name and renamed.
An entry that belongs to another user, that others may write, or whose hashes differ counts as absent.
"""

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from hpc_board.harness.files import DRAFT, open_regular, whole_file
from hpc_board.model.result import Log

CACHE_BYTES_MAX = 2**30
ENTRY_BYTES_MAX = 2**28
_SUFFIX = ".build"
_OTHERS_WRITE = 0o022


@dataclass(frozen=True)
class CachedLibrary:
    """A library, and the compiler's output when it was built."""

    library: bytes
    log: Log


class BuildCache:
    """A folder of compiled submissions; a failure of the file system costs a compilation, never a result."""

    def __init__(self, folder: Path, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._folder = folder
        self._bytes_max = bytes_max

    def get(self, key: str) -> CachedLibrary | None:
        """Return the cached library under `key`."""
        path = self._folder / f"{key}{_SUFFIX}"
        try:
            if not _ours(self._folder.lstat()):
                return None
            data = _read(path)
            kept = _kept(key, data) if data is not None else None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if kept is not None:
            with suppress(OSError):
                os.utime(path)
        return kept

    def put(self, key: str, kept: CachedLibrary) -> None:
        """Store a library under `key`, and remove the least recently used entries."""
        facts = {"key": key, "sha256": hashlib.sha256(kept.library).hexdigest(), "log": asdict(kept.log)}
        data = json.dumps(facts).encode() + b"\n" + kept.library
        if len(data) > min(ENTRY_BYTES_MAX, self._bytes_max):
            return
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _ours(self._folder.lstat()):
                return
            self._write(key, data)
            self._prune()

    def _write(self, key: str, data: bytes) -> None:
        with whole_file(self._folder / f"{key}{_SUFFIX}", 0o444) as file:
            file.write(data)

    def _prune(self) -> None:
        """Remove entries, the least recently used first, until the rest fits; drafts of dead writers count as well."""
        found: list[tuple[float, int, Path]] = []
        for path in self._folder.iterdir():
            if path.suffix == _SUFFIX or path.name.startswith(DRAFT):
                with suppress(FileNotFoundError):
                    status = path.lstat()
                    found.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self._bytes_max:
                return
            path.unlink(missing_ok=True)
            total -= size


def _read(path: Path) -> bytes | None:
    with open_regular(path) as file:
        status = os.fstat(file.fileno())
        if not _ours(status) or status.st_size > ENTRY_BYTES_MAX:
            return None
        return file.read(ENTRY_BYTES_MAX)


def _ours(status: os.stat_result) -> bool:
    """Return whether no other user can have written the file."""
    return status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE


def _kept(key: str, data: bytes) -> CachedLibrary | None:
    line, _, library = data.partition(b"\n")
    facts = json.loads(line)
    if facts["key"] != key or facts["sha256"] != hashlib.sha256(library).hexdigest():
        return None
    log = facts["log"]
    return CachedLibrary(library, Log(str(log["head"]), str(log["tail"]), int(log["omitted_bytes"])))
