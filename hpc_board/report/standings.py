"""Boards as blocks: pages of them with what stands beside the ranks, one rank in detail, and versions."""

from collections.abc import Iterator, Sequence

from hpc_board.domain.standing import Mark, MarkKind, Page, Standing, Version
from hpc_board.model.score import full_score_text, wide_interval_text
from hpc_board.model.task import ISOLATED
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Block, Column, Facts, Heading, Paragraph, Table, Tone
from hpc_board.report.formatting import count_text, moment_text, score_text

NOBODY = "Nobody is on this board yet."
NONE_OF_YOURS = "You have no passing ranked run on it."
SHORT_VERSION = 12
"""How many characters of a version are shown; `--task-version` takes them."""

OVERLAPS = "~"
"""The mark of a row that cannot be told from the one above it."""

OVERLAPS_MEANING = f"{OVERLAPS} cannot be told from the one above: their intervals overlap."

_GAP = "..."
_INTERVAL = 3
_COLUMNS = 9


def standings_table(standings: Sequence[Standing], user: str = "", empty: str = NOBODY) -> Table:
    """The rows of a board, best first; `user` is the reader, whose rows are marked, `empty` what to say without any."""
    return _table([_row(row, user, None) for row in standings], empty, speedups=False)


def board_report(task: str, page: Page, user: str, *, own_runs: bool = False, more: str = "") -> tuple[Block, ...]:
    """A page of a board for the reader `user`, with what stands beside the ranks where it belongs by its time.

    The reader's row is shown below a gap where the page has it not. With `own_runs` the rows are the reader's runs,
    and the one that counts is marked. `more` says how to see what is not on the page.
    """
    rows = _own_run_rows(page, user) if own_runs else _rows(page, user)
    whose = "" if own_runs else "USER"
    return (
        Heading(f"{task} on {page.gpu}"),
        _table(rows, NONE_OF_YOURS if own_runs else NOBODY, whose=whose, speedups=page.reference_s is not None),
        *_remarks(page, "run" if own_runs else "entry", more),
    )


def rank_report(task: str, page: Page, entries: Sequence[Standing]) -> Iterator[Block]:
    """Everything about the `entries` that share a rank on a board, whose first page is `page`."""
    for row in entries:
        yield Heading(f"Rank {row.rank} of {task} on {page.gpu}")
        yield Facts(tuple(_entry_facts(row, page, page.rows[0])))


def versions_table(versions: Sequence[Version], present: str) -> Table:
    """Versions of a task, the one that came last first; `present` is the one that submissions go to."""
    columns = (Column("VERSION"), Column("FIRST SUBMISSION"), Column("ENTRIES", right=True), Column(""))
    rows = tuple(
        (
            each.version[:SHORT_VERSION],
            moment_text(each.added_at),
            str(each.entries),
            "present" if each.version == present else "",
        )
        for each in versions
    )
    return Table(columns, rows, "Nobody has submitted for this task yet.")


def _table(rows: Sequence[tuple[str, ...]], empty: str, *, whose: str = "USER", speedups: bool) -> Table:
    columns = (
        Column("RANK", right=True),
        Column(whose, flexible=True),
        Column("SCORE", right=True),
        Column("INTERVAL"),
        Column("SPEEDUP", right=True),
        Column("RUN", right=True),
        Column("FILE", flexible=True),
        Column("SUBMITTED"),
        Column("TRUST"),
    )
    wide = any(row[_INTERVAL] for row in rows)
    left_out = {"SPEEDUP": not speedups, "INTERVAL": not wide}
    kept = [index for index, column in enumerate(columns) if not left_out.get(column.title)]
    return Table(
        tuple(columns[index] for index in kept), tuple(tuple(row[index] for index in kept) for row in rows), empty
    )


def _rows(page: Page, user: str) -> list[tuple[str, ...]]:
    """The rows of the page with the marks between them, and the reader's own below a gap."""
    rows: list[tuple[str, ...]] = []
    for row, marks in _between(page):
        rows += [_mark_row(mark, page) for mark in marks]
        if row is not None:
            rows.append(_row(row, user, page.speedup(row.score_s)))
    own = page.own
    if own is not None and page.rows and own.run not in [row.run for row in page.rows]:
        gap, mine = (_GAP, *("",) * (_COLUMNS - 1)), _row(own, user, page.speedup(own.score_s))
        rows = [mine, gap, *rows] if own.score_s < page.rows[0].score_s else [*rows, gap, mine]
    return rows


def _between(page: Page) -> Iterator[tuple[Standing | None, list[Mark]]]:
    """Each row of the page with the marks that are faster and not before it; last those behind the end of the board."""
    marks = list(page.marks)
    if page.offset and page.rows:
        marks = [mark for mark in marks if mark.score_s >= page.rows[0].score_s]
    for row in page.rows:
        yield row, [mark for mark in marks if mark.score_s < row.score_s]
        marks = [mark for mark in marks if mark.score_s >= row.score_s]
    yield None, marks if page.offset + len(page.rows) >= page.total else []


def _own_run_rows(page: Page, user: str) -> list[tuple[str, ...]]:
    counting = page.own.run if page.own else None
    return [
        _row(row, user, page.speedup(row.score_s), name="counts on the board" if row.run == counting else "")
        for row in page.rows
    ]


def _row(row: Standing, user: str, speedup: float | None, *, name: str | None = None) -> tuple[str, ...]:
    return (
        rank_text(row),
        one_line(row.user) + (" (you)" if row.user == user else "") if name is None else name,
        score_text(row.score_s),
        wide_interval_text(row.score_s, row.interval),
        speedup_text(speedup),
        str(row.run),
        one_line(row.file_name),
        moment_text(row.submitted_at),
        _trust_text(row),
    )


def _mark_row(mark: Mark, page: Page) -> tuple[str, ...]:
    milestone = mark.kind is MarkKind.MILESTONE
    return (
        "-",
        f"[{one_line(mark.name)}]",
        score_text(mark.score_s),
        "",
        speedup_text(page.speedup(mark.score_s)),
        str(mark.run),
        one_line(mark.file_name),
        moment_text(mark.submitted_at) if milestone else "",
        ", ".join(filter(None, (str(mark.kind) if milestone else "", "emulated" if mark.emulated else ""))),
    )


def rank_text(row: Standing) -> str:
    """Return a rank, with a mark where it cannot be told from the one above."""
    return f"{OVERLAPS}{row.rank}" if row.overlaps_above else str(row.rank)


def speedup_text(speedup: float | None) -> str:
    """How many times as fast as the reference something is; empty where that is not known."""
    if speedup is None:
        return ""
    return f"{speedup:.2f}x" if speedup < 10 else f"{speedup:.3g}x"


def _trust_text(row: Standing) -> str:
    own = "" if row.harness == ISOLATED else "task's own harness"
    return ", ".join(filter(None, (one_line(row.trust), own, "emulated" if row.emulated else "")))


def _remarks(page: Page, noun: str, more: str) -> Iterator[Block]:
    """How many rows are not on the page, and what the reference is."""
    shown = len(page.rows)
    missing = page.total - shown
    if missing > 0:
        where = f", from place {page.offset + 1}" if page.offset and shown else ""
        plural = noun if page.total == 1 else {"entry": "entries"}.get(noun, f"{noun}s")
        yield Paragraph(f"{shown} of {page.total} {plural}{where}. {more}".rstrip(), Tone.QUIET)
    own = [page.own] if page.own else []
    if any(row.overlaps_above for row in (*page.rows, *own)):
        yield Paragraph(OVERLAPS_MEANING, Tone.QUIET)
    reference = next((mark for mark in page.marks if mark.kind is MarkKind.REFERENCE), None)
    if reference is not None and page.rows:
        yield Paragraph(
            f"SPEEDUP is over the task's own reference, as it was timed beside run {reference.run}.", Tone.QUIET
        )


def _entry_facts(row: Standing, page: Page, leader: Standing) -> Iterator[tuple[str, str]]:
    yield "rank", f"{row.rank} of {count_text(page.total, 'user')}"
    yield "user", one_line(row.user)
    yield "score", full_score_text(row.score_s, row.interval)
    if row.overlaps_above:
        yield "overlap", "cannot be told from the one above: their intervals overlap"
    if row.score_s > leader.score_s:
        times = f"{row.score_s / leader.score_s:.3g} times as long as"
        yield "behind", f"{times} the first, {one_line(leader.user)} with {score_text(leader.score_s)}"
    speedup = page.speedup(row.score_s)
    if speedup is not None:
        yield "speedup", f"{speedup_text(speedup)} over the task's own reference"
    yield "submission", str(row.submission)
    yield "run", str(row.run)
    yield "file", one_line(row.file_name)
    yield "submitted", moment_text(row.submitted_at)
    yield "trust", _trust_text(row)
    yield "version", page.version[:SHORT_VERSION]
