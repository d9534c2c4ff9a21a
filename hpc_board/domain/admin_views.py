"""Views for admins: the state of each leaderboard, and of each user."""

from datetime import datetime

import msgspec

from hpc_board.domain.board_options import BoardOptions, Visibility
from hpc_board.domain.moderation import Category, Decision, Limits
from hpc_board.domain.roles import Role


class SentCount(msgspec.Struct, frozen=True):
    """The submissions of one user to one leaderboard within a period, in one category.

    `limited` counts the submissions to which a limit applies: not milestones, and not reruns by an admin.
    """

    user: str
    board: str
    category: Category
    submissions: int
    limited: int
    runs: int


class BoardState(msgspec.Struct, frozen=True):
    """The state of a leaderboard. A task of the settings' folders has no `terms` and is public.

    `submissions` and `users` count the last hour.
    """

    name: str
    gpus: tuple[str, ...]
    deadline: datetime | None
    terms: BoardOptions | None = None
    limits: tuple[Limits, ...] = ()
    submissions: int = 0
    users: int = 0

    @property
    def creator(self) -> str:
        """Return the user who created it; empty for a task of the settings."""
        return "" if self.terms is None else self.terms.creator

    @property
    def visibility(self) -> Visibility:
        """Return who sees it."""
        return Visibility.PUBLIC if self.terms is None else self.terms.visibility


class LimitUse(msgspec.Struct, frozen=True):
    """The share of a limit that a user has used; `name` is "matmul ranked" or "GPU-seconds"."""

    name: str
    used: int
    limit: int

    @property
    def holds(self) -> bool:
        """Return whether the limit stops further submissions of the user."""
        return self.used >= self.limit


class PersonState(msgspec.Struct, frozen=True):
    """A user, their role, their ban, and their activity within the hour.

    `newest_at` is the time of their last submission. `uses` has the limits of the leaderboards to which they submitted
    within their periods, and that on GPU time if they have used any within its period.
    """

    name: str
    role: Role
    ban: Decision | None = None
    newest_at: datetime | None = None
    submissions: int = 0
    runs: int = 0
    uses: tuple[LimitUse, ...] = ()
