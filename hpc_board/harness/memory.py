"""Reading the memory of a stopped process, which has no way to make that slow or to notice it."""

import ctypes
import errno
import os
from pathlib import Path

_SECCOMP_FILTER = "2"


class _Vector(ctypes.Structure):
    """`struct iovec` of <sys/uio.h>."""

    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


_libc = ctypes.CDLL(None, use_errno=True)
_libc.process_vm_readv.restype = ctypes.c_ssize_t
_libc.process_vm_readv.argtypes = [
    ctypes.c_int,
    ctypes.POINTER(_Vector),
    ctypes.c_ulong,
    ctypes.POINTER(_Vector),
    ctypes.c_ulong,
    ctypes.c_ulong,
]


def may_read(pid: int) -> bool:
    """Whether this process may read the memory of another, and that one cannot make reading wait.

    Yama or a lack of privilege may forbid it. Without a filter of system calls a process could have its memory filled
    by `userfaultfd` when it is read, and so take as long as it likes.
    """
    here = ctypes.create_string_buffer(1)
    return _read(pid, 0, ctypes.addressof(here), 1) == -errno.EFAULT and _seccomp_mode(pid) == _SECCOMP_FILTER


def read_memory(pid: int, address: int, memory: bytearray, size: int) -> None:
    """Copy `size` bytes at `address` of another process to the beginning of `memory`.

    Raises:
        OSError: there is no such memory, or it may not be read.
    """
    target = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    done = 0
    while done < size:
        count = _read(pid, address + done, target + done, size - done)
        if count <= 0:
            raise OSError(-count or errno.EFAULT, os.strerror(-count or errno.EFAULT))
        done += count


def _read(pid: int, address: int, target: int, size: int) -> int:
    """The number of bytes read, or the negative error number."""
    local, remote = _Vector(target, size), _Vector(address, size)
    count = int(_libc.process_vm_readv(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0))
    return count if count >= 0 else -ctypes.get_errno()


def _seccomp_mode(pid: int) -> str:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.split()[1] for line in lines if line.startswith("Seccomp:")), "")
