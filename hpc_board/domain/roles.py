"""Roles: what somebody may do on a board, by Unix user and group."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

GROUP = "@"
"""What the name of a group begins with, where users and groups stand beside each other."""

ACCOUNT_PATTERN = r"@?[A-Za-z0-9_][A-Za-z0-9_.@\\+-]{0,254}\$?"
"""The regular expression of the name of a Unix user, or of a group with a `@` before it."""

ACCOUNT_PATTERN_WORDS = "the name of a Unix user, or of a group with @ before it"
"""What `ACCOUNT_PATTERN` means, for people."""


class Role(StrEnum):
    """What somebody may do; each role may do what those below it may."""

    ADMIN = "admin"
    CREATOR = "creator"
    PARTICIPANT = "participant"
    NONE = "nobody"

    def may_act_as(self, least: "Role") -> bool:
        """Whether this role may do what `least` may."""
        order = list(Role)
        return order.index(self) <= order.index(least)


@dataclass(frozen=True)
class Roles:
    """Who has which role: names of Unix users, and of groups with a `@` before them.

    Where `participants` is empty, everybody who reaches the board is one.
    """

    admins: tuple[str, ...] = ()
    creators: tuple[str, ...] = ()
    participants: tuple[str, ...] = ()

    @property
    def name_groups(self) -> bool:
        """Whether somebody's groups matter for their role."""
        return any(name.startswith(GROUP) for name in (*self.admins, *self.creators, *self.participants))

    def role(self, user: str, groups: Collection[str], *, owner: bool) -> Role:
        """The highest role of `user`, who is in `groups`.

        The board's `owner` is an admin, whatever the lists say: nobody could mend them otherwise.
        """
        if owner or includes_user(self.admins, user, groups):
            return Role.ADMIN
        if includes_user(self.creators, user, groups):
            return Role.CREATOR
        if not self.participants or includes_user(self.participants, user, groups):
            return Role.PARTICIPANT
        return Role.NONE


def includes_user(names: Collection[str], user: str, groups: Collection[str]) -> bool:
    """Whether `names`, of users and with a `@` of groups, has the user or one of the groups."""
    return user in names or any(GROUP + group in names for group in groups)
