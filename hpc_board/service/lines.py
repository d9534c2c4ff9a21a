"""The lines of a client, the turns of its user, and the values that lines hold."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Protocol

import msgspec

from hpc_board.errors import InputError, Refused
from hpc_board.model.text import one_line
from hpc_board.service import routes, wire

_CHUNK_BYTES = 64 * 1024


class Reader(Protocol):
    """The bytes that come from a client."""

    async def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes, b"" at the end."""


class Writer(Protocol):
    """The way of bytes to a client, as asyncio.StreamWriter has it."""

    @property
    def transport(self) -> asyncio.WriteTransport:
        """The transport below."""

    def write(self, data: bytes, /) -> None:
        """Write `data`, once there is room."""

    async def drain(self) -> None:
        """Wait until there is room for more."""

    def close(self) -> None:
        """Close the connection once all has left."""

    async def wait_closed(self) -> None:
        """Wait until all has left."""


class Turns:
    """The turns of one user's connections: for a question, and for a line that is longer than a submission's."""

    def __init__(self, questions: int) -> None:
        self.question = asyncio.Semaphore(questions)
        self.long_line = asyncio.Semaphore(1)
        self._watched = 0

    @contextmanager
    def watching(self, runs: int) -> Iterator[None]:
        """Count so many more watched runs of the user, until the block ends.

        Raises:
            Refused: they are too many together.
        """
        if self._watched + runs > routes.WATCHED_MAX:
            raise Refused(
                f"you may wait for {routes.WATCHED_MAX:,} runs at one time, in all connections together.",
                hint="End another wait first.",
            )
        self._watched += runs
        try:
            yield
        finally:
            self._watched -= runs


class Lines:
    """The lines of a client, each within a time and a length; a line above REQUEST_BYTES_MAX needs `long_line`."""

    def __init__(self, reader: Reader, line_seconds: float, long_line: asyncio.Semaphore) -> None:
        self._reader = reader
        self._line_seconds = line_seconds
        self._long_line = long_line
        self._rest = b""
        self.bytes_max = wire.REQUEST_BYTES_MAX

    async def next(self, idle_seconds: float) -> bytes | None:
        """Return the next line, or None if it has not begun within `idle_seconds`.

        Raises:
            TimeoutError: it has begun, and does not arrive whole within `line_seconds`.
            ConnectionError: the client has closed the connection.
            Unfit: it is too long.
        """
        try:
            parts = [self._rest or await self._more(idle_seconds)]
        except TimeoutError:
            return None
        size = len(parts[0])
        async with asyncio.timeout(self._line_seconds), AsyncExitStack() as stack:
            most = min(wire.REQUEST_BYTES_MAX, self.bytes_max)
            while b"\n" not in parts[-1]:
                if size > most:
                    if most == self.bytes_max:
                        raise Unfit(f"a line has more than {self.bytes_max:,} bytes")
                    # One at a time for each user: they are held in memory until they are whole.
                    await stack.enter_async_context(self._long_line)
                    most = self.bytes_max
                parts.append(await self._more(None))
                size += len(parts[-1])
        last, _, self._rest = parts[-1].partition(b"\n")
        return b"".join((*parts[:-1], last))

    async def _more(self, seconds: float | None) -> bytes:
        async with asyncio.timeout(seconds):
            data = await self._reader.read(_CHUNK_BYTES)
        if not data:
            raise ConnectionResetError("the client has closed the connection")
        return data


class Unfit(Exception):
    """A line that no client of this version sends; the connection ends."""


def parsed(line: bytes, type_: type[Any]) -> Any:
    """Return the value of `type_` in a line.

    Raises:
        Unfit: the line has none.
    """
    try:
        return msgspec.json.decode(line, type=type_)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Unfit(f"a line is no {type_.__name__}: {one_line(str(error), 300)}") from error


def parsed_args(request: wire.Request, type_: type[Any]) -> Any:
    """Return the arguments of a question.

    Raises:
        InputError: they are not those of its route.
    """
    try:
        return wire.decoded(request.args, type_)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InputError(
            f"the question {request.route} does not fit: {one_line(str(error), 300)}.",
            hint="Use a client of the service's version.",
        ) from error
