"""Mount namespaces for tests: what this process and its children see of the file system, changed only for them.

python tests/namespaces.py MOUNTS COMMAND ...       # `contain`, with MOUNTS as JSON
"""

import ctypes
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
_MNT_DETACH = 2
_KEPT_FLAGS = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC

_libc = ctypes.CDLL(None, use_errno=True)


def enter() -> None:
    """Leave all other mounts; a user who is not root becomes root over its own ones."""
    uid, gid = os.getuid(), os.getgid()
    _checked(_libc.unshare(_CLONE_NEWNS | (_CLONE_NEWUSER if uid else 0)))
    if uid:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    _mount("none", Path("/"), "", _MS_REC | _MS_PRIVATE)


def hide(folder: Path) -> None:
    """Put an empty folder in its place, which every account may enter."""
    _mount("none", folder, "tmpfs", 0)
    folder.chmod(0o755)


def make_small(folder: Path, size_bytes: int) -> None:
    """Put an empty folder in its place that has room for so many bytes, and that every account may write."""
    _mount("none", folder, "tmpfs", 0, f"size={size_bytes},mode=1777".encode())


def remove(folder: Path) -> None:
    """Remove a folder of `hide` or `make_small`, which may still be in use."""
    _checked(_libc.umount2(os.fsencode(folder), _MNT_DETACH))
    folder.rmdir()


def hide_processes() -> None:
    """Have a /proc that hides from users what is not dumpable, as many clusters do; for only root."""
    _mount("proc", Path("/proc"), "proc", 0, b"hidepid=2")


def opened(folder: Path) -> int:
    """A descriptor by which `show` finds a folder that is hidden by then."""
    return os.open(folder, os.O_PATH)


def show(descriptor: int, target: Path, *, read_only: bool = False) -> None:
    """Have an opened folder at `target`, which is made if need be."""
    target.mkdir(parents=True, exist_ok=True)
    _mount(f"/proc/self/fd/{descriptor}", target, "", _MS_BIND | _MS_REC)
    os.close(descriptor)
    if read_only:
        kept = os.statvfs(target).f_flag & _KEPT_FLAGS
        _mount("none", target, "", _MS_REMOUNT | _MS_BIND | _MS_RDONLY | kept)


def replace_file(target: Path, source: Path) -> None:
    """Have the file `source` at `target`."""
    _mount(str(source), target, "", _MS_BIND)


def _mount(source: str, target: Path, kind: str, flags: int, options: bytes | None = None) -> None:
    _checked(_libc.mount(source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), options))


def _checked(status: int) -> None:
    if status != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def contain(mounts: Sequence[Sequence[str]], command: list[str]) -> None:
    """Become `command` where /tmp has nothing but `mounts`, each a source, a target and flags, and this Python."""
    enter()
    own = (sys.prefix, sys.prefix, "ro")
    folders = [(opened(Path(source)), target, flags) for source, target, *flags in (*mounts, own)]
    hide(Path("/tmp"))
    for descriptor, target, flags in folders:
        show(descriptor, Path(target), read_only="ro" in flags)
    os.execvp(command[0], command)  # noqa: S606 - its own list of arguments


if __name__ == "__main__":
    contain(json.loads(sys.argv[1]), sys.argv[2:])
