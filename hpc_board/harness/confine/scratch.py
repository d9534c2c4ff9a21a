"""The scratch folder of an evaluation: environments with a folder of it for each process, and a full disk's cause."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from hpc_board.model.result import SCRATCH_UNWRITABLE

SCRATCH = "hpc-board-"
"""Prefix of the name of a scratch folder."""

CODE = "code"
"""The folder in a worker's home that holds the imported files."""

EXTENSIONS = "TORCH_EXTENSIONS_DIR"
"""The variable for the folder in which PyTorch compiles the extensions of a submission."""

_CACHE = "cache"
_CACHE_ENTRIES_MAX = 50_000
_CACHE_DEPTH_MAX = 64
_CACHES = (
    "XDG_CACHE_HOME",
    "TRITON_CACHE_DIR",
    EXTENSIONS,
    "TORCHINDUCTOR_CACHE_DIR",
    "CUDA_CACHE_PATH",
    "JAX_COMPILATION_CACHE_DIR",
    "CUPY_CACHE_DIR",
    "NUMBA_CACHE_DIR",
    "HELION_CACHE_DIR",
    "TILELANG_CACHE_DIR",
    "CUTE_DSL_CACHE_DIR",
    "CUDA_TILE_CACHE_DIR",
)
_JAX = {
    # By default JAX does not cache a compilation of less than a second.
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    # By default JAX takes most of a GPU's memory, which it shares here with PyTorch and the judge.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}
_PRIVATE_STEMS = ("reference", "eval")
_PASSED_ON = (
    "PATH",
    "LANG",
    "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_HOME",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ROCM_PATH",
    "OMP_NUM_THREADS",
)
_FULL_BYTES, _FULL_FILES = 2**20, 16
_FILLED_BYTES_MIN, _FILLED_FILES_MIN = 2**26, 10_000
_FILES_MAX = 200_000
_BLOCK_BYTES = 512


def scrubbed(environ: Mapping[str, str], home: Path, extra: Sequence[str]) -> dict[str, str]:
    """Return the children's environment: an allow-list of the job's variables, and folders that are not the user's.

    An index in CUDA_VISIBLE_DEVICES is nvidia-smi's, as schedulers mean it; CUDA's default is an order by speed. The
    programs of this Python's environment, such as the ninja that PyTorch's extensions need, are found last.
    """
    kept = {name: environ[name] for name in (*_PASSED_ON, *extra) if name in environ}
    kept["PATH"] = os.pathsep.join(filter(None, (kept.get("PATH", ""), str(Path(sys.executable).parent))))
    passive = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return {"LC_ALL": "C.UTF-8", **kept, **private_folders(home), **passive}


def private_folders(home: Path) -> dict[str, str]:
    """Return the environment that keeps files and caches of a process in a folder of its own, and JAX in its bounds."""
    folders = {"HOME": str(home), "TMPDIR": str(home)} | {name: str(home / _CACHE / name.lower()) for name in _CACHES}
    return {**folders, **_JAX}


def worker_home(scratch: Path, name: str) -> Path:
    """Return a worker's folder with an empty code folder in it, the same path for every worker of a kind.

    The compiled files of an earlier worker stay in `cache`, so that each is compiled once: compilers record absolute
    paths. Nothing else of it is left. A file in the cache can tell a later worker how many came before it; every worker
    is judged alike.
    """
    home = scratch / name
    cache, kept = home / _CACHE, scratch / f"{name}-{_CACHE}"
    # A cache that cannot be kept, for any reason that a submission may have contrived, is compiled again.
    with suppress(OSError):
        if stat.S_ISDIR(cache.lstat().st_mode):
            cache.chmod(0o700)
            if keeps_plain_files(cache):
                cache.rename(kept)
    remove(home)
    (home / CODE).mkdir(parents=True)
    if kept.exists():
        kept.rename(cache)
    return home


def keeps_plain_files(folder: Path) -> bool:
    """Remove from a worker's folder all but folders and files with one hard link; False if it has too many."""
    waiting, entries = [(folder, 0)], 0
    while waiting:
        parent, depth = waiting.pop()
        for path in parent.iterdir():
            entries += 1
            if entries > _CACHE_ENTRIES_MAX or depth > _CACHE_DEPTH_MAX:
                return False
            found = path.lstat()
            if stat.S_ISDIR(found.st_mode):
                waiting.append((path, depth + 1))
            elif not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
                path.unlink()
    return True


def copy(names: Iterable[str], source: Path, target: Path) -> None:
    """Copy some of a folder's files into another folder, with their subfolders."""
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)


def private(name: str) -> bool:
    """Return whether a task's file is only for the judge: the reference or the checks, in any language."""
    return any(part.partition(".")[0] in _PRIVATE_STEMS for part in PurePosixPath(name).parts)


def remove(folder: Path) -> None:
    """Remove a folder in any state that a submission left: unreadable folders, and nesting too deep for recursion."""
    if folder.is_dir() and not folder.is_symlink():
        for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            program = shutil.which(command[0], path=os.defpath) or command[0]
            # If no process can be started, the remaining files stay.
            with suppress(OSError):
                subprocess.run([program, *command[1:], "--", str(folder)], stderr=subprocess.DEVNULL, check=False)


class Disk:
    """The file system of a scratch folder, recorded at the start of an evaluation."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._free = _free(folder)

    def unwritable(self) -> str:
        """Return a message if the harness itself cannot write a file in the folder, else ""."""
        try:
            with tempfile.TemporaryFile(dir=self._folder) as file:
                file.write(bytes(_FULL_BYTES))
        except OSError as error:
            return f"{SCRATCH_UNWRITABLE} ({self._folder.parent}: {error.strerror})"
        return ""

    def filled(self) -> str:
        """Return a message if the folder's content has filled the file system, else "".

        That requires a full file system, and at least half of the space that was free at the start to be used by the
        folder: neither was it full before, nor have others filled it.
        """
        (free_bytes, free_files), (held_bytes, held_files) = _free(self._folder), _held(self._folder)
        lost_bytes, lost_files = self._free[0] - free_bytes, self._free[1] - free_files
        if free_bytes < _FULL_BYTES and held_bytes >= max(_FILLED_BYTES_MIN, lost_bytes / 2):
            return (
                f"it filled the disk that it shares with the harness: {held_bytes / 2**20:.0f} MiB are in its folder, "
                f"{self._free[0] / 2**20:.0f} MiB were free before"
            )
        if free_files < _FULL_FILES and held_files >= max(_FILLED_FILES_MIN, lost_files / 2):
            return (
                f"it filled the disk that it shares with the harness: {held_files} files are in its folder, "
                f"{self._free[1]} could be created before"
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
    waiting = [str(folder)]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                yield entry.stat(follow_symlinks=False).st_blocks
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
