"""Standings: ranks, pages and marks of a leaderboard, and the sentence of a placing."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from hpc_board.domain.origin import author_text
from hpc_board.domain.reference import Reference, Speedup
from hpc_board.domain.roles import GROUP, TEAM_PSEUDONYM
from hpc_board.domain.score_interval import Interval, full_score_text
from hpc_board.domain.time_change import FEW_SAMPLES, WITHIN_NOISE, change_text
from hpc_board.model.score import duration_text
from hpc_board.model.task import ISOLATED
from hpc_board.model.text import one_line


class Standing(msgspec.Struct, frozen=True):
    """One row of a board: the best entry of a user or a team, judged by the task's `harness`, or a passing ranked run.

    An entry is the code of a user without comments and blanks, by the number `entry` of its first submission. Its score
    is the median of its `runs` runs, and `run` is the one that has it.
    `interval` is None where the score has none, as on a GPU. `overlaps_above` says that it overlaps the interval of the
    next better row. Among a user's newest runs, `change_spread` is the factor within which the change from the fastest
    earlier one may be noise; it is None where that is unknown. The row of a team has its name, a group with a `@`, as
    `user`, and its `members`; `submitter` is the one whose run it is.
    """

    rank: int
    user: str
    score_s: float
    submission: int
    run: int
    submitted_at: datetime
    file_name: str
    trust: str
    submitter: str
    emulated: bool = False
    harness: str = ISOLATED
    interval: Interval | None = None
    overlaps_above: bool = False
    change_spread: float | None = None
    entrant: str = ""
    entry: int = 0
    runs: int = 1
    members: tuple[str, ...] = ()

    @property
    def is_team(self) -> bool:
        """Return whether this is the row of a team, by its name or its pseudonym."""
        return self.user.startswith((GROUP, TEAM_PSEUDONYM))

    def shown_name(self, *, entrants: bool = False) -> str:
        """Return the name of its team with the members, or of its user, with the entrant in rows of `entrants`."""
        if self.members:
            return f"{self.user} ({', '.join(self.members)})"
        return author_text(self.user, self.entrant) if entrants else self.user


class Rows(StrEnum):
    """The meaning of a page's rows: a user's best run, an entrant's, any run that counts, or one of the reader's.

    The account itself is one of its entrants.

    The best comes first, but for NEWEST, which has the reader's runs from the newest on; their ranks are those among
    the runs of the page.
    """

    USERS = "users"
    ENTRANTS = "entrants"
    RUNS = "runs"
    OWN = "own"
    NEWEST = "newest"


class MarkKind(StrEnum):
    """The kind of an unranked row: the task's own reference, a milestone of its author, or a late submission."""

    REFERENCE = "reference"
    MILESTONE = "milestone"
    LATE = "late"


class Mark(msgspec.Struct, frozen=True):
    """A time on a board that has no rank; `name` says whose it is. That of the reference is of no single run.

    `due_at` is the deadline that a late submission missed.
    """

    kind: MarkKind
    name: str
    score_s: float
    submission: int | None = None
    run: int | None = None
    submitted_at: datetime | None = None
    file_name: str = ""
    trust: str = ""
    emulated: bool = False
    due_at: datetime | None = None

    @property
    def late_seconds(self) -> float | None:
        """Return the time by which a late submission missed the deadline; None for other marks."""
        if self.due_at is None or self.submitted_at is None:
            return None
        return (self.submitted_at - self.due_at).total_seconds()


class Page(msgspec.Struct, frozen=True):
    """A part of a board as a reader asked for it: `rows` from the place `offset` on, of `total`.

    `own` is the row of the reader, or of the reader's team, among all users, whether it is on the page or not;
    `milestones` are all of the board's, and `late` the best late runs, which have no rank. Users who do not manage the
    board do not see others' submissions after `frozen_at`, which is past, and see others under pseudonyms if it is
    `anonymous`; the reader of the page `manages` it or does not.
    """

    gpu: str
    version: str
    rows: tuple[Standing, ...]
    total: int
    offset: int = 0
    own: Standing | None = None
    milestones: tuple[Mark, ...] = ()
    reference: Reference | None = None
    late: tuple[Mark, ...] = ()
    frozen_at: datetime | None = None
    anonymous: bool = False
    manages: bool = False

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Return the milestones, the late runs and the reference, the fastest first."""
        found = [*self.milestones, *self.late]
        if self.reference is not None:
            found.append(Mark(MarkKind.REFERENCE, str(MarkKind.REFERENCE), self.reference.median_s))
        return tuple(sorted(found, key=lambda mark: mark.score_s))

    def speedup(self, row: Standing | Mark) -> Speedup | None:
        """Return the speedup of a row over the reference; None without one."""
        if self.reference is None:
            return None
        return self.reference.speedup(row.score_s, row.interval if isinstance(row, Standing) else None)


class Placing(msgspec.Struct, frozen=True):
    """The place of a ranked run that passed on its leaderboard.

    `rank` is that of its entry among `users`, None if its user has a better one. `best_s` is the score of the user's
    best entry, the median of `best_runs` runs, and `best_run` the run that has it. `median_s` is the score of the run's
    own entry if that has several `runs`, and `median_before_s` that of those before the run, if any. A run in mode
    benchmark, or in flight, has no place: `users` is 0, and `best_run` is the best earlier run of its user. `first`
    says that it is the user's first run that passed there. `former_rank`, `former_s` and `former_run` are the user's
    rank, score and run before a run that improved them. `change_spread` is the factor within which the change from the
    former run may be noise, or that from the best one for a run that is not the best; it is None where that is unknown,
    with `few_samples` for lack of samples. `best_by` is the entrant of the best run, where the user's entrants matter;
    without a place, that of the run. If the user ranks as the member of a `team`, all but `first` is the team's.
    """

    rank: int | None
    users: int
    best_s: float
    best_run: int
    first: bool
    former_rank: int | None = None
    former_s: float | None = None
    former_run: int | None = None
    change_spread: float | None = None
    few_samples: bool = False
    best_by: str = ""
    best_runs: int = 1
    median_s: float | None = None
    runs: int = 1
    median_before_s: float | None = None
    team: str = ""


class Record(msgspec.Struct, frozen=True):
    """A run that was faster than all before it on its board: the moment of its submission, its user and its score."""

    at: datetime
    user: str
    score_s: float
    run: int


class Version(msgspec.Struct, frozen=True):
    """One version of a task: the time of its first submission, and the number of users with a rank.

    A user with ranks on several GPUs counts once for each.
    """

    version: str
    added_at: datetime
    entries: int


RANKS_SHOWN = 10
"""The last rank that a run's verdict names; beyond, it says that the run is its user's best."""


def verdict_line(
    gpu: str, score_s: float, placing: Placing, interval: Interval | None = None, *, own: bool = False
) -> str:
    """Return the achievement of a passing ranked run on `gpu`, in one line without a full stop.

    `own` says that it is the reader's. The score of a run whose entry has several runs precedes their median, and
    the better one that they had before.
    """
    time = full_score_text(score_s, interval)
    if placing.median_s is None:
        return _achievement(gpu, time, score_s, placing, own=own)
    median, before_s = f"{duration_text(placing.median_s * 1e9)}, {median_text(placing.runs)}", placing.median_before_s
    if before_s is not None and before_s < placing.median_s:
        median += f" ({duration_text(before_s * 1e9)} before this run)"
    return f"This run: {time}. {_achievement(gpu, median, placing.median_s, placing, own=own)}"


def _achievement(gpu: str, time: str, score_s: float, placing: Placing, *, own: bool) -> str:
    rank, time = placing.rank, time + _gain(score_s, placing)
    if rank is None:
        return f"Score on {gpu}: {time}, {_behind(score_s, placing, own=own)}"
    if placing.users == 1:
        return f"Rank 1 of 1 on {gpu}: {time}"
    if rank <= RANKS_SHOWN:
        place = {1: "First", 2: "Second", 3: "Third"}.get(rank, ordinal(rank))
        return f"{place} place on {gpu}: {time}"
    what = "First pass" if placing.first else "Best"
    return f"{what} on {gpu}: {time}, rank {rank} of {placing.users}"


def median_text(runs: int) -> str:
    """Return the origin of a score in words: "the median of 4 runs"; empty for one run."""
    return f"the median of {runs} runs" if runs > 1 else ""


def ordinal(rank: int) -> str:
    """Return a rank in words: "1st", "22nd", "13th"."""
    ending = "th" if rank % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank}{ending}"


def _gain(score_s: float, placing: Placing) -> str:
    """Return the change of the user's score and rank by a run; empty unless it improved a former score."""
    if placing.rank is None or placing.former_s is None or placing.former_s <= score_s:
        return ""
    gain = gain_text(score_s, placing.rank, placing.former_s, placing.former_rank, placing.change_spread)
    return f", {gain}{_remark(placing)}"


def _remark(placing: Placing) -> str:
    return f" ({FEW_SAMPLES})" if placing.few_samples else ""


def gain_text(score_s: float, rank: int, former_s: float, former_rank: int | None, spread: float | None) -> str:
    """Return the change of a user's score and rank: "was 5.81 ms: 3.40x faster, 2nd to 1st".

    `spread` is that of `change_text`.
    """
    climbed = former_rank is not None and rank < former_rank
    ranks = f", {ordinal(former_rank or 0)} to {ordinal(rank)}" if climbed else ""
    return f"was {duration_text(former_s * 1e9)}: {change_text(former_s, score_s, spread)}{ranks}"


def _behind(score_s: float, placing: Placing, *, own: bool) -> str:
    """Return the change from its user's best, which a run without a rank compares itself with."""
    whose = f"{one_line(placing.team)}'s" if placing.team else "your" if own else "the user's"
    best, by = "best", f" by {one_line(placing.best_by)}" if placing.best_by else ""
    if not placing.users:
        whose, best, by = f"{one_line(placing.best_by)}'s" if placing.best_by else whose, "best before", ""
    origin = median_text(placing.best_runs) or f"run {placing.best_run}{by}"
    if score_s <= placing.best_s and placing.users:
        return f"as fast as {whose} best, which was submitted earlier ({origin})"
    change = change_text(placing.best_s, score_s, placing.change_spread)
    joint = "as" if change == "as fast" else "of" if change.startswith(WITHIN_NOISE) else "than"
    return f"{change} {joint} {whose} {best}, {duration_text(placing.best_s * 1e9)} ({origin}){_remark(placing)}"


def ranks(scores: Sequence[float]) -> list[int]:
    """Return the rank of each of these sorted scores: equal ones share a rank and leave a gap behind it."""
    found: list[int] = []
    for index, score in enumerate(scores):
        found.append(found[-1] if index and score == scores[index - 1] else index + 1)
    return found


class Place(msgspec.Struct, frozen=True):
    """The rank of a user among the `users` of a leaderboard, and the score in seconds of their best run there."""

    task: str
    task_version: str
    gpu: str
    rank: int
    users: int
    score_s: float


def by_rank(own: Place | Standing | None, users: int) -> tuple[float, ...]:
    """Return the key that sorts leaderboards by the rank of a user: the best is first.

    Behind are those with no other user, then those without the user, the empty ones last.
    """
    return (users < 2, own.rank, own.score_s) if own else (2, not users)


def with_marks(
    rows: Sequence[Standing], marks: Sequence[Mark], *, above: bool = False, below: bool = False
) -> Iterator[tuple[int, Standing | Mark]]:
    """Yield the rows with their indexes, and between them the marks in the order of times.

    A mark has the index of the row after it. Marks outside the known rows are skipped if the board goes on `above` or
    `below`.
    """
    left = [mark for mark in marks if not above or (rows and mark.score_s >= rows[0].score_s)]
    for index, row in enumerate(rows):
        while left and left[0].score_s < row.score_s:
            yield index, left.pop(0)
        yield index, row
    if not below:
        for mark in left:
            yield max(0, len(rows) - 1), mark
