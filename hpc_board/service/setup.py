"""The set-up of a served board: its folders, the settings of both sides, unit files, and the steps that are left."""

import os
import pwd
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

import msgspec

import hpc_board
from hpc_board.accounts import user_name
from hpc_board.admin.detect import settings_of_this_machine
from hpc_board.errors import InputError, StorageError
from hpc_board.files import user_errors, write_whole
from hpc_board.model.text import one_line
from hpc_board.report.formatting import count_text
from hpc_board.schedulers.settings_text import Detected, quoted
from hpc_board.service.next_steps import (
    PARTICIPANTS,
    ForRoot,
    Step,
    access,
    closing,
    own_steps,
    root_steps,
    service_folder,
    service_name,
    user_unit_file,
)
from hpc_board.service.peers import check_place
from hpc_board.service.units import environment, system_unit, user_unit
from hpc_board.settings import load
from hpc_board.settings_file import FILE_NAME
from hpc_board.store.backup import MovedIn, moving_in
from hpc_board.store.folder import DATABASE, create_board_folder

_SOCKET_BYTES_MAX = 107
"""The longest path of a Unix socket, by unix(7)."""

_OPEN_FOLDER = 0o755
_SECRET_FILE = 0o600
_OPEN_FILE = 0o644

_SERVE = """
serve:
  socket: {socket}
  runs_per_user: 4    # most runs of a user on the clusters at one time; others wait in the service
  # web: 127.0.0.1:8080    # the page on a TCP address as well: all users who can connect see the open boards

# The owner of the board is an admin. Without participants, every account of this machine may submit.
# roles:
#   admins: [ada]
#   creators: ["@staff"]
#   participants: ["@course"]
"""


class Thing(msgspec.Struct, frozen=True):
    """A file or folder of a served board, and whether it was `made`; otherwise it was there, and is unchanged."""

    what: str
    path: Path
    made: bool


class SetUp(msgspec.Struct, frozen=True):
    """A served board that was set up; `remarks` are for its admin."""

    settings: Path
    socket: Path
    gpus: tuple[str, ...]
    things: tuple[Thing, ...]
    steps: tuple[Step, ...]
    remarks: tuple[str, ...]


def become(account: str) -> None:
    """Let root go on as `account`, with no way back.

    So whatever lies on the way to the board's folder, no file is made or changed with root's rights.

    Raises:
        InputError: this machine has no such account, or the account cannot run this program.
    """
    try:
        found = pwd.getpwnam(account)
    except (KeyError, ValueError):
        raise InputError(
            f"unknown account {one_line(account, 80)}.",
            hint="Create one for the service, as root: useradd --system --create-home hpc-board",
        ) from None
    if found.pw_uid == os.geteuid():
        return
    if os.geteuid() != 0:
        raise InputError(
            f"only root can set up a service for another account, but this is {user_name(os.geteuid())}.",
            hint=f"Run the command as root, or as {account} without --user.",
        )
    os.initgroups(account, found.pw_gid)
    os.setgid(found.pw_gid)
    os.setuid(found.pw_uid)
    os.environ |= {"HOME": found.pw_dir, "USER": account, "LOGNAME": account}
    package = Path(hpc_board.__file__)
    if not (os.access(sys.executable, os.X_OK) and os.access(package, os.R_OK)):
        raise InputError(
            f"{account} cannot run {sys.executable} or cannot read {package.parent}.",
            hint="Install hpc-board where the service's account can read it, such as /opt/hpc-board.",
        )


def set_up(
    board: Path,
    *,
    settings: Path | None = None,
    socket: Path | None = None,
    former: Path | None = None,
    by_root: bool = False,
) -> SetUp:
    """Set up a service of the board in the folder `board`, for this account; existing files stay as they are.

    `settings` is its settings file, and `socket` the place of its socket; by default both lie in a folder beside
    `board`. `former` is the folder of a board that moves in, or a backup. The steps are for root, which has chosen this
    account, if `by_root`, else for the account itself.

    Raises:
        InputError: a path does not fit, or another account could replace the board or the socket.
        StorageError: a folder cannot be made.
        SchedulerError: the scheduler, whose GPUs become the settings, failed.
    """
    folder = service_folder(board)
    file = settings or folder / FILE_NAME
    new = not file.exists()
    kept = None if new else _kept_socket(file, board, socket)
    socket = socket or kept or folder / "board.sock"
    _check_paths(board, file, socket)
    detected = settings_of_this_machine(board) if new else Detected("", ())
    program = _program()
    serve = [*program, "--config", str(file), "serve", *(["--allow-root"] if os.geteuid() == 0 else [])]
    environ = environment()
    participants = f"service: {quoted(str(socket))}\n"
    texts = ForRoot(service_name(board), system_unit(board, serve, environ, user_name(os.geteuid())), participants)
    things = _make_folders(board, folder, socket)
    with nullcontext() if former is None else _moving_database(former, board) as moved:
        for what, path, text, mode in (
            ("settings", file, detected.text + _SERVE.format(socket=quoted(str(socket))), _SECRET_FILE),
            ("participants' settings", folder / PARTICIPANTS, participants, _OPEN_FILE),
            ("account's unit", folder / user_unit_file(board), user_unit(serve, environ), _OPEN_FILE),
        ):
            things.append(Thing(what, path, _write_new(path, text, mode)))
    # With the variables of the units, so that a check finds the programs that the service will find.
    variables = ["env", *(f"{name}={value}" for name, value in environ.items())]
    client = shlex.join([*variables, *program, "--config", str(file)])
    start = shlex.join([*variables, *serve])
    steps = tuple(root_steps(client, texts) if by_root else own_steps(board, socket, folder, client, start, texts))
    remarks = [" ".join(filter(None, (each.message, each.hint))) for each in detected.diagnostics]
    if not new and kept is None:
        steps = (Step(f"Add these lines to {file}:", ("serve:", f"  socket: {quoted(str(socket))}")), *steps)
    if former is not None and moved is not None:
        things.append(Thing("database", board / DATABASE, made=True))
        known = detected.gpus if new else {gpu.name for gpu in load(file, os.environ).gpus}
        remarks += _moving_remarks(former, moved, [gpu for gpu in moved.gpus if gpu not in known])
        steps = (*steps, *closing(former))
    return SetUp(file, socket, detected.gpus, tuple(things), (*access(socket, by_root=by_root), *steps), tuple(remarks))


def _make_folders(board: Path, folder: Path, socket: Path) -> list[Thing]:
    """Return the folders of the board, the service and its socket, made if they are missing; the board's is closed."""
    things = [Thing("board", board, create_board_folder(board))]
    things += [Thing("service", each, _open_folder(each)) for each in dict.fromkeys((folder, socket.parent))]
    check_place(board, os.geteuid(), in_sticky=True)
    check_place(socket, os.geteuid())
    board.chmod(0o700)
    return things


def _kept_socket(file: Path, board: Path, socket: Path | None) -> Path | None:
    """Return the socket of an existing settings file, which has to be that of `board`; None without one."""
    found = load(file, os.environ)
    if found.service is not None or found.board.resolve() != board.resolve():
        raise InputError(
            f"{file} already exists, but its board is not {board}.", hint="Choose another settings file with -o."
        )
    if socket is not None and found.socket not in (None, socket):
        raise InputError(
            f"{file} already exists, but its socket is {found.socket}.", hint="Change `serve.socket` there."
        )
    return found.socket


def _moving_database(former: Path, board: Path) -> AbstractContextManager[MovedIn]:
    if former.is_dir() and former.samefile(board):
        raise InputError(f"{former} is the new board itself.", hint="Choose another FOLDER for the service's board.")
    return moving_in(former / DATABASE if former.is_dir() else former, board)


def _moving_remarks(former: Path, moved: MovedIn, unknown: Sequence[str]) -> Iterator[str]:
    submissions, runs = moved.contents.submissions, moved.contents.runs
    yield (
        f"The board has {count_text(submissions, 'submission')} and {count_text(runs, 'run')} of {former}, which is "
        "unchanged. Job folders stay there."
    )
    if unknown:
        yield (
            f"The settings have no entry for {one_line(', '.join(unknown), 500)}. Standings are stored under "
            "these names; give the entries the same names."
        )


def _check_paths(*paths: Path) -> None:
    for path in paths:
        if not str(path).isprintable():
            raise InputError(
                f"{one_line(str(path), 300)} contains unprintable characters.", hint="Choose another path."
            )
    if len(os.fsencode(paths[-1])) > _SOCKET_BYTES_MAX:
        raise InputError(
            f"{paths[-1]} is too long for a socket: it has more than {_SOCKET_BYTES_MAX} bytes.",
            hint="Choose a shorter path with --socket.",
        )


def _open_folder(folder: Path) -> bool:
    """Make a folder that other accounts may enter, whatever the umask; return False if it is there."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return False
    except OSError as error:
        raise StorageError(
            f"{folder} cannot be created: {error.strerror or error}", hint="Choose a folder that you can write to."
        ) from error
    folder.chmod(_OPEN_FOLDER)
    return True


def _write_new(path: Path, text: str, mode: int) -> bool:
    """Write a file with its folders; return False if it is there."""
    with user_errors(path):
        for folder in reversed([each for each in path.parents if not each.exists()]):
            _open_folder(folder)
        with suppress(FileExistsError):
            write_whole(path, text.encode(), mode=mode, replace=False)
            return True
    return False


def _program() -> list[str]:
    script = Path(sys.executable).with_name("hpc-board")
    return [str(script)] if script.exists() else [sys.executable, "-m", "hpc_board"]
