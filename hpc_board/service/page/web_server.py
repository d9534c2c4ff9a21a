"""HTTP for the pages: GET and HEAD alone, within bounds of connections, time and size, and with strict headers."""

import asyncio
import hashlib
import logging
import re
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, aclosing
from datetime import UTC, datetime
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, cast

from aiohttp import web
from aiohttp.web_request import BaseRequest

from hpc_board import __version__
from hpc_board.domain.roles import Role
from hpc_board.errors import BoardError, Refused
from hpc_board.service.machines import THIS_MACHINE, machine_of
from hpc_board.service.page.bounds import PageBounds
from hpc_board.service.page.metrics import CONTENT_TYPE, Metrics
from hpc_board.service.page.pages import Pages
from hpc_board.service.page.viewers import Viewers
from hpc_board.service.page.views import Content, route_of
from hpc_board.service.peers import peer_uid
from hpc_board.web.rendering import asset, template

if TYPE_CHECKING:
    from hpc_board.service.counts import Counts

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "hpc-board",
}
"""The headers of every response."""

ASSETS: Mapping[str, str] = {"page.css": "text/css", "live.js": "text/javascript"}
"""The files of the pages with their types; no other file is ever read for a request."""

_TARGET = re.compile(r"/([A-Za-z0-9._+/-]{0,200})(?:\?(?:v=([0-9a-f]{1,64}))?[^?]{0,200})?")
"""The targets that exist: each page has one spelling, without escapes. A query may give the version of a live page."""

_WORKERS = 4
# asyncio sets the queue of a socket anew. Above its usual 100, a moment of many readers is refused.
_BACKLOG = 2048
_READS_PER_PEER = 2
_RETRY_SECONDS = 5
_LAST_SECONDS = 2.0

_PROBLEMS = {
    400: ("Not understood", "The request is no valid HTTP, or has a body."),
    421: ("Another name", "The page has not this name. Its admin names it by `serve.web_host` in the settings."),
    403: ("Not for you", "This board is for its participants. Its admin can add you."),
    404: ("Not found", "This page does not exist, or is not for the public."),
    405: ("Only for reading", "These pages can be read, and nothing else."),
    500: ("The service failed", "Its log has the reason; tell its admin."),
    503: ("Too many readers", "Too many connections are open. Try again in a moment."),
}

Peer = tuple[str, int | str] | None
"""A peer as bounds count it: by uid or by machine; None for a local TCP connection, which is a proxy's as a rule."""


class _Failed(Exception):
    """The end of a request without a page."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class WebServer:
    """The pages on Unix and TCP sockets.

    `role_of` returns the role of the account of a uid, and raises Refused if it has no name. `host` is a name of the
    page besides localhost and addresses. `metrics` are served on TCP only if `metrics_on_tcp`.
    """

    def __init__(
        self,
        pages: Pages,
        metrics: Metrics,
        *,
        role_of: Callable[[int], Role],
        host: str | None,
        log: Callable[..., None],
        counts: "Counts",
        metrics_on_tcp: bool,
        bounds: PageBounds,
    ) -> None:
        self._pages = pages
        self._metrics = metrics
        self._role_of = role_of
        self._host = host
        self._log = log
        self._counts = counts
        self._metrics_on_tcp = metrics_on_tcp
        self._bounds = bounds
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="page")
        self._open: Counter[Peer] = Counter()
        self._streams: Counter[Peer] = Counter()
        self._reads: Counter[Peer] = Counter()
        self._turns: dict[Peer, asyncio.Semaphore] = {}
        self._assets = {name: _Asset(name, type_) for name, type_ in ASSETS.items()}
        self._viewers = Viewers(pages, self._pool, log, self._may_read)
        self._faults = _Faults(log)
        self._listening: list[asyncio.Server] = []
        self._connections: _Connections | None = None

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return self._open.total()

    @property
    def viewers(self) -> int:
        """The number of streams."""
        return self._streams.total()

    async def start(self, sockets: "list[socket.socket]") -> None:
        """Serve on these listening sockets."""
        loop = asyncio.get_running_loop()
        self._viewers.start(loop)
        self._connections = _Connections(self)
        for each in sockets:
            listen = loop.create_unix_server if each.family == socket.AF_UNIX else loop.create_server
            self._listening.append(await listen(self._connections, sock=each, backlog=_BACKLOG))

    def look(self) -> None:
        """Look for changes of the pages that are open; called after each pass and each write, from any thread."""
        self._viewers.look()

    async def stop(self) -> None:
        """End all connections."""
        for each in self._listening:
            each.close()
        self._viewers.close()
        if self._connections is not None:
            self._connections.pre_shutdown()
            await self._connections.shutdown(_LAST_SECONDS)
        # In a thread, since a read may hang on a stuck file system.
        shutdown = partial(self._pool.shutdown, wait=True, cancel_futures=True)
        await asyncio.get_running_loop().run_in_executor(None, shutdown)

    # Peers

    def admit(self, peer: Peer) -> bool:
        """Count a new connection; return False if it is one too many."""
        if self._is_full(self._open, self._bounds.connections, peer) or self._open[peer] >= self._most(peer):
            self._refused(peer, "too many connections")
            return False
        self._open[peer] += 1
        return True

    def leave(self, peer: Peer) -> None:
        """Count the end of a connection."""
        self._open[peer] -= 1
        if not self._open[peer]:
            del self._open[peer]

    def _is_full(self, counted: "Counter[Peer]", most: int, peer: Peer) -> bool:
        """Return whether `peer` finds no place among `most`, of which TCP peers have half together.

        An address has no more places than it leaves free, so that others, and a proxy on this machine, find some.
        """
        total = counted.total()
        if _uid_of(peer) is not None:
            return total >= most
        over_tcp = sum(count for each, count in counted.items() if _uid_of(each) is None)
        free = most // 2 - over_tcp
        return total >= most or free <= (0 if peer is None else counted[peer])

    def _most(self, peer: Peer) -> int:
        if peer is None:
            return self._bounds.connections // 2
        return self._bounds.per_user if peer[0] == "uid" else self._bounds.per_address

    def _refused(self, peer: Peer, reason: str) -> None:
        self._log("refused", **({} if peer is None else {peer[0]: peer[1]}), route="page", reason=reason)

    # Requests

    async def answer(self, request: BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        peer = _peer_of(request.transport)
        route, status = "other", 500
        try:
            path, version = _target(request)
            if not _is_name_of_page(request.headers.get("Host", ""), self._host):
                raise _Failed(421)
            route = _route_name(path)
            response = await self._answer(request, peer, path, version)
            status = response.status
            await self._sent(request, response)
        except _Failed as failure:
            response, status = self.problem(failure.status, request.raw_path), failure.status
        except Refused as error:
            self._refused(peer, error.message)
            response, status = self.problem(403, request.raw_path), 403
        except BoardError as error:
            self._log("page failed", route=route, problem=error.message)
            response = self.problem(500, request.raw_path)
        except (ConnectionError, asyncio.CancelledError):
            status = 499
            raise
        except Exception as error:  # noqa: BLE001 - a fault of the service is told to its log alone
            self._log("fault", route=f"page {route}", problem=repr(error))
            response = self.problem(500, request.raw_path)
        finally:
            self._counts.answered(f"page {route}", str(status))
        return response

    async def _answer(self, request: BaseRequest, peer: Peer, path: str, version: str) -> web.StreamResponse:
        if path in self._assets:
            return self._assets[path].response(request)
        # The metrics count events of closed boards, too.
        await self._require(peer, Role.ADMIN if path == "metrics" else Role.PARTICIPANT)
        if path == "metrics":
            if not (self._metrics_on_tcp or _is_unix(request.transport)):
                raise _Failed(404)
            return _response(200, await self._read(peer, self._metrics.text), CONTENT_TYPE)
        events = path.removeprefix("events/") if path.startswith("events/") else None
        shown = path if events is None else events
        content = await self._read(peer, partial(self._pages.get, shown)) if route_of(shown) is not None else None
        if content is None:
            raise _Failed(404)
        if events is None:
            html = template("live.html").render(page=content, path=path, at=datetime.now(UTC), version=__version__)
            return _response(200, html.encode(), "text/html; charset=utf-8")
        return await self._stream(request, peer, shown, content, version)

    async def _sent(self, request: BaseRequest, response: web.StreamResponse) -> None:
        """Send a response; a reader that takes too long for it is cut off, since it holds memory.

        Raises:
            ConnectionError: the reader has gone, or was cut off.
        """
        try:
            async with asyncio.timeout(self._bounds.write_seconds):
                await response.prepare(request)
                await response.write_eof()
                await request.writer.drain()
        except TimeoutError as error:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError("the reader takes no data") from error

    async def _require(self, peer: Peer, least: Role) -> None:
        """Require that the peer has at least this role, if it is an account.

        Raises:
            Refused: its account has no name.
        """
        if (uid := _uid_of(peer)) is None:
            return
        # Not in the threads of the pages, since directories of users may be slow.
        role = await self._in_turn(peer, partial(self._role_of, uid), None)
        if not role.may_act_as(least):
            self._refused(peer, f"no {least}")
            raise _Failed(403)

    def _may_read(self, uid: int) -> bool:
        """Return whether this account may read pages, as far as that can be found."""
        try:
            return self._role_of(uid).may_act_as(Role.PARTICIPANT)
        except Refused:
            return False
        except BoardError:  # the next page says why
            return True

    async def _read(self, peer: Peer, what: "Callable[[], Any]") -> Any:
        return await self._in_turn(peer, what, self._pool)

    async def _in_turn(self, peer: Peer, what: "Callable[[], Any]", pool: ThreadPoolExecutor | None) -> Any:
        """Return the result of `what` from a thread; a peer has few at one time, so that others have some, too."""
        with ExitStack() as stack:
            self._reads[peer] += 1
            stack.callback(self._read_ended, peer)
            turn = self._turns.setdefault(peer, asyncio.Semaphore(_READS_PER_PEER))
            await turn.acquire()
            stack.callback(turn.release)
            reading = asyncio.get_running_loop().run_in_executor(pool, what)
            # A reader that leaves ends its request, but not the thread, which keeps the turn.
            held = stack.pop_all()
            reading.add_done_callback(partial(_let_go, held))
        await asyncio.wait((reading,))
        return reading.result()

    def _read_ended(self, peer: Peer) -> None:
        self._reads[peer] -= 1
        if not self._reads[peer]:
            del self._reads[peer], self._turns[peer]

    async def _stream(
        self, request: BaseRequest, peer: Peer, path: str, content: Content, version: str
    ) -> web.StreamResponse:
        """Send the events of a page for as long as its reader stays."""
        # A page takes connections of its own besides its stream's.
        full = self._is_full(self._streams, self._bounds.viewers, peer)
        if full or self._streams[peer] >= max(1, self._most(peer) // 2):
            self._refused(peer, "too many streams")
            raise _Failed(503)
        response = web.StreamResponse(
            headers={
                **HEADERS,
                "Content-Type": "text/event-stream",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",
            }
        )
        self._streams[peer] += 1
        bounds = self._bounds
        try:
            if request.method == "HEAD":
                return response
            await response.prepare(request)
            uid = _uid_of(peer)
            events = self._viewers.events(path, content, version, uid, bounds.beat_seconds, bounds.stream_seconds)
            async with aclosing(events):
                async for event in events:
                    async with asyncio.timeout(bounds.write_seconds):
                        await response.write(event)
        except TimeoutError as error:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError("the reader takes no events") from error
        finally:
            self._streams[peer] -= 1
            if not self._streams[peer]:
                del self._streams[peer]
        response.force_close()
        return response

    def problem(self, status: int, target: str) -> web.Response:
        """Return the page of a problem, at the request's `target`."""
        title, text = _PROBLEMS[status]
        depth = target.partition("?")[0].count("/") - 1
        root = "../" * depth or "./" if 0 <= depth <= 4 else "/"
        html = template("problem.html").render(title=title, text=text, root=root, version=__version__)
        response = _response(status, html.encode(), "text/html; charset=utf-8")
        if status == 405:
            response.headers["Allow"] = "GET, HEAD"
        if status == 503:
            response.headers["Retry-After"] = str(_RETRY_SECONDS)
        if status in (400, 405):
            # The rest of the connection may be the body of this request.
            response.force_close()
        return response

    # Connections

    def connection_options(self) -> dict[str, Any]:
        """Return the options of aiohttp's connections.

        Its `keepalive_timeout` begins with the connection and with each answer, and bytes do not prolong it.
        """
        return {
            "keepalive_timeout": self._bounds.request_seconds,
            "lingering_time": 0,
            "access_log": None,
            "logger": self._faults,
            "max_line_size": 4096,
            "max_field_size": 8192,
            "max_headers": 64,
        }


class _Connections(web.Server):
    """aiohttp's factory of connections, with connections of our own."""

    def __init__(self, server: WebServer) -> None:
        super().__init__(server.answer, handler_cancellation=True)
        self._server = server

    def __call__(self) -> "_Connection":
        return _Connection(self, self._server)


class _Connection(web.RequestHandler):
    """A connection within the bounds, with pages of our own for invalid HTTP."""

    __slots__ = ("_admitted", "_owner", "_peer")

    def __init__(self, manager: _Connections, server: WebServer) -> None:
        super().__init__(manager, loop=asyncio.get_running_loop(), **server.connection_options())
        self._owner = server
        self._peer: Peer = None
        self._admitted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection, or end it if it is one too many."""
        writable = cast("asyncio.Transport", transport)
        self._peer = _peer_of(transport)
        self._admitted = self._owner.admit(self._peer)
        if self._admitted:
            # A response counts as sent once all of it has left, and not once the rest fits into a buffer.
            writable.set_write_buffer_limits(high=0)
            super().connection_made(transport)
            return
        writable.write(
            b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n"
            + f"Retry-After: {_RETRY_SECONDS}\r\n\r\n".encode()
        )
        writable.close()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Count the end of the connection."""
        if self._admitted:
            self._admitted = False
            self._owner.leave(self._peer)
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless the connection is one too many."""
        if self._admitted:
            super().data_received(data)

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return a page that repeats nothing of the request."""
        del request, exc, message
        return self._owner.problem(400 if status < 500 else 500, "")


class _Asset:
    """A file of the pages, with its hash as the tag by which browsers keep it."""

    def __init__(self, name: str, type_: str) -> None:
        self._body = asset(name).encode()
        self._type = f"{type_}; charset=utf-8"
        self._tag = f'"{hashlib.sha256(self._body).hexdigest()[:24]}"'

    def response(self, request: BaseRequest) -> web.Response:
        """Return the file, or 304 if the browser has it."""
        known = request.headers.get("If-None-Match", "") == self._tag
        response = _response(304, b"", self._type) if known else _response(200, self._body, self._type)
        response.headers["ETag"] = self._tag
        response.headers["Cache-Control"] = "no-cache"
        return response


class _Faults(logging.Logger):
    """aiohttp's own log, of which only faults go to the service's."""

    def __init__(self, log: Callable[..., None]) -> None:
        super().__init__("hpc_board.page", logging.ERROR)
        self._write = log

    def handle(self, record: logging.LogRecord) -> None:
        """Log a fault."""
        self._write("fault", route="page", problem=logging.Formatter().format(record))


def _target(request: BaseRequest) -> tuple[str, str]:
    """Return the path of a request without the slash before it, and the version in its query.

    Raises:
        _Failed: the method, a body or the target is none of ours.
    """
    if request.method not in ("GET", "HEAD"):
        raise _Failed(405)
    if request.body_exists or "Transfer-Encoding" in request.headers or "Upgrade" in request.headers:
        raise _Failed(400)
    found = _TARGET.fullmatch(request.raw_path)
    if found is None:
        raise _Failed(404)
    return found[1], found[2] or ""


def _route_name(path: str) -> str:
    """Return the route of a path for the counts: one of few names, never a text of the request."""
    if path in ASSETS:
        return "file"
    if path == "metrics":
        return "metrics"
    if path.startswith("events/"):
        return "events" if route_of(path.removeprefix("events/")) else "other"
    return route_of(path) or "other"


def _peer_of(transport: asyncio.BaseTransport | None) -> Peer:
    """Return the peer at the other end of a transport."""
    if transport is None:
        raise ConnectionResetError("the reader has closed the connection")
    connected = transport.get_extra_info("socket")
    if connected.family == socket.AF_UNIX:
        return "uid", peer_uid(connected)
    machine = machine_of(str(transport.get_extra_info("peername")[0]))
    return None if machine == THIS_MACHINE else ("address", machine)


def _uid_of(peer: Peer) -> int | None:
    """Return the account of a peer; None if it is not known."""
    return int(peer[1]) if peer is not None and peer[0] == "uid" else None


def _is_name_of_page(given: str, host: str | None) -> bool:
    """Return whether a Host header has this machine's address, or the page's name.

    A foreign page whose name leads to this machine would otherwise read the board through its reader's browser.
    """
    name = given.rpartition(":")[0] if re.search(r":[0-9]{0,5}\Z", given) else given
    if name.lower() in ("", "localhost", (host or "localhost").lower()):
        return True
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _let_go(held: ExitStack, reading: "asyncio.Future[Any]") -> None:
    held.close()
    if not reading.cancelled():
        reading.exception()  # asyncio would warn of one that no request asks for any more


def _is_unix(transport: asyncio.BaseTransport | None) -> bool:
    return transport is not None and transport.get_extra_info("socket").family == socket.AF_UNIX


def _response(status: int, body: bytes, type_: str) -> web.Response:
    return web.Response(
        status=status, body=body, headers={**HEADERS, "Content-Type": type_, "Cache-Control": "no-store"}
    )
