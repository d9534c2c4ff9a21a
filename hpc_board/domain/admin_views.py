"""Views for admins: the state of each leaderboard, and of each user."""

from datetime import datetime
from enum import StrEnum

import msgspec

from hpc_board.domain.board_options import Visibility
from hpc_board.domain.moderation import NO_LIMITS, Category, Decision, Limits
from hpc_board.domain.roles import Role


class HourCount(msgspec.Struct, frozen=True):
    """The submissions of one user to one leaderboard within the hour, in one category.

    `limited` counts the submissions to which a limit applies: not milestones, and not reruns by an admin.
    """

    user: str
    board: str
    category: Category
    submissions: int
    limited: int
    runs: int


class BoardState(msgspec.Struct, frozen=True):
    """The state of a leaderboard. A task of the settings' folders has no `creator` and is public.

    `submissions` and `users` count the last hour.
    """

    name: str
    gpus: tuple[str, ...]
    deadline: datetime | None
    creator: str = ""
    visibility: Visibility = Visibility.PUBLIC
    limits: Limits = NO_LIMITS
    submissions: int = 0
    users: int = 0

    @property
    def is_created(self) -> bool:
        """Return whether a user created it, so that its options can be changed."""
        return bool(self.creator)


class LimitUse(msgspec.Struct, frozen=True):
    """The share of a leaderboard's hourly limit that a user has used."""

    board: str
    category: Category
    used: int
    limit: int

    @property
    def holds(self) -> bool:
        """Return whether the limit stops further submissions of the user."""
        return self.used >= self.limit


class PersonState(msgspec.Struct, frozen=True):
    """A user, their role, their ban, and their activity within the hour.

    `newest_at` is the time of their last submission. `uses` has the limits of the leaderboards to which they submitted
    within the hour.
    """

    name: str
    role: Role
    ban: Decision | None = None
    newest_at: datetime | None = None
    submissions: int = 0
    runs: int = 0
    uses: tuple[LimitUse, ...] = ()


class PersonColumn(StrEnum):
    """A column by which users are sorted."""

    NAME = "name"
    BAN = "ban"
    SUBMISSIONS = "sent"
    RUNS = "runs"
    LAST = "last"


PersonKey = tuple[bool, float, str]
"""The key of a user in an order: whether there is no value, the value or its negative, and the name."""

_FOREVER = 1e18


class PersonOrder(msgspec.Struct, frozen=True):
    """The order of a list of users: by a column, of which values may descend. Users without a value are last.

    The values are the end of a ban, the counts of the last hour, and the age of the last submission, which ascends as
    its time descends. Users with equal values are in the order of their names.
    """

    by: PersonColumn = PersonColumn.NAME
    descending: bool = False

    @property
    def keys_descend(self) -> bool:
        """Return whether the keys descend: numbers have a sign instead, so that equal ones keep the order of names."""
        return self.descending and self.by is PersonColumn.NAME

    def key_of(self, name: str, value: float | None) -> PersonKey:
        """Return the key of a user by the value of the column."""
        sign = -1 if self.descending else 1
        return value is None, 0.0 if value is None else sign * value, name

    def key(self, person: PersonState) -> PersonKey:
        """Return the key of a user."""
        return self.key_of(person.name, self._value(person))

    def _value(self, person: PersonState) -> float | None:
        match self.by:
            case PersonColumn.NAME:
                return None
            case PersonColumn.BAN:
                return None if person.ban is None else ban_value(person.ban)
            case PersonColumn.SUBMISSIONS:
                return person.submissions or None
            case PersonColumn.RUNS:
                return person.runs or None
            case PersonColumn.LAST:
                return None if person.newest_at is None else -person.newest_at.timestamp()

    def is_behind(self, key: PersonKey, other: PersonKey) -> bool:
        """Return whether `key` comes after `other`."""
        return key < other if self.keys_descend else key > other


def ban_value(ban: Decision) -> float:
    """Return the value of a ban in the order of their ends: one without an end is the latest."""
    return _FOREVER if ban.ends_at is None else ban.ends_at.timestamp()


BY_NAME = PersonOrder()
