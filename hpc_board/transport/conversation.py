"""Talking with a program that stays: a line to it, a line from it."""

import contextlib
import os
import selectors
import signal
import subprocess
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import IO, Final

from hpc_board.transport.time_budget import counted, time_limit

LINE_BYTES_MAX: Final = 8 * 1024 * 1024

_CHUNK_BYTES = 64 * 1024
_COMPLAINT_BYTES = 4096
_LOOK_SECONDS = 0.01
_END_SECONDS = 5.0
_ENDED = os.WEXITED | os.WNOWAIT | os.WNOHANG


class ConversationOver(Exception):
    """The program did not answer with a line in its time, or cannot be started; the message says which."""


class Conversation:
    """A program on this host that answers each line with a line; for one thread at a time.

    It ends with this object, or with this process. After a ConversationOver it has been killed.
    """

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        try:
            self._process = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd="/",
                env=dict(environment),
                start_new_session=True,
            )
        except OSError as error:
            raise ConversationOver(f"{argv[0]} cannot be started: {error}") from error
        self._answers, self._complaints = bytearray(), bytearray()
        for stream in _streams(self._process):
            os.set_blocking(stream.fileno(), False)
        self._finalizer = weakref.finalize(self, _end, self._process)

    @property
    def complaints(self) -> str:
        """Return the end of the program's output to stderr so far."""
        return self._complaints.decode(errors="replace")

    def ask(self, line: str, *, timeout_seconds: float) -> str:
        """Send a line, unless it is empty, and return the next line that comes.

        Raises:
            ConversationOver: none came in time, the program has ended, or its line is longer than LINE_BYTES_MAX.
        """
        within_seconds = time_limit(timeout_seconds)
        try:
            with counted(timeout_seconds) as seconds:
                return self._exchange(f"{line}\n".encode() if line else b"", time.monotonic() + seconds)
        except TimeoutError:
            raise self._over(f"did not answer within {within_seconds:g} s") from None
        except OverflowError:
            raise self._over("sent an answer that exceeds the limit") from None
        except OSError as error:
            raise self._over(f"does not listen: {error.strerror}") from error

    def close(self) -> None:
        """Kill the program and all that it started."""
        self._finalizer()

    def _exchange(self, question: bytes, deadline: float) -> str:
        stdin, stdout, stderr = _streams(self._process)
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            selector.register(stderr, selectors.EVENT_READ)
            if question:
                selector.register(stdin, selectors.EVENT_WRITE)
            while b"\n" not in self._answers:
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready and time.monotonic() >= deadline:
                    raise TimeoutError
                for key, _ in ready:
                    if key.fileobj is stdin:
                        # One that reads no more has ended, and its own streams say how.
                        with contextlib.suppress(BrokenPipeError):
                            question = question[os.write(key.fd, question) :]
                            if question:
                                continue
                        selector.unregister(stdin)
                    elif not self._read(key.fd, of_answers=key.fileobj is stdout):
                        selector.unregister(key.fileobj)
                        if key.fileobj is stdout:
                            raise self._ended(selector, stderr)
        line, _, rest = bytes(self._answers).partition(b"\n")
        self._answers[:] = rest
        return line.decode(errors="replace")

    def _read(self, descriptor: int, *, of_answers: bool) -> bool:
        """Read the available bytes; return False at the stream's end."""
        data = os.read(descriptor, _CHUNK_BYTES)
        if of_answers:
            self._answers += data
            if len(self._answers) > LINE_BYTES_MAX:
                raise OverflowError
        else:
            self._complaints[:] = (self._complaints + data)[-_COMPLAINT_BYTES:]
        return bool(data)

    def _ended(self, selector: selectors.BaseSelector, stderr: IO[bytes]) -> ConversationOver:
        """Return the error for a program that has closed its output; its last complaints are read first."""
        deadline = time.monotonic() + 1
        for other in [key.fileobj for key in selector.get_map().values() if key.fileobj is not stderr]:
            selector.unregister(other)
        while stderr in selector.get_map() and time.monotonic() < deadline:
            for key, _ in selector.select(0.1):
                if not self._read(key.fd, of_answers=False):
                    selector.unregister(key.fileobj)
        # It is not reaped before its group is killed, so that no other group can have its number.
        while time.monotonic() < deadline and not os.waitid(os.P_PID, self._process.pid, _ENDED):
            time.sleep(_LOOK_SECONDS)
        self.close()
        return ConversationOver(f"ended with status {self._process.returncode}")

    def _over(self, what: str) -> ConversationOver:
        self.close()
        return ConversationOver(what)


def _streams(process: "subprocess.Popen[bytes]") -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    if stdin is None or stdout is None or stderr is None:
        raise AssertionError("the process was started with three pipes")
    return stdin, stdout, stderr


def _end(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for stream in _streams(process):
        with contextlib.suppress(OSError):
            stream.close()
    # A process that waits for a dead file system can outlast even that.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)
