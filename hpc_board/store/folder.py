"""The folder of a board, which belongs to one account: others use the board through a service."""

import os
import re
import shlex
from contextlib import suppress
from pathlib import Path

from hpc_board.accounts import others_write, user_name
from hpc_board.errors import InputError, StorageError
from hpc_board.files import lock_descriptor
from hpc_board.model.files import open_regular

DATABASE = "board.db"
"""The name of the database in the board's folder."""

SERVE_LOCK = "serve.lock"
"""The file in the board's folder that a serving process locks."""

ELSEWHERE = "Choose another folder for the board, e.g. /srv/hpc-board."
"""The remedy for a board in a folder that submissions read."""

_JOB_FOLDER = re.compile(r"([1-9][0-9]{0,14})(?:-hb-[0-9a-f]{1,40})?")
"""The name of a job folder of a run, with its number."""

_ARRAY_FOLDER = re.compile(r"hb-[0-9a-f]{1,40}(?:\.[0-9]{1,7})?")
"""The name of a folder of a job array, or of one of its tasks."""


def create_board_folder(board: Path) -> bool:
    """Create the folder of a board; return False if this account has one there.

    Raises:
        InputError: the path is not a folder, or submissions could read the board there.
        StorageError: the folder cannot be made, or other accounts may write it.
    """
    from hpc_board.harness.confine.sandbox import read_by_submissions

    seen = read_by_submissions(board)
    if seen:
        raise InputError(f"{board} is in {seen}, which submissions can read.", hint=ELSEWHERE)
    existed = board.exists()
    if existed and not board.is_dir():
        raise InputError(f"{board} exists and is not a folder", hint="Choose another folder for the board.")
    make_board_folder(board)
    return not existed


def make_board_folder(board: Path) -> Path:
    """Return the folder of a board for writing, which is made if it is missing.

    Raises:
        StorageError: it cannot be made, or other accounts may write it.
    """
    check_own(board)
    try:
        board.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        install = shlex.join(["install", "-d", "-o", user_name(os.geteuid()), str(board.parent)])
        raise StorageError(
            f"{board}: the board's folder cannot be created: {error.strerror}",
            hint=f"Set `board` in the settings to a folder that you can write to. To create one as root: {install}",
        ) from error
    return board


def check_own(board: Path) -> None:
    """Require that the board's folder and its database, as far as they are there, are only this account's.

    An account that may write them chooses the code that this one runs.

    Raises:
        StorageError: another account has them, or may write them.
    """
    for path in (board, board / DATABASE):
        try:
            status = path.stat()
        except OSError:
            return
        if status.st_uid != os.geteuid():
            owner = user_name(status.st_uid)
            found = f"{path} belongs to {owner}"
            hint = (
                "If a service uses it, set `service: SOCKET` instead of `board` in the settings. To run commands "
                f"as its owner, as root: runuser -u {shlex.quote(owner)} -- hpc-board ..."
            )
        elif others_write(status):
            found = f"{path} is writable by other accounts"
            hint = f"If you trust its contents: {shlex.join(['chmod', 'go-w', str(path)])}."
        else:
            continue
        move_in = shlex.join(["hpc-board", "admin", "init", "FOLDER", "--serve", "--from", str(board)])
        raise StorageError(
            f"{found}, and a board belongs to one account: others use it through a service.",
            hint=f"{hint} Or import a copy of it under a service's account: {move_in}.",
        )


def is_served(board: Path) -> bool:
    """Return whether a service owns the board at this moment."""
    try:
        with open_regular(board / SERVE_LOCK) as file:
            return not lock_descriptor(file.fileno(), shared=True)
    except OSError:
        return False


def newest_job_folder(board: Path) -> Path | None:
    """Return the job folder of a run with the highest number on a board; None without one."""
    return max(_folders_named(board, _JOB_FOLDER), key=job_folder_number, default=None)


def left_folder(board: Path) -> Path | None:
    """Return a folder that a board's jobs have left, that of the newest run if possible; None without one."""
    return newest_job_folder(board) or next(iter(_folders_named(board, _ARRAY_FOLDER)), None)


def _folders_named(board: Path, name: re.Pattern[str]) -> list[Path]:
    found: list[Path] = []
    with suppress(OSError), os.scandir(board / "runs") as entries:
        found += (board / "runs" / entry.name for entry in entries if name.fullmatch(entry.name))
    return found


def job_folder_number(folder: Path) -> int:
    """Return the number of the run whose job folder this is."""
    return int(folder.name.partition("-")[0])
