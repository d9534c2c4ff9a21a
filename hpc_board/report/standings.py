"""Standings as blocks: pages with references and milestones, one rank in detail, and versions."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from hpc_board.domain.board_options import moment_words
from hpc_board.domain.origin import By
from hpc_board.domain.reference import ratio_of
from hpc_board.domain.run import Run
from hpc_board.domain.score_interval import RUNS_FOR_INTERVAL, full_score_text, wide_interval_text
from hpc_board.domain.standing import Mark, MarkKind, Page, Standing, Version, median_text, with_marks
from hpc_board.domain.user_page import UserPage
from hpc_board.model.task import ISOLATED
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Block, Column, Facts, Heading, Paragraph, Table, Tone, table
from hpc_board.report.formatting import (
    count_text,
    late_text,
    moment_text,
    reference_text,
    score_text,
    span_text,
    speedup_fact,
    speedup_text,
    speedup_tone,
)
from hpc_board.report.run_table import runs_table

if TYPE_CHECKING:
    from hpc_board.domain.grading import OverallRow

OVERLAPS = "~"
"""The mark of a statistical tie with the row above."""

NO_RESULTS = "No results yet."
NONE_OF_YOURS = "You have no passing ranked run here."
SHORT_VERSION = 12
"""The shown characters of a version, which `--task-version` accepts."""

OVERLAPS_MEANING = f"{OVERLAPS} is a statistical tie with the row above: the intervals overlap."


RUNS_MEANING = "RUNS is the number of runs of the same code, whose median is the score."


class Line(msgspec.Struct, frozen=True):
    """A line of a board: a standing, a mark beside the ranks or a run that does not count.

    `page` is the page of the line, if any, and `reader` the user who reads it. With `own_runs` the rows are the
    reader's runs and not users, and with `entrants` those of accounts. Ages end at `now`.
    """

    row: Standing | Mark | Run
    page: Page | None = None
    reader: str = ""
    own_runs: bool = False
    now: datetime | None = None
    entrants: bool = False

    @property
    def is_own(self) -> bool:
        """Return True for the reader's standing, and among the reader's own runs for those that count."""
        if not isinstance(self.row, Standing):
            return False
        if self.own_runs:
            own = self.page.own if self.page else None
            return own is not None and own.entry == self.row.entry
        return self._is_reader(self.row.user)

    @property
    def rank(self) -> str:
        """Return the rank."""
        return rank_text(self.row) if isinstance(self.row, Standing) else "-"

    @property
    def run(self) -> str:
        """Return the number of the run; empty for the reference, which is of many."""
        number = self.row.id if isinstance(self.row, Run) else self.row.run
        return "" if number is None else str(number)

    @property
    def runs(self) -> str:
        """Return the number of runs whose median the score is; empty for one run."""
        return str(self.row.runs) if isinstance(self.row, Standing) and self.row.runs > 1 else ""

    @property
    def interval(self) -> str:
        """Return the interval of the score, if it has a wide one."""
        return wide_interval_text(self.row.score_s, self.row.interval) if isinstance(self.row, Standing) else ""

    @property
    def ratio(self) -> float | None:
        """Return the speedup over the reference; None without a reference, and for a run that does not count."""
        row = self.row
        return None if self.page is None or isinstance(row, Run) else ratio_of(self.page.speedup(row))

    @property
    def speedup(self) -> str:
        """Return the speedup over the reference as text; empty without one."""
        return speedup_text(self.ratio)

    @property
    def date(self) -> str:
        """Return the moment of the submission; empty for the reference."""
        return "" if self._at is None else moment_text(self._at)

    @property
    def age(self) -> str:
        """Return the time since the submission; empty for the reference."""
        return "" if self.now is None or self._at is None else span_text(self.now - self._at)

    def user(self) -> str:
        """Return the name; among the reader's own runs, the words for the one in the standings."""
        match self.row:
            case Mark(kind=MarkKind.LATE, name=name):
                return one_line(name) + " (you)" * self._is_reader(name)
            case Mark(name=name):
                return f"[{one_line(name)}]"
            case Run(user=user):
                return f"{one_line(user)} (you)"
            case Standing() if self.own_runs:
                return "in standings" if self.is_own else ""
            case Standing() as row:
                return one_line(row.shown_name(entrants=self.entrants)) + " (you)" * self.is_own

    def remark(self, own: str = "task's own harness") -> str:
        """Return the remark on the time: how far it can be trusted; `own` are the words for a task's own harness."""
        match self.row:
            case Standing() as row:
                words = [
                    one_line(row.trust),
                    "" if row.harness == ISOLATED else own,
                    "emulated" if row.emulated else "",
                    f"confirmed by {row.runs} runs" if row.runs >= RUNS_FOR_INTERVAL else "",
                ]
            case Mark() as mark:
                words = [mark_text(mark), "emulated" if mark.emulated else ""]
            case Run(remarks=remarks) as row:
                removal = remarks.removal
                return late_text(row.late_seconds) if removal is None else f"removed: {one_line(removal.reason)}"
        return ", ".join(filter(None, words))

    def _is_reader(self, name: str) -> bool:
        """Return whether the reader, or the team of the reader's row, has this name."""
        return name == self.reader or (
            self.page is not None and self.page.own is not None and name == self.page.own.user
        )

    @property
    def _at(self) -> datetime | None:
        return self.row.created_at if isinstance(self.row, Run) else self.row.submitted_at


def mark_text(mark: Mark) -> str:
    """Return the kind of a row without a rank in words: "milestone", "late by 2 h"; empty for the reference."""
    return late_text(mark.late_seconds) or ("" if mark.kind is MarkKind.REFERENCE else str(mark.kind))


def rank_text(row: "Standing | OverallRow") -> str:
    """Return a rank, marked if it is a statistical tie with the rank above."""
    return f"{OVERLAPS}{row.rank}" if row.overlaps_above else str(row.rank)


def board_report(
    task: str,
    page: Page,
    user: str,
    *,
    own_runs: bool = False,
    entrants: bool = False,
    more: str = "",
    now: datetime | None = None,
) -> tuple[Block, ...]:
    """Return a page of a board for the reader `user`, with references and milestones placed by their times.

    A reader's row that is not on the page follows below a gap. With `own_runs` the rows are the reader's runs,
    and the one that counts is marked. `more` names the options that show the rest. With `now`, ages are in the place of
    dates.
    """
    lines: Sequence[Line | None]
    if own_runs:
        lines = [Line(row, page, user, own_runs=True, now=now) for row in page.rows]
    else:
        lines = [line and replace(line, entrants=entrants) for line in _lines(page, user, now)]
    remarks = {line.remark() for line in lines if line and line.remark()}
    is_told = len(remarks) > 1 or any("," in remark for remark in remarks)
    files = [line.row.file_name for line in lines if line and not isinstance(line.row, Mark)]
    file = Column("FILE", flexible=True, least=9, leaves=1), lambda line: one_line(line.row.file_name)
    standings = table(
        lines,
        (Column("RANK", right=True), lambda line: line.rank),
        (Column("" if own_runs else "USER", flexible=True, least=12), lambda line: line.user()),
        (Column("SCORE", right=True), lambda line: score_text(line.row.score_s)),
        (Column("80 % CI", optional=True, leaves=2), lambda line: line.interval),
        (Column("RUNS", right=True, optional=True), lambda line: line.runs),
        (Column("SPEEDUP", right=True, optional=True, toned=True), lambda line: line.speedup),
        (Column("RUN", right=True), lambda line: line.run),
        file if len(files) < 2 or len(set(files)) > 1 else None,
        (Column("AGE", right=True), lambda line: line.age) if now else (Column("SUBMITTED"), lambda line: line.date),
        (Column("REMARK", flexible=True, least=8), lambda line: line.remark()) if is_told else None,
        empty=NONE_OF_YOURS if own_runs else NO_RESULTS,
        tones=tuple(speedup_tone(line.ratio if line else None) for line in lines),
    )
    return Heading(f"{task} on {page.gpu}"), standings, *_remarks(page, "run" if own_runs else "entry", more)


def rank_report(task: str, page: Page, entries: Sequence[Standing]) -> Iterator[Block]:
    """Yield the details of the `entries` that share a rank on a board with the first page `page`."""
    for row in entries:
        yield Heading(f"Rank {row.rank} of {task} on {page.gpu}")
        yield Facts(tuple(_entry_facts(row, page, page.rows[0])))


def leaders_report(boards: Sequence[tuple[str, Sequence[Page]]], user: str) -> tuple[Block, ...]:
    """Return the first row of each leaderboard that has one, with the row of `user`; `boards` has pages by task."""
    rows = [(task, page) for task, pages in boards for page in pages if page.rows]
    leaders = table(
        rows,
        (Column("TASK", flexible=True, least=12), lambda row: one_line(row[0])),
        (Column("GPU", flexible=True), lambda row: one_line(row[1].gpu)),
        (Column("USERS", right=True), lambda row: str(row[1].total)),
        (Column("LEADER", flexible=True), lambda row: Line(row[1].rows[0], row[1], user).user()),
        (Column("TIME", right=True), lambda row: score_text(row[1].rows[0].score_s)),
        (Column("YOUR RANK", right=True), lambda row: rank_text(row[1].own) if row[1].own else "-"),
        (Column("YOUR TIME", right=True), lambda row: score_text(row[1].own.score_s) if row[1].own else "-"),
        empty="No results yet. `hpc-board list` shows the tasks.",
    )
    empty = [one_line(task) for task, pages in boards if not any(page.rows for page in pages)]
    told = (Paragraph(f"No results yet: {', '.join(empty)}.", Tone.QUIET),) if empty and rows else ()
    return leaders, *told


def user_report(page: UserPage, now: datetime | None = None) -> tuple[Block, ...]:
    """Return the ranks of a user, or of their entrants, and newest runs; with `now`, ages are in the place of dates."""
    age = Column("AGE", right=True), lambda rank: Line(rank.row, now=now).age
    date = Column("SUBMITTED"), lambda rank: Line(rank.row).date
    ranks = table(
        page.ranks,
        (Column("TASK", flexible=True, least=12), lambda rank: one_line(rank.task)),
        (Column("GPU", flexible=True), lambda rank: one_line(rank.gpu) + (" (emulated)" if rank.row.emulated else "")),
        (Column("TEAM", optional=True), lambda rank: one_line(rank.row.user) if rank.row.is_team else ""),
        None if page.by is By.ACCOUNT else (Column("ENTRANT", flexible=True, least=8), lambda rank: rank.row.entrant),
        (Column("RANK", right=True), lambda rank: rank_text(rank.row)),
        (Column(f"{page.by.noun}S".upper(), right=True), lambda rank: str(rank.users)),
        (Column("SCORE", right=True), lambda rank: score_text(rank.row.score_s)),
        (Column("RUNS", right=True, optional=True), lambda rank: Line(rank.row).runs),
        (
            Column("SPEEDUP", right=True, optional=True, toned=True),
            lambda rank: speedup_text(ratio_of(rank.speedup)),
        ),
        (Column("RUN", right=True), lambda rank: str(rank.row.run)),
        age if now else date,
        empty="No rank yet.",
        tones=tuple(speedup_tone(ratio_of(rank.speedup)) for rank in page.ranks),
    )
    records = f", {count_text(page.records, 'record')}" if page.records else ""
    return (
        Heading(f"{one_line(page.user)}: {count_text(len(page.ranks), 'rank')}{records}"),
        ranks,
        Heading("Newest runs"),
        runs_table(page.runs, now=now, empty="No runs yet."),
    )


def versions_table(versions: Sequence[Version], present: str) -> Table:
    """Return versions of a task, newest first; submissions go to `present`."""
    return table(
        versions,
        (Column("VERSION"), lambda each: each.version[:SHORT_VERSION]),
        (Column("FIRST SUBMISSION"), lambda each: moment_text(each.added_at)),
        (Column("ENTRIES", right=True), lambda each: str(each.entries)),
        (Column(""), lambda each: "current" if each.version == present else ""),
        empty="No submissions yet.",
    )


def _lines(page: Page, user: str, now: datetime | None) -> list[Line | None]:
    """Return the rows of the page with the marks between them, and the reader's own below a gap."""
    above, below = page.offset > 0 and bool(page.rows), page.offset + len(page.rows) < page.total
    lines: list[Line | None] = [
        Line(row, page, user, now=now) for _, row in with_marks(page.rows, page.marks, above=above, below=below)
    ]
    own = page.own
    if own is not None and page.rows and own.run not in [row.run for row in page.rows]:
        mine = Line(own, page, user, now=now)
        lines = [mine, None, *lines] if own.score_s < page.rows[0].score_s else [*lines, None, mine]
    return lines


def restriction_words(page: Page, moment: Callable[[datetime], str] = moment_words) -> Iterator[str]:
    """Yield a sentence on each restriction of a board's readers, as it concerns this one; `moment` formats a time."""
    if page.frozen_at is not None:
        since = f"Frozen since {moment(page.frozen_at)}"
        yield (
            f"{since} for users who do not manage the board; you see all submissions."
            if page.manages
            else f"{since}: later submissions of other users are not shown."
        )
    if page.anonymous:
        yield (
            "Users who do not manage the board see others under pseudonyms; you see the names."
            if page.manages
            else "Other users have pseudonyms."
        )


def _remarks(page: Page, noun: str, more: str) -> Iterator[Block]:
    """Yield the restrictions of the reader, the number of rows beyond the page, and the time of the reference."""
    yield from (Paragraph(words) for words in restriction_words(page))
    shown = len(page.rows)
    missing = page.total - shown
    if missing > 0:
        where = f", from rank {page.offset + 1}" if page.offset and shown else ""
        plural = noun if page.total == 1 else {"entry": "entries"}.get(noun, f"{noun}s")
        yield Paragraph(f"{shown} of {page.total} {plural}{where}. {more}".rstrip(), Tone.QUIET)
    own = [page.own] if page.own else []
    if any(row.overlaps_above for row in (*page.rows, *own)):
        yield Paragraph(OVERLAPS_MEANING, Tone.QUIET)
    if any(row.runs > 1 for row in (*page.rows, *own)):
        yield Paragraph(RUNS_MEANING, Tone.QUIET)
    if page.reference is not None and page.rows:
        yield Paragraph(f"Speedups are relative to the reference: {reference_text(page.reference)}.", Tone.QUIET)


def _entry_facts(row: Standing, page: Page, leader: Standing) -> Iterator[tuple[str, str]]:
    yield "rank", f"{row.rank} of {count_text(page.total, 'user')}"
    yield "team" if row.is_team else "user", one_line(row.shown_name())
    yield "score", ", ".join(filter(None, (full_score_text(row.score_s, row.interval), median_text(row.runs))))
    if row.overlaps_above:
        yield "overlap", "statistical tie with the row above: the intervals overlap"
    if row.score_s > leader.score_s:
        factor = speedup_text(row.score_s / leader.score_s)
        yield "behind", f"{factor} the time of rank 1, {one_line(leader.user)} with {score_text(leader.score_s)}"
    if page.reference is not None:
        yield speedup_fact(page.reference.speedup(row.score_s, row.interval), page.reference)
    yield "submission", str(row.submission)
    yield "run", str(row.run)
    yield "file", one_line(row.file_name)
    yield "submitted", moment_text(row.submitted_at)
    yield "trust", Line(row).remark()
    yield "version", page.version[:SHORT_VERSION]
