"""A private `/dev/shm` for a program: named semaphores and shared memory lie there, and outlive their creators."""

import ctypes
import os
from pathlib import Path

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where POSIX has its semaphores

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_NOSUID, _MS_NODEV, _MS_REC, _MS_SLAVE = 2, 4, 16384, 1 << 19

_libc = ctypes.CDLL(None, use_errno=True)


def own_shared_memory() -> bool:
    """Give this process and its later children an empty `/dev/shm` that ends with the last of them.

    Return whether it succeeded: this takes a mount namespace, and without that privilege a user namespace around it. A
    child tries it first, since half of it cannot be undone. This process must have one thread.
    """
    child = os.fork()
    if child == 0:
        worked = False
        try:
            worked = _mounted()
        finally:
            os._exit(0 if worked else 1)
    return os.waitpid(child, 0)[1] == 0 and _mounted()


def _mounted() -> bool:
    if _libc.unshare(_CLONE_NEWNS) != 0 and not _in_user_namespace():
        return False
    # Later mounts inside stay inside; later mounts of the system are visible here too.
    if _libc.mount(None, b"/", None, _MS_REC | _MS_SLAVE, None) != 0:
        return False
    place, flags = SHARED_MEMORY.encode(), _MS_NOSUID | _MS_NODEV
    return bool(_libc.mount(b"tmpfs", place, b"tmpfs", flags, b"mode=1777") == 0)


def _in_user_namespace() -> bool:
    """Enter a user namespace with mounts of its own, with user and group mapped to themselves."""
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS) != 0:
        return False
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except OSError:
        return False
    return True
