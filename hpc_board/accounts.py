"""Unix accounts of this machine: names of users and of their groups, and this account's home folder and login name."""

import grp
import os
import pwd
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from hpc_board.domain.roles import GROUP
from hpc_board.errors import InputError

GROUPS_SECONDS: Final = 60.0
"""The lifetime of a user's groups in the cache."""

_KNOWN_MAX: Final = 1_000


def user_name(uid: int) -> str:
    """Return the name of the user with this number; the number itself if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def private_group(uid: int) -> int | None:
    """Return the number of a user's private group, which has the user's name and no other members; None without one."""
    try:
        user = pwd.getpwuid(uid)
        group = grp.getgrgid(user.pw_gid)
    except KeyError:
        return None
    alone = group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
    return group.gr_gid if alone else None


def others_write(status: os.stat_result) -> bool:
    """Return whether accounts besides its owner may write a file; this account's private group may."""
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and status.st_gid != private_group(os.geteuid())


def is_user(name: str) -> bool:
    """Return whether this machine knows a user of this name, or of this number if it has no name."""
    try:
        pwd.getpwnam(name)
    except (KeyError, ValueError):  # no user, or no name of any: it has a zero byte
        return name.isascii() and name.isdecimal()
    return True


def groups_of(user: str) -> frozenset[str]:
    """Return the names of the groups that `user` is in; none if this machine does not know the user."""
    try:
        account = pwd.getpwnam(user)
    except (KeyError, ValueError):  # no account has a name with a null
        return frozenset()
    return frozenset(filter(None, map(_group_name, os.getgrouplist(user, account.pw_gid))))


def members_of(group: str) -> frozenset[str]:
    """Return the users in a group, for whom it may be the main one; none if this machine does not know the group.

    A directory server may keep the list of all its users to itself.
    """
    try:
        found = grp.getgrnam(group)
    except (KeyError, ValueError):
        return frozenset()
    return frozenset((*found.gr_mem, *(user.pw_name for user in pwd.getpwall() if user.pw_gid == found.gr_gid)))


class Groups:
    """The groups of users, looked up at most once a minute for each: a directory server may have to answer."""

    def __init__(
        self, ask: Callable[[str], frozenset[str]] = groups_of, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._known: dict[str, tuple[float, frozenset[str]]] = {}

    def of(self, user: str) -> frozenset[str]:
        """Return the names of the groups that `user` is in, now or within the last minute; callable from any thread."""
        now = self._clock()
        at, groups = self._known.get(user, (None, frozenset()))
        if at is None or now - at >= GROUPS_SECONDS:
            groups = self._ask(user)
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            self._known[user] = now, groups
        return groups


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return ""


def unknown_accounts(names: Iterable[str]) -> tuple[str, ...]:
    """Return the `names`, of users and with a `@` of groups, that this machine does not know; it knows every number."""
    return tuple(name for name in names if not _is_known(name))


def _is_known(name: str) -> bool:
    if not name.startswith(GROUP):
        return is_user(name)
    try:
        grp.getgrnam(name.removeprefix(GROUP))
    except (KeyError, ValueError):
        return False
    return True


def home(environ: Mapping[str, str]) -> Path:
    """Return the home folder by $HOME, else by this machine's account database.

    Raises:
        InputError: neither says.
    """
    try:
        return Path(environ.get("HOME") or Path.home())
    except RuntimeError as error:
        raise InputError(
            "this account has no home folder: HOME is not set, and the machine has no entry for its user.",
            hint="Set HOME to a folder that this account can write to.",
        ) from error


def own_folder(environ: Mapping[str, str], variable: str, default: str) -> Path:
    """Return hpc-board's folder in the one that `variable` names, such as $XDG_DATA_HOME, or in ~/`default`.

    Raises:
        InputError: the user has no home folder.
    """
    given = Path(environ.get(variable, ""))
    return (given if given.is_absolute() else home(environ) / default) / "hpc-board"


def user_folder(environ: Mapping[str, str], variable: str, default: str) -> Path:
    """Return the folder of `own_folder`; a user without a home folder has one that does not exist."""
    try:
        return own_folder(environ, variable, default)
    except InputError:
        return Path("/nonexistent/hpc-board")


def login_name() -> str:
    """Return the user's name by the environment, else by this machine's account database.

    Raises:
        InputError: neither says.
    """
    try:
        import getpass

        return getpass.getuser()
    except (KeyError, OSError) as error:
        raise InputError(
            "this account has no name to log in with: USER is not set, and the machine has no entry for its user.",
            hint="Set `user` under the cluster's `ssh` in the settings.",
        ) from error
