"""Sharing of a board: by one account or a group, and each account's own folder in a group's board."""

import grp
import os
import re
import shlex
import stat
from contextlib import suppress
from pathlib import Path

from hpc_board.accounts import user_name
from hpc_board.errors import BoardError, InputError, StorageError
from hpc_board.model.text import one_line

ACCOUNTS = "users"
"""The folder in a group's board that has one for each account, by the number of its user."""

_JOB_FOLDER = re.compile(r"[1-9][0-9]{0,14}")
"""The name of a job folder of a run, apart from those of job arrays."""

_GROUP_S = stat.S_ISGID | stat.S_IWGRP
_BOARD_MODE = 0o2770
_ACCOUNTS_MODE = 0o3770
"""The mode in which each member of the group may create a folder, and remove no other member's."""


def is_shared(board: Path) -> bool:
    """Return whether the folder is a group's: its members may write it, and new files in it belong to the group."""
    try:
        return board.stat().st_mode & _GROUP_S == _GROUP_S
    except OSError:
        return False


def create_board_folder(board: Path, group: str | None = None) -> bool:
    """Create the folder of a board, for this account or a Unix group; return False if a suitable one exists.

    Raises:
        InputError: the group does not exist, this account is not in it, or the existing path does not fit.
        StorageError: the folder cannot be made, or not be given to the group.
    """
    gid = None if group is None else _group_id(group)
    try:
        board.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        _check_fits(board, group, gid)
        return False
    except OSError as error:
        raise StorageError(
            f"{board}: the board's folder cannot be made: {error.strerror}",
            hint="Give a folder that you may write. Root makes one: "
            + shlex.join(["install", "-d", "-o", user_name(os.geteuid()), str(board.parent)]),
        ) from error
    if gid is not None:
        try:
            os.chown(board, -1, gid)
            # The umask could exclude the other members of the group.
            board.chmod(_BOARD_MODE)
        except OSError as error:
            with suppress(OSError):
                board.rmdir()
            raise _not_given(board, group, error) from error
    return True


def _not_given(board: Path, group: str | None, error: OSError) -> BoardError:
    if isinstance(error, PermissionError):
        return InputError(
            f"{board} cannot be given to the group {group}: you are not in it",
            hint="Have a member of the group, or root, make the board.",
        )
    return StorageError(
        f"{board} cannot be given to the group {group}: {error.strerror or error}",
        hint="Give a folder in a file system that knows the group and its rights.",
    )


def _group_id(group: str) -> int:
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise InputError(
            f"this machine knows no group {one_line(group, 80)}", hint="`groups` lists those that you are in."
        ) from None


def _check_fits(board: Path, group: str | None, gid: int | None) -> None:
    if not board.is_dir():
        raise InputError(f"{board} is there and is no folder", hint="Give another place for the board.")
    if gid is not None and not (is_shared(board) and board.stat().st_gid == gid):
        raise InputError(
            f"{board} is there and is not a board of the group {group}",
            hint=f"While no run is in flight: chgrp -R {group} {board}; chmod 2770 {board}; chmod 660 {board}/board.db",
        )


def access_problem(board: Path) -> str:
    """Return why this account cannot use the folder of a board; empty if it can, or if the folder is missing."""
    try:
        gid = board.stat().st_gid
    except OSError:
        return ""
    if os.access(board, os.X_OK):
        return ""
    return (
        f"{board} is closed to you: it is for the group {group_name(gid)}"
        if is_shared(board)
        else f"{board} is closed to you"
    )


def group_name(gid: int) -> str:
    """Return the name of a group, else its number."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def own_folder(board: Path) -> Path:
    """Return the folder of this account's locks, queues and job folders: the board, or one's own in a group's board."""
    return board / ACCOUNTS / str(os.geteuid()) if is_shared(board) else board


def newest_job_folder(board: Path) -> Path | None:
    """Return the job folder with the highest number on a board, as far as this account sees them; None without one."""
    found: list[Path] = []
    for own in {board, own_folder(board)}:
        with suppress(OSError), os.scandir(own / "runs") as entries:
            found += (own / "runs" / entry.name for entry in entries if _JOB_FOLDER.fullmatch(entry.name))
    return max(found, key=lambda path: int(path.name), default=None)


def make_own_folder(board: Path) -> Path:
    """Create `own_folder` if it is missing, for this account alone, and return it.

    Raises:
        StorageError: it cannot be made, or another account has put a file in its place.
    """
    own = own_folder(board)
    try:
        if own != board:
            _make_accounts(own.parent)
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = own.lstat()
    except OSError as error:
        raise StorageError(
            f"{own}: the board's folder cannot be made: {error.strerror}",
            hint="Point `board` in the settings to a folder that you may write."
            if own == board
            else f"Are you in the group of {board}? {own.parent} has to have the mode {_ACCOUNTS_MODE:o}.",
        ) from error
    if own != board and (not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid()):
        raise StorageError(
            f"{own}: this is your account's place, and user {status.st_uid} has put something there",
            hint="Have it removed before you use this board: jobs of yours would be taken from there.",
        )
    return own


def _make_accounts(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return
    # The umask could exclude the other members of the group.
    folder.chmod(_ACCOUNTS_MODE)
