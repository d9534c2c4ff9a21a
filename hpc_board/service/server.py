"""The service's process: it owns a board, advances its runs, and answers questions at its doors."""

import asyncio
import os
import resource
import socket
import stat
import threading
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hpc_board import __version__
from hpc_board.accounts import user_name
from hpc_board.board import Board
from hpc_board.board.context import Installation
from hpc_board.domain.diagnostic import Severity
from hpc_board.domain.roles import Role
from hpc_board.domain.run import Run
from hpc_board.errors import BoardError, InputError, Refused, SchedulerError, StorageError
from hpc_board.files import locked, temporary_folder
from hpc_board.model.text import one_line
from hpc_board.service import routes, wire
from hpc_board.service.answers import answer_of, answer_text, arguments, outcome_of, route_of
from hpc_board.service.changes import Changes
from hpc_board.service.cluster_threads import ClusterThreads
from hpc_board.service.counts import Counts, counted
from hpc_board.service.doors import Forged
from hpc_board.service.isolation import demanding, shortfalls
from hpc_board.service.lines import Lines, Reader, Turns, Unfit, Writer, parsed, parsed_args
from hpc_board.service.log import Log
from hpc_board.service.notify import notify
from hpc_board.service.page import opening
from hpc_board.service.page.bounds import PageBounds
from hpc_board.service.peers import check_place, peer_name, peer_uid
from hpc_board.service.reloading import Reloads, changed, faults
from hpc_board.service.units import WATCHDOG_SECONDS
from hpc_board.service.watching import Watching
from hpc_board.settings import Settings
from hpc_board.store.folder import SERVE_LOCK, make_board_folder

if TYPE_CHECKING:
    from hpc_board.runs.reconciler import Pass
    from hpc_board.service.page.web_server import WebServer
    from hpc_board.service.unauthenticated import PendingClients

_Door = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]

_PIECE_BYTES = 512 * 1024
_WORKERS = 16
# Above it, the kernel has clients over TCP wait for a second before they try again.
_BACKLOG = 2048
_FILES_BESIDES = 512
_ADVANCE_SECONDS = 1.0
_END_SECONDS = 10.0
_LAST_ANSWERS_SECONDS = 60.0
# A command that looks whether the board is served holds the lock for an instant.
_LOCK_SECONDS = 1.0


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


class Service:
    """A board behind a Unix socket, and behind a TCP port if the settings have one.

    `advance_seconds` is the pause between two passes over the runs in flight. `reread` reads the settings again, for
    `reload`.
    """

    def __init__(
        self,
        settings: Settings,
        path: Path,
        *,
        log: Log | None = None,
        bounds: Bounds = Bounds(),  # noqa: B008 - a frozen value
        page_bounds: PageBounds = PageBounds(),  # noqa: B008 - a frozen value
        advance_seconds: float = _ADVANCE_SECONDS,
        reread: Callable[[], Settings] | None = None,
    ) -> None:
        self.path = path
        self._read_at = time.time()
        self._reread = reread or (lambda: settings)
        self._reloads = Reloads(self._reload)
        self._counts = Counts()
        self._log = counted(log or Log(), self._counts)
        self._bounds = bounds
        self._page_bounds = page_bounds
        # The whole state that follows from the settings: whoever reads it once sees one version of them.
        self._own = self._seen_by_itself(
            Installation(demanding(settings), user_name(os.geteuid()), self._warn, self._launch)
        )
        self._watching = Watching(lambda: self._own)
        self._page: WebServer | None = None
        self._changes = Changes(lambda: self._own, lambda text: self._log("not told", problem=text))
        self._end: Callable[[], object] = lambda: None
        self._end_requested = threading.Event()
        self._passes = ClusterThreads(self._advance, advance_seconds, self._tell_fault)
        self._told: dict[str, str] = {}
        self._silent: set[str] = set()
        self._stopping = threading.Event()
        self._connections: Counter[int] = Counter()
        self._turns: dict[int, Turns] = {}
        self._answering: set[asyncio.Task[None] | None] = set()
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="question")
        self._pending_clients = self._new_pending_clients()

    @property
    def settings(self) -> Settings:
        """The settings that count at present."""
        return self._own.settings

    @property
    def _installation(self) -> Installation:
        return self._own.context.installation

    def _seen_by_itself(self, installation: Installation) -> Board:
        return Board.seen_by(installation.account, installation, self._warn)

    def _warn(self, text: str) -> None:
        self._log("warning", text=text)

    def _new_pending_clients(self) -> "PendingClients | None":
        if self.settings.munge is None:
            return None
        from hpc_board.service.unauthenticated import PendingClients

        return PendingClients(self.settings.munge, self._log, self._bounds.hello_seconds)

    # Life

    def run(self, ready: Callable[[], object] = lambda: None) -> None:
        """Serve until `stop`; `ready` is called once clients can connect.

        Raises:
            InputError: another process serves this board or this socket.
            StorageError: the board's folder or the socket cannot be made.
        """
        _allow_files(self._bounds.connections + self._page_bounds.connections)
        with ExitStack() as stack:
            self._take_folder(stack)
            listening: dict[_Door, socket.socket] = {self._by_socket: self._listen(stack, self.path)}
            if self._pending_clients is not None:
                stack.callback(self._pending_clients.close)
                listening[self._by_munge] = stack.enter_context(self._pending_clients.listening())
            of_page = self._open_page(stack)
            self._tell_isolation()
            self._tell_doubts()
            asyncio.run(self._reloads.beside(self._serve(listening, of_page, ready)))

    def stop(self) -> None:
        """End `run` from any thread or signal handler, also before it serves, after the answers in progress."""
        self._end_requested.set()
        self._end()

    def reload(self) -> None:
        """Read the settings again, from any thread or signal handler; faulty ones change nothing."""
        self._reloads.request()

    def _reload(self) -> None:
        """Take new settings for all that begins from now on; what has begun ends with the former ones."""
        at = time.time()
        try:
            read = self._reread()
            if read.service is not None:
                raise InputError(f"{read.file} names a service; it has no board to serve.")
            taken, waiting = changed(self.settings, demanding(read))
            own = self._seen_by_itself(self._installation.with_settings(taken))
            own.context.reconciler  # noqa: B018 - made here, since two threads could make a cached property twice
        except BoardError as error:
            self._log("not reloaded", faults=faults(error))
            return
        except Exception:  # noqa: BLE001 - the service goes on with its settings, and its log has the fault
            self._log("fault", traceback=traceback.format_exc())
            return
        self._own = own
        self._mark_reading(at)
        self._told.clear()
        self._passes.run(own.context.reconciler.names)
        self._log("reloaded", settings=read.file, **({"needs_restart": waiting} if waiting else {}))
        self._tell_isolation()
        self._tell_doubts()
        self._passes.wake()
        if self._page is not None:
            self._page.look()

    def _mark_reading(self, at: float) -> None:
        """Have the time of the lock's file tell `admin doctor` when the settings were read."""
        with suppress(OSError):
            os.utime(self.settings.board / SERVE_LOCK, (at, at))

    def _take_folder(self, stack: ExitStack) -> None:
        folder = self.settings.board
        try:
            make_board_folder(folder)
            check_place(folder, os.geteuid(), in_sticky=True)
            folder.chmod(0o700)
            mine = stack.enter_context(locked(folder / SERVE_LOCK, wait_seconds=_LOCK_SECONDS))
        except OSError as error:
            raise StorageError(
                f"{folder}: the board's folder cannot be used: {error.strerror or error}",
                hint="Point `board` in the settings to a folder that this account may write.",
            ) from error
        if not mine:
            raise InputError(
                f"another process serves {folder}.", hint="End it first, or use it: one service answers all clients."
            )
        self._mark_reading(self._read_at)
        self._own.context.has_runs_in_flight()  # makes the database, or brings it to this version
        self._installation.reconciler  # noqa: B018 - made here, since two threads could make a cached property twice

    def _listen(self, stack: ExitStack, path: Path) -> socket.socket:
        """Return the listening socket at `path`; a stale one of a killed service is replaced."""
        listening = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        try:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            # Where another account may write, it could also lead the change of mode below to another file.
            check_place(path, os.geteuid())
            _remove_stale(path)
            listening.bind(str(path))
            stack.callback(_unlink, path)
            path.chmod(0o666)
            listening.listen(_BACKLOG)
        except OSError as error:
            raise StorageError(
                f"{path}: the service's socket cannot be made: {error.strerror or error}",
                hint="Give a path of at most 107 bytes in a folder that only this account may write.",
            ) from error
        return listening

    def _open_page(self, stack: ExitStack) -> list[socket.socket]:
        """Return the sockets of the page; none without the libraries that it needs."""
        path = opening.page_socket(self.path)
        if missing := opening.missing_libraries():
            self._log("no page", reason=missing)
            return []
        sockets = [self._listen(stack, path)]
        if self.settings.web is not None:
            sockets.append(opening.tcp_socket(self.settings.web, stack, self._log))
        gauges = {
            "connections": ("Open connections of clients.", self._connections.total),
            "waits": ("Clients that wait for runs.", lambda: self._watching.waits),
        }
        self._page = opening.web_server(
            lambda: Board.seen_by_all(self._installation, self._warn),
            self.settings,
            self._counts,
            self._log,
            self._role_of,
            gauges,
            self._page_bounds,
        )
        return sockets

    def _role_of(self, uid: int) -> Role:
        return self._user_and_role(uid)[1]

    async def _serve(
        self, listening: Mapping[_Door, socket.socket], of_page: list[socket.socket], ready: Callable[[], object]
    ) -> None:
        """Serve until the end; `listening` has the socket of each door, `of_page` those of the page."""
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        self._end = partial(loop.call_soon_threadsafe, stop.set)
        self._watching.start(loop)
        self._changes.start(loop)
        self._passes.run(self._installation.reconciler.names)
        tasks: set[asyncio.Task[None]] = set()

        def accept(door: _Door, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(door(reader, writer))
            tasks.add(task)
            task.add_done_callback(partial(ended, writer))

        def ended(writer: asyncio.StreamWriter, task: "asyncio.Task[None]") -> None:
            tasks.discard(task)
            writer.close()  # also if the task was cancelled before its first step

        # Closed by hand: on leaving a block, newer Pythons wait for the connections, and thus for idle clients.
        servers: dict[socket.socket, asyncio.Server] = {}
        try:
            for door, place in listening.items():
                start = asyncio.start_unix_server if place.family == socket.AF_UNIX else asyncio.start_server
                servers[place] = await start(partial(accept, door), sock=place, backlog=_BACKLOG)
            if self._page is not None:
                await self._page.start(of_page)
            doors = {"munge": self.settings.munge} if self.settings.munge is not None else {}
            pages = {"page": opening.page_socket(self.path), "web": self.settings.web} if of_page else {}
            self._log(
                "serving",
                board=self.settings.board,
                socket=self.path,
                **doors,
                **pages,
                version=__version__,
                pid=os.getpid(),
            )
            notify("READY=1")
            ready()
            if self._end_requested.is_set():
                stop.set()
            await stop.wait()
            notify("STOPPING=1")
            self._log("stopping")
        finally:
            # asyncio loses a connection that it has accepted and not yet handed over when its server is closed.
            for place in servers:
                loop.remove_reader(place)
            await asyncio.sleep(0)
            for server in servers.values():
                server.close()
            self._stopping.set()
            self._passes.wake()
            for task in tasks - self._answering:
                task.cancel()
            if answering := tasks & self._answering:
                await asyncio.wait(answering, timeout=_LAST_ANSWERS_SECONDS)
            for task in list(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._page is not None:
                await self._page.stop()
            await loop.run_in_executor(None, partial(self._pool.shutdown, wait=True, cancel_futures=True))
            await loop.run_in_executor(None, self._changes.stop)
            await loop.run_in_executor(None, self._passes.stop, _END_SECONDS)
            self._end = lambda: None
            self._log("stopped")

    # Runs

    def _launch(self, runs: Any) -> list[BoardError]:
        errors = self._installation.reconciler.launch(runs)
        self._passes.wake()
        return errors

    def _advance(self, cluster: str) -> None:
        """Advance the runs in flight of a cluster once, and tell clients; its own thread calls this."""
        if self._stopping.is_set():
            return
        turn, not_advanced = self._turn(cluster)
        not_told = self._tell(cluster, turn)
        problem = not_advanced or not_told or self._unreachable()
        if self._is_news(cluster, turn, problem):
            self._log("not advanced" if not_advanced else "not told", cluster=cluster, problem=problem)
        self._told[cluster] = problem
        # A pass that hangs for longer, on a stuck file system, ends the service where its manager wants it so.
        if self._passes.oldest_seconds < WATCHDOG_SECONDS:
            notify("WATCHDOG=1")

    def _is_news(self, cluster: str, turn: "Pass | None", problem: str) -> bool:
        """Return whether the log lacks a problem: it has the silence of a scheduler once, and its next answer."""
        reconciler = self._own.context.reconciler
        silent = cluster in reconciler.schedulers and reconciler.silent_since(cluster) is not None
        if cluster in self._silent and not silent:
            self._silent.discard(cluster)
            if cluster in reconciler.schedulers:
                self._log("answers again", cluster=cluster)
        # Most passes ask nothing, and the words of an error may differ from question to question.
        if silent and turn is not None and turn.errors and isinstance(turn.errors[0], SchedulerError):
            known = cluster in self._silent
            self._silent.add(cluster)
            return not known
        return bool(problem) and problem not in self._told.values()

    def _tell_fault(self, cluster: str) -> None:
        self._log("fault", cluster=cluster, traceback=traceback.format_exc())

    def _turn(self, cluster: str) -> "tuple[Pass | None, str]":
        """Pass once over the runs in flight of a cluster, and return the pass and its first problem."""
        own = self._own
        reconciler = own.context.reconciler
        try:
            going = cluster in reconciler.names and own.context.has_runs_in_flight()
            turn = reconciler.run_pass(clusters=[cluster]) if going else None
        except BoardError as error:
            return None, error.message
        except Exception:  # noqa: BLE001 - the service goes on, and its log has the fault
            return None, traceback.format_exc()
        return turn, turn.errors[0].message if turn is not None and turn.errors else ""

    def _tell(self, cluster: str, turn: "Pass | None") -> str:
        """Tell clients and pages of the changes, also of those that a failed pass has made; return the problem."""
        takes = self._installation.reconciler.takes
        steps: list[Callable[[], object]] = [
            partial(self._watching.look, turn, lambda name: takes(cluster, name)),
            partial(self._changes.wake, turn.asked if turn is not None else ()),
            partial(self._counts.passed, turn),
            *([self._page.look] if self._page is not None else []),
        ]
        problems = []
        for step in steps:
            try:
                step()
            except BoardError as error:
                problems.append(error.message)
            except Exception:  # noqa: BLE001 - the service goes on, and its log has the fault
                problems.append(traceback.format_exc())
        return "\n".join(problems)

    def _unreachable(self) -> str:
        """Return the problem of a socket that was removed while the service runs."""
        try:
            if stat.S_ISSOCK(self.path.stat().st_mode) or self._stopping.is_set():
                return ""
        except FileNotFoundError:
            pass
        except OSError as error:
            return f"the socket {self.path} cannot be looked at: {error.strerror or error}"
        return f"the socket {self.path} is gone; clients reach the board again once the service is started anew"

    def _tell_isolation(self) -> None:
        try:
            own = self._own
            for each in shortfalls(own, own.settings):
                event = "isolation" if each.reached else "isolation not known yet"
                reached = {"reached": each.reached} if each.reached else {}
                self._log(event, gpu=each.gpu, required=each.required, **reached, effect=each.effect)
        except Exception as error:  # noqa: BLE001 - the service goes on without these lines
            self._log("isolation", problem="".join(traceback.format_exception(error)))

    def _tell_doubts(self) -> None:
        """Log what `admin doctor` finds amiss in the settings, and with munge."""
        from hpc_board.service.diagnosis import diagnose_start

        for each in diagnose_start(self.settings):
            if each.severity is not Severity.OK:
                self._log("warning", text=f"{each.subject}: {each.message}", hint=each.hint)

    # Connections

    async def _by_socket(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._connection(peer_uid(writer.get_extra_info("socket")), reader, writer)

    async def _by_munge(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._pending_clients is None:
            return
        try:
            admitted = await self._pending_clients.admitted(reader, writer)
        except Exception:  # noqa: BLE001 - a fault of the service is told to its log alone
            self._log("fault", traceback=traceback.format_exc())
            return
        if admitted is not None:
            await self._connection(*admitted)

    async def _connection(self, uid: int, reader: Reader, writer: Writer) -> None:
        """Answer the questions of the account `uid`, whom a door has identified."""
        if (
            self._connections[uid] >= self._bounds.connections_per_user
            or self._connections.total() >= self._bounds.connections
        ):
            self._log("refused", uid=uid, reason="too many connections")
            await self._last_words(writer, Refused("too many connections are open.", hint="Try again in a moment."))
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
        except Forged as error:
            self._log("refused", uid=uid, reason=str(error))
            writer.transport.abort()
        except Unfit as error:
            self._log("refused", uid=uid, reason=str(error))
            await self._last_words(writer, InputError(str(error), hint="Is this hpc-board's client?"))
        except Exception:  # noqa: BLE001 - a fault of the service is told to its log alone
            self._log("fault", uid=uid, traceback=traceback.format_exc())
        finally:
            await self._closed(writer)
            self._connections[uid] -= 1
            if not self._connections[uid]:
                del self._connections[uid]
                self._turns.pop(uid, None)

    async def _closed(self, writer: Writer) -> None:
        """Close a connection, and drop the part of an answer that its client does not read in time."""
        writer.close()
        try:
            async with asyncio.timeout(self._bounds.line_seconds):
                await writer.wait_closed()
        except ConnectionError:
            pass
        except TimeoutError:
            writer.transport.abort()

    async def _converse(self, uid: int, reader: Reader, writer: Writer) -> None:
        turns = self._turns.setdefault(uid, Turns(self._bounds.questions_per_user))
        lines = Lines(reader, self._bounds.line_seconds, turns.long_line)
        first = await lines.next(self._bounds.hello_seconds)
        if first is None:
            raise TimeoutError
        hello = parsed(first, wire.Hello)
        if hello.protocol != wire.PROTOCOL:
            raise Unfit(
                f"client {one_line(hello.version, 40)} and service {__version__} do not speak the same protocol: "
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
            request = parsed(line, wire.Request)
            if request.route == routes.WAIT:
                await self._stream(uid, user, turns, request, reader, writer)
                return
            if request.route == routes.CHANGES:
                await self._send_board_changes(uid, user, request, reader, writer)
                return
            # An answer belongs to its turn until it has left: it takes memory.
            with self._under_way():
                async with turns.question:
                    if request.route in (routes.EXPORT, routes.BACKUP):
                        await self._send_file(uid, user, request, writer)
                        continue
                    replies = await asyncio.get_running_loop().run_in_executor(
                        self._pool, partial(self._answer, uid, user, request)
                    )
                    for reply in replies:
                        await self._send(writer, reply)

    def _user_and_role(self, uid: int) -> tuple[str, Role]:
        user = peer_name(uid)
        return user, self._board_of(user).role

    @contextmanager
    def _under_way(self) -> Iterator[None]:
        """Let the end of the service wait for this task, which has an answer under way."""
        task = asyncio.current_task()
        self._answering.add(task)
        try:
            yield
        finally:
            self._answering.discard(task)

    async def _send(self, writer: Writer, line: msgspec.Struct) -> None:
        writer.write(wire.encoded(line) + b"\n")
        async with asyncio.timeout(self._bounds.line_seconds):
            await writer.drain()

    async def _last_words(self, writer: Writer, error: BoardError) -> None:
        with suppress(ConnectionError, TimeoutError):
            await self._send(writer, wire.Reply(0, error=wire.failure(error)))
        writer.close()

    def _board_of(self, user: str, warn: Callable[[str], object] = lambda _: None) -> Board:
        return Board.seen_by(user, self._installation, warn)

    # Questions

    def _answer(self, uid: int, user: str, request: wire.Request) -> list[wire.Reply]:
        """Return the replies to a question, the last of which ends the answer."""
        warnings: list[str] = []
        try:
            board = self._board_of(user, warnings.append)
            value = self._value(board, request)
            last = wire.Reply(request.id, value=msgspec.Raw(answer_text(value)))
            self._counts.answered(request.route, "ok")
        except Exception as error:  # noqa: BLE001 - a fault of the service is told to its log alone
            last = self._failed(uid, request, error)
        return [*(wire.Reply(request.id, warning=text) for text in warnings), last]

    def _failed(self, uid: int, request: wire.Request, error: Exception) -> wire.Reply:
        """Return the last reply to a question that ended in `error`, and log a refusal or a fault."""
        # A client's own text is no label.
        self._counts.answered(request.route if request.route in routes.KNOWN else "unknown", outcome_of(error))
        if isinstance(error, Refused):
            self._log("refused", uid=uid, route=request.route, reason=error.message)
        if isinstance(error, BoardError):
            return wire.Reply(request.id, error=wire.failure(error))
        self._log("fault", uid=uid, route=request.route, traceback="".join(traceback.format_exception(error)))
        fault = BoardError("the service failed at this question.", hint="Its log has the reason; tell its admin.")
        return wire.Reply(request.id, error=wire.failure(fault))

    def _value(self, board: Board, request: wire.Request) -> object:
        route = route_of(request)
        board.context.require(route.role, route.purpose)
        given = arguments(request)
        try:
            return answer_of(board, request, given)
        finally:
            if route.writes:
                self._changes.wake()
                if self._page is not None:
                    self._page.look()

    async def _stream(
        self,
        uid: int,
        user: str,
        turns: Turns,
        request: wire.Request,
        reader: Reader,
        writer: Writer,
    ) -> None:
        """Send the runs of a WAIT whenever they change, until all have ended or the client has gone."""
        loop = asyncio.get_running_loop()
        try:
            ids = parsed_args(request, routes.Wait).ids
            with turns.watching(len(ids)):
                async with turns.question:
                    runs = await loop.run_in_executor(self._pool, self._watched, user, ids)
                left = await self._send_changes(user, turns, request, runs, reader, writer)
        except (ConnectionError, TimeoutError):
            raise
        except Exception as error:  # noqa: BLE001 - a fault of the service is told to its log alone
            await self._send(writer, self._failed(uid, request, error))
            return
        self._counts.answered(routes.WAIT, "left" if left else "ok")
        if not left:
            await self._send(writer, wire.Reply(request.id, value=msgspec.Raw(b"null")))

    async def _send_changes(
        self,
        user: str,
        turns: Turns,
        request: wire.Request,
        runs: Sequence[Run],
        reader: Reader,
        writer: Writer,
    ) -> bool:
        """Send the changes of `runs` while the user may see them; return whether the client has gone before the end.

        Raises:
            BoardError: the user has lost the sight of one of them.
        """
        loop = asyncio.get_running_loop()
        async with _going(reader) as gone, aclosing(self._watching.changes(runs, gone)) as changes:
            async for event in changes:
                async with turns.question:
                    line = await loop.run_in_executor(self._pool, self._event, user, request.id, event)
                    await self._send(writer, line)
            return gone.done()

    async def _send_board_changes(
        self,
        uid: int,
        user: str,
        request: wire.Request,
        reader: Reader,
        writer: Writer,
    ) -> None:
        """Send the changes of the board that the user may see, until the client has gone."""
        try:
            parsed_args(request, routes.ChangesArguments)
        except InputError as error:
            await self._send(writer, self._failed(uid, request, error))
            return
        async with _going(reader) as gone, aclosing(self._changes.stream(user, gone)) as changes:
            async for change in changes:
                await self._send(writer, wire.Reply(request.id, event=msgspec.Raw(wire.encoded(change))))
        self._counts.answered(routes.CHANGES, "left")

    def _event(self, user: str, id_: int, event: routes.RunsChanged) -> wire.Reply:
        board = self._board_of(user)
        with board.session():
            for run in {(run.user, run.task): run for run in event.runs}.values():
                board.runs.seen(run)
        return wire.Reply(id_, event=msgspec.Raw(wire.encoded(event)))

    async def _send_file(self, uid: int, user: str, request: wire.Request, writer: Writer) -> None:
        """Write the file of an EXPORT or BACKUP, send it in pieces, and at the end its contents in numbers."""
        loop = asyncio.get_running_loop()
        with ExitStack() as stack:
            try:
                file = stack.enter_context(temporary_folder("hpc-board-send-")) / "file"
                value = await loop.run_in_executor(self._pool, self._write_file, user, request, file)
                opened = stack.enter_context(file.open("rb"))
            except Exception as error:  # noqa: BLE001 - a fault of the service is told to its log alone
                await self._send(writer, self._failed(uid, request, error))
                return
            while piece := await loop.run_in_executor(self._pool, opened.read, _PIECE_BYTES):
                await self._send(writer, wire.Reply(request.id, event=msgspec.Raw(wire.encoded(piece))))
        self._counts.answered(request.route, "ok")
        await self._send(writer, wire.Reply(request.id, value=msgspec.Raw(wire.encoded(value))))

    def _write_file(self, user: str, request: wire.Request, file: Path) -> object:
        admin = self._board_of(user).admin
        if request.route == routes.BACKUP:
            parsed_args(request, routes.BackupArguments)
            return admin.backup(file)
        export = admin.export(**msgspec.structs.asdict(parsed_args(request, routes.ExportArguments)))
        with file.open("wb") as sink:
            return export.write(sink)

    def _watched(self, user: str, ids: Sequence[int]) -> list[Run]:
        board = self._board_of(user)
        with board.session():
            return [board.runs.get(id_) for id_ in ids]


def _remove_stale(path: Path) -> None:
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise InputError(f"another service listens at {path}.", hint="Give another path with --socket.")


def _unlink(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


@asynccontextmanager
async def _going(reader: Reader) -> AsyncIterator["asyncio.Future[bytes]"]:
    """Yield a future that is done once a client that has nothing more to say says something or has gone."""
    gone = asyncio.ensure_future(reader.read(1))
    try:
        yield gone
    finally:
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)


def _allow_files(connections: int) -> None:
    """Raise the soft limit of open files to that of so many connections, and of files besides, if the hard one allows.

    The usual soft limit of 1,024 is less than the connections of some twenty users.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _FILES_BESIDES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
