"""`serve`: the service of a board."""

import os
import signal
import socket
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import click

from hpc_board.cli.global_options import config_of
from hpc_board.cli.options import examples
from hpc_board.errors import BoardError, InputError
from hpc_board.service import wire
from hpc_board.service.doors import ServiceError
from hpc_board.service.doors.unix import SocketStream, UnixDoor, fault_of
from hpc_board.service.server import Service
from hpc_board.settings import open_settings

_CHUNK_BYTES = 256 * 1024
_CONNECT_SECONDS = 30.0


@click.command(epilog=examples("hpc-board serve --socket /run/hpc-board/kernels.sock"))
@click.option(
    "--socket",
    "path",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Unix socket for clients. Default: `serve.socket` in the settings.",
)
@click.option(
    "--stdio",
    is_flag=True,
    help="Do not start a service; connect standard input and output to the one at PATH, for ssh.",
)
@click.option("--allow-root", is_flag=True, help="Serve as root; jobs run with root privileges.")
@click.pass_context
def serve(ctx: click.Context, *, path: Path | None, stdio: bool, allow_root: bool) -> None:
    """Serve a board to other accounts.

    One process owns the board, sends all jobs and stores all results; accounts on this machine connect to it at
    PATH and are identified by the kernel. It runs until SIGTERM and logs to stderr, one JSON object per line.
    SIGHUP makes it reload its settings.
    """
    if stdio:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])
        _relay(path)
        return

    if os.geteuid() == 0 and not allow_root:
        raise InputError(
            "running as root; a service needs only the privileges of a regular account.",
            hint="Run it under its own account, or add --allow-root.",
        )
    reread = partial(open_settings, config_of(ctx), os.environ)
    settings = reread()
    if settings.service is not None:
        raise InputError(f"{settings.file} sets `service`; it has no board to serve.", hint="Give --config FILE.")
    chosen = path or settings.socket
    if chosen is None:
        raise InputError(
            "no socket path given.", hint="Give --socket PATH, or `serve: {socket: PATH}` in the settings."
        )
    service = Service(settings, chosen.absolute(), reread=reread)
    in_terminal = _has_terminal()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: service.stop())
    signal.signal(signal.SIGHUP, lambda *_: service.stop() if in_terminal and not _has_terminal() else service.reload())
    # One that came while this program was loaded has waited until here.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])
    service.run()


def _has_terminal() -> bool:
    """Return whether this process has a controlling terminal; its loss is told by SIGHUP as well."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _relay(path: Path | None) -> None:
    """Carry bytes between standard input and output and the service at `path`, until one of the ends closes.

    Raises:
        BoardError: there is no such service, or it is not to be trusted; the client is told as by the service itself.
    """
    if path is None:
        raise InputError("`serve --stdio` needs the service's socket.", hint="Add --socket PATH.")
    if os.isatty(0) or os.isatty(1):
        raise InputError(
            "`serve --stdio` expects an hpc-board client, but its input is a terminal.",
            hint="Give clients an address that begins with ssh://; they start it themselves.",
        )
    try:
        try:
            service = UnixDoor(path).open(_CONNECT_SECONDS)
        except OSError as error:
            reason, hint = fault_of(path, error)
            raise ServiceError(f"{path} on {socket.gethostname()}: {reason}.", hint=hint) from error
    except BoardError as error:
        _write(wire.encoded(wire.Reply(0, error=wire.failure(error))) + b"\n")
        raise
    service.limit(None)
    threading.Thread(target=_carry_in, args=(service,), daemon=True).start()
    # A relay ends with its service or its client.
    with suppress(OSError):
        while data := service.receive():
            _write(data)


def _carry_in(service: SocketStream) -> None:
    with suppress(OSError):
        while data := os.read(0, _CHUNK_BYTES):
            service.send(data)
    with suppress(OSError):
        service.end()


def _write(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]
