"""The JSON of standings: pages, histories, the feed and comparisons."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from hpc_board.domain.comparison import Comparison, Difference, KernelPair, kernel_pairs
from hpc_board.domain.feed import FeedEntry
from hpc_board.domain.reference import speedup_keys
from hpc_board.domain.run import Run
from hpc_board.domain.standing import Page, Standing, Version
from hpc_board.domain.user_page import UserPage, UserRank
from hpc_board.model.kernels import METRICS
from hpc_board.model.result import Result
from hpc_board.report.comparisons import caveats
from hpc_board.report.feeds import feed_line
from hpc_board.report.histories import bests, in_order
from hpc_board.report.views import Moment, Seconds, Unchanged, View, view_of
from hpc_board.report.views.results import KernelView
from hpc_board.report.views.runs import LateRunView, ReferenceView, RemovedRunView, RunView


class RowView(View, frozen=True):
    """A row of standings."""

    ATTRIBUTES: ClassVar = {"score_low_s": "interval.low_s", "score_high_s": "interval.high_s"}
    rank: int
    """the rank; equal scores share one"""
    user: str
    """the user, or the [team](boards.md#teams) as `@group`"""
    score_s: Seconds
    submission: int
    run: int
    submitted_at: Moment
    file_name: str
    trust: str
    """`self-run` or `verified`"""
    emulated: bool
    harness: str
    speedup: float | None
    """the speedup over the reference of the board; `null` without one"""
    speedup_low: float | None
    """the lower bound of its 80 % confidence interval; `null` without one of the score"""
    speedup_high: float | None
    score_low_s: Seconds | None
    """the lower bound of the score's 80 % confidence interval"""
    score_high_s: Seconds | None
    """its upper bound"""
    overlaps_above: bool
    """true for a [statistical tie](results.md#statistical-ties) with the row above"""
    entrant: str | None
    """the [entrant](experiments.md) of the run; `null` for the account itself"""
    runs: int
    """the number of runs of the [same code](results.md#entries), whose median the score is; `run` is the one that has
    it"""
    members: list[str]
    """the members of the team; empty for a user"""
    submitter: str
    """the user of the run: for a team, the member who submitted it, or the pseudonym of the team"""

    @classmethod
    def of(cls, row: Standing, page: Page) -> "RowView":
        return view_of(cls, row, **speedup_keys(page.speedup(row)))


class MarkView(View, frozen=True):
    """A line beside the ranks."""

    ATTRIBUTES: ClassVar = {"late_s": "late_seconds"}
    kind: str
    """`reference`, `milestone` or `late`"""
    name: str
    """the name of the milestone, `reference`, or the user or [team](boards.md#teams) of a late submission"""
    score_s: Seconds
    submission: int | None
    """the number of the submission; `null` for the reference, which is timed in every run"""
    run: int | None
    """the number of the run; `null` for the reference"""
    submitted_at: Moment | None
    """the time of the submission; `null` for the reference"""
    file_name: str
    emulated: bool
    speedup: float | None
    """the speedup over the reference of the board; `null` without one"""
    late_s: Seconds | None
    """the time by which a late submission missed the deadline"""


class PageView(View, frozen=True):
    """A page of the standings on one GPU."""

    gpu: str
    rows: list[RowView]
    """the rows, best first"""
    version: str
    """the version of the task"""
    offset: int
    """the number of rows before the page"""
    total: int
    """the number of rows of the whole standings"""
    own: RowView | None
    """your row, wherever it is"""
    marks: list[MarkView]
    """the reference and the [milestones](results.md#rows-without-a-rank), which have no rank"""
    reference: ReferenceView | None
    """the reference; `null` if no ranked run has timed it"""
    frozen_at: Moment | None
    """the past time after which users who do not manage the board see no [submissions of others](boards.md#freeze)"""
    anonymous: bool
    """true if these users see others under [pseudonyms](boards.md#anonymous-boards)"""
    manages: bool
    """true if you manage the board, and see all submissions and names"""

    @classmethod
    def of(cls, page: Page, **others: Any) -> Self:
        """Return the object of a page; `others` are the keys that a page of the reader's runs has besides."""
        return view_of(
            cls,
            page,
            rows=[RowView.of(row, page) for row in page.rows],
            own=page.own and RowView.of(page.own, page),
            marks=[view_of(MarkView, mark, speedup=speedup_keys(page.speedup(mark))["speedup"]) for mark in page.marks],
            **others,
        )


class OwnPageView(PageView, frozen=True):
    """A page of your own runs."""

    removed: list[RemovedRunView]
    """your runs that an admin has removed"""
    late: list[LateRunView]
    """your late runs"""


class StandingsView(View, frozen=True):
    """The standings of a task on each GPU."""

    task: str
    boards: list[PageView]


class OwnStandingsView(View, frozen=True):
    """Your own runs on the board of a task."""

    task: str
    boards: list[OwnPageView]


class RankView(View, frozen=True):
    """The rows of the standings with one rank."""

    gpu: str
    rows: list[RowView]
    """the rows with the rank"""

    @classmethod
    def of(cls, page: Page, rows: Sequence[Standing]) -> "RankView":
        return cls(gpu=page.gpu, rows=[RowView.of(row, page) for row in rows])


class RanksView(View, frozen=True):
    """The rows with one rank on the board of a task."""

    task: str
    rank: int
    """the rank"""
    boards: list[RankView]


class VersionView(View, frozen=True):
    """A version of a task."""

    ATTRIBUTES: ClassVar = {"first_submission_at": "added_at"}
    version: str
    """the version"""
    first_submission_at: Moment
    """the time of the first submission to it"""
    entries: int
    """the number of ranks; a user with ranks on several GPUs counts once for each"""
    present: bool
    """true for the version that submissions go to"""

    @classmethod
    def of(cls, version: Version, present: str) -> "VersionView":
        """Return the object of a version; `present` is the one that submissions go to."""
        return view_of(cls, version, present=version.version == present)


class VersionsView(View, frozen=True):
    """The versions of a task."""

    task: str
    versions: list[VersionView]
    """its versions"""


class UserRankView(RowView, frozen=True):
    """The row of a user, or of the user's team, in the standings of one GPU."""

    task: str
    gpu: str
    users: int
    """the number of users and teams there"""

    @classmethod
    def of_user(cls, rank: UserRank) -> "UserRankView":
        return view_of(cls, rank.row, task=rank.task, gpu=rank.gpu, users=rank.users, **speedup_keys(rank.speedup))


class UserPageView(View, frozen=True):
    """A user on all boards."""

    user: str
    records: int
    """the number of standings in which the user is first among several"""
    ranks: list[UserRankView]
    """the user's rows, by task and GPU"""
    runs: list[RunView]
    """the user's newest runs that you may see, newest first"""

    @classmethod
    def of(cls, page: UserPage, runs: list[RunView]) -> "UserPageView":
        return view_of(cls, page, ranks=[UserRankView.of_user(rank) for rank in page.ranks], runs=runs)


class HistoryRunView(View, frozen=True):
    """A run in a history."""

    run: int
    submission: int
    """that of its submission"""
    score_s: Seconds
    """its score"""
    submitted_at: Moment
    file_name: str
    best: bool
    """true if it is faster than all before"""


class HistoryView(View, frozen=True):
    """A user's runs on one GPU."""

    ATTRIBUTES: ClassVar = {"reference_s": "reference.median_s"}
    gpu: str
    version: str
    """the version of the task"""
    total: int
    """the number of runs, of which the newest 10,000 are listed"""
    reference_s: Seconds | None
    """the median time of the reference"""
    runs: list[HistoryRunView]
    """the runs in the order of their submissions"""

    @classmethod
    def of(cls, page: Page) -> "HistoryView":
        runs = in_order(page)
        rows = [view_of(HistoryRunView, row, best=best) for row, best in zip(runs, bests(runs), strict=True)]
        return view_of(cls, page, runs=rows)


class HistoriesView(View, frozen=True):
    """A user's runs on the board of a task."""

    task: str
    user: str
    boards: list[HistoryView]


class UserScoreView(View, frozen=True):
    """A user in the standings of one GPU."""

    user: str
    score_s: Seconds


class FeedView(View, frozen=True):
    """A change of the standings by a run, as of its time."""

    ATTRIBUTES: ClassVar = {
        "version": "task_version",
        **{name: f"news.{name}" for name in ("kind", "rank", "score_s", "former_rank", "former_s", "beaten", "fallen")},
    }
    id: int
    """the number of the entry, for `--before`"""
    at: Moment
    kind: str
    """`record`, `podium`, `first` or `best`"""
    task: str
    version: str
    gpu: str
    user: str
    """the user of the run, or the [team](boards.md#teams) as `@group`"""
    entrant: str | None
    """the [entrant](experiments.md) of the run; `null` for the account itself"""
    submission: int
    run: int
    rank: int
    """the rank of the run"""
    score_s: Seconds
    """its score"""
    former_rank: int | None
    """the user's rank before"""
    former_s: Seconds | None
    """the user's score before"""
    beaten: UserScoreView | None
    """the user who is directly behind it, and was not before"""
    fallen: list[UserScoreView]
    """the users who left the first three places"""
    emulated: bool
    submitter: str
    """the user of the run: for a team, the member who submitted it, or the pseudonym of the team"""
    text: str
    """the change in a sentence"""

    @classmethod
    def of(cls, entry: FeedEntry) -> "FeedView":
        return view_of(cls, entry, text=feed_line(entry))


class DifferenceView(View, frozen=True):
    """The difference between the times of two runs."""

    ATTRIBUTES: ClassVar = {"speedup_low": "low", "speedup_high": "high", "between_processes": "repeated"}
    times_s: list[Seconds]
    speedup: float
    """the ratio of the first to the second"""
    speedup_low: float | None
    speedup_high: float | None
    shown: bool
    between_processes: bool
    text: str
    """the difference in words"""

    @classmethod
    def of(cls, difference: Difference, **others: Any) -> Self:
        """Return the object of a difference; `others` are the keys that one of a case has besides."""
        times_s = [difference.one_ns / 1e9, difference.other_ns / 1e9]
        return view_of(cls, difference, times_s=times_s, **others)


class CaseDifferenceView(DifferenceView, frozen=True):
    """The difference between the times of two runs in one case."""

    index: int
    """the number of the benchmark case, from 0"""
    case: str
    """the arguments of the case"""


class KernelPairView(View, frozen=True):
    """A kernel of a profiled case in both runs; `null` in one without it."""

    case: int
    """the index of the benchmark case"""
    kernels: list[KernelView | None]
    """the kernel in the two runs"""
    changes: dict[str, float]
    """the second number minus the first, for each number that both have"""

    @classmethod
    def of(cls, pair: KernelPair) -> "KernelPairView":
        one, other = ({} if each is None else {key: getattr(each, key) for key in METRICS} for each in pair.kernels)
        changes = {
            str(key): other[key] - before
            for key, before in one.items()
            if before is not None and other.get(key) is not None
        }
        return view_of(cls, pair, changes=changes)


class ComparisonView(View, frozen=True):
    """Two submissions on one GPU."""

    gpu: str
    runs: list[int]
    """the numbers of the two runs"""
    submissions: list[int]
    """those of their submissions"""
    verdicts: list[str | None]
    """their verdicts"""
    cases: list[CaseDifferenceView]
    """the benchmark cases that both have"""
    kernels: list[KernelPairView]
    """the kernels of two profiles"""
    score: DifferenceView | None
    """the scores"""
    reference_ratio: float | None
    """the ratio of the reference's time in the second run to that in the first"""
    emulated: bool
    caveats: list[str]
    """the reasons to doubt the difference, as the report has them"""

    @classmethod
    def of(cls, runs: tuple[Run, Run], results: tuple[Result, Result], comparison: Comparison) -> "ComparisonView":
        return cls(
            gpu=runs[0].gpu,
            runs=[run.id for run in runs],
            submissions=[run.submission for run in runs],
            verdicts=[None if run.verdict is None else str(run.verdict) for run in runs],
            cases=[
                CaseDifferenceView.of(case.difference, index=case.index, case=case.spec) for case in comparison.cases
            ],
            kernels=[KernelPairView.of(pair) for pair in kernel_pairs(results)],
            score=None if comparison.score is None else DifferenceView.of(comparison.score),
            reference_ratio=comparison.reference,
            emulated=any(run.emulated for run in runs),
            caveats=[each.text for each in caveats(runs, results, comparison)],
        )


class ComparisonsView(View, frozen=True):
    """Two submissions for a task."""

    task: str
    boards: list[ComparisonView]
    """the GPUs on which both were timed"""
    diff: Unchanged | None = None
    """with `--diff`, the unified diff from the older file to the newer; `null` if you may not read both"""
