"""Start of harness processes: forked from a process that has imported their modules, or started by a command."""

import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hpc_board.harness.processes.child import Child, ChildEnded, DeadlinePassed, PrintedTooMuch, Process
from hpc_board.harness.processes.output import Printed
from hpc_board.harness.processes.tree import REAP_SECONDS, ended
from hpc_board.harness.wire.channel import Channel, ProtocolViolation, pair

_UCRED = struct.Struct("=iII")
_START_POLL_SECONDS = 0.05
_CHANNEL = "channel"


class NotForked(Exception):
    """The zygote failed to start a process; the message holds the reason."""


class Zygote:
    """The process that has imported `modules` and forks the others (see zygote.py).

    With `harness`, it is a new process of that file; without, a fork of this one, which has imported them.
    """

    def __init__(
        self, harness: Path | None, *, env: Mapping[str, str] | None, modules: Sequence[str], printed: Printed
    ) -> None:
        channel, theirs = pair()
        reader, writer = os.pipe()
        with theirs:
            self.pid = _forked_zygote(theirs, writer) if harness is None else _new_zygote(harness, env, theirs, writer)
        os.close(writer)
        self.modules, self.printed = [*modules], printed
        self._child = Child(self.pid, channel, [(reader, printed)], printed_bytes_max=2**30)
        if harness is not None:
            self.begin()

    def begin(self, environment: Mapping[str, str] | None = None) -> None:
        """Have the zygote import its modules, in place of its own `environment` in that one if there is one."""
        self._child.send({"type": "preload", "modules": self.modules, "environment": environment})

    def fork(
        self,
        role: str,
        *,
        environment: Mapping[str, str],
        cwd: Path,
        stdout: Printed,
        stderr: Printed,
        printed_bytes_max: int,
        deadline: float,
    ) -> Child:
        """Fork a process in a `role` (judge or worker), in `cwd`, with `environment` added to the zygote's own.

        Raises:
            NotForked: the process has not started by the `deadline`.
        """
        channel, theirs = pair()
        pipes = [os.pipe(), os.pipe()]
        frame = {"type": "fork", "role": role, "environment": dict(environment), "cwd": str(cwd)}
        try:
            with theirs:
                self._child.send(frame, [theirs.fileno(), *(writer for _, writer in pipes)])
            pid = self._forked(deadline)
        except NotForked:
            channel.close()
            for reader, _ in pipes:
                os.close(reader)
            raise
        finally:
            for _, writer in pipes:
                os.close(writer)
        streams = [(reader, printed) for (reader, _), printed in zip(pipes, (stdout, stderr), strict=True)]
        return Child(pid, channel, streams, printed_bytes_max=printed_bytes_max)

    def _forked(self, deadline: float) -> int:
        try:
            frame = self._child.answer(("forked", "unforked"), deadline)
        except ChildEnded as error:
            raise NotForked(f"the process that starts the workers is gone: {error.how}") from None
        except (DeadlinePassed, PrintedTooMuch, ProtocolViolation):
            raise NotForked("the process that starts the workers did not answer in time") from None
        if frame["type"] == "unforked":
            raise NotForked(f"no process could be started: {frame['message']}")
        return int(frame["pid"])

    def end(self, patience_seconds: float = REAP_SECONDS) -> None:
        """End the zygote; the processes that it forked live on."""
        self._child.end(patience_seconds)


def _new_zygote(harness: Path, env: Mapping[str, str] | None, theirs: socket.socket, writer: int) -> int:
    process = subprocess.Popen(
        [sys.executable, "-I", "-B", "-u", str(harness), "zygote", str(theirs.fileno()), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=writer,
        env=env,
        cwd="/",
        pass_fds=(theirs.fileno(),),
        start_new_session=True,
    )
    # From here on it is waited for only by its id.
    process.returncode = 0
    return process.pid


def _forked_zygote(theirs: socket.socket, writer: int) -> int:
    supervisor = os.getpid()
    pid = os.fork()
    if pid == 0:
        from hpc_board.harness.main import zygote
        from hpc_board.harness.processes.zygote import keep_only

        os.setsid()
        keep_only(theirs.fileno(), writer, writer)
        os.chdir("/")
        zygote(theirs.fileno(), supervisor)
        os._exit(0)
    return pid


def started(
    prefix: Sequence[str],
    harness: Path,
    *,
    environment: Mapping[str, str],
    cwd: Path,
    printed: Sequence[Printed],
    printed_bytes_max: int,
    deadline: float,
    modules: Sequence[str] = (),
    python: str = sys.executable,
    contained: bool = False,
) -> Child:
    """Start a worker by the command `prefix` (a profiler, a container) instead of forking it.

    That command is the process to wait for and to kill. The worker connects to a socket in `cwd`, its working
    directory, since the command may close inherited descriptors. It imports `modules` by itself, once it is confined
    and before it answers that it is loaded. `printed` takes standard output and standard error if it holds two streams,
    else both in one.

    Raises:
        NotForked: no worker has connected by the `deadline`.
    """
    pipes = [os.pipe() for _ in printed]
    streams = [(reader, each) for (reader, _), each in zip(pipes, printed, strict=True)]
    process: subprocess.Popen[bytes] | None = None
    try:
        with _listening(cwd) as listener:
            process = subprocess.Popen(
                [*prefix, python, "-I", "-B", "-u", str(harness), "worker", _CHANNEL, *modules],
                stdin=subprocess.DEVNULL,
                stdout=pipes[0][1],
                stderr=pipes[-1][1],
                env=dict(environment),
                cwd=cwd,
                start_new_session=True,
            )
            # From here on it is waited for only by its id.
            process.returncode = 0
            connection = _connected(listener, process.pid, deadline)
            (cwd / _CHANNEL).unlink(missing_ok=True)
    except OSError as error:
        if process is None:
            for reader, _ in pipes:
                os.close(reader)
            raise NotForked(f"{prefix[0]} cannot be started: {error}") from error
        _said_until_ended(process.pid, streams)
        raise NotForked(f"{prefix[0]} was ended, since its worker cannot be reached: {error}") from error
    finally:
        for _, writer in pipes:
            os.close(writer)
    if connection is None:
        said = _said_until_ended(process.pid, streams)
        raise NotForked(f"{prefix[0]} started no worker: {said[-500:] or 'it printed nothing'}")
    channel = Channel(connection, takes_fds=False)
    return Child(
        process.pid,
        channel,
        streams,
        printed_bytes_max=printed_bytes_max,
        worker_pid=_peer_of(connection, process.pid),
        contained=contained,
    )


def _listening(folder: Path) -> socket.socket:
    """Return a socket in `folder` that takes one connection, even if the folder's path is long."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    opened = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        # A path to bind to may have at most 107 bytes.
        listener.bind(f"/proc/self/fd/{opened}/{_CHANNEL}")
        listener.listen(1)
        listener.settimeout(_START_POLL_SECONDS)
    except OSError:
        listener.close()
        raise
    finally:
        os.close(opened)
    return listener


def _said_until_ended(pid: int, streams: Sequence[tuple[int, Printed]]) -> str:
    """End a process with its session, and return its output on one line."""
    Process(pid, {reader: [each.add] for reader, each in streams}, contained=False).end()
    return " ".join(" ".join(each.log().text for _, each in streams).split())


def _connected(listener: socket.socket, pid: int, deadline: float) -> socket.socket | None:
    while time.monotonic() < deadline and not ended(pid):
        with suppress(TimeoutError):
            connection, _ = listener.accept()
            connection.setblocking(True)
            return connection
    return None


def _peer_of(connection: socket.socket, otherwise: int) -> int:
    """Return the pid of the connected process in this process's namespace; `otherwise` if unknown.

    The connected process may have a namespace of its own.
    """
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid: int = _UCRED.unpack(packed)[0]
    return pid or otherwise
