"""The columns and cells of lists of runs."""

from datetime import datetime

import msgspec
from msgspec.structs import replace
from rich.text import Text

from hpc_board.domain.run import Progress, Run
from hpc_board.domain.run_order import RunOrder, SortColumn
from hpc_board.report.formatting import score_text
from hpc_board.report.run_table import remarks_text
from hpc_board.report.run_words import ran, span, trust, waited, why_now
from hpc_board.tui.formatting import state
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.widgets.grid import Column, Sorting


class Line(msgspec.Struct, frozen=True):
    """A run in a list, with its last step and the time of its start, if they are known."""

    run: Run
    step: Progress | None = None
    started: datetime | None = None


_RUN = Column("run", "Run", 5, right=True, sorts=True, falls=True)
_USER = Column("user", "User", 6, most=16, sorts=True)
_TASK = Column("task", "Task", 8, most=24, sorts=True)
_GPU = Column("gpu", "GPU", 4, from_width=56, most=14, sorts=True)
_STATE = Column("state", "State", 8, most=20, sorts=True)
_REASON = Column("why", "Reason", 10, grows=True, from_width=70)
_FILE = Column("file", "File", 9, from_width=88, most=18)
_SCORE = Column("score", "Score", 8, right=True, sorts=True)

_MODE = Column("mode", "Mode", 6, from_width=57, most=9)
_WAITED = Column("waited", "Waited", 6, right=True, from_width=128)
_RAN = Column("ran", "Ran", 6, right=True, from_width=128)
_AGE = Column("age", "Age", 6, right=True, from_width=58)

EVERYONE = (_RUN, _USER, _TASK, _GPU, _MODE, _STATE, _REASON, _FILE, _WAITED, _RAN, _SCORE, _AGE)
"""The columns of all users' runs."""

OWN = tuple(column for column in EVERYONE if column is not _USER)
"""Those of one's own runs."""

IN_FLIGHT = tuple(
    replace(column, sorts=False) for column in (_RUN, _USER, _TASK, _GPU, _MODE, _STATE, _REASON, _WAITED, _RAN, _AGE)
)
"""Those of the runs of all users in flight."""

RANKED = (
    *(_RUN, _USER, _TASK, _GPU, _STATE, _SCORE),
    Column("remarks", "Remarks", 8, grows=True),
    Column("trust", "Trust", 9, from_width=100),
    _AGE,
)
"""Those of ranked runs for admins."""

WATCHED = (
    Column("run", "Run", 5, right=True),
    Column("saved", "Saved", 8),
    Column("gpu", "GPU", 4, most=14),
    Column("state", "State", 8, most=20),
    _REASON,
)
"""Those of the runs of a watched file in mode test."""

BAR_CELLS = 18
TIMED = (
    *WATCHED[:-1],
    replace(_SCORE, sorts=False),
    Column("previous", "Vs previous", 12, right=True, most=13),
    Column("best", "Vs your best", 12, right=True, most=13),
    Column("bar", "Speed", BAR_CELLS, from_width=90),
    _REASON,
)
"""Those of the runs of a watched file in modes that measure times."""


def cells(line: Line, now: datetime, reader: str = "") -> dict[str, Text]:
    """Return the cells of a run by column, for all lists; those of the `reader` have a tone of their own."""
    run = line.run
    is_removed = run.remarks.removal is not None
    return {
        "run": toned(run.id, Tone.MUTED),
        "user": toned(run.author, Tone.OWN if run.user == reader else Tone.PLAIN),
        "task": toned(run.task),
        "gpu": toned(run.gpu),
        "mode": toned(run.mode, Tone.MUTED),
        "state": toned(*state(run)),
        "why": toned(why_now(run, line.step), Tone.MUTED),
        "file": toned(": ".join(filter(None, (run.origin.entrant, run.file_name))), Tone.MUTED),
        "waited": toned(span(waited(run, line.started, now)), Tone.MUTED),
        "ran": toned(span(ran(run, line.started, now)), Tone.MUTED),
        "score": toned(score_text(run.score_s), Tone.MUTED if is_removed else Tone.PLAIN),
        "remarks": toned(remarks_text(run), Tone.BAD if is_removed else Tone.MUTED),
        "trust": toned(trust(run), Tone.MUTED),
        "age": toned(span(now - run.created_at), Tone.MUTED),
    }


def run_order(sorting: Sorting) -> RunOrder:
    """Return the order of runs that a table shows."""
    by = SortColumn(sorting.key)
    return RunOrder(by, sorting.descending is not (by is SortColumn.RUN))
