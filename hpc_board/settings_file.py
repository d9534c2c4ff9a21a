"""The settings file of this process: its place and its text."""

import os
import stat
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

import msgspec

from hpc_board.accounts import others_write, own_folder
from hpc_board.errors import InputError
from hpc_board.files import open_followed, read_text, shown_path
from hpc_board.model.files import open_regular
from hpc_board.yaml_sections import DOCUMENT_BYTES_MAX

FILE_NAME = "hpc-board.yaml"
FILE_MODE = 0o644
"""The mode of a new settings file, before the umask: one that others may write is not used."""

_SYSTEM_FILE = Path("/etc/hpc-board/config.yaml")


class Found(msgspec.Struct, frozen=True):
    """A settings file in one of the places where settings are looked for; `owners` are the accounts that may own it.

    Settings decide which programs run in the user's name. So `text_of` takes such a file only if no other account may
    change it, in contrast to a file that the user has named.
    """

    path: Path
    owners: frozenset[int]


def find(explicit: Path | None, environ: Mapping[str, str], cwd: Path) -> Path | Found | None:
    """Return the settings file to use, None without one.

    The first of: `explicit`, $HPC_BOARD_CONFIG, hpc-board.yaml in `cwd`, hpc-board/config.yaml in the user's
    configuration folder, /etc/hpc-board/config.yaml. The first two are named by the user, whose environment is the
    user's own.

    Raises:
        InputError: a file that is named outright does not exist.
    """
    variable = environ.get("HPC_BOARD_CONFIG")
    for path, origin in ((explicit, "--config"), (Path(variable) if variable else None, "$HPC_BOARD_CONFIG")):
        if path is None:
            continue
        try:
            path.stat()
        except PermissionError as error:
            raise InputError(
                f"{path}: permission denied (set by {origin}).",
                hint="Ask its owner for access, or use another file.",
            ) from error
        except (OSError, ValueError):
            pass
        if not _is_there(path):
            raise InputError(
                f"{path}: the settings file does not exist (set by {origin}).",
                hint=f"Correct {origin}, or omit it to use the default settings.",
            )
        return path
    ours = _system_owners() | {os.geteuid()}
    local = cwd / FILE_NAME
    if _is_there(local):
        return Found(local, ours)
    with suppress(InputError):  # without a home folder, there are none of the user's own
        own = own_folder(environ, "XDG_CONFIG_HOME", ".config") / "config.yaml"
        if _is_there(own):
            return Found(own, ours)
    return Found(_SYSTEM_FILE, _system_owners()) if _is_there(_SYSTEM_FILE) else None


def found(explicit: Path | None, environ: Mapping[str, str]) -> Path | Found | None:
    """Return the settings file of this process, as `find` does from its working folder.

    Raises:
        InputError: a file that is named outright does not exist.
    """
    try:
        here = Path.cwd()
    except FileNotFoundError:
        here = Path("/")  # the working folder was removed, so no settings lie in it
    return find(explicit, environ, here)


def text_of(source: Path | Found) -> str:
    """Return the text of a settings file.

    Raises:
        InputError: the file cannot be read, or was found where it is and another account may change it.
    """
    if isinstance(source, Found):
        return read_text(source.path, DOCUMENT_BYTES_MAX, partial(_open_own, owners=source.owners))
    return read_text(source, DOCUMENT_BYTES_MAX, open_followed)


def _system_owners() -> frozenset[int]:
    """Return root, and the owner of the root folder: within a user namespace root may have another number."""
    return frozenset({0, os.stat("/").st_uid})  # noqa: PTH116 - no path of a user


def _open_own(path: Path, owners: Collection[int]) -> BinaryIO:
    """Open a file that decides which programs run in the user's name, if only its `owners` may change it.

    That counts for its folder too, and for a link to it.

    Raises:
        InputError: another account may.
        NotRegularFileError: it is not a regular file.
        OSError: it does not exist, or cannot be read.
    """
    real = Path(os.path.realpath(path))
    for folder in {path.absolute().parent, real.parent}:
        status = folder.stat()
        # In a sticky folder no account exchanges the files of another.
        _check_own(folder, status, owners, is_closed=bool(status.st_mode & stat.S_ISVTX) or not others_write(status))
    _check_own(path, path.lstat(), owners, is_closed=True)
    file = open_regular(real)
    try:
        status = os.fstat(file.fileno())
        _check_own(path, status, owners, is_closed=not others_write(status))
    except InputError:
        file.close()
        raise
    return file


def _check_own(path: Path, status: os.stat_result, owners: Collection[int], *, is_closed: bool) -> None:
    if status.st_uid not in owners:
        whose = "neither to you nor to root" if os.geteuid() in owners else "not to root"
        raise InputError(
            f"{shown_path(path)} belongs {whose}, and its settings would run commands in your name.",
            hint="If you trust it, pass it explicitly: --config FILE",
        )
    if not is_closed:
        raise InputError(
            f"{shown_path(path)} is writable by others (mode {stat.S_IMODE(status.st_mode):o}), and its settings "
            "would run commands in your name.",
            hint=f"Try: chmod go-w '{shown_path(path)}'. Or, if you trust it, pass it explicitly: --config FILE",
        )


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except OSError:
        return False
    return True


def straight(path: Path) -> Path:
    """Return the path without "..", unless a link on the way leads elsewhere."""
    straight = Path(os.path.normpath(path))
    return straight if os.path.realpath(straight) == os.path.realpath(path) else path
