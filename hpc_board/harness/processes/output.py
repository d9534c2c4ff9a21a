"""Output of processes: bounded while one runs, and in full from a site's program that is run for its answer."""

import subprocess
from collections import deque
from collections.abc import Mapping, Sequence

from hpc_board.model.result import Log
from hpc_board.model.text import printable


class Printed:
    """A bounded record of a stream: its first and last `keep_bytes`, and the count of all bytes."""

    def __init__(self, keep_bytes: int = 32 * 1024) -> None:
        self._keep = keep_bytes
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self.total_bytes = 0

    def add(self, data: bytes) -> None:
        """Add the next piece of the stream."""
        self.total_bytes += len(data)
        room = self._keep - len(self._head)
        self._head += data[:room]
        rest = data[room:] if room < len(data) else b""
        if rest:
            self._tail.append(rest)
            self._tail_bytes += len(rest)
            while self._tail_bytes - len(self._tail[0]) >= self._keep:
                self._tail_bytes -= len(self._tail.popleft())

    def log(self) -> Log:
        """Return the kept output, as text that is safe to show."""
        tail = b"".join(self._tail)[-self._keep :]
        omitted = self.total_bytes - len(self._head) - len(tail)
        return Log(_text(bytes(self._head)), _text(tail), omitted)


def _text(data: bytes) -> str:
    text = data.decode("utf-8", errors="replace")
    return printable(text, len(text))


def output_of(command: Sequence[str], seconds: float, environ: Mapping[str, str] | None = None) -> str:
    """Return the output of a program of the site; "" if it cannot run, fails, or does not end in time."""
    done = ended(command, seconds, environ)
    return done.stdout if done is not None and done.returncode == 0 else ""


def ended(
    command: Sequence[str], seconds: float, environ: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str] | None":
    """Return a program of the site that has ended; None if it cannot run, or does not end in time."""
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=None if environ is None else dict(environ),
            timeout=seconds,
            check=False,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.SubprocessError):
        return None
