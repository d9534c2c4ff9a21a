"""The known libraries in the memory of processes, and those whose code they ran, as the kernel tells from outside.

Pages of a library's code are in the page tables of a process once it has read them, and in those of no other process.
"""

import mmap
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from hpc_board.harness.processes.memory import drop_pages
from hpc_board.model.means import is_known_library

_EXTENT = re.compile(rb"([0-9a-f]+)-([0-9a-f]+) ..x. [0-9a-f]+ \S+ +[0-9]+ +(/.*)$")

_SECONDS_MAX = 2.0
"""Processor time for reading the memory of a worker's processes, which takes milliseconds."""

# The kernel reads pages ahead of a fault within one such part of the addresses (fault_around_bytes).
_AROUND_BYTES = 65536
_ENTRY_BYTES = 8
_ENTRIES_READ = 2**16
_PRESENT = 0x80


class TooManyParts(Exception):
    """The memory of the processes has more parts than can be read in the time for it."""


class Touched(NamedTuple):
    """A part of a library's code that a process has read: the library's file, and the number of the part's address."""

    path: str
    part: int


class _Extent(NamedTuple):
    begin: int
    end: int
    path: str


def mapped_by(pids: Iterable[int]) -> frozenset[str]:
    """Return the known libraries whose code is in the memory of processes; none for one that is gone.

    Raises:
        TooManyParts: reading takes too long.
    """
    latest_s = time.thread_time() + _SECONDS_MAX
    return frozenset(extent.path for pid in pids for extent in _extents(pid, latest_s))


def use_is_known() -> bool:
    """Return whether this node's kernel tells the pages that a process uses (CONFIG_PROC_PAGE_MONITOR)."""
    return Path("/proc/self/pagemap").exists()


def forget_use() -> None:
    """Drop the code of known libraries from this process's page tables, then fork once.

    A fork runs the libraries' handlers, whose pages so belong to those of a process that has not used them.
    """
    for extent in _extents(os.getpid(), time.thread_time() + _SECONDS_MAX):
        drop_pages(extent.begin, extent.end - extent.begin)
    # Without a free process the submission forks none either.
    with suppress(OSError):
        pid = os.fork()
        if not pid:
            os._exit(0)
        os.waitpid(pid, 0)


def touched_by(pids: Iterable[int]) -> frozenset[Touched]:
    """Return the parts of known libraries' code that processes have read; none for one that is gone.

    A process need not tell, and cannot run code that is not in its page tables.

    Raises:
        TooManyParts: reading takes too long.
    """
    latest_s = time.thread_time() + _SECONDS_MAX
    found = set()
    for pid in pids:
        with suppress(OSError), Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as pagemap:
            for extent in _extents(pid, latest_s):
                first, end = extent.begin // mmap.PAGESIZE, extent.end // mmap.PAGESIZE
                for page in range(first, end, _ENTRIES_READ):
                    _check_time(latest_s)
                    pagemap.seek(page * _ENTRY_BYTES)
                    # The last byte of an entry has its flags.
                    flags = pagemap.read(min(_ENTRIES_READ, end - page) * _ENTRY_BYTES)[
                        _ENTRY_BYTES - 1 :: _ENTRY_BYTES
                    ]
                    found |= {
                        Touched(extent.path, (page + at) * mmap.PAGESIZE // _AROUND_BYTES)
                        for at, each in enumerate(flags)
                        if each & _PRESENT
                    }
    return frozenset(found)


def _extents(pid: int, latest_s: float) -> Iterator[_Extent]:
    """Yield the extents of a process's memory that have code of known libraries."""
    with suppress(OSError), Path(f"/proc/{pid}/maps").open("rb") as file:
        for line in file:
            _check_time(latest_s)
            extent = _EXTENT.match(line.rstrip(b"\n"))
            if extent and is_known_library(path := extent[3].decode(errors="replace")):
                yield _Extent(int(extent[1], 16), int(extent[2], 16), path)


def _check_time(latest_s: float) -> None:
    if time.thread_time() > latest_s:
        raise TooManyParts
