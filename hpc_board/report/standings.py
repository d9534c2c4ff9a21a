"""Standings as blocks: pages with references and milestones, one rank in detail, and versions."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from hpc_board.domain.score_interval import full_score_text
from hpc_board.domain.standing import MarkKind, Page, Standing, Version, with_marks
from hpc_board.model.score import figures
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Block, Column, Facts, Heading, Paragraph, Table, Tone
from hpc_board.report.columns import columns_table
from hpc_board.report.formatting import count_text, moment_text, score_text, speedup_text
from hpc_board.report.standing_columns import OVERLAPS, Line, rank_text, report_columns, trust_text

NO_RESULTS = "No results yet."
NONE_OF_YOURS = "You have no passing ranked run here."
SHORT_VERSION = 12
"""The shown characters of a version, which `--task-version` accepts."""

OVERLAPS_MEANING = f"{OVERLAPS} is a statistical tie with the row above: the intervals overlap."


def board_report(
    task: str, page: Page, user: str, *, own_runs: bool = False, more: str = "", now: datetime | None = None
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
        lines = _lines(page, user, now)
    return (
        Heading(f"{task} on {page.gpu}"),
        columns_table(
            report_columns(),
            lines,
            {"user": ""} if own_runs else {},
            ages=now is not None,
            empty=NONE_OF_YOURS if own_runs else NO_RESULTS,
        ),
        *_remarks(page, "run" if own_runs else "entry", more),
    )


def rank_report(task: str, page: Page, entries: Sequence[Standing]) -> Iterator[Block]:
    """Yield the details of the `entries` that share a rank on a board with the first page `page`."""
    for row in entries:
        yield Heading(f"Rank {row.rank} of {task} on {page.gpu}")
        yield Facts(tuple(_entry_facts(row, page, page.rows[0])))


def leaders_report(boards: Sequence[tuple[str, Sequence[Page]]], user: str) -> tuple[Block, ...]:
    """Return the first row of each leaderboard that has one, with the row of `user`; `boards` has pages by task."""
    columns = (
        Column("TASK", flexible=True, least=12),
        Column("GPU", flexible=True),
        Column("USERS", right=True),
        Column("LEADER", flexible=True),
        Column("TIME", right=True),
        Column("YOUR RANK", right=True),
        Column("YOUR TIME", right=True),
    )
    rows = tuple(
        (
            one_line(task),
            one_line(page.gpu),
            str(page.total),
            _leader_text(page.rows[0], user),
            score_text(page.rows[0].score_s),
            rank_text(page.own) if page.own else "-",
            score_text(page.own.score_s) if page.own else "-",
        )
        for task, pages in boards
        for page in pages
        if page.rows
    )
    empty = [one_line(task) for task, pages in boards if not any(page.rows for page in pages)]
    told = (Paragraph(f"No results yet: {', '.join(empty)}.", Tone.QUIET),) if empty and rows else ()
    return Table(columns, rows, "No results yet. `hpc-board list` has the tasks."), *told


def _leader_text(row: Standing, user: str) -> str:
    return f"{one_line(row.user)} (you)" if row.user == user else one_line(row.user)


def versions_table(versions: Sequence[Version], present: str) -> Table:
    """Return versions of a task, newest first; submissions go to `present`."""
    columns = (Column("VERSION"), Column("FIRST SUBMISSION"), Column("ENTRIES", right=True), Column(""))
    rows = tuple(
        (
            each.version[:SHORT_VERSION],
            moment_text(each.added_at),
            str(each.entries),
            "current" if each.version == present else "",
        )
        for each in versions
    )
    return Table(columns, rows, "No submissions yet.")


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


def _remarks(page: Page, noun: str, more: str) -> Iterator[Block]:
    """Yield the number of rows beyond the page, and the run of the reference."""
    shown = len(page.rows)
    missing = page.total - shown
    if missing > 0:
        where = f", from rank {page.offset + 1}" if page.offset and shown else ""
        plural = noun if page.total == 1 else {"entry": "entries"}.get(noun, f"{noun}s")
        yield Paragraph(f"{shown} of {page.total} {plural}{where}. {more}".rstrip(), Tone.QUIET)
    own = [page.own] if page.own else []
    if any(row.overlaps_above for row in (*page.rows, *own)):
        yield Paragraph(OVERLAPS_MEANING, Tone.QUIET)
    reference = next((mark for mark in page.marks if mark.kind is MarkKind.REFERENCE), None)
    if reference is not None and page.rows:
        yield Paragraph(f"SPEEDUP is relative to the task's reference, timed in run {reference.run}.", Tone.QUIET)


def _entry_facts(row: Standing, page: Page, leader: Standing) -> Iterator[tuple[str, str]]:
    yield "rank", f"{row.rank} of {count_text(page.total, 'user')}"
    yield "user", one_line(row.user)
    yield "score", full_score_text(row.score_s, row.interval)
    if row.overlaps_above:
        yield "overlap", "statistical tie with the row above: the intervals overlap"
    if row.score_s > leader.score_s:
        factor = f"{figures(row.score_s / leader.score_s, 3)}x"
        yield "behind", f"{factor} the time of rank 1, {one_line(leader.user)} with {score_text(leader.score_s)}"
    speedup = page.speedup(row.score_s)
    if speedup is not None:
        yield "speedup", f"{speedup_text(speedup)} over the task's reference"
    yield "submission", str(row.submission)
    yield "run", str(row.run)
    yield "file", one_line(row.file_name)
    yield "submitted", moment_text(row.submitted_at)
    yield "trust", trust_text(row)
    yield "version", page.version[:SHORT_VERSION]
