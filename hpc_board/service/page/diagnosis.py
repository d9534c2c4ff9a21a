"""Diagnostics of the page: whether it answers at its sockets, by requests as a browser sends them."""

import socket
from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path

from hpc_board.domain.diagnostic import Diagnostic, Severity
from hpc_board.service.page.sockets import page_socket, place_of
from hpc_board.settings import Settings
from hpc_board.transport.time_budget import ended_after

_LOOK_SECONDS = 5.0
_AGAIN = "Restart the service: the settings of the page count from its start alone."


def diagnose_page(settings: Settings, path: Path) -> Iterator[Diagnostic]:
    """Yield the diagnostics of the page of the service that answers at `path`."""
    page = page_socket(path)
    yield _answer(str(page), socket.AF_UNIX, str(page), "localhost")
    if settings.web is None:
        return
    family, place = place_of(settings.web)
    yield _answer(settings.web, family, _reachable(place), settings.web_host or settings.web)


def _reachable(place: tuple[str, int]) -> tuple[str, int]:
    """Return the address at which this machine reaches a service that listens at `place`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(place[0], place[0]), place[1]  # noqa: S104 - the address of none


def _answer(name: str, family: int, place: str | tuple[str, int], host: str) -> Diagnostic:
    """Return the diagnostic of one request to the page at `place`, whose name is `name`."""
    connection = HTTPConnection("localhost")
    try:
        connection.sock = socket.socket(family, socket.SOCK_STREAM)
        connection.sock.settimeout(_LOOK_SECONDS)
        connection.sock.connect(place)
        # A program that sends a byte now and then keeps every time-out of a step.
        with ended_after(_LOOK_SECONDS, partial(connection.sock.shutdown, socket.SHUT_RDWR)) as late:
            answer = _response(connection, host)
        if late.is_set():
            raise TimeoutError
    except (OSError, OverflowError, UnicodeError) as error:
        timeout = isinstance(error, TimeoutError)
        reason = "no answer in time" if timeout else getattr(error, "strerror", None) or str(error)
        return Diagnostic(Severity.ERROR, "page", f"{name}: {reason}", f"The service's log may say why. {_AGAIN}")
    finally:
        connection.close()
    if answer is None or answer.getheader("Server") != "hpc-board":
        hint = "Stop that program, or use another address for the page."
        return Diagnostic(Severity.ERROR, "page", f"{name}: another program answers there", hint)
    if answer.status == HTTPStatus.MISDIRECTED_REQUEST:
        message = f"{name}: the page refuses the name {host}"
        return Diagnostic(Severity.ERROR, "page", message, f"Is `serve.web_host` new? {_AGAIN}")
    if answer.status not in (HTTPStatus.OK, HTTPStatus.FORBIDDEN):
        message = f"{name}: it answers with the status {answer.status}"
        return Diagnostic(Severity.ERROR, "page", message, "The service's log has the reason.")
    as_whom = "" if family == socket.AF_UNIX else f" to requests for {host}"
    return Diagnostic(Severity.OK, "page", f"it answers at {name}{as_whom}")


def _response(connection: HTTPConnection, host: str) -> HTTPResponse | None:
    """Return the response to one request, without its body; None if it is not HTTP."""
    try:
        connection.request("GET", "/", headers={"Host": host})
        return connection.getresponse()
    except HTTPException:
        return None
