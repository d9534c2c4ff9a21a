"""The columns of runs, for the command line, the app and JSON.

A new column is one entry in `COLUMNS`, and its keys in the orders below it.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from hpc_board.domain.moderation import Remarks
from hpc_board.domain.run import Progress, Run
from hpc_board.domain.standing import Placing
from hpc_board.domain.submission import NOTE_CHARACTERS_MAX
from hpc_board.model.result import Verdict
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Table, Tone
from hpc_board.report.columns import TableColumn, Width, columns_table, listed_with_places, reported
from hpc_board.report.formatting import moment_text, score_text, span_text
from hpc_board.report.run_words import MODE_WORDS, age, outcome_words, ran, span, trust, waited, why_now

if TYPE_CHECKING:
    from hpc_board.report.views.results import CaseView

NO_RUNS = "No runs yet. Submit one with `hpc-board submit FILE`."

_JOB_CHARACTERS_MAX = 20


class Line(msgspec.Struct, frozen=True):
    """A run in a list.

    Attributes:
        run: the run.
        placing: its place on its leaderboard, if it has one.
        cases: its cases as JSON has them.
        step: its last step, if it runs.
        started: the time of its start, if that is known.
        now: the moment from which ages count.
        reader: the user who reads it.
    """

    run: Run
    placing: Placing | None = None
    cases: "Sequence[CaseView]" = ()
    step: Progress | None = None
    started: datetime | None = None
    now: datetime | None = None
    reader: str = ""

    @property
    def time(self) -> datetime:
        """Return the moment from which ages count; the present, if none is given."""
        return self.now or datetime.now(UTC)


class RunList(StrEnum):
    """A list of runs in the app: one's own, everyone's, the ranked ones for admins, those of a watched file."""

    OWN = "own"
    EVERYONE = "everyone"
    RANKED = "ranked"
    WATCHED = "watched"


class Emphasis(StrEnum):
    """The tone of a column in the app: plain, quiet, that of the run's state, or another for the reader's runs.

    REMOVABLE is plain, and quiet for a removed run; REMOVED is quiet, and a warning for one.
    """

    PLAIN = "plain"
    QUIET = "quiet"
    STATE = "state"
    READER = "reader"
    REMOVABLE = "removable"
    REMOVED = "removed"


class Listed(msgspec.Struct, frozen=True):
    """A column in lists of the app; `title` and `text` differ where the app has other words than a report."""

    widths: Mapping[RunList, Width]
    emphasis: Emphasis = Emphasis.QUIET
    title: str = ""
    text: Callable[[Line], str] | None = None


def report_columns() -> tuple[TableColumn[Line, Listed], ...]:
    """Return the columns of reports, in their order."""
    return reported(COLUMNS, _REPORT_ORDER)


def listed_columns(in_list: RunList) -> tuple[tuple[TableColumn[Line, Listed], Listed, Width], ...]:
    """Return the columns of a list of the app, in their order, with their widths."""
    found = ((column, listed, listed.widths.get(in_list)) for column, listed in all_listed())
    return tuple((column, listed, width) for column, listed, width in found if width is not None)


def all_listed() -> tuple[tuple[TableColumn[Line, Listed], Listed], ...]:
    """Return the columns of all lists of the app, in their order."""
    return listed_with_places(COLUMNS, _LISTED_ORDER)


def run_tone(run: Run) -> Tone:
    """Return the tone of a run: good if it passed, bad if it ended otherwise."""
    if run.verdict is Verdict.PASS:
        return Tone.GOOD
    return Tone.BAD if run.state.ended else Tone.PLAIN


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


def outcome(run: Run) -> str:
    """Return the verdict of a finished run in words, else the state of the run."""
    return outcome_words(run.verdict or run.state)


def _remarks_text(note: str, remarks: Remarks) -> str:
    """Return the remarks on a submission for one cell of a table: admin actions and its newest note."""
    newest = remarks.notes[-1].text if remarks.notes else note
    parts = (
        "removed" if remarks.removal else "",
        f"rerun by {one_line(remarks.rerun.by_user)}" if remarks.rerun else "",
        one_line(newest, NOTE_CHARACTERS_MAX),
    )
    return one_line("; ".join(filter(None, parts)), NOTE_CHARACTERS_MAX)


COLUMNS: tuple[TableColumn[Line, Listed], ...] = (
    TableColumn(
        "run",
        "Run",
        lambda line: str(line.run.id),
        right=True,
        listed=Listed(dict.fromkeys(RunList, Width(5))),
    ),
    TableColumn(
        "user",
        "User",
        lambda line: one_line(line.run.user),
        flexible=True,
        least=8,
        listed=Listed({RunList.EVERYONE: Width(6, most=16), RunList.RANKED: Width(6, most=16)}, Emphasis.READER),
    ),
    TableColumn(
        "task",
        "Task",
        lambda line: one_line(line.run.task),
        flexible=True,
        least=12,
        listed=Listed(
            {
                RunList.OWN: Width(8, most=24),
                RunList.EVERYONE: Width(8, most=24),
                RunList.RANKED: Width(8, most=24),
            },
            Emphasis.PLAIN,
        ),
    ),
    TableColumn(
        "gpu",
        "GPU",
        lambda line: one_line(line.run.gpu) + (" (emulated)" if line.run.emulated else ""),
        flexible=True,
        listed=Listed(
            {
                RunList.OWN: Width(4, most=14),
                RunList.EVERYONE: Width(4, most=14),
                RunList.RANKED: Width(4, most=14, from_width=66),
                RunList.WATCHED: Width(4, most=14),
            },
            Emphasis.PLAIN,
            text=lambda line: line.run.gpu,
        ),
    ),
    TableColumn(
        "mode",
        "Mode",
        lambda line: str(line.run.mode),
        listed=Listed(
            {RunList.OWN: Width(6, from_width=74), RunList.EVERYONE: Width(6, from_width=88)},
            text=lambda line: MODE_WORDS[line.run.mode],
        ),
    ),
    TableColumn(
        "outcome",
        "Outcome",
        lambda line: outcome(line.run),
        toned=True,
        listed=Listed(
            {
                RunList.OWN: Width(8, most=20),
                RunList.EVERYONE: Width(8, most=20),
                RunList.RANKED: Width(8, most=20),
                RunList.WATCHED: Width(8, most=20),
            },
            Emphasis.STATE,
            "State",
        ),
    ),
    TableColumn(
        "why",
        in_report=False,
        listed=Listed(
            {
                RunList.OWN: Width(10, grows=True, from_width=56),
                RunList.EVERYONE: Width(10, grows=True, from_width=56),
                RunList.WATCHED: Width(10, grows=True, from_width=56),
            },
            title="Reason",
            text=lambda line: why_now(line.run, line.step),
        ),
    ),
    TableColumn(
        "waited",
        in_report=False,
        right=True,
        listed=Listed(
            {RunList.OWN: Width(6, from_width=116), RunList.EVERYONE: Width(6, from_width=124)},
            title="Waited",
            text=lambda line: span(waited(line.run, line.started, line.time)),
        ),
    ),
    TableColumn(
        "ran",
        in_report=False,
        right=True,
        listed=Listed(
            {RunList.OWN: Width(6, from_width=116), RunList.EVERYONE: Width(6, from_width=124)},
            title="Ran",
            text=lambda line: span(ran(line.run, line.started, line.time)),
        ),
    ),
    TableColumn(
        "score",
        "Score",
        lambda line: score_text(line.run.score_s),
        right=True,
        listed=Listed(
            {RunList.OWN: Width(8), RunList.EVERYONE: Width(8), RunList.RANKED: Width(8)}, Emphasis.REMOVABLE
        ),
    ),
    TableColumn(
        "file",
        "File",
        lambda line: one_line(line.run.file_name),
        flexible=True,
        least=9,
        leaves=2,
        listed=Listed(
            {RunList.OWN: Width(9, from_width=88, most=14), RunList.EVERYONE: Width(9, from_width=88, most=14)}
        ),
    ),
    TableColumn(
        "submitted",
        "Submitted",
        lambda line: (
            moment_text(line.run.created_at) if line.now is None else span_text(line.now - line.run.created_at)
        ),
    ),
    TableColumn(
        "submission",
        "Submission",
        lambda line: str(line.run.submission),
        right=True,
    ),
    TableColumn(
        "remarks",
        "Remarks",
        lambda line: _remarks_text(line.run.note, line.run.remarks),
        flexible=True,
        least=8,
        leaves=3,
        optional=True,
        listed=Listed({RunList.RANKED: Width(8, grows=True)}, Emphasis.REMOVED),
    ),
    TableColumn(
        "trust",
        in_report=False,
        listed=Listed({RunList.RANKED: Width(9, from_width=100)}, title="Trust", text=lambda line: trust(line.run)),
    ),
    TableColumn(
        "job",
        "Job",
        lambda line: one_line(line.run.status.job_id, _JOB_CHARACTERS_MAX),
        leaves=1,
        optional=True,
    ),
    TableColumn(
        "age",
        in_report=False,
        right=True,
        listed=Listed(
            {
                RunList.OWN: Width(6, from_width=70),
                RunList.EVERYONE: Width(6, from_width=50),
                RunList.RANKED: Width(6, from_width=76),
            },
            title="Age",
            text=lambda line: age(line.run, line.time),
        ),
    ),
)
"""Every column of runs."""

_REPORT_ORDER = (
    "run",
    "user",
    "task",
    "gpu",
    "mode",
    "outcome",
    "score",
    "file",
    "submitted",
    "submission",
    "job",
    "remarks",
)
_LISTED_ORDER = (
    "run",
    "user",
    "task",
    "gpu",
    "mode",
    "outcome",
    "why",
    "file",
    "waited",
    "ran",
    "score",
    "remarks",
    "trust",
    "age",
)
