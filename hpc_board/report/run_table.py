"""Runs as a table."""

from collections.abc import Sequence
from datetime import datetime

from hpc_board.domain.run import Run
from hpc_board.domain.submission import NOTE_CHARACTERS_MAX
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Column, Table, table
from hpc_board.report.formatting import moment_text, score_text, span_text
from hpc_board.report.run_words import at_runner, outcome, run_tone

NO_RUNS = "No runs yet. Submit one with `hpc-board submit FILE`."

_JOB_CHARACTERS_MAX = 20


def runs_table(
    runs: Sequence[Run],
    *,
    users: bool = False,
    numbers: bool = False,
    now: datetime | None = None,
    empty: str = NO_RUNS,
) -> Table:
    """Return runs as a table in the order given, with remarks if any.

    `users`, or runs of several, add a column, `numbers` those of submissions and jobs. With `now`, ages are in the
    place of dates.
    """
    users = users or len({run.user for run in runs}) > 1
    age = Column("AGE", right=True), lambda run: span_text(now - run.created_at)
    date = Column("SUBMITTED"), lambda run: moment_text(run.created_at)
    return table(
        runs,
        (Column("RUN", right=True), lambda run: str(run.id)),
        (Column("USER", flexible=True, least=8), lambda run: one_line(run.author)) if users else None,
        None if users else (Column("ENTRANT", flexible=True, least=8, optional=True), lambda run: run.origin.entrant),
        (Column("TASK", flexible=True, least=12), lambda run: one_line(run.task)),
        (Column("GPU", flexible=True), lambda run: one_line(run.gpu) + (" (emulated)" if run.emulated else "")),
        (Column("MODE"), lambda run: str(run.mode)),
        (Column("STATE", toned=True), outcome),
        (Column("SCORE", right=True), lambda run: score_text(run.score_s)),
        (Column("FILE", flexible=True, least=9, leaves=2), lambda run: one_line(run.file_name)),
        age if now else date,
        (Column("SUBMISSION", right=True), lambda run: str(run.submission)) if numbers else None,
        (Column("JOB", leaves=1, optional=True), _job) if numbers else None,
        (Column("REMARKS", flexible=True, least=8, leaves=3, optional=True), remarks_text),
        empty=empty,
        tones=tuple(map(run_tone, runs)),
    )


def _job(run: Run) -> str:
    return one_line(run.status.job_id, _JOB_CHARACTERS_MAX)


def remarks_text(run: Run) -> str:
    """Return the remarks on a run for one cell of a table: its runner until its end, admin actions, its newest note."""
    remarks = run.remarks
    parts = (
        "" if run.state.ended else at_runner(run),
        "removed" if remarks.removal else "",
        "" if run.due_at is None else "late",
        f"rerun by {one_line(remarks.rerun.by_user)}" if remarks.rerun else "",
        one_line(remarks.notes[-1].text if remarks.notes else run.note, NOTE_CHARACTERS_MAX),
    )
    return one_line("; ".join(filter(None, parts)), NOTE_CHARACTERS_MAX)
