"""Output of a process, bounded: its beginning and its end are kept, whatever its size."""

from collections import deque

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
    return printable(data.decode("utf-8", errors="replace"))
