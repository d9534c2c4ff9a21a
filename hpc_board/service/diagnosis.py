"""Diagnostics of a service: by its own account, and by a participant."""

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from hpc_board import __version__
from hpc_board.accounts import user_name
from hpc_board.admin.doctor import lock_holder
from hpc_board.domain.diagnostic import Diagnostic, Rule, Severity, applied, diagnostic
from hpc_board.domain.roles import Role
from hpc_board.domain.service_address import MungeAddress, SshAddress
from hpc_board.errors import BoardError
from hpc_board.files import lock_descriptor, open_regular
from hpc_board.service.client import RemoteBoard
from hpc_board.service.doors.unix import reason_of
from hpc_board.service.page.diagnosis import diagnose_page
from hpc_board.service.peers import check_place, peer_pid
from hpc_board.service.units import WATCHDOG_SECONDS
from hpc_board.settings import Settings
from hpc_board.store.folder import SERVE_LOCK

_LOOK_SECONDS = 5.0
_START = "Start it in one of the ways that `hpc-board admin init FOLDER --serve` prints; you may repeat that command."


def diagnose_client(board: RemoteBoard, origin: str) -> Iterator[Diagnostic]:
    """Yield the diagnostics of a participant's way to a service; `origin` tells how its address was chosen."""
    yield Diagnostic(Severity.OK, "settings", f"the board is that of the service at {board.address} ({origin})")
    try:
        with board.session():
            version, user, role = board.version, board.user, board.role
    except BoardError as error:
        yield Diagnostic(Severity.ERROR, "service", error.message, error.hint)
        return
    yield Diagnostic(Severity.OK, "service", f"it answers{_owner(board.address)}")
    yield _version(version)
    known = f"{user}'s role is {role}"
    hint = "Ask the service's admin for the role participant."
    yield diagnostic(Severity.WARNING, "role", known, hint, good=None if role is Role.NONE else known)


def diagnose_service(settings: Settings) -> Iterator[Diagnostic]:
    """Yield the diagnostics of the service of these settings, which have a socket; for its own account."""
    yield from applied(_RULES, settings)


def _owner(address: Path | MungeAddress | SshAddress) -> str:
    """Return the account of a service as text, "" if its host alone knows; the client has checked the account."""
    if isinstance(address, MungeAddress):
        return f", under the account {address.account}"
    if isinstance(address, Path):
        with suppress(OSError):
            return f", under the account {user_name(address.lstat().st_uid)}"
    return ""


def _version(version: str) -> Diagnostic:
    message = f"the service is hpc-board {version}, and this is {__version__}"
    hint = "Use the service's version, or start the service anew after an upgrade."
    good = f"the service is hpc-board {version}, as this is" if version == __version__ else None
    return diagnostic(Severity.WARNING, "version", message, hint, good=good)


def _place(settings: Settings) -> Iterator[Diagnostic]:
    path = _socket(settings)
    try:
        check_place(path, os.geteuid())
    except BoardError as error:
        yield Diagnostic(Severity.ERROR, "socket", error.message, error.hint)
        return
    closed = next((each for each in path.parents if not each.stat().st_mode & 0o001), None)
    hint = f"chmod o+x {closed}, or choose another place with `serve.socket` in the settings."
    good = f"this account and root alone can replace {path}" if closed is None else None
    yield diagnostic(Severity.WARNING, "socket", f"other accounts cannot enter {closed}", hint, good=good)


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
            message = f"{holder} serves {settings.board}, and does not answer at {path}"
            yield Diagnostic(Severity.ERROR, "service", message, "End that process, or correct `serve.socket`.")
            return
        reason = error.message if isinstance(error, BoardError) else f"{path}: {reason_of(error)}"
        yield Diagnostic(Severity.ERROR, "service", f"it is not running: {reason}", _START)
        return
    yield Diagnostic(Severity.OK, "service", f"process {listener} answers at {path}")
    holder = _lock_holder(settings.board)
    hint = "One socket and one board belong together: end the service that is not wanted."
    serves = "another board" if not holder else f"another board, and {holder} serves {settings.board}"
    good = f"process {listener} serves {settings.board}" if holder == f"process {listener}" else None
    yield diagnostic(Severity.ERROR, "service", f"process {listener} serves {serves}", hint, good=good)
    yield _version(version)
    yield from _watchdog(listener)
    yield from diagnose_page(settings, path)


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


def _watchdog(process: int) -> Iterator[Diagnostic]:
    """Report whether systemd watches a process, by the variables that sd_notify(3) has."""
    try:
        environ = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return
    given = {name: value for name, _, value in (entry.partition(b"=") for entry in environ)}
    if b"NOTIFY_SOCKET" not in given:
        message = f"process {process} is not under systemd, so nothing restarts it after a crash"
        yield Diagnostic(Severity.OK, "unit", message)
        return
    micros = given.get(b"WATCHDOG_USEC", b"")
    good = f"systemd ends and restarts it after {int(micros) // 1_000_000} s of silence" if micros.isdigit() else None
    hint = f"Set WatchdogSec={WATCHDOG_SECONDS} and Restart=on-failure in its unit."
    yield diagnostic(Severity.WARNING, "unit", "systemd does not watch the service", hint, good=good)


def _socket(settings: Settings) -> Path:
    if settings.socket is None:
        raise ValueError("the settings have no service")
    return settings.socket


_RULES: tuple[Rule[Settings], ...] = (_place, _running)
"""The checks of a service, in the order in which they depend on each other."""
