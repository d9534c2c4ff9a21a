"""The scratch folder of an evaluation, and the environments that keep processes to their own folders in it."""

import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

SCRATCH = "hpc-board-"
"""Prefix of the name of a scratch folder."""

CODE = "code"
"""The folder in a worker's home that holds the imported files."""

_CACHE = "cache"
_CACHE_ENTRIES_MAX = 50_000
_CACHE_DEPTH_MAX = 64
_CACHES = (
    "XDG_CACHE_HOME",
    "TRITON_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "CUDA_CACHE_PATH",
    "JAX_COMPILATION_CACHE_DIR",
)
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


def scrubbed(environ: Mapping[str, str], home: Path, extra: Sequence[str]) -> dict[str, str]:
    """Return the children's environment: an allow-list of the job's variables, and folders that are not the user's."""
    kept = {name: environ[name] for name in (*_PASSED_ON, *extra) if name in environ}
    passive = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
    return {"LC_ALL": "C.UTF-8", **kept, **private_folders(home), **passive}


def private_folders(home: Path) -> dict[str, str]:
    """Return the environment that keeps files and caches of a process in a folder of its own."""
    folders = {"HOME": str(home), "TMPDIR": str(home)} | {name: str(home / _CACHE / name.lower()) for name in _CACHES}
    # By default JAX does not cache a compilation of less than a second.
    return {**folders, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}


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
            if _keeps_plain_files(cache):
                cache.rename(kept)
    remove(home)
    (home / CODE).mkdir(parents=True)
    if kept.exists():
        kept.rename(cache)
    return home


def _keeps_plain_files(folder: Path) -> bool:
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
    """Return whether a task's file is for the judge alone: the reference or the checks, in any language."""
    return any(part.partition(".")[0] in _PRIVATE_STEMS for part in PurePosixPath(name).parts)


def remove(folder: Path) -> None:
    """Remove a folder in any state that a submission left: unreadable folders, and nesting too deep for recursion."""
    if folder.is_dir() and not folder.is_symlink():
        for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            program = shutil.which(command[0], path=os.defpath) or command[0]
            # If no process can be started, the remaining files stay.
            with suppress(OSError):
                subprocess.run([program, *command[1:], "--", str(folder)], stderr=subprocess.DEVNULL, check=False)
