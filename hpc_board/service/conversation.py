"""The conversations of clients with a service: lines within bounds, turns for questions, and streams of changes."""

import asyncio
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, aclosing, suppress
from functools import partial
from typing import Any

import msgspec

from hpc_board import __version__
from hpc_board.domain.roles import Role
from hpc_board.errors import BoardError, InputError, Refused
from hpc_board.files import temporary_folder
from hpc_board.model.text import one_line
from hpc_board.service import routes, wire
from hpc_board.service.answers import Answers, parsed_args
from hpc_board.service.changes import Changes
from hpc_board.service.counts import Counts

_CHUNK_BYTES = 64 * 1024
_PIECE_BYTES = 512 * 1024
_WORKERS = 16


class Bounds(msgspec.Struct, frozen=True):
    """The bounds of clients.

    - `hello_seconds` is the time for a client's first line.
    - `line_seconds` is the time for a line to arrive whole, once it has begun, and for an answer to leave.
    - `idle_seconds` is the time after which a silent connection is closed; clients open another.
    - `questions_per_user` are answered at one time.
    - `connections_per_user` and `connections` may be open, those of one user and of all together.
    """

    hello_seconds: float = 10.0
    line_seconds: float = 30.0
    idle_seconds: float = 300.0
    questions_per_user: int = 2
    connections_per_user: int = 64
    connections: int = 2_000


class Conversations:
    """The conversations of all clients, which end after the answers under way once `stopping` is set.

    `user_and_role` returns those of an account.
    """

    def __init__(
        self,
        answers: Answers,
        changes: Changes,
        bounds: Bounds,
        log: Callable[..., None],
        counts: Counts,
        user_and_role: Callable[[int], tuple[str, Role]],
        stopping: threading.Event,
    ) -> None:
        self._answers = answers
        self._changes = changes
        self._bounds = bounds
        self._log = log
        self._counts = counts
        self._user_and_role = user_and_role
        self._stopping = stopping
        self._connections: Counter[int] = Counter()
        self._turns: dict[int, _Turns] = {}
        self.answering: set[asyncio.Task[None] | None] = set()
        """The tasks with an answer under way."""
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="question")

    def connections(self) -> int:
        """Return the number of open connections."""
        return self._connections.total()

    def stop(self) -> None:
        """End the threads of questions."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    async def hold(self, uid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the questions of the account `uid`, whom the kernel has identified."""
        if (
            self._connections[uid] >= self._bounds.connections_per_user
            or self._connections.total() >= self._bounds.connections
        ):
            self._log("refused", uid=uid, reason="too many connections")
            await self._last_words(writer, Refused("too many connections are open.", hint="Retry in a moment."))
            return
        self._connections[uid] += 1
        try:
            await self._converse(uid, reader, writer)
        except ConnectionError:
            pass
        except TimeoutError:
            self._log("closed", uid=uid, reason="too slow")
            # A client that reads nothing would keep the answer in memory as long as it likes.
            writer.transport.abort()
        except _Unfit as error:
            self._log("refused", uid=uid, reason=str(error))
            await self._last_words(writer, InputError(str(error), hint="Is this an hpc-board client?"))
        except Exception:  # noqa: BLE001 - a fault of the service is told only to its log
            self._log("fault", uid=uid, traceback=traceback.format_exc())
        finally:
            await self._closed(writer)
            self._connections[uid] -= 1
            if not self._connections[uid]:
                del self._connections[uid]
                self._turns.pop(uid, None)

    async def _closed(self, writer: asyncio.StreamWriter) -> None:
        """Close a connection, and drop the part of an answer that its client does not read in time."""
        writer.close()
        try:
            async with asyncio.timeout(self._bounds.line_seconds):
                await writer.wait_closed()
        except ConnectionError:
            pass
        except TimeoutError:
            writer.transport.abort()

    async def _converse(self, uid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        turns = self._turns.setdefault(uid, _Turns(self._bounds.questions_per_user))
        lines = _Lines(reader, self._bounds.line_seconds, turns.long_line)
        first = await lines.next(self._bounds.hello_seconds)
        if first is None:
            raise TimeoutError
        hello = _parsed(first, wire.Hello)
        if hello.protocol != wire.PROTOCOL:
            raise _Unfit(
                f"client {one_line(hello.version, 40)} and service {__version__} use different protocols: "
                f"{hello.protocol} and {wire.PROTOCOL}. Use the same version of hpc-board."
            )
        try:
            # In a thread, since directories of users may be slow; not in one of the questions, which may be busy.
            user, role = await asyncio.get_running_loop().run_in_executor(None, self._user_and_role, uid)
        except Refused as error:
            self._log("refused", uid=uid, reason=error.message)
            await self._last_words(writer, error)
            return
        if role.may_act_as(Role.CREATOR):
            lines.bytes_max = wire.SOURCE_BYTES_MAX
        await self._send(writer, wire.Welcome(wire.PROTOCOL, __version__, user, str(role)))
        while not self._stopping.is_set() and (line := await lines.next(self._bounds.idle_seconds)) is not None:
            request = _parsed(line, wire.Request)
            if request.route == routes.CHANGES:
                await self._send_changes(uid, user, request, reader, writer)
                return
            # An answer belongs to its turn until it has left: it takes memory.
            task = asyncio.current_task()
            self.answering.add(task)
            try:
                async with turns.question:
                    if request.route in (routes.EXPORT, routes.BACKUP):
                        await self._send_file(uid, user, request, writer)
                        continue
                    replies = await asyncio.get_running_loop().run_in_executor(
                        self._pool, partial(self._answers.answer, uid, user, request)
                    )
                    for reply in replies:
                        await self._send(writer, reply)
            finally:
                self.answering.discard(task)

    async def _send_changes(
        self,
        uid: int,
        user: str,
        request: wire.Request,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Send the changes of the board that the user may see, until the client has gone."""
        try:
            parsed_args(request, routes.NoArguments)
        except InputError as error:
            await self._send(writer, self._answers.failed(uid, request, error))
            return
        # A client of changes sends nothing more; any input ends the stream.
        gone = asyncio.ensure_future(reader.read(1))
        try:
            async with aclosing(self._changes.stream(user, gone)) as changes:
                async for change in changes:
                    await self._send(writer, wire.Reply(request.id, event=msgspec.Raw(wire.encoded(change))))
        finally:
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
        self._counts.answered(routes.CHANGES, "left")

    async def _send_file(self, uid: int, user: str, request: wire.Request, writer: asyncio.StreamWriter) -> None:
        """Write the file of an EXPORT or BACKUP, send it in pieces, and at the end its contents in numbers."""
        loop = asyncio.get_running_loop()
        with ExitStack() as stack:
            try:
                file = stack.enter_context(temporary_folder("hpc-board-send-")) / "file"
                value = await loop.run_in_executor(self._pool, self._answers.write_file, user, request, file)
                opened = stack.enter_context(file.open("rb"))
            except Exception as error:  # noqa: BLE001 - a fault of the service is told only to its log
                await self._send(writer, self._answers.failed(uid, request, error))
                return
            while piece := await loop.run_in_executor(self._pool, opened.read, _PIECE_BYTES):
                await self._send(writer, wire.Reply(request.id, event=msgspec.Raw(wire.encoded(piece))))
        self._counts.answered(request.route, "ok")
        await self._send(writer, wire.Reply(request.id, value=msgspec.Raw(wire.encoded(value))))

    async def _send(self, writer: asyncio.StreamWriter, line: msgspec.Struct) -> None:
        writer.write(wire.encoded(line) + b"\n")
        async with asyncio.timeout(self._bounds.line_seconds):
            await writer.drain()

    async def _last_words(self, writer: asyncio.StreamWriter, error: BoardError) -> None:
        with suppress(ConnectionError, TimeoutError):
            await self._send(writer, wire.Reply(0, error=wire.failure(error)))
        writer.close()


class _Turns:
    """The turns of one user's connections: for a question, and for a line that is longer than a submission's."""

    def __init__(self, questions: int) -> None:
        self.question = asyncio.Semaphore(questions)
        self.long_line = asyncio.Semaphore(1)


class _Lines:
    """The lines of a client, each within a time and a length; a line above REQUEST_BYTES_MAX needs `long_line`."""

    def __init__(self, reader: asyncio.StreamReader, line_seconds: float, long_line: asyncio.Semaphore) -> None:
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
            _Unfit: it is too long.
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
                        raise _Unfit(f"a line exceeds the limit of {self.bytes_max:,} bytes")
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


class _Unfit(Exception):
    """A line that no client of this version sends; the connection ends."""


def _parsed(line: bytes, type_: type[Any]) -> Any:
    try:
        return msgspec.json.decode(line, type=type_)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _Unfit(f"invalid {type_.__name__}: {one_line(str(error), 300)}") from error
