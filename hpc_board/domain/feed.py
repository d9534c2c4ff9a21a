"""The feed: the change that a passing run made on its leaderboard, and its text."""

from collections.abc import Collection, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from hpc_board.domain.origin import author_text
from hpc_board.domain.standing import ranks
from hpc_board.domain.time_change import exceeds

PODIUM = 3
"""The number of places that the feed reports."""


class FeedKind(StrEnum):
    """The most that a run changed: the best time, one of the first places, that its user is there, their own best."""

    RECORD = "record"
    PODIUM = "podium"
    FIRST = "first"
    BEST = "best"


class Entry(msgspec.Struct, frozen=True):
    """A user on a board, with their score."""

    user: str
    score_s: float


class News(msgspec.Struct, frozen=True):
    """The change that a run made on its leaderboard, at that time.

    `former_rank` and `former_s` are its user's rank and score before, None without one. `beaten` is the user directly
    behind it now who was not before; `fallen` are the users who left the first three places for it.
    """

    kind: FeedKind
    rank: int
    score_s: float
    former_rank: int | None = None
    former_s: float | None = None
    beaten: Entry | None = None
    fallen: tuple[Entry, ...] = ()

    @property
    def is_first(self) -> bool:
        """Return whether its user is the first on the board."""
        return self.kind is FeedKind.RECORD and self.former_rank is None and self.beaten is None

    @property
    def replaced_s(self) -> float | None:
        """Return the score that this one replaced: the former record, or else the user's own."""
        if self.kind is FeedKind.RECORD and self.beaten is not None:
            return self.beaten.score_s
        return self.former_s


class FeedEntry(msgspec.Struct, frozen=True):
    """One line of the feed: the change by a run of a user or a team on the leaderboard of a task and a GPU.

    `submitter` is the user of the run. `former_run` is the run whose score this one replaced, None without one that
    counts. `change_spread` is the factor within which the change from it may be noise, None where that is unknown.
    `is_own` and `beats_own` are true for a reader whose entry it is, or whose first place it took: as the user, or as a
    member of the team.
    """

    id: int
    at: datetime
    task: str
    task_version: str
    gpu: str
    user: str
    submission: int
    run: int
    submitter: str
    emulated: bool
    news: News
    former_run: int | None = None
    change_spread: float | None = None
    entrant: str = ""
    is_own: bool = False
    beats_own: bool = False

    def seen_by(self, names: Collection[str]) -> "FeedEntry":
        """Return the entry for a reader who ranks under one of these names."""
        beaten = self.news.beaten if self.news.kind is FeedKind.RECORD else None
        beats_own = beaten is not None and beaten.user in names
        return replace(self, is_own=self.user in names, beats_own=beats_own)

    @property
    def author(self) -> str:
        """Return the name of its user, with the entrant if the run has one."""
        return author_text(self.user, self.entrant)

    @property
    def beats_record(self) -> bool:
        """Return whether the run beat a former record by more than noise."""
        before_s = self.news.replaced_s
        if self.news.kind is not FeedKind.RECORD or before_s is None:
            return False
        return self.change_spread is None or exceeds(before_s, self.news.score_s, self.change_spread)


def news(
    entry: Entry, rank: int, podium: Sequence[Entry], former: tuple[int, float] | None, beaten: Entry | None
) -> News:
    """Return the change that `entry` made, which now has `rank`.

    `podium` holds the first entries before the change, in order: at least all of the first three places. `former` is
    the user's own rank and score before, `beaten` the user whom they passed. A user who is alone on the board breaks no
    record.
    """
    former_rank, former_s = former or (None, None)
    is_alone = {each.user for each in podium} == {entry.user}
    if not podium or (entry.score_s < podium[0].score_s and not is_alone):
        kind = FeedKind.RECORD
    elif rank <= PODIUM and (former_rank is None or rank < former_rank):
        kind = FeedKind.PODIUM
    else:
        kind = FeedKind.FIRST if former is None else FeedKind.BEST
    return News(kind, rank, entry.score_s, former_rank, former_s, beaten, tuple(_fallen(entry, podium)))


def _fallen(entry: Entry, podium: Sequence[Entry]) -> list[Entry]:
    """Return the users who had one of the first three places before `entry`, and have none now."""
    now = sorted([each for each in podium if each.user != entry.user] + [entry], key=lambda each: each.score_s)
    stay = {each.user for each in _on_podium(now)}
    return [each for each in _on_podium(podium) if each.user not in stay]


def _on_podium(entries: Sequence[Entry]) -> list[Entry]:
    places = ranks([each.score_s for each in entries])
    return [each for each, rank in zip(entries, places, strict=True) if rank <= PODIUM]
