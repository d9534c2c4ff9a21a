"""Diagnostics of a service: by its own account, and by a participant."""

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import cast

from hpc_board import __version__
from hpc_board.accounts import user_name
from hpc_board.admin.doctor import diagnose_roles, lock_holder
from hpc_board.domain.diagnostic import Diagnostic, Rule, Severity, applied, diagnostic
from hpc_board.domain.roles import Role
from hpc_board.domain.service_address import SshAddress
from hpc_board.errors import BoardError
from hpc_board.files import lock_descriptor
from hpc_board.model.files import open_regular
from hpc_board.model.gpu import Gpu
from hpc_board.model.text import one_line
from hpc_board.service.client import RemoteBoard
from hpc_board.service.doors.unix import fault_of
from hpc_board.service.page.sockets import page_socket, place_of
from hpc_board.service.peers import check_place, peer_pid
from hpc_board.service.units import WATCHDOG_SECONDS
from hpc_board.settings import Settings
from hpc_board.store.folder import SERVE_LOCK
from hpc_board.transport.time_budget import ended_after

_LOOK_SECONDS = 5.0
_AGAIN = "Restart the service: page settings take effect only at start."
_START = "Start it in one of the ways that `hpc-board admin init FOLDER --serve` prints; you may repeat that command."


def diagnose_client(board: RemoteBoard, origin: str) -> Iterator[Diagnostic]:
    """Yield the diagnostics of a participant's way to a service; `origin` tells how its address was chosen."""
    yield Diagnostic(Severity.OK, "settings", f"the board of the service at {board.address} ({origin})")
    try:
        with board.session():
            version, user, role = board.version, board.user, board.role
    except BoardError as error:
        yield Diagnostic(Severity.ERROR, "service", error.message, error.hint)
        return
    owner = _owner(board.address)
    yield Diagnostic(Severity.OK, "service", f"it answers{f', under the account {owner}' if owner else ''}")
    yield _version(version)
    known = f"{user}'s role is {role}"
    hint = f"Ask the service's admin{f', {owner},' if owner else ''} for the role participant."
    yield diagnostic(Severity.WARNING, "role", known, hint, good=None if role is Role.NONE else known)


def diagnose_service(settings: Settings) -> Iterator[Diagnostic]:
    """Yield the diagnostics of the service of these settings, which have a socket; for its own account."""
    yield from applied(_RULES, settings)


def diagnose_start(settings: Settings) -> Iterator[Diagnostic]:
    """Yield the diagnostics that need no running service, for its start."""
    yield from applied((diagnose_roles, *_START_RULES), settings)


def _owner(address: Path | SshAddress) -> str:
    """Return the account of a service, "" if only its host knows it; the client has checked the account."""
    if isinstance(address, Path):
        with suppress(OSError):
            return user_name(address.lstat().st_uid)
    return ""


def _version(version: str) -> Diagnostic:
    message = f"the service is hpc-board {version}, but this is {__version__}"
    hint = "Use the service's version, or restart the service after an upgrade."
    good = f"the service is hpc-board {version}, as this is" if version == __version__ else None
    return diagnostic(Severity.WARNING, "version", message, hint, good=good)


def _place(settings: Settings) -> Iterator[Diagnostic]:
    path, owner = _socket(settings), os.geteuid()
    with suppress(OSError):
        owner = settings.board.stat().st_uid  # another one where root looks
    try:
        check_place(path, owner)
    except BoardError as error:
        yield Diagnostic(Severity.ERROR, "socket", error.message, error.hint)
        return
    closed = next((each for each in path.parents if not each.stat().st_mode & 0o001), None)
    hint = f"chmod o+x {closed}, or choose another place with `serve.socket` in the settings."
    good = f"only this account and root can replace {path}" if closed is None else None
    yield diagnostic(Severity.WARNING, "socket", f"other accounts cannot enter {closed}", hint, good=good)


def _gpus(settings: Settings) -> Iterator[Diagnostic]:
    """Report settings without GPUs: all users' jobs would run on the service's own machine."""
    if not settings.gpus_given:
        names = ", ".join(gpu.name for gpu in settings.gpus)
        message = f"the settings have no `clusters` and `gpus`, so jobs run on this machine itself: {names}"
        hint = "`hpc-board admin detect` prints those of the cluster."
        yield Diagnostic(Severity.WARNING, "gpus", message, hint)


def _running(settings: Settings) -> Iterator[Diagnostic]:
    """Report whether the service answers, and whether one process both listens and holds the board's lock."""
    path = _socket(settings)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(_LOOK_SECONDS)
            probe.connect(str(path))
            listener = peer_pid(probe)
        board = RemoteBoard(path)
        with board.session():
            version = board.version
    except (OSError, BoardError) as error:
        holder = _lock_holder(settings.board)
        if holder:
            message = f"{holder} serves {settings.board}, but does not answer at {path}"
            yield Diagnostic(Severity.ERROR, "service", message, "Stop that process, or correct `serve.socket`.")
            return
        reason = error.message if isinstance(error, BoardError) else f"{path}: {fault_of(path, error)[0]}"
        yield Diagnostic(Severity.ERROR, "service", f"it is not running: {reason}", _START)
        return
    yield Diagnostic(Severity.OK, "service", f"process {listener} answers at {path}")
    holder = _lock_holder(settings.board)
    hint = (
        "A socket belongs to one board. Stop the service that is not needed; restart it if `board` in the "
        "settings was changed."
    )
    serves = "another board" if not holder else f"another board, and {holder} serves {settings.board}"
    good = f"process {listener} serves {settings.board}" if holder == f"process {listener}" else None
    yield diagnostic(Severity.ERROR, "service", f"process {listener} serves {serves}", hint, good=good)
    yield _version(version)
    yield from _reading(settings, listener)
    yield from _watchdog(listener)
    yield from _page(settings, path)


def _lock_holder(board: Path) -> str:
    """Return the process that serves the board, as text; "" if none does."""
    try:
        with open_regular(board / SERVE_LOCK) as file:
            if holder := lock_holder(os.fstat(file.fileno())):
                return f"process {holder}"
            free = lock_descriptor(file.fileno(), shared=True)
    except OSError:
        return ""
    return "" if free else "a process on another machine"


def _reading(settings: Settings, process: int) -> Iterator[Diagnostic]:
    """Report a settings file that is newer than the service's last reading of it, the time of the lock's file."""
    if settings.file is None:
        return
    try:
        written, read = settings.file.stat().st_mtime, (settings.board / SERVE_LOCK).stat().st_mtime
    except OSError:
        return
    if written > read:
        at = datetime.fromtimestamp(written, UTC).astimezone()
        message = f"{settings.file} was changed at {at:%Y-%m-%d %H:%M:%S}, after the service read it"
        hint = f"Reload: kill -HUP {process}. For `board`, `jobs` and most keys of `serve`, restart it instead."
        yield Diagnostic(Severity.WARNING, "settings", message, hint)


def diagnose_python(settings: Settings, gpu: Gpu, used: str = "", subject: str = "") -> Iterator[Diagnostic]:
    """Report an entry whose Python the service finds elsewhere than this shell, and maybe its jobs as well.

    `used` is the Python of a job that this shell has sent, if one is known.
    """
    process = _lock_holder(settings.board).removeprefix("process ")
    path = _environ(int(process)).get(b"PATH", b"").decode(errors="replace") if process.isdigit() else ""
    if "/" in gpu.python or gpu.container is not None or gpu.modules or gpu.cluster.ssh is not None or not path:
        return
    here, there = shutil.which(gpu.python), shutil.which(gpu.python, path=path)
    if there not in (here, used or here):
        at = one_line(used or here or "nowhere")
        found = f"`{one_line(gpu.python)}` is {there or 'nowhere'} for the service, but {at} here"
        hint = f"Use its full path in the settings: gpus.{gpu.name}.python."
        yield Diagnostic(Severity.WARNING, subject or f"gpu {gpu.name}", found, hint)


def _pythons(settings: Settings) -> Iterator[Diagnostic]:
    for gpu in settings.gpus:
        yield from diagnose_python(settings, gpu)


def _environ(process: int) -> dict[bytes, bytes]:
    """Return the variables with which a process was started; none of one that this account may not see."""
    try:
        entries = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    return {name: value for name, _, value in (entry.partition(b"=") for entry in entries)}


def _watchdog(process: int) -> Iterator[Diagnostic]:
    """Report whether systemd watches a process, by the variables that sd_notify(3) has."""
    given = _environ(process)
    if not given:
        return
    if b"NOTIFY_SOCKET" not in given:
        message = f"process {process} is not under systemd, so nothing restarts it after a crash"
        yield Diagnostic(Severity.OK, "unit", message)
        return
    micros = given.get(b"WATCHDOG_USEC", b"")
    good = f"systemd kills and restarts it after {int(micros) // 1_000_000} s of silence" if micros.isdigit() else None
    hint = f"Set WatchdogSec={WATCHDOG_SECONDS} and Restart=on-failure in its unit."
    yield diagnostic(Severity.WARNING, "unit", "systemd does not watch the service", hint, good=good)


def _page(settings: Settings, path: Path) -> Iterator[Diagnostic]:
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
        return Diagnostic(Severity.ERROR, "page", f"{name}: {reason}", f"See the service's log. {_AGAIN}")
    finally:
        connection.close()
    if answer is None or answer.getheader("Server") != "hpc-board":
        hint = "Stop that program, or use another address for the page."
        return Diagnostic(Severity.ERROR, "page", f"{name}: another program answers there", hint)
    if answer.status == HTTPStatus.MISDIRECTED_REQUEST:
        message = f"{name}: the page rejects the name {host}"
        return Diagnostic(Severity.ERROR, "page", message, f"Is `serve.web_host` new? {_AGAIN}")
    if answer.status not in (HTTPStatus.OK, HTTPStatus.FORBIDDEN):
        message = f"{name}: it answers with status {answer.status}"
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


def _socket(settings: Settings) -> Path:
    return cast("Path", settings.socket)


_START_RULES: tuple[Rule[Settings], ...] = (_gpus,)
"""The checks that need no running service."""

_RULES: tuple[Rule[Settings], ...] = (_place, *_START_RULES, _running, _pythons)
"""The checks of a service, in the order in which they depend on each other."""
