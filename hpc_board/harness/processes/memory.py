"""Memory of processes: reading a stopped process's memory unnoticed, and keeping memory that this process frees."""

import ctypes
import errno
import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_SECCOMP_FILTER = "2"
# malloc.h of glibc: the parameters of mallopt, and the maximum of the first one.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_PERTURB = -1, -3, -6
KEPT_BLOCK_BYTES_MAX = 32 * 2**20
"""Largest block that malloc keeps after it is freed."""

_INT_MAX = 2**31 - 1


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
    """Return whether this process may read the memory of another, and that process cannot make the read wait.

    Yama or a lack of privilege may forbid it. Without a filter of system calls a process could have its memory filled
    by `userfaultfd` on a read, and so delay it for any time.
    """
    here = ctypes.create_string_buffer(1)
    return (
        _read(pid, 0, ctypes.addressof(here), 1) == -errno.EFAULT and status_value(pid, b"Seccomp") == _SECCOMP_FILTER
    )


def mapped_at(pid: int, descriptors: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return where the files at `descriptors` are mapped into another process: begin, end and offset in the file.

    Raises:
        OSError: the process is gone.
    """
    files = set()
    for descriptor in descriptors:
        found = os.fstat(descriptor)
        files.add((f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}", str(found.st_ino)))
    mapped: list[tuple[int, int, int]] = []
    # proc_pid_maps(5): the range, the rights, the offset, the device, the inode, and the path, in which the kernel
    # escapes only "\n".
    for line in Path(f"/proc/{pid}/maps").read_bytes().strip(b"\n").split(b"\n"):
        extent, _, offset, device, inode, *_ = line.decode("ascii", "replace").split(maxsplit=5)
        if (device, inode) in files:
            begin, _, end = extent.partition("-")
            mapped.append((int(begin, 16), int(end, 16), int(offset, 16)))
    return mapped


def keep_freed_memory() -> None:
    """Have glibc's malloc reuse freed memory: faulting in new pages takes longer than many a kernel."""
    if hasattr(_libc, "mallopt"):
        _libc.mallopt(_M_MMAP_THRESHOLD, KEPT_BLOCK_BYTES_MAX)
        _libc.mallopt(_M_TRIM_THRESHOLD, _INT_MAX)


def drop_pages(address: int, size: int) -> None:
    """Have the kernel take a file's pages out of this process's page tables, until they are used again."""
    _libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), mmap.MADV_DONTNEED)


@contextmanager
def new_memory_filled(byte: int) -> Iterator[None]:
    """Have glibc's malloc fill new blocks with a byte, and freed ones with its complement, within this block."""
    perturb = _libc.mallopt if hasattr(_libc, "mallopt") else lambda *_: 0
    perturb(_M_PERTURB, byte ^ 0xFF)
    try:
        yield
    finally:
        perturb(_M_PERTURB, 0)


def read_memory(pid: int, address: int, memory: bytearray, size: int) -> None:
    """Copy `size` bytes at `address` of another process to the beginning of `memory`.

    Raises:
        OSError: the address is not mapped, or may not be read.
    """
    target = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    done = 0
    while done < size:
        count = _read(pid, address + done, target + done, size - done)
        if count <= 0:
            raise OSError(-count or errno.EFAULT, os.strerror(-count or errno.EFAULT))
        done += count


def _read(pid: int, address: int, target: int, size: int) -> int:
    """Return the number of bytes read, or the negative error number."""
    local, remote = _Vector(target, size), _Vector(address, size)
    count = int(_libc.process_vm_readv(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0))
    return count if count >= 0 else -ctypes.get_errno()


def status_value(pid: int, key: bytes) -> str:
    """Return the first word of a value in a process's status; "" if the process is gone.

    The kernel escapes only line feeds in the process's name, which a submission chooses, and which is the first line.
    """
    try:
        found = Path(f"/proc/{pid}/status").read_bytes().partition(b"\n" + key + b":")[2]
    except OSError:
        return ""
    return found.split(maxsplit=1)[0].decode("ascii", "replace") if found else ""
