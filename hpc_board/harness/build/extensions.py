"""Extensions that a Python submission compiles (`load_inline`), kept between runs that rank nothing.

A folder belongs to one user and one submission on one kind of processor and one Python: PyTorch finds its build there
at the same path and compiles nothing that has not changed. A ranked run never uses one, so a tampered one is
worth nothing: docs/design/judge.md.
"""

import fcntl
import hashlib
import os
import re
import sys
from contextlib import suppress
from pathlib import Path

from hpc_board.harness.build.toolchain import cpu_identity
from hpc_board.harness.confine import sandbox
from hpc_board.harness.confine.scratch import keeps_plain_files, remove
from hpc_board.harness.job_spec import JobSpec
from hpc_board.model.task import Language, Mode

FOLDER = "extensions"
"""The folder of all users' extensions, beside that of compiled submissions."""

ENTRIES_MAX = 50
ENTRY_BYTES_MAX = 2**28

_COMPILES = re.compile(rb"load_inline|cpp_extension")
_OTHERS_WRITE = 0o022
_LOCK = ".lock"
_HELD = b"held"
"""The contents of a lock from the beginning to the end of a job."""

_BATON = "lock"
"""PyTorch's own lock of a build: one that a killed run has left would have the next one wait for ever."""


class Extensions:
    """The folder of a job's extensions, held against other jobs until `close`; `path` is None without one.

    There is none for a ranked run, for a submission that names no compiler of extensions, in a container, without
    Landlock (any worker could write it), and while another job holds it.
    """

    def __init__(self, job: JobSpec, folder: Path) -> None:
        self.path: Path | None = None
        self._lock = -1
        if not _may_keep(job):
            return
        source = (folder / "submission" / job.submission).read_bytes()
        if not _COMPILES.search(source):
            return
        self._root = (folder / job.build_cache).resolve().parent / FOLDER
        key = [job.user, hashlib.sha256(source).hexdigest(), job.device, cpu_identity(), sys.version, sys.executable]
        # A failure of the file system costs a compilation, never a result.
        with suppress(OSError):
            self._take(hashlib.sha256("\0".join(key).encode()).hexdigest())

    def close(self) -> None:
        """Release the folder; remove it if it has grown too large, and the least recently used of all."""
        if self.path is None:
            return
        path, self.path = self.path, None
        if not _is_kept(path):
            remove(path)
        with suppress(OSError):
            os.ftruncate(self._lock, 0)
            self._prune()
        os.close(self._lock)

    def _take(self, name: str) -> None:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_own(self._root):
            return
        path = self._root / name
        lock = os.open(path.with_suffix(_LOCK), os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(lock), path.with_suffix(_LOCK).lstat()):
                raise FileNotFoundError(path.name)  # another job has removed it meanwhile
            path.mkdir(mode=0o700, exist_ok=True)
            if not _is_own(path) or not keeps_plain_files(path):
                raise PermissionError(path.name)
            for baton in path.rglob(_BATON):
                baton.unlink()
            # A job that is killed leaves it so, and any number of bytes in the folder.
            os.pwrite(lock, _HELD, 0)
        except OSError:
            os.close(lock)
            return
        self._lock, self.path = lock, path

    def _prune(self) -> None:
        """Remove folders and locks that no job holds: of killed jobs, locks without a folder, the least recently used.

        The time of a folder may be the submission's, that of its lock is not. A lock goes with its folder.
        """
        locks = sorted(self._root.glob(f"*{_LOCK}"), key=lambda each: each.stat().st_mtime)
        excess = len(locks) - ENTRIES_MAX
        for number, path in enumerate(locks):
            folder = path.with_suffix("")
            if number >= excess and folder.is_dir() and not path.stat().st_size:
                continue
            with suppress(OSError), path.open("rb+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(folder)
                if not folder.exists():
                    path.unlink()


def _may_keep(job: JobSpec) -> bool:
    return (
        job.language is Language.PY
        and job.mode in (Mode.TEST, Mode.BENCHMARK)
        and bool(job.user and job.build_cache)
        and job.sandbox is None
        and sandbox.landlock_abi() >= 1
    )


def _is_kept(path: Path) -> bool:
    """Return whether the folder is small enough, and can be read, to be kept."""
    try:
        path.chmod(0o700)
        return keeps_plain_files(path) and _bytes_in(path) <= ENTRY_BYTES_MAX
    except OSError:
        return False


def _is_own(path: Path) -> bool:
    """Return whether the folder is this account's, and no other one can write it."""
    status = path.lstat()
    return path.is_dir() and status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE


def _bytes_in(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*"))
