"""Count every process that a command starts, exactly: as the tracer of it and of all its descendants.

`ptrace` needs no privilege for one's own children. The kernel attaches each descendant before its first instruction
and stops it at every fork, exec and exit, so none is too short to be seen, as one might be that is looked for in /proc.
Between those events the processes run untouched. Opens of files are counted by inotify: a process that has made itself
undumpable, as those of the harness do, does not show its memory to an unprivileged tracer.
"""

import ctypes
import json
import os
import select
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

_SEIZE, _GET_EVENT_MESSAGE, _CONTINUE, _LISTEN = 0x4206, 0x4201, 7, 0x4208
_FORK, _VFORK, _CLONE, _EXEC, _EXIT, _STOP = 1, 2, 3, 4, 6, 128
_KILL_WITH_TRACER = 1 << 20
_OPTIONS = _KILL_WITH_TRACER | sum(1 << event for event in (_FORK, _VFORK, _CLONE, _EXEC, _EXIT))
_WAIT_ALL = 0x40000000
_GROUP_STOPS = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)

_CANNOT_TRACE = 77

_IN_OPEN, _IN_CLOSE_NOWRITE = 0x20, 0x10
_EVENT_BYTES = 16

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


class CannotTrace(Exception):
    """The kernel does not let this process trace another; the message has its answer."""


@dataclass
class Trace:
    """The events of a command and its descendants.

    `programs` are the command lines of every exec; `peak_kb` the largest resident size of each process before its end,
    by the command line that it began with or inherited.
    """

    status: int = 0
    programs: list[tuple[str, ...]] = field(default_factory=list)
    processes: int = 0
    threads: int = 0
    peak_kb: list[tuple[tuple[str, ...], int]] = field(default_factory=list)

    def started(self, *names: str) -> int:
        """Count the starts of programs with one of these names, with versions such as python3.11."""
        return sum(_is_named(Path(program[0]).name, names) for program in self.programs if program)


def _is_named(name: str, names: Sequence[str]) -> bool:
    return any(name == each or (each == "python" and name.rstrip("0123456789.") == each) for each in names)


def traced(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], output: Path) -> Trace:
    """Run a command to its end, its output going to a file, and count the starts of it and its descendants.

    The tracer is a process of its own: it waits for every child that it has, and the caller may have others.

    Raises:
        CannotTrace: ptrace is forbidden here.
    """
    tracer = [sys.executable, __file__, str(output.absolute()), *argv]
    done = subprocess.run(tracer, cwd=cwd, env=dict(env), capture_output=True, text=True, check=False)
    if done.returncode == _CANNOT_TRACE:
        raise CannotTrace(done.stderr.strip())
    if done.returncode != 0:
        raise RuntimeError(f"the tracer ended with {done.returncode}: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    found["programs"] = [tuple(each) for each in found["programs"]]
    found["peak_kb"] = [(tuple(program), peak_kb) for program, peak_kb in found["peak_kb"]]
    return Trace(**found)


def main() -> int:
    """Trace a command as the only child of this process, and print the counts."""
    output, *argv = sys.argv[1:]
    reader, writer = os.pipe()
    command = os.fork()
    if command == 0:
        _become(argv, Path(output), reader)
    os.close(reader)
    try:
        _ptrace(_SEIZE, command, 0, _OPTIONS)
    except OSError as error:
        os.kill(command, signal.SIGKILL)
        print(f"ptrace: {error.strerror}; a container or /proc/sys/kernel/yama may forbid it", file=sys.stderr)
        return _CANNOT_TRACE
    finally:
        os.write(writer, b".")
        os.close(writer)
    json.dump(asdict(_followed(command)), sys.stdout)
    return 0


def _become(argv: Sequence[str], output: Path, reader: int) -> None:
    """Wait to be traced, then become the command."""
    try:
        os.read(reader, 1)
        os.close(reader)
        target = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(target, 1)
        os.dup2(target, 2)
        os.execvp(argv[0], list(argv))  # noqa: S606 - the caller's own list of arguments
    finally:
        os._exit(127)


def _followed(command: int) -> Trace:
    trace = Trace(processes=1)
    while True:
        try:
            pid, status = os.waitpid(-1, _WAIT_ALL)
        except ChildProcessError:
            return trace
        if not os.WIFSTOPPED(status):
            if pid == command:
                trace.status = os.waitstatus_to_exitcode(status)
            continue
        number, event = os.WSTOPSIG(status), status >> 16
        if event:
            _note(trace, pid, event)
        if event == _STOP and number in _GROUP_STOPS:
            _go_on(_LISTEN, pid, 0)
        else:
            _go_on(_CONTINUE, pid, 0 if event else number)


def _note(trace: Trace, pid: int, event: int) -> None:
    if event in (_FORK, _VFORK, _CLONE):
        message = ctypes.c_ulong()
        _ptrace(_GET_EVENT_MESSAGE, pid, 0, ctypes.addressof(message))
        if _field(message.value, "Tgid") == message.value:
            trace.processes += 1
        else:
            trace.threads += 1
    elif event == _EXEC:
        trace.programs.append(_command_line(pid))
    elif event == _EXIT and _field(pid, "Tgid") == pid:
        trace.peak_kb.append((_command_line(pid), _field(pid, "VmHWM")))


def _command_line(pid: int) -> tuple[str, ...]:
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ()
    return tuple(text.rstrip("\0").split("\0"))


def _field(pid: int, name: str) -> int:
    """A number in a process's status; 0 where it is not there."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)


def _go_on(request: int, pid: int, number: int) -> None:
    try:
        _ptrace(request, pid, 0, number)
    except ProcessLookupError:
        return


def _ptrace(request: int, pid: int, address: int, data: int) -> None:
    if _libc.ptrace(request, pid, address, data) == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@contextmanager
def counted_opens(path: Path) -> Iterator[list[int]]:
    """A list of one number: how often any process has opened the file at `path` since; it is right after the block.

    The kernel merges equal unread events, so this also watches closings, which separate openings.
    """
    found = [0]
    inotify = _libc.inotify_init1(os.O_CLOEXEC)
    if inotify < 0 or _libc.inotify_add_watch(inotify, os.fsencode(path), _IN_OPEN | _IN_CLOSE_NOWRITE) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))
    stop_reader, stop_writer = os.pipe()
    thread = threading.Thread(target=_count, args=(inotify, stop_reader, found))
    thread.start()
    try:
        yield found
    finally:
        os.close(stop_writer)
        thread.join()
        for descriptor in (inotify, stop_reader):
            os.close(descriptor)


def _count(inotify: int, stop: int, found: list[int]) -> None:
    while True:
        ready, _, _ = select.select([inotify, stop], [], [])
        if inotify in ready:
            data = os.read(inotify, 64 * 1024)
            at = 0
            while at < len(data):
                _, mask, _, length = struct.unpack_from("=iIII", data, at)
                found[0] += bool(mask & _IN_OPEN)
                at += _EVENT_BYTES + length
        elif stop in ready:
            return


if __name__ == "__main__":
    sys.exit(main())
