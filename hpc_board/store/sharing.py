"""Whether a board is one account's or a group's, and where in a group's board an account keeps what is its own."""

import os
import stat
from pathlib import Path

from hpc_board.errors import StorageError

ACCOUNTS = "users"
"""The folder in a group's board that has one for each account, by the number of its user."""

_GROUP_S = stat.S_ISGID | stat.S_IWGRP
_ACCOUNTS_MODE = 0o3770
"""All of the group may make a folder there, and nobody may remove another one's."""


def is_shared(board: Path) -> bool:
    """Whether the folder is a group's: its members may write it, and what they make in it belongs to the group."""
    try:
        return board.stat().st_mode & _GROUP_S == _GROUP_S
    except OSError:
        return False


def own_folder(board: Path) -> Path:
    """Where this account's locks, queues and job folders lie: the board itself, or a folder of its own in a group's."""
    return board / ACCOUNTS / str(os.geteuid()) if is_shared(board) else board


def make_own_folder(board: Path) -> Path:
    """Make `own_folder` where it is missing, for this account alone, and return it.

    Raises:
        StorageError: it cannot be made, or somebody else has put something in its place.
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
    # Whatever the umask: it would keep the others of the group out.
    folder.chmod(_ACCOUNTS_MODE)
