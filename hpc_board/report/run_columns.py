"""The columns of lists of runs in reports: title, alignment and text in one entry each."""

from collections.abc import Callable

import msgspec

from hpc_board.domain.run import Run
from hpc_board.model.text import one_line
from hpc_board.report.formatting import moment_text, score_text
from hpc_board.report.moderation import remarks_text


class RunColumn(msgspec.Struct, frozen=True):
    """A column of runs; an `optional` one is left out where all its cells are empty."""

    key: str
    title: str
    text: Callable[[Run], str]
    right: bool = False
    flexible: bool = False
    optional: bool = False


def outcome(run: Run) -> str:
    """Return the verdict of a finished run in one word, else the state of the run."""
    return str(run.verdict or run.state).replace("_", " ")


COLUMNS: tuple[RunColumn, ...] = (
    RunColumn("run", "Run", lambda run: str(run.id), right=True),
    RunColumn("user", "User", lambda run: one_line(run.user), flexible=True),
    RunColumn("task", "Task", lambda run: one_line(run.task), flexible=True),
    RunColumn("gpu", "GPU", lambda run: one_line(run.gpu) + (" (emulated)" if run.emulated else ""), flexible=True),
    RunColumn("mode", "Mode", lambda run: str(run.mode)),
    RunColumn("outcome", "Outcome", outcome),
    RunColumn("score", "Score", lambda run: score_text(run.score_s), right=True),
    RunColumn("file", "File", lambda run: one_line(run.file_name), flexible=True),
    RunColumn("submitted", "Submitted", lambda run: moment_text(run.created_at)),
    RunColumn("submission", "Submission", lambda run: str(run.submission), right=True),
    RunColumn("remarks", "Remarks", lambda run: remarks_text(run.note, run.remarks), flexible=True, optional=True),
)
"""Every column of a list of runs, in order."""
