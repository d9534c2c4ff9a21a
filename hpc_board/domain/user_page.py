"""A user on all leaderboards: the ranks, and the newest runs."""

import msgspec

from hpc_board.domain.origin import By
from hpc_board.domain.reference import Reference, Speedup
from hpc_board.domain.run import Run
from hpc_board.domain.standing import Standing


class UserRank(msgspec.Struct, frozen=True):
    """A row of a user, or of an entrant, on the leaderboard of a task and a GPU.

    `users` is the number of users, or entrants, there, `best_s` the score of the first, and `reference` the task's
    reference there, None without one.
    """

    task: str
    gpu: str
    row: Standing
    users: int
    best_s: float
    reference: Reference | None = None

    @property
    def speedup(self) -> Speedup | None:
        """Return the speedup over the reference."""
        return None if self.reference is None else self.reference.speedup(self.row.score_s, self.row.interval)


class UserPage(msgspec.Struct, frozen=True):
    """The ranks of a user, or of their entrants, by task and GPU, and newest runs, the newest first."""

    user: str
    ranks: tuple[UserRank, ...] = ()
    runs: tuple[Run, ...] = ()
    by: By = By.ACCOUNT

    @property
    def records(self) -> int:
        """Return the number of leaderboards on which the user is first among several."""
        return sum(rank.row.rank == 1 and rank.users > 1 for rank in self.ranks)
