"""The service's process: it owns a board, advances its runs, and answers questions at its socket."""

import asyncio
import os
import resource
import socket
import threading
import time
import traceback
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hpc_board import __version__
from hpc_board.accounts import user_name
from hpc_board.board import Board
from hpc_board.board.context import Context, Installation, PublicContext
from hpc_board.board.notices import Notices
from hpc_board.domain.diagnostic import Severity
from hpc_board.domain.roles import Role
from hpc_board.errors import BoardError, InputError, StorageError
from hpc_board.files import locked
from hpc_board.model.gpu import Device, Gpu
from hpc_board.model.result import JUDGE
from hpc_board.service.answers import Answers
from hpc_board.service.changes import Changes
from hpc_board.service.conversation import Bounds, Conversations
from hpc_board.service.log import ServiceLog
from hpc_board.service.page.metrics import metrics_text
from hpc_board.service.page.pages import Audience, Pages
from hpc_board.service.page.sockets import page_socket, tcp_socket
from hpc_board.service.page.web_server import CONNECTIONS_MAX, WebServer
from hpc_board.service.passes import Passes
from hpc_board.service.peers import check_place, peer_name, peer_uid
from hpc_board.service.reloading import changed, faults, mark_reading
from hpc_board.service.units import notify
from hpc_board.settings import Settings
from hpc_board.store.folder import SERVE_LOCK, make_board_folder

if TYPE_CHECKING:
    from hpc_board.board import Board
    from hpc_board.runs.reconciler import Pass

_Door = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]

_BACKLOG = 2048
_FILES_BESIDES = 512
_ADVANCE_SECONDS = 1.0
_END_SECONDS = 10.0
_LAST_ANSWERS_SECONDS = 60.0
# A command that looks whether the board is served holds the lock for an instant.
_LOCK_SECONDS = 1.0


class Service:
    """A board behind a Unix socket.

    `advance_seconds` is the pause between two passes over the runs in flight. `reread` reads the settings again, for
    `reload`.
    """

    def __init__(
        self,
        settings: Settings,
        path: Path,
        *,
        log: ServiceLog | None = None,
        bounds: Bounds = Bounds(),  # noqa: B008 - a frozen value
        advance_seconds: float = _ADVANCE_SECONDS,
        reread: Callable[[], Settings] | None = None,
    ) -> None:
        self.path = path
        self._read_at = time.time()
        self._reread = reread or (lambda: settings)
        self._reload_requested = False
        self._begin_reload: Callable[[], object] = lambda: None
        self._log = log or ServiceLog()
        self._counts = self._log.counts
        self._bounds = bounds
        # The whole state that follows from the settings: a reader of it sees one version of them.
        self._own = self._seen_by_itself(
            Installation(demanding(settings), user_name(os.geteuid()), self._warn, self._launch)
        )
        self._changes = Changes(lambda: self._own, lambda text: self._log("not told", problem=text))
        self._end: Callable[[], object] = lambda: None
        self._end_requested = threading.Event()
        self._stopping = threading.Event()
        self._advance_seconds = advance_seconds
        self._notices = Notices(lambda: self._own, self._warn, self._stopping.is_set)
        self._notifying = threading.Thread(target=self._send_notices, name="notices")
        self._passes = Passes(lambda: self._own, self._log, self._publish, self._stopping, advance_seconds)
        answers = Answers(self._board_of, self._log, self._counts, self._changes.wake)
        self._conversations = Conversations(
            answers, self._changes, bounds, self._log, self._counts, self._user_and_role, self._stopping
        )
        self._page = WebServer(
            Pages(self._public_board),
            self._metrics,
            role_and_audience=self._role_and_audience,
            linked=self._linked,
            host=settings.web_host,
            log=self._log,
            counts=self._counts,
            metrics_on_tcp=settings.web_metrics,
        )

    @property
    def settings(self) -> Settings:
        """The settings that count at present."""
        return self._own.settings

    @property
    def _installation(self) -> Installation:
        return self._own.context.installation

    def _seen_by_itself(self, installation: Installation) -> Board:
        return Board.within(Context(installation, installation.account, self._warn))

    def _warn(self, text: str) -> None:
        self._log("warning", text=text)

    # Life

    def run(self, ready: Callable[[], object] = lambda: None) -> None:
        """Serve until `stop`; `ready` is called once clients can connect.

        Raises:
            InputError: another process serves this board or this socket.
            StorageError: the board's folder or the socket cannot be made.
        """
        _allow_files(self._bounds.connections + CONNECTIONS_MAX)
        with ExitStack() as stack:
            self._take_folder(stack)
            listening: list[tuple[_Door, socket.socket]] = [(self._by_socket, self._listen(stack, self.path))]
            listening += ((self._page.hold, each) for each in self._listen_for_readers(stack))
            self._tell_isolation()
            self._tell_doubts()
            asyncio.run(self._serve(listening, ready))

    def stop(self) -> None:
        """End `run` from any thread or signal handler, also before it serves, after the answers in progress."""
        self._end_requested.set()
        self._end()

    def reload(self) -> None:
        """Read the settings again, from any thread or signal handler; faulty ones change nothing."""
        # No lock and no new thread: a signal handler runs in the middle of code that may hold theirs.
        self._reload_requested = True
        self._begin_reload()

    async def _reload_on_request(self) -> None:
        """Read the settings again, in a thread, after each request, also after one before this service served."""
        loop, due = asyncio.get_running_loop(), asyncio.Event()
        self._begin_reload = partial(loop.call_soon_threadsafe, due.set)
        while True:
            if self._reload_requested:
                self._reload_requested = False
                await loop.run_in_executor(None, self._reload)
            else:
                await due.wait()
                due.clear()

    def _reload(self) -> None:
        """Take new settings for later questions and passes; those under way end with the former ones."""
        at = time.time()
        try:
            read = self._reread()
            if read.service is not None:
                raise InputError(f"{read.file} sets `service`; it has no board to serve.")
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
        mark_reading(self.settings.board, at)
        self._passes.run(own.context.reconciler.names)
        self._log("reloaded", settings=read.file, **({"needs_restart": waiting} if waiting else {}))
        self._tell_isolation()
        self._tell_doubts()
        self._passes.wake()

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
                hint="Point `board` in the settings to a folder that this account can write to.",
            ) from error
        if not mine:
            raise InputError(
                f"another process serves {folder}.", hint="Stop it first, or use it: one service answers all clients."
            )
        mark_reading(folder, self._read_at)
        self._own.context.store.runs.has_in_flight()  # makes the database, or brings it to this version
        self._installation.reconciler  # noqa: B018 - made here, since two threads could make a cached property twice

    def _listen(self, stack: ExitStack, path: Path) -> socket.socket:
        """Return the listening socket at `path`; a stale one of a killed service is replaced."""
        listening = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        try:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            # Another account that may write there could lead the change of mode below to another file.
            check_place(path, os.geteuid())
            _remove_stale(path)
            listening.bind(str(path))
            stack.callback(_unlink, path)
            path.chmod(0o666)
            listening.listen(_BACKLOG)
        except OSError as error:
            raise StorageError(
                f"{path}: the service's socket cannot be created: {error.strerror or error}",
                hint="Choose a path of at most 107 bytes in a folder that only this account can write to.",
            ) from error
        return listening

    def _listen_for_readers(self, stack: ExitStack) -> Iterator[socket.socket]:
        """Yield the listening sockets of the page."""
        yield self._listen(stack, page_socket(self.path))
        if self.settings.web is not None:
            yield tcp_socket(self.settings.web, stack, self._log)

    async def _by_socket(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._conversations.hold(peer_uid(writer.get_extra_info("socket")), reader, writer)

    async def _serve(self, listening: Sequence[tuple[_Door, socket.socket]], ready: Callable[[], object]) -> None:
        """Serve until the end; `listening` has the doors with their sockets."""
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        self._end = partial(loop.call_soon_threadsafe, stop.set)
        self._changes.start(loop)
        self._passes.run(self._installation.reconciler.names)
        tasks: set[asyncio.Task[None]] = set()

        def accept(door: _Door, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if self._stopping.is_set():  # handed over after its server was closed
                writer.close()
                return
            task = asyncio.ensure_future(door(reader, writer))
            tasks.add(task)
            task.add_done_callback(partial(ended, writer))

        def ended(writer: asyncio.StreamWriter, task: "asyncio.Task[None]") -> None:
            tasks.discard(task)
            writer.close()  # also if the task was cancelled before its first step

        reloading = asyncio.ensure_future(self._reload_on_request())
        # Closed by hand: on leaving a block, newer Pythons wait for the connections, and thus for idle clients.
        servers: dict[socket.socket, asyncio.Server] = {}
        try:
            for door, place in listening:
                start = asyncio.start_unix_server if place.family == socket.AF_UNIX else asyncio.start_server
                servers[place] = await start(partial(accept, door), sock=place, backlog=_BACKLOG)
            self._tell_sockets()
            notify("READY=1")
            self._notifying.start()
            ready()
            if self._end_requested.is_set():
                stop.set()
            await stop.wait()
            notify("STOPPING=1")
            self._log("stopping")
        finally:
            self._begin_reload = lambda: None
            reloading.cancel()
            await self._close(servers, tasks)

    def _tell_sockets(self) -> None:
        self._log(
            "serving",
            board=self.settings.board,
            socket=self.path,
            page=page_socket(self.path),
            web=self.settings.web,
            version=__version__,
            pid=os.getpid(),
        )

    async def _close(self, servers: Mapping[socket.socket, asyncio.Server], tasks: set["asyncio.Task[None]"]) -> None:
        """Close the sockets, wait for the answers under way, and end all else; `tasks` has the open connections."""
        loop = asyncio.get_running_loop()
        # asyncio loses a connection that it has accepted and not yet handed over when its server is closed.
        for place in servers:
            loop.remove_reader(place)
        await asyncio.sleep(0)
        for server in servers.values():
            server.close()
        self._stopping.set()
        self._passes.wake()
        for task in tasks - self._conversations.answering:
            task.cancel()
        if answering := tasks & self._conversations.answering:
            await asyncio.wait(answering, timeout=_LAST_ANSWERS_SECONDS)
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await loop.run_in_executor(None, self._page.stop)
        await loop.run_in_executor(None, self._conversations.stop)
        await loop.run_in_executor(None, self._changes.stop)
        await loop.run_in_executor(None, self._passes.stop, _END_SECONDS)
        if self._notifying.is_alive():
            await loop.run_in_executor(None, self._notifying.join, _END_SECONDS)
        self._end = lambda: None
        self._log("stopped")

    # Runs

    def _launch(self, runs: Any) -> list[BoardError]:
        errors = self._installation.reconciler.launch(runs)
        self._passes.wake()
        return errors

    def _publish(self, pass_: "Pass | None") -> None:
        """Tell clients and pages of the changes, also of those that a failed pass has made."""
        self._changes.wake()
        self._counts.passed(pass_)

    def _send_notices(self) -> None:
        """Notify the command of the settings of events until the end; a problem is logged once."""
        logged = ""
        while not self._stopping.wait(self._advance_seconds):
            problem = ""
            try:
                self._notices.send()
            except BoardError as error:
                problem = error.message
            except Exception:  # noqa: BLE001 - the service goes on, and its log has the fault
                problem = traceback.format_exc()
            if problem and problem != logged:
                self._log("notices not sent", problem=problem)
            logged = problem

    def _tell_isolation(self) -> None:
        """Log each GPU whose newest runs did not reach the level that it requires, or are not there yet."""
        own = self._own
        try:
            for gpu in own.settings.gpus:
                reached = _reached(own, gpu.name)
                if reached < gpu.minimum_isolation:
                    event = "isolation" if reached else "isolation not recorded yet"
                    more = {"reached": reached, "effect": "runs there end as infra_error"} if reached else {}
                    self._log(event, gpu=gpu.name, required=gpu.minimum_isolation, **more)
        except Exception:  # noqa: BLE001 - the service goes on without these lines
            self._log("isolation", problem=traceback.format_exc())

    def _tell_doubts(self) -> None:
        """Log the faults that `admin doctor` finds in the settings."""
        from hpc_board.service.diagnosis import diagnose_start

        for each in diagnose_start(self.settings):
            if each.severity is not Severity.OK:
                self._log("warning", text=f"{each.subject}: {each.message}", hint=each.hint)

    def _user_and_role(self, uid: int) -> tuple[str, Role]:
        user = peer_name(uid)
        return user, self._board_of(user).role

    def _role_and_audience(self, uid: int) -> tuple[Role, Audience]:
        board = self._board_of(peer_name(uid))
        return board.role, Audience(board.context.editor.closed() - board.context.editor.hidden())

    def _linked(self, secret: str) -> str | None:
        return self._own.moderation.linked(secret)

    def _public_board(self, closed: frozenset[str] = frozenset()) -> Board:
        return Board.within(PublicContext(self._installation, self._warn, closed))

    def _metrics(self) -> bytes:
        gauges = {
            "connections": ("Open connections of clients.", self._conversations.connections()),
            "streams": ("Clients that are notified of changes.", self._changes.streams),
            "page_connections": ("Open connections of the pages.", self._page.connections()),
        }
        return metrics_text(self._public_board(), self._counts, gauges)

    def _board_of(self, user: str, warn: Callable[[str], object] = lambda _: None) -> Board:
        return Board.within(Context(self._installation, user, warn))


def _remove_stale(path: Path) -> None:
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise InputError(f"another service listens at {path}.", hint="Choose another path with --socket.")


def _unlink(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _allow_files(connections: int) -> None:
    """Raise the soft limit of open files to that of so many connections, and of files besides, if the hard one allows.

    The usual soft limit of 1,024 is less than the connections of some twenty users.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _FILES_BESIDES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


ISOLATION = "S3"
"""The least isolation of a run on a served board, whose submissions all run under one account."""

_RUNS_MAX = 50


def demanding(settings: Settings) -> Settings:
    """Return `settings` with the isolation ISOLATION for each GPU without a level, and the judge's clock for CUDA."""
    return msgspec.structs.replace(settings, gpus=tuple(map(_demanding, settings.gpus)))


def _demanding(gpu: Gpu) -> Gpu:
    clock = gpu.minimum_clock or (JUDGE if gpu.device is Device.CUDA else "")
    return replace(gpu, minimum_isolation=gpu.minimum_isolation or ISOLATION, minimum_clock=clock)


def _reached(board: "Board", gpu: str) -> str:
    """Return the level of the newest run on `gpu` whose result has one; "" without one."""
    for run in board.runs.list(everyone=True, gpu=gpu, limit=_RUNS_MAX):
        result = board.runs.whole(run.id).result
        level = "" if result is None else result.provenance.get("isolation")
        if isinstance(level, str) and level:
            return level
    return ""
