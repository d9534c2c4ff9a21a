"""The libraries in a process's memory, and those whose code it ran, as the kernel tells them from outside."""

import re
from contextlib import suppress
from pathlib import Path

_EXTENT = re.compile(rb"[0-9a-f]+-[0-9a-f]+ ..(.). [0-9a-f]+ \S+ +[0-9]+ +(/.*)?$")


def mapped_by(pid: int) -> frozenset[str]:
    """Return the files whose code is in a process's memory; none if it is gone."""
    found = set()
    with suppress(OSError), Path(f"/proc/{pid}/maps").open("rb") as file:
        for line in file:
            extent = _EXTENT.match(line.rstrip(b"\n"))
            if extent and extent[1] == b"x" and extent[2]:
                found.add(extent[2].decode(errors="replace"))
    return frozenset(found)


def use_is_known() -> bool:
    """Return whether this node's kernel tells the pages that a process uses (CONFIG_PROC_PAGE_MONITOR)."""
    return Path("/proc/self/smaps").exists()


def clear_use(pid: int) -> None:
    """Clear the marks of the pages that a process has used, so that `used_by` tells the later use."""
    with suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("1", encoding="ascii")


def used_by(pid: int) -> frozenset[str]:
    """Return the files whose code a process ran since `clear_use`; none if it is gone.

    The processor marks each page that it reads: the process need not tell, and cannot run code without a mark.
    """
    found, path = set(), b""
    with suppress(OSError), Path(f"/proc/{pid}/smaps").open("rb") as file:
        for line in file:
            if extent := _EXTENT.match(line.rstrip(b"\n")):
                path = (extent[2] or b"") if extent[1] == b"x" else b""
            elif path and line.startswith(b"Referenced:") and int(line.split()[1]):
                found.add(path.decode(errors="replace"))
    return frozenset(found)
