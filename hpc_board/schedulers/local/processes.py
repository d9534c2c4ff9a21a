"""Processes as /proc shows them, and the ways in which a job's are found and ended."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

TERM_GRACE_SECONDS = 5.0
"""The time between SIGTERM and SIGKILL."""

_KILL_PATIENCE_SECONDS = 10.0
_PAUSE_SECONDS = 0.05
_PROC = Path("/proc")


class Process(msgspec.Struct, frozen=True):
    """A process that has not ended; the pair of `pid` and `start_ticks` belongs to it alone until the next boot."""

    pid: int
    parent: int
    session: int
    start_ticks: int


def boot_id() -> str:
    """Return the id of this boot of the machine."""
    return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def process(pid: int) -> Process | None:
    """Return the process with this number; None if it has ended, even as a zombie."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, parent, _, session, *rest = text.rpartition(")")[2].split()
    return None if state in "ZXx" else Process(pid, int(parent), int(session), int(rest[15]))


def processes() -> list[Process]:
    """Return all visible processes of the machine."""
    pids = [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]
    return [found for found in map(process, pids) if found]


def has_variable(pid: int, variable: bytes) -> bool:
    """Return whether the process started with `variable` (NAME=value) in its environment, if that is readable."""
    try:
        return variable in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def family(everyone: Iterable[Process], belongs: Callable[[Process], bool]) -> list[Process]:
    """Return the processes that belong, and all their descendants."""
    children: dict[int, list[Process]] = {}
    members: dict[int, Process] = {}
    heads: list[Process] = []
    for one in everyone:
        children.setdefault(one.parent, []).append(one)
        if belongs(one):
            heads.append(one)
    while heads:
        head = heads.pop()
        if head.pid not in members:
            members[head.pid] = head
            heads += children.get(head.pid, [])
    return list(members.values())


def end_processes(members: Callable[[], list[Process]]) -> bool:
    """End the processes that `members` finds, by SIGTERM and then by SIGKILL, and return whether none is left."""
    left = members()
    _send(left, signal.SIGTERM)
    deadline = time.monotonic() + TERM_GRACE_SECONDS
    while left and time.monotonic() < deadline:
        time.sleep(_PAUSE_SECONDS)
        left = members()
    deadline = time.monotonic() + _KILL_PATIENCE_SECONDS
    while left and time.monotonic() < deadline:
        _send(left, signal.SIGKILL)
        time.sleep(_PAUSE_SECONDS)
        left = members()
    return not left


def _send(targets: Iterable[Process], number: signal.Signals) -> None:
    for target in targets:
        now = process(target.pid)
        if now is not None and now.start_ticks == target.start_ticks:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(target.pid, number)
