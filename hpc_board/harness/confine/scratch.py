"""The scratch folder of an evaluation, and the environments that keep processes to their own folders in it."""

import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

SCRATCH = "hpc-board-"
"""How the name of a scratch folder begins."""

CODE = "code"
"""The folder in a worker's home that holds what it imports."""

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
    """What the children are given of the job's environment: an allow-list, and folders that are not the user's."""
    kept = {name: environ[name] for name in (*_PASSED_ON, *extra) if name in environ}
    passive = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
    return {"LC_ALL": "C.UTF-8", **kept, **private_folders(home), **passive}


def private_folders(home: Path) -> dict[str, str]:
    """The environment that keeps the files and caches of a process in a folder of its own."""
    folders = {"HOME": str(home), "TMPDIR": str(home)} | {name: str(home / _CACHE / name.lower()) for name in _CACHES}
    # JAX keeps nothing by itself that it has compiled within a second.
    return {**folders, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}


def worker_home(scratch: Path, name: str) -> Path:
    """A worker's folder with an empty one in it for its code, the same path for every worker of a kind.

    What an earlier one compiled stays in `cache`, so that it is compiled once: compilers note absolute paths.
    Nothing else is left of it. A note there can tell a later one how many there were before; every one is judged alike.
    """
    home = scratch / name
    cache, kept = home / _CACHE, scratch / f"{name}-{_CACHE}"
    # Whatever cannot be kept, for whatever reason a submission may have thought of, is compiled again.
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
    """Remove what in a worker's folder is neither a file with one name nor a folder; False where there is too much."""
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
    """Copy some of a folder's files into another one, with the folders that they are in."""
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)


def private(name: str) -> bool:
    """Whether a task's file is for the judge alone: the reference or the checks, in whatever language."""
    return any(part.partition(".")[0] in _PRIVATE_STEMS for part in PurePosixPath(name).parts)


def remove(folder: Path) -> None:
    """Remove a folder whatever a submission made of it: closed folders, and nests too deep for recursion."""
    if folder.is_dir() and not folder.is_symlink():
        for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            program = shutil.which(command[0], path=os.defpath) or command[0]
            # Where no process can be started, what cannot be removed stays.
            with suppress(OSError):
                subprocess.run([program, *command[1:], "--", str(folder)], stderr=subprocess.DEVNULL, check=False)
