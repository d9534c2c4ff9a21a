"""What admins look at: how boards stand, and what holds for people."""

from dataclasses import dataclass
from datetime import datetime

from hpc_board.domain.board_options import Visibility
from hpc_board.domain.moderation import NO_LIMITS, Category, Decision, Limits
from hpc_board.domain.roles import Role


@dataclass(frozen=True)
class HourCount:
    """What a user has sent to a board within the hour, in one category.

    `limited` are the submissions that count against a limit: milestones and what an admin sends again do not.
    """

    user: str
    board: str
    category: Category
    submissions: int
    limited: int
    runs: int


@dataclass(frozen=True)
class BoardState:
    """How a board stands; `creator` is empty and `visibility` public where it is a task of the settings' folders.

    `submissions` and `users` are those within the hour.
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
        """Whether somebody made it, so that its terms can be changed."""
        return bool(self.creator)


@dataclass(frozen=True)
class LimitUse:
    """How much of a board's limit a user has used up within the hour."""

    board: str
    category: Category
    used: int
    limit: int

    @property
    def holds(self) -> bool:
        """Whether it keeps the user from submitting more."""
        return self.used >= self.limit


@dataclass(frozen=True)
class PersonState:
    """Somebody, their role, the ban that holds for them, and what they did within the hour.

    `newest_at` is when they submitted last. `uses` are the limits of boards to which they have submitted within the
    hour.
    """

    name: str
    role: Role
    ban: Decision | None = None
    newest_at: datetime | None = None
    submissions: int = 0
    runs: int = 0
    uses: tuple[LimitUse, ...] = ()
