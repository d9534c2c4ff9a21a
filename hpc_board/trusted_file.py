"""Files that decide which programs run in a user's name: opened once, with a look at every folder on the way.

A file that another account may change, or exchange by a folder or a link on its way, is that account's. The rules are
those of OpenSSH for its own files. Each step is opened below the one before, and the checked file is the opened one.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Collection
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import msgspec

from hpc_board.errors import InputError
from hpc_board.files import NotRegularFileError, shown_path

_LINKS_MAX = 40
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC


class Trust(msgspec.Struct, frozen=True):
    """The accounts whose files are trusted.

    `owners` may own the file, `folder_owners` the folders and links on the way to it. A group may write a file only if
    `private_group` returns its number: a group of the user alone. `home` is the user's home folder; the folders above
    it are not checked, since no file of the user is safer than these.
    """

    owners: frozenset[int]
    folder_owners: frozenset[int]
    private_group: Callable[[], int | None]
    home: Path | None


def system_owners() -> frozenset[int]:
    """Return root, and the owner of the root folder: within a user namespace root may have another number."""
    return frozenset({0, os.stat("/").st_uid})  # noqa: PTH116 - no path of a user


def open_trusted(path: Path, trust: Trust) -> BinaryIO:
    """Open a file for reading if only `trust`ed accounts may change it or the way to it.

    Raises:
        InputError: another account may.
        NotRegularFileError: it is not a regular file.
        OSError: it does not exist, or cannot be read.
    """
    above = _above(trust.home)
    here, where = _root(), Path("/")
    names = deque(path.absolute().parts[1:])
    links = 0
    try:
        _check_folder(os.fstat(here), where, trust, above)
        while names:
            name = names.popleft()
            if not names and (file := _file(here, name, where / name, trust)) is not None:
                return file
            inner = os.open(name, _LOOK, dir_fd=here)
            status = os.fstat(inner)
            if stat.S_ISLNK(status.st_mode):
                links += 1
                if links > _LINKS_MAX:
                    os.close(inner)
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                target = _target(inner, status, where / name, trust)
                names.extendleft(reversed([part for part in target.parts if part != "/"]))
                if target.is_absolute():
                    os.close(here)
                    here, where = _root(), Path("/")
            else:
                os.close(here)
                here, where = inner, where.parent if name == ".." else where / name
                if names:
                    _check_folder(status, where, trust, above)
        raise NotRegularFileError(f"{path.name} is not a regular file")
    finally:
        os.close(here)


def _root() -> int:
    return os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def _file(folder: int, name: str, path: Path, trust: Trust) -> BinaryIO | None:
    """Open the last step as a file; None if it is a link."""
    try:
        descriptor = os.open(name, _READ, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        if error.errno == errno.ENXIO:
            raise NotRegularFileError(f"{name} is not a regular file") from error
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NotRegularFileError(f"{name} is not a regular file")
        _check_owner(status, path, trust.owners)
        if _others_write(status, trust):
            raise _writable(path, status)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _target(link: int, status: os.stat_result, path: Path, trust: Trust) -> PurePosixPath:
    try:
        _check_owner(status, path, trust.folder_owners)
        return PurePosixPath(os.readlink("", dir_fd=link))
    finally:
        os.close(link)


def _check_folder(status: os.stat_result, path: Path, trust: Trust, above: Collection[tuple[int, int]]) -> None:
    if (status.st_dev, status.st_ino) in above:
        return
    _check_owner(status, path, trust.folder_owners)
    # In a sticky folder no account exchanges the files of another, and the owner of the next step is checked.
    if not status.st_mode & stat.S_ISVTX and _others_write(status, trust):
        raise _writable(path, status)


def _others_write(status: os.stat_result, trust: Trust) -> bool:
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and status.st_gid != trust.private_group()


def _above(home: Path | None) -> frozenset[tuple[int, int]]:
    """Return the device and number of each folder above the home folder."""
    found = set()
    for folder in () if home is None else Path(os.path.realpath(home)).parents:
        try:
            status = folder.stat()
        except OSError:
            continue
        found.add((status.st_dev, status.st_ino))
    return frozenset(found)


def _check_owner(status: os.stat_result, path: Path, owners: Collection[int]) -> None:
    if status.st_uid not in owners:
        whose = "neither to you nor to root" if os.geteuid() in owners else "not to root"
        raise InputError(
            f"{shown_path(path)} belongs {whose}, and its settings would run commands in your name.",
            hint="If you trust it, name it yourself: --config FILE",
        )


def _writable(path: Path, status: os.stat_result) -> InputError:
    return InputError(
        f"{shown_path(path)} may be written by others (mode {stat.S_IMODE(status.st_mode):o}), and its settings would "
        "run commands in your name.",
        hint=f"Try: chmod go-w '{shown_path(path)}'. Or, if you trust it, name the settings yourself: --config FILE",
    )
