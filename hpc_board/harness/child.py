"""The supervisor's processes as it sees them: a channel to each, what they print, and how they end."""

import itertools
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from hpc_board.harness.channel import Channel, ChannelClosed, ChannelFull, Frame, ProtocolViolation, pair
from hpc_board.harness.interruption import CHILD_GRACE_SECONDS, SIGNALS
from hpc_board.harness.printed import Printed

_READ_BYTES = 256 * 1024
_UCRED = struct.Struct("=iII")
REAP_SECONDS = 5.0
"""How long a process that was killed may take to go."""

_EXIT_SECONDS = 2.0
_REAP_POLL_SECONDS = 0.002
_STOP_SECONDS = 1.0
_FREEZE_SPINS = 50
_FREEZE_POLL_SECONDS = 2e-5
_FINISH_POLL_SECONDS = 0.05
_START_POLL_SECONDS = 0.05
_STOPPED_STATES = ("T", "t", "Z", "X")


class ChildEnded(Exception):
    """The process ended, or closed its channel, before it answered; `how` says it in words.

    `signal` is the signal that ended it, None where none did.
    """

    def __init__(self, how: str, signal_number: Optional[int] = None) -> None:
        super().__init__(how)
        self.how = how
        self.signal = signal_number


class DeadlinePassed(Exception):
    """No answer came in time."""


class PrintedTooMuch(Exception):
    """The process printed more than it may."""


class NotForked(Exception):
    """The zygote could not start a process; the message says why."""


class Child:
    """A process of the harness in a session of its own, connected by a channel.

    What it prints goes to `stdout` and `stderr`, read while its answers are awaited. `pid` is the process that is
    waited for and killed, `worker_pid` the one at the other end of the channel, as seen from here: another one where a
    command started the worker, by the `starters`, which are what stands between the supervisor and the worker. The
    command of one that is `contained` tells by its own status how the worker ended.
    """

    def __init__(
        self,
        pid: int,
        channel: Channel,
        streams: Sequence[Tuple[int, Printed]],
        *,
        printed_bytes_max: int,
        worker_pid: Optional[int] = None,
        contained: bool = False,
    ) -> None:
        self.pid = pid
        self.worker_pid = pid if worker_pid is None else worker_pid
        self.starters = _starters_of(self.worker_pid, pid)
        self._contained = contained
        self._channel = channel
        self._reads = True
        self._limit = printed_bytes_max
        self._status: Optional[int] = None
        self._reaped = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(channel, selectors.EVENT_READ)
        self._streams: Dict[int, Printed] = {}
        for descriptor, printed in streams:
            os.set_blocking(descriptor, False)
            self._selector.register(descriptor, selectors.EVENT_READ)
            self._streams[descriptor] = printed
        self._pidfd = _pidfd(pid)
        if self._pidfd is not None:
            self._selector.register(self._pidfd, selectors.EVENT_READ)

    def send(self, frame: Frame, fds: Sequence[int] = ()) -> None:
        """Send a frame; that the process has ended, or does not read, shows when its answer is awaited."""
        try:
            self._channel.send(frame, fds)
        except ChannelClosed:
            return
        except ChannelFull:
            self._reads = False

    def answer(self, expected: Sequence[str], deadline: float) -> Tuple[Frame, List[int]]:
        """The next frame, of one of the `expected` types, before `deadline` on the monotonic clock.

        Raises:
            ChildEnded: the process is gone, whoever else may hold its channel.
            DeadlinePassed: nothing came in time.
            PrintedTooMuch: its output went over the limit.
            ProtocolViolation: another frame came, or something that is none.
        """
        if not self._reads:
            raise ProtocolViolation("nothing to the point: it does not read what it is sent")
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise DeadlinePassed
            ready = {key.fd for key, _ in self._selector.select(remaining)}
            for descriptor in ready & self._streams.keys():
                self._drain(descriptor)
            if sum(printed.total_bytes for printed in self._streams.values()) > self._limit:
                raise PrintedTooMuch
            if self._channel.fileno() in ready:
                return self._frame(expected)
            if self._pidfd is not None and self._pidfd in ready:
                raise self._ended()

    def _frame(self, expected: Sequence[str]) -> Tuple[Frame, List[int]]:
        try:
            frame, fds = self._channel.receive()
        except ChannelClosed:
            raise self._ended() from None
        if frame["type"] not in expected:
            for descriptor in fds:
                os.close(descriptor)
            raise ProtocolViolation(f"a frame of the type {frame['type'][:40]!r} instead of {' or '.join(expected)}")
        return frame, fds

    def _drain(self, descriptor: int) -> bool:
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        if data:
            self._streams[descriptor].add(data)
        elif descriptor in self._selector.get_map():
            self._selector.unregister(descriptor)
        return bool(data)

    def _ended(self) -> ChildEnded:
        if not self._wait(_EXIT_SECONDS):
            return ChildEnded("it closed its channel to the harness")
        code = self._status or 0
        code = signal_told(code) if self._contained else code
        if -code in SIGNALS:
            time.sleep(CHILD_GRACE_SECONDS)
        if code < 0:
            return ChildEnded(f"it was ended by signal {-code} ({_signal_name(-code)})", -code)
        return ChildEnded(f"it exited with status {code}")

    def _wait(self, seconds: float) -> bool:
        """Whether the process has ended within `seconds`; its status is kept, and the process until it is reaped."""
        deadline = time.monotonic() + seconds
        while self._status is None:
            try:
                ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                # Not adopted yet, or reaped elsewhere; in neither case is there a status to be had by waiting.
                ended = None
            if ended is not None:
                self._status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
            elif time.monotonic() >= deadline:
                return False
            else:
                time.sleep(_REAP_POLL_SECONDS)
        return True

    def freeze(self, deadline: float) -> None:
        """Stop the process with all its threads.

        Raises:
            ChildEnded: it is gone.
            DeadlinePassed: a thread of it had not stopped by then.
        """
        for polls in itertools.count():
            if polls == 0:
                signal_all([self.worker_pid], signal.SIGSTOP)
            if self._stopped():
                return
            if time.monotonic() >= deadline:
                raise DeadlinePassed
            if polls >= _FREEZE_SPINS:
                time.sleep(_FREEZE_POLL_SECONDS)

    def _stopped(self) -> bool:
        if self.worker_pid != self.pid:
            return all_stopped(self.worker_pid)
        try:
            found = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return all_stopped(self.pid)
        if found is None:
            return False
        if found.si_code != os.CLD_STOPPED:
            raise self._ended()
        # A stop that was before counts no more once the process goes on, so this takes the notice of the one at hand.
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG)
        return True

    def thaw(self) -> None:
        """Let the process go on."""
        signal_all([self.worker_pid], signal.SIGCONT)

    def finish(self, deadline: float) -> Optional[int]:
        """Close the channel, upon which the process ends by itself, and return its exit status; None if it does not."""
        self._selector.unregister(self._channel)
        self._channel.close()
        while time.monotonic() < deadline and sum(each.total_bytes for each in self._streams.values()) <= self._limit:
            ready = {key.fd for key, _ in self._selector.select(_FINISH_POLL_SECONDS)}
            for descriptor in ready & self._streams.keys():
                self._drain(descriptor)
            if self._wait(0):
                return self._status
        return None

    def end(self, patience_seconds: float = REAP_SECONDS) -> None:
        """Kill the process and its session, and take in what it had printed.

        A process that the kernel does not let go in that time (one that waits for a device) is left behind. What a
        signal's exception has cut short is done by the next call; one more than that does nothing.
        """
        if not self._reaped:
            for kill in (os.killpg, os.kill):
                with suppress(ProcessLookupError, PermissionError):
                    kill(self.pid, signal.SIGKILL)
            if self._wait(patience_seconds):
                # Noted first: from when it is reaped, the id may be another's. What is not, `kill_orphans` reaps.
                self._reaped = True
                with suppress(ChildProcessError):
                    os.waitpid(self.pid, os.WNOHANG)
        for descriptor in list(self._streams):
            for _ in range(64):
                if not self._drain(descriptor):
                    break
            # Forgotten first: a descriptor that is not closed does less harm than another's that is.
            del self._streams[descriptor]
            os.close(descriptor)
        if self._pidfd is not None:
            pidfd, self._pidfd = self._pidfd, None
            os.close(pidfd)
        self._selector.close()
        self._channel.close()


class Zygote:
    """The process that has imported `modules` and forks the others (see zygote.py)."""

    def __init__(self, harness: Path, *, env: Mapping[str, str], modules: Sequence[str], printed: Printed) -> None:
        channel, theirs = pair(takes_fds=False)
        reader, writer = os.pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-B", "-u", str(harness), "zygote", str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=writer,
                stderr=writer,
                env=dict(env),
                cwd="/",
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        os.close(writer)
        self._child = Child(self._process.pid, channel, [(reader, printed)], printed_bytes_max=2**30)
        self._child.send({"type": "preload", "modules": list(modules)})

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

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
        """A new process in a `role` (judge or worker), in `cwd`, with `environment` added to the zygote's own.

        Raises:
            NotForked: there is none by the `deadline`.
        """
        channel, theirs = pair(takes_fds=role == "judge")
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
            frame, _ = self._child.answer(("forked", "unforked"), deadline)
        except ChildEnded as error:
            raise NotForked(f"the process that starts the others is gone: {error.how}") from None
        except (DeadlinePassed, PrintedTooMuch, ProtocolViolation):
            raise NotForked("the process that starts the others did not answer in time") from None
        if frame["type"] == "unforked":
            raise NotForked(f"no process could be started: {frame['message']}")
        return int(frame["pid"])

    def end(self, patience_seconds: float = REAP_SECONDS) -> None:
        """End the process; those that it forked live on."""
        self._child.end(patience_seconds)
        self._process.returncode = 0


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
    """A worker that the command `prefix` (a profiler, a container) starts, instead of being forked.

    That command is what is waited for and killed. The worker connects to a socket in `cwd`, since the command may close
    what it inherits. Before that it imports `modules`, as a zygote does for those that it forks. `printed` takes
    standard output and standard error, if there are two, else both.

    Raises:
        NotForked: there is no worker by the `deadline`.
    """
    path = cwd / "channel"
    pipes = [os.pipe() for _ in printed]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(path))
            listener.listen(1)
            listener.settimeout(_START_POLL_SECONDS)
            process = subprocess.Popen(
                [*prefix, python, "-I", "-B", "-u", str(harness), "worker", str(path), *modules],
                stdin=subprocess.DEVNULL,
                stdout=pipes[0][1],
                stderr=pipes[-1][1],
                env=dict(environment),
                cwd=cwd,
                start_new_session=True,
            )
            connection = _connected(listener, process, deadline)
            path.unlink(missing_ok=True)
    except OSError as error:
        for reader, _ in pipes:
            os.close(reader)
        raise NotForked(f"{prefix[0]} cannot be started: {error}") from error
    finally:
        for _, writer in pipes:
            os.close(writer)
    streams = [(reader, each) for (reader, _), each in zip(pipes, printed, strict=True)]
    if connection is None:
        for reader, each in streams:
            os.set_blocking(reader, False)
            with suppress(BlockingIOError):
                each.add(os.read(reader, _READ_BYTES))
            os.close(reader)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        said = " ".join(" ".join(each.log().text for each in printed).split())
        raise NotForked(f"{prefix[0]} started no worker: {said[-500:] or 'it said nothing'}")
    # From here on the child is waited for by its id alone.
    process.returncode = 0
    channel = Channel(connection, takes_fds=False)
    return Child(
        process.pid,
        channel,
        streams,
        printed_bytes_max=printed_bytes_max,
        worker_pid=_peer_of(connection, process.pid),
        contained=contained,
    )


def _connected(listener: socket.socket, process: "subprocess.Popen[bytes]", deadline: float) -> Optional[socket.socket]:
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(TimeoutError):
            connection, _ = listener.accept()
            connection.setblocking(True)
            return connection
    return None


def signal_told(status: int) -> int:
    """The status of a process in a container, by that of the command which runs it: -n for 128 + n, after signal n."""
    return 128 - status if 128 < status < 128 + signal.NSIG else status


def _starters_of(worker: int, command: int) -> List[int]:
    """The processes from a worker's parent up to the command that started it; the worker itself where none did."""
    parents = (
        {pid: parent for parent, pids in children_by_parent().items() for pid in pids} if worker != command else {}
    )
    found = [command]
    while worker in parents and parents[worker] != command:
        worker = parents[worker]
        found.append(worker)
    return found


def _peer_of(connection: socket.socket, otherwise: int) -> int:
    """The process that connected, by its id here, also if it has a namespace of its own; `otherwise` if unknown."""
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid: int = _UCRED.unpack(packed)[0]
    return pid or otherwise


def _pidfd(pid: int) -> Optional[int]:
    """A descriptor that becomes readable when the process ends; None on kernels before 5.3."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


@contextmanager
def stopped_but(keep: Sequence[int]) -> Iterator[None]:
    """Stop every descendant but `keep` and what those have started, and let them go on afterwards.

    Raises:
        DeadlinePassed: they start others without end.
    """
    deadline = time.monotonic() + _STOP_SECONDS
    stopped: List[int] = []
    try:
        while True:
            running = [pid for pid in descendants_of(os.getpid(), keep) if pid not in stopped]
            if not running:
                break
            if time.monotonic() >= deadline:
                raise DeadlinePassed
            stopped += running
            signal_all(running, signal.SIGSTOP)
        yield
    finally:
        signal_all(stopped, signal.SIGCONT)


def all_stopped(pid: int) -> bool:
    """Whether no thread of a process runs; one that is gone has none."""
    try:
        threads = [thread.name for thread in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return True
    return all(_state(f"{pid}/task/{thread}") in _STOPPED_STATES for thread in threads)


def _state(process: str) -> str:
    try:
        return stat_fields(process)[0]
    except OSError:
        return "X"


def signal_all(pids: Iterable[int], number: int) -> None:
    """Send a signal to processes, of which some may be gone."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def kill_orphans(keep: Sequence[int], patience_seconds: float = REAP_SECONDS) -> int:
    """Kill every descendant but `keep`, and return how many are still there after that time.

    Those of dead workers have become children of this subreaper.
    """
    deadline = time.monotonic() + patience_seconds
    while True:
        orphans = [pid for pid in children_of(os.getpid()) if pid not in keep]
        if not orphans or time.monotonic() >= deadline:
            return len(orphans)
        for pid in orphans:
            with suppress(ProcessLookupError, ChildProcessError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
        time.sleep(_REAP_POLL_SECONDS)


def reap_orphans(keep: Sequence[int]) -> None:
    """Take the status of every ended descendant but `keep`, so that a worker cannot fill the process table."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid in keep:
            return
        with suppress(ChildProcessError):
            os.waitpid(ended.si_pid, os.WNOHANG)


def children_of(parent: int) -> List[int]:
    """The processes whose parent is `parent`."""
    return children_by_parent().get(parent, [])


def descendants_of(top: int, leaving_out: Sequence[int] = ()) -> List[int]:
    """The processes below `top`, without some and without those below them."""
    children = children_by_parent()
    found: List[int] = []
    generation = [top]
    while generation:
        generation = [pid for parent in generation for pid in children.get(parent, ()) if pid not in leaving_out]
        found += generation
    return found


def below(top: int, leaving_out: Sequence[int] = ()) -> List[int]:
    """The same as `descendants_of`, faster than by looking at every process of the node where the kernel allows it.

    A process that ends meanwhile may hide another, so that this is for processes that are stopped.
    """
    found: List[int] = []
    waiting = [top]
    while waiting:
        children = _children(waiting.pop())
        if children is None:
            return descendants_of(top, leaving_out)
        new = [pid for pid in children if pid not in leaving_out]
        found += new
        waiting += new
    return found


def _children(parent: int) -> Optional[List[int]]:
    """The processes that a process's threads have started or adopted; None where the kernel does not tell."""
    found: List[int] = []
    try:
        threads = list(Path(f"/proc/{parent}/task").iterdir())
    except OSError:
        return found
    for thread in threads:
        try:
            found += map(int, (thread / "children").read_bytes().split())
        except OSError:
            if thread.exists():
                return None
    return found


def children_by_parent() -> Dict[int, List[int]]:
    """The processes of this node, below their parents."""
    children: Dict[int, List[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                children.setdefault(int(stat_fields(entry.name)[1]), []).append(int(entry.name))
    return children


def thread_count(pid: int) -> int:
    """How many threads a process has; 0 where it is gone."""
    try:
        return int(stat_fields(pid)[17])
    except OSError:
        return 0


def stat_fields(process: object) -> List[str]:
    """What the system says of a process, by its id, from its state on, which is field 3 of proc(5).

    Raises:
        OSError: there is no such process.
    """
    # The field before may hold anything, brackets among it.
    return Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()
