"""Roles: the rights on a board, by Unix user and group."""

from collections.abc import Collection
from enum import StrEnum

import msgspec

GROUP = "@"
"""The prefix of a group's name in a list of users and groups."""

TEAM_PSEUDONYM = "team "
"""The prefix of a team's pseudonym on an anonymous board."""

ACCOUNT_PATTERN = r"@?[A-Za-z0-9_][A-Za-z0-9_.@\\+-]{0,254}\$?"
"""The regular expression of the name of a Unix user, or of a group with a `@` before it."""

ACCOUNT_PATTERN_WORDS = "the name of a Unix user, or of a group with @ before it"
"""The meaning of `ACCOUNT_PATTERN`, as text for users."""


class Role(StrEnum):
    """The rights of a user; each role includes those below it."""

    ADMIN = "admin"
    CREATOR = "creator"
    PARTICIPANT = "participant"
    NONE = "nobody"

    def may_act_as(self, least: "Role") -> bool:
        """Return whether this role includes the rights of `least`."""
        order = list(Role)
        return order.index(self) <= order.index(least)


class Roles(msgspec.Struct, frozen=True):
    """The users of each role: names of Unix users, and of groups with a `@` before them.

    If `participants` is empty, every user with access to the board is a participant.
    """

    admins: tuple[str, ...] = ()
    creators: tuple[str, ...] = ()
    participants: tuple[str, ...] = ()

    @property
    def name_groups(self) -> bool:
        """Return whether any role depends on a user's groups."""
        return any(name.startswith(GROUP) for name in (*self.admins, *self.creators, *self.participants))

    def role(self, user: str, groups: Collection[str], *, owner: bool) -> Role:
        """Return the highest role of `user`, who is in `groups`.

        The board's `owner` is an admin, whatever the lists say: otherwise a faulty list would lock out every admin.
        """
        if owner or includes_user(self.admins, user, groups):
            return Role.ADMIN
        if includes_user(self.creators, user, groups):
            return Role.CREATOR
        if not self.participants or includes_user(self.participants, user, groups):
            return Role.PARTICIPANT
        return Role.NONE


def includes_user(names: Collection[str], user: str, groups: Collection[str]) -> bool:
    """Return whether `names`, of users and with a `@` of groups, has the user or one of the groups."""
    return user in names or any(GROUP + group in names for group in groups)
