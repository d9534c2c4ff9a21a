"""HTTP for the pages: one GET or HEAD a connection, within bounds of number, size and time, and with strict headers.

Each response ends its connection, so that nothing behind a request's headers is ever read as another request.
"""

import asyncio
import hashlib
import re
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from functools import partial
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple

from hpc_board import __version__
from hpc_board.domain.moderation import LINK_PATH
from hpc_board.domain.roles import Role
from hpc_board.errors import BoardError, Refused
from hpc_board.service.page.pages import Audience, Pages, route_of
from hpc_board.service.peers import peer_uid
from hpc_board.web.rendering import asset, template

if TYPE_CHECKING:
    from hpc_board.service.counts import Counts

REQUEST_SECONDS = 15.0
"""The time for a request to arrive whole."""

WRITE_SECONDS = 30.0
"""The time for a response to leave: one that is not taken holds memory."""

CONNECTIONS_MAX = 512
"""The maximum number of open connections of all readers."""

CONNECTIONS_OF_USER_MAX = 64
"""The maximum number of open connections of an account at the Unix socket."""

CONNECTIONS_OF_TCP_MAX = 256
"""The maximum number of open connections over TCP, so that accounts find some at the Unix socket."""

HEADERS = {
    "Server": "hpc-board",
    "Connection": "close",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""The headers of every response."""

ASSETS: Mapping[str, str] = {"page.css": "text/css", "live.js": "text/javascript"}
"""The files of the pages with their types; no other file is ever read for a request."""

_HEAD_BYTES_MAX = 16 * 1024
_HEAD = re.compile(
    r"([A-Z]{1,20}) ([!-~]{1,2000}) HTTP/1\.[01]\r\n((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\0\r\n]*\r\n)*)\r\n"
)
_TARGET = re.compile(r"/([A-Za-z0-9._+/-]{0,200})(?:\?[^?]{0,200})?")
"""The targets that exist: each page has one spelling, without escapes."""

_LINK = re.compile(LINK_PATH.format("([0-9a-f]{32})") + "(.*)")
"""The path of a page by a link: the secret, and the path of the page."""

_HTML = "text/html; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_WORKERS = 4

_PROBLEMS = {
    400: ("Bad request", "The request is not valid HTTP, or has a body."),
    403: ("Access denied", "This board is for its participants. Its admin can add you."),
    404: ("Not found", "This page does not exist, or is not public."),
    405: ("Method not allowed", "These pages are read-only."),
    421: (
        "Unknown host name",
        "This server does not answer to that name; the admin sets it with `serve.web_host` in the settings.",
    ),
    500: ("The service failed", "Its log has the reason; contact its admin."),
    503: ("Too many readers", "Too many connections are open. Retry in a moment."),
}


class _Request(NamedTuple):
    """The method, the target and the headers of a request; names of headers are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]


class _Failed(Exception):
    """The end of a request without a page."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class WebServer:
    """The pages on Unix and TCP sockets.

    `role_and_audience` returns those of the account of a uid, and raises Refused if it has no name. `linked` returns
    the board of the link with a secret, None without one. `host` is a name of the page besides localhost and addresses.
    `metrics` are served on TCP only if `metrics_on_tcp`.
    """

    def __init__(
        self,
        pages: Pages,
        metrics: Callable[[], bytes],
        *,
        role_and_audience: Callable[[int], tuple[Role, Audience]],
        linked: Callable[[str], str | None],
        host: str | None,
        log: Callable[..., None],
        counts: "Counts",
        metrics_on_tcp: bool,
    ) -> None:
        self._pages = pages
        self._metrics = metrics
        self._role_and_audience = role_and_audience
        self._linked = linked
        self._host = host
        self._log = log
        self._counts = counts
        self._metrics_on_tcp = metrics_on_tcp
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="page")
        self._open: Counter[int | None] = Counter()

    def connections(self) -> int:
        """Return the number of open connections."""
        return self._open.total()

    def stop(self) -> None:
        """End the threads of reads."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    async def hold(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the one request of a connection."""
        connected = writer.get_extra_info("socket")
        uid = peer_uid(connected) if connected.family == socket.AF_UNIX else None
        most = CONNECTIONS_OF_TCP_MAX if uid is None else CONNECTIONS_OF_USER_MAX
        # A response has left once no byte of it waits here.
        writer.transport.set_write_buffer_limits(high=0)
        if self._open[uid] >= most or self._open.total() >= CONNECTIONS_MAX:
            self._log("refused", uid=uid, route="page", reason="too many connections")
            writer.write(_response(503, _HTML, _problem(503, "")))
            return
        self._open[uid] += 1
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            response = await self._answer(head, uid)
            async with asyncio.timeout(WRITE_SECONDS):
                writer.write(response)
                await writer.drain()
        except asyncio.LimitOverrunError:
            writer.write(_response(400, _HTML, _problem(400, "")))
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            writer.transport.abort()
        finally:
            self._open[uid] -= 1
            if not self._open[uid]:
                del self._open[uid]

    async def _answer(self, head: bytes, uid: int | None) -> bytes:
        """Return the response to a request of the account `uid`; None is a reader over TCP."""
        request, route, status = _Request("GET", "", {}), "other", 500
        type_, body = _HTML, b""
        try:
            request = _parsed(head)
            path, secret = self._path(request), ""
            if link := _LINK.fullmatch(path):
                secret, path = link.groups()
            route = _route_name(path)
            loop = asyncio.get_running_loop()
            type_, body = await loop.run_in_executor(self._pool, partial(self._read, path, secret, uid))
            known = re.findall('"[^"]*"', request.headers.get("if-none-match", ""))
            status = 304 if _tag(body) in known else 200
        except _Failed as failure:
            status = failure.status
        except Refused as error:
            self._log("refused", uid=uid, route="page", reason=error.message)
            status = 403
        except BoardError as error:
            self._log("page failed", route=route, problem=error.message)
        except Exception as error:  # noqa: BLE001 - a fault of the service is told only to its log
            self._log("fault", route=f"page {route}", problem=repr(error))
        self._counts.answered(f"page {route}", str(status))
        if status >= 400:
            body = _problem(status, request.target)
        return _response(status, type_, body, with_body=request.method != "HEAD")

    def _path(self, request: _Request) -> str:
        """Return the path of a request without the slash before it.

        Raises:
            _Failed: the method, a body, the host or the target is none of ours.
        """
        if request.method not in ("GET", "HEAD"):
            raise _Failed(405)
        if "transfer-encoding" in request.headers or request.headers.get("content-length", "0") != "0":
            raise _Failed(400)
        if not _is_name_of_page(request.headers.get("host", ""), self._host):
            raise _Failed(421)
        found = _TARGET.fullmatch(request.target)
        if found is None:
            raise _Failed(404)
        return found[1]

    def _read(self, path: str, secret: str, uid: int | None) -> tuple[str, bytes]:
        """Return the type and the contents at `path` for a reader, maybe by a link's `secret`; it may take long.

        Raises:
            _Failed: there are none, or not for this reader.
            Refused: the account has no name.
            StorageError: the database cannot be read.
        """
        if path in ASSETS:
            return f"{ASSETS[path]}; charset=utf-8", asset(path).encode()
        audience = Audience()
        if secret:
            board = self._linked(secret)
            if board is None:
                raise _Failed(404)
            audience = Audience(frozenset({board}), board)
        elif uid is not None:
            role, audience = self._role_and_audience(uid)
            # The metrics count events of closed boards, too.
            least = Role.ADMIN if path == "metrics" else Role.PARTICIPANT
            if not role.may_act_as(least):
                self._log("refused", uid=uid, route="page", reason=f"no {least}")
                raise _Failed(403)
        if path == "metrics" and not secret and (uid is not None or self._metrics_on_tcp):
            return _METRICS, self._metrics()
        body = self._pages.get(path, audience)
        if body is None:
            raise _Failed(404)
        return _HTML, body


def _parsed(head: bytes) -> _Request:
    """Return a request; equal headers are joined, as lists are.

    Raises:
        _Failed: it is not HTTP/1.1, or too long.
    """
    found = _HEAD.fullmatch(head.decode("latin-1")) if len(head) <= _HEAD_BYTES_MAX else None
    if found is None:
        raise _Failed(400)
    headers: dict[str, str] = {}
    for line in found[3].split("\r\n")[:-1]:
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return _Request(found[1], found[2], headers)


def _tag(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()[:24]}"'


def _response(status: int, type_: str, body: bytes, *, with_body: bool = True) -> bytes:
    """Return a whole response; `with_body` is not set for a HEAD."""
    headers = {**HEADERS, "Date": formatdate(usegmt=True), "Cache-Control": "no-store"}
    if status in (200, 304):
        # Kept by browsers, and asked for again each time.
        headers |= {"Cache-Control": "no-cache", "ETag": _tag(body)}
    if status == 304:
        body = b""
    else:
        headers |= {"Content-Type": type_, "Content-Length": str(len(body))}
    if status == 405:
        headers["Allow"] = "GET, HEAD"
    if status == 503:
        headers["Retry-After"] = "5"
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{name}: {text}" for name, text in headers.items())]
    return "\r\n".join([*lines, "\r\n"]).encode() + (body if with_body else b"")


def _problem(status: int, target: str) -> bytes:
    """Return the page of a problem, at the request's `target`."""
    title, text = _PROBLEMS[status]
    depth = target.partition("?")[0].count("/") - 1
    root = "../" * depth or "./" if 0 <= depth <= 4 else "/"
    return template("problem.html").render(title=title, text=text, root=root, version=__version__).encode()


def _route_name(path: str) -> str:
    """Return the route of a path for the counts: one of few names, never a text of the request."""
    if path in ASSETS:
        return "file"
    return "metrics" if path == "metrics" else route_of(path) or "other"


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
