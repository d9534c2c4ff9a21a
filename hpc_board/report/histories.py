"""A user's times on a board from one submission to the next, as a plot in text and as a table."""

import math
from collections.abc import Sequence

from hpc_board.domain.standing import Page, Standing
from hpc_board.domain.time_change import COMPARED_MAX, WITHIN_NOISE, change_text
from hpc_board.model.score import duration_text
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Block, Column, Heading, Log, Paragraph, Table, Tone
from hpc_board.report.formatting import moment_text, score_text
from hpc_board.report.plots import AXES, cell_of, columns_in, framed, value_at

_PLOT_COLUMNS = 78
_PLOT_ROWS = 11
_LABEL_ROWS = 5
"""The rows from one label of the vertical axis to the next."""


_BEST, _SLOWER = "●", "○"
_TONES = (*((sign, Tone.QUIET) for sign in (*AXES, _SLOWER)), (_BEST, Tone.GOOD))


def history_report(task: str, page: Page, user: str) -> tuple[Block, ...]:
    """Return the ranked runs of `user`, the rows of `page`, in the order of their submissions.

    A page without all runs has the newest ones, and the report says so.
    """
    runs = in_order(page)
    heading = Heading(f"{task} on {page.gpu}: {one_line(user)}")
    if not runs:
        return heading, Paragraph("No passing ranked runs yet.")
    left_out = left_out_text(page)
    report: list[Block] = [heading, Paragraph(left_out)] if left_out else [heading]
    if len(runs) > 1:
        report.append(history_plot(runs, _PLOT_COLUMNS, _PLOT_ROWS))
    report.append(_table(runs))
    if len(runs) > COMPARED_MAX:
        report.append(Paragraph(f'Runs before the newest {COMPARED_MAX} never show "{WITHIN_NOISE}".', Tone.QUIET))
    return tuple(report)


def in_order(page: Page) -> list[Standing]:
    """Return the runs of a page in the order of their submissions."""
    return sorted(page.rows, key=lambda row: (row.submitted_at, row.run))


def left_out_text(page: Page) -> str:
    """Return the number of older runs that a page lacks, in words; empty for a page with all runs."""
    left = page.total - len(page.rows)
    if left <= 0:
        return ""
    about = f"The newest {len(page.rows):,} of {page.total:,} runs; {left:,} older {'one' if left == 1 else 'ones'} "
    return f"{about}left out. {_BEST} is relative to the first run shown."


def history_plot(runs: Sequence[Standing], width: int, height: int) -> Log:
    """Return the plot of two runs or more, in order, in `width` columns and at most `height` rows of points."""
    title = f"Score (logarithmic) by submission: {_BEST} new best, {_SLOWER} slower"
    return Log(title, _plot(runs, width, height), _TONES)


def bests(runs: Sequence[Standing]) -> list[bool]:
    """Return for each of the runs, in order, whether it is faster than all before it."""
    found: list[bool] = []
    fastest = math.inf
    for run in runs:
        found.append(run.score_s < fastest)
        fastest = min(fastest, run.score_s)
    return found


def history_rows(runs: Sequence[Standing]) -> list[tuple[str, ...]]:
    """Return the cells of each run, in order: moment, score, sign of a new best, change, number, file."""
    fastest = math.inf
    rows: list[tuple[str, ...]] = []
    for run, best in zip(runs, bests(runs), strict=True):
        change = "" if fastest == math.inf else change_text(fastest, run.score_s, run.change_spread)
        rows.append(
            (
                moment_text(run.submitted_at),
                score_text(run.score_s),
                _BEST if best else "",
                change,
                str(run.run),
                one_line(run.file_name),
            )
        )
        fastest = min(fastest, run.score_s)
    return rows


def _table(runs: Sequence[Standing]) -> Table:
    columns = (
        Column("SUBMITTED"),
        Column("SCORE", right=True),
        Column(""),
        Column("VS BEST", right=True),
        Column("RUN", right=True),
        Column("FILE", flexible=True),
    )
    # A single run is faster than no other.
    kept = [index for index, column in enumerate(columns) if column.title or len(runs) > 1]
    rows = tuple(tuple(row[index] for index in kept) for row in history_rows(runs))
    return Table(tuple(columns[index] for index in kept), rows)


def _plot(runs: Sequence[Standing], width: int, height: int) -> str:
    """Draw runs as points from left to right, the slower the higher, on a logarithmic scale."""
    scores = [run.score_s for run in runs]
    low, high = min(scores), max(scores)
    columns = columns_in(width)
    # The first and the last row have labels.
    last_row = max(1, (height - 1) // _LABEL_ROWS) * _LABEL_ROWS
    cells = [[" "] * columns for _ in range(last_row + 1)]

    def row_of(score_s: float) -> int:
        return last_row - cell_of(score_s, low, high, last_row + 1)

    # The best ones are drawn over the others.
    for best, index in sorted(zip(bests(runs), range(len(runs)), strict=True)):
        column = 1 + round(index * (columns - 2) / (len(runs) - 1))
        cells[row_of(scores[index])][min(column, columns - 1)] = _BEST if best else _SLOWER
    labelled = range(0, last_row + 1, _LABEL_ROWS) if high > low else (row_of(low),)
    labels = {row: duration_text(value_at(last_row - row, low, high, last_row + 1) * 1e9) for row in labelled}
    first, last = (f"{run.submitted_at.astimezone():%Y-%m-%d}" for run in (runs[0], runs[-1]))
    return framed(cells, labels, [(0, first), (columns - 1, "" if first == last else last)])
