"""Runs as a table, for every list of the command line."""

from collections.abc import Sequence
from datetime import datetime

from hpc_board.domain.run import Run
from hpc_board.report.blocks import Table
from hpc_board.report.columns import columns_table
from hpc_board.report.run_columns import Line, report_columns, run_tone

NO_RUNS = "No runs yet. Submit one with `hpc-board submit FILE`."


def runs_table(
    runs: Sequence[Run],
    *,
    users: bool = False,
    numbers: bool = False,
    now: datetime | None = None,
    empty: str = NO_RUNS,
) -> Table:
    """Return runs as a table in the order given, with remarks if any.

    `users` adds a column, `numbers` those of submissions and jobs. With `now`, ages are in the place of dates.
    """
    lines = [Line(run, now=now) for run in runs]
    left_out = {key for key, shown in (("user", users), ("submission", numbers), ("job", numbers)) if not shown}
    columns = [column for column in report_columns() if column.key not in left_out]
    return columns_table(columns, lines, ages=now is not None, empty=empty, tones=tuple(map(run_tone, runs)))
