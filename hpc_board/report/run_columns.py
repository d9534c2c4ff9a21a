"""The columns of runs, for the command line, the app and JSON.

A new column is one entry in `COLUMNS`, and its keys in the orders below it.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from hpc_board.domain.moderation import Remarks
from hpc_board.domain.run import Progress, Run
from hpc_board.domain.standing import Placing, verdict_line
from hpc_board.domain.submission import NOTE_CHARACTERS_MAX
from hpc_board.model.result import Verdict
from hpc_board.model.text import one_line, printable
from hpc_board.report.blocks import Table, Tone
from hpc_board.report.columns import TableColumn, Width, columns_table, listed_with_places, ordered, reported
from hpc_board.report.formatting import moment_text, score_text, span_text
from hpc_board.report.run_words import MODE_WORDS, age, outcome_words, ran, span, trust, waited, why_now
from hpc_board.report.views import LINE_CHARACTERS_MAX, MESSAGE_CHARACTERS_MAX, moment

if TYPE_CHECKING:
    from hpc_board.report.views.results import CaseView
    from hpc_board.report.views.run_parts import JobView, NoteView, RemovalView, RerunView

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


class Field(msgspec.Struct, frozen=True):
    """A key of a run in JSON, with its value, its meaning and the words for its type."""

    key: str
    value: Callable[[Line], Any]
    meaning: str = ""
    type: str = "text"


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


class RunColumn(TableColumn[Line, Listed], frozen=True):
    """A column of runs.

    Attributes:
        fields: the keys that JSON has for it.
    """

    fields: tuple[Field, ...] = ()


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


def json_fields() -> tuple[Field, ...]:
    """Return the keys of a run in JSON, in their order."""
    fields = (field for column in COLUMNS for field in column.fields)
    return ordered(fields, _JSON_ORDER)


def outcome(run: Run) -> str:
    """Return the verdict of a finished run in words, else the state of the run."""
    return outcome_words(run.verdict or run.state)


# JSON


def _verdict_line(line: Line) -> str | None:
    run, placing = line.run, line.placing
    return None if placing is None or run.score_s is None else verdict_line(run.gpu, run.score_s, placing, run.interval)


def _job_view(line: Line) -> "JobView":
    from hpc_board.report.views.run_parts import JobView

    return JobView.of(line.run)


def _note_views(line: Line) -> "list[NoteView]":
    from hpc_board.report.views.run_parts import NoteView

    return [NoteView.of(note) for note in line.run.remarks.notes]


def _rerun_view(line: Line) -> "RerunView | None":
    from hpc_board.report.views.run_parts import RerunView

    return RerunView.of(line.run.remarks.rerun) if line.run.remarks.rerun else None


def _removal_view(line: Line) -> "RemovalView | None":
    from hpc_board.report.views.run_parts import RemovalView

    return RemovalView.of(line.run.remarks.removal) if line.run.remarks.removal else None


def _remarks_text(note: str, remarks: Remarks) -> str:
    """Return the remarks on a submission for one cell of a table: admin actions and its newest note."""
    newest = remarks.notes[-1].text if remarks.notes else note
    parts = (
        "removed" if remarks.removal else "",
        f"rerun by {one_line(remarks.rerun.by_user)}" if remarks.rerun else "",
        one_line(newest, NOTE_CHARACTERS_MAX),
    )
    return one_line("; ".join(filter(None, parts)), NOTE_CHARACTERS_MAX)


COLUMNS: tuple[RunColumn, ...] = (
    RunColumn(
        "run",
        "Run",
        lambda line: str(line.run.id),
        right=True,
        listed=Listed(dict.fromkeys(RunList, Width(5))),
        fields=(Field("id", lambda line: line.run.id, "the number of the run", "integer"),),
    ),
    RunColumn(
        "user",
        "User",
        lambda line: one_line(line.run.user),
        flexible=True,
        least=8,
        listed=Listed({RunList.EVERYONE: Width(6, most=16), RunList.RANKED: Width(6, most=16)}, Emphasis.READER),
        fields=(Field("user", lambda line: one_line(line.run.user), "the user who submitted it, and is ranked"),),
    ),
    RunColumn(
        "account",
        in_report=False,
        fields=(
            Field(
                "account",
                lambda line: one_line(line.run.account) or None,
                "the account of the job, where that is not the user",
                "text or `null`",
            ),
            Field(
                "options",
                lambda line: msgspec.to_builtins(line.run.options),
                "the options that the user set for the job, by their names in `submit`",
                "object",
            ),
            Field(
                "retries",
                lambda line: line.run.retry,
                "how often it was sent again after a fault of the cluster; `history` has the reasons",
                "number",
            ),
        ),
    ),
    RunColumn(
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
        fields=(Field("task", lambda line: line.run.task, "the name of the task"),),
    ),
    RunColumn(
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
        fields=(
            Field("gpu", lambda line: line.run.gpu, "the name of the GPU"),
            Field("emulated", lambda line: line.run.emulated, "true where a CPU stood in for the GPU", "boolean"),
        ),
    ),
    RunColumn(
        "mode",
        "Mode",
        lambda line: str(line.run.mode),
        listed=Listed(
            {RunList.OWN: Width(6, from_width=74), RunList.EVERYONE: Width(6, from_width=88)},
            text=lambda line: MODE_WORDS[line.run.mode],
        ),
        fields=(
            Field("mode", lambda line: str(line.run.mode), "`test`, `benchmark`, `profile`, `sanitize` or `ranked`"),
        ),
    ),
    RunColumn(
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
        fields=(
            Field("state", lambda line: str(line.run.state), "the [state](results.md#states-of-a-run)"),
            Field(
                "verdict",
                lambda line: None if line.run.verdict is None else str(line.run.verdict),
                "the [verdict](results.md#verdicts); `null` for a run that is not `finished`",
                "text or `null`",
            ),
        ),
    ),
    RunColumn(
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
        fields=(
            Field(
                "message",
                lambda line: printable(
                    line.run.explanation if line.run.state.ended else line.run.message, MESSAGE_CHARACTERS_MAX
                ),
                "the explanation of the verdict, or of an end without one",
            ),
            Field(
                "reason",
                lambda line: one_line(line.run.status.reason, LINE_CHARACTERS_MAX),
                "the reason of the scheduler or of hpc-board for the state",
            ),
            Field(
                "expected_start",
                lambda line: moment(line.run.status.expected_start),
                "the start that the scheduler expects",
                "moment or `null`",
            ),
        ),
    ),
    RunColumn(
        "waited",
        in_report=False,
        right=True,
        listed=Listed(
            {RunList.OWN: Width(6, from_width=116), RunList.EVERYONE: Width(6, from_width=124)},
            title="Waited",
            text=lambda line: span(waited(line.run, line.started, line.time)),
        ),
    ),
    RunColumn(
        "ran",
        in_report=False,
        right=True,
        listed=Listed(
            {RunList.OWN: Width(6, from_width=116), RunList.EVERYONE: Width(6, from_width=124)},
            title="Ran",
            text=lambda line: span(ran(line.run, line.started, line.time)),
        ),
    ),
    RunColumn(
        "score",
        "Score",
        lambda line: score_text(line.run.score_s),
        right=True,
        listed=Listed(
            {RunList.OWN: Width(8), RunList.EVERYONE: Width(8), RunList.RANKED: Width(8)}, Emphasis.REMOVABLE
        ),
        fields=(
            Field(
                "score_s",
                lambda line: line.run.score_s,
                "the score of a ranked run that passed",
                "seconds or `null`",
            ),
            Field(
                "score_low_s",
                lambda line: line.run.interval.low_s if line.run.interval else None,
                "the lower bound of the score's 80 % confidence interval; `null` where a case has none",
                "seconds or `null`",
            ),
            Field(
                "score_high_s",
                lambda line: line.run.interval.high_s if line.run.interval else None,
                "its upper bound",
                "seconds or `null`",
            ),
        ),
    ),
    RunColumn(
        "rank",
        in_report=False,
        fields=(
            Field(
                "rank",
                lambda line: line.placing.rank if line.placing else None,
                "the rank on the leaderboard",
                "integer or `null`",
            ),
            Field(
                "verdict_line",
                _verdict_line,
                "the meaning of a ranked run that passed on its leaderboard",
                "text or `null`",
            ),
        ),
    ),
    RunColumn(
        "file",
        "File",
        lambda line: one_line(line.run.file_name),
        flexible=True,
        least=9,
        leaves=2,
        listed=Listed(
            {RunList.OWN: Width(9, from_width=88, most=14), RunList.EVERYONE: Width(9, from_width=88, most=14)}
        ),
        fields=(Field("file_name", lambda line: one_line(line.run.file_name), "the name of the file"),),
    ),
    RunColumn(
        "submitted",
        "Submitted",
        lambda line: (
            moment_text(line.run.created_at) if line.now is None else span_text(line.now - line.run.created_at)
        ),
        fields=(
            Field("submitted_at", lambda line: moment(line.run.created_at), "the time of the submission", "moment"),
        ),
    ),
    RunColumn(
        "submission",
        "Submission",
        lambda line: str(line.run.submission),
        right=True,
        fields=(Field("submission", lambda line: line.run.submission, "the number of the submission", "integer"),),
    ),
    RunColumn(
        "remarks",
        "Remarks",
        lambda line: _remarks_text(line.run.note, line.run.remarks),
        flexible=True,
        least=8,
        leaves=3,
        optional=True,
        listed=Listed({RunList.RANKED: Width(8, grows=True)}, Emphasis.REMOVED),
        fields=(
            Field("note", lambda line: one_line(line.run.note, NOTE_CHARACTERS_MAX), "the text of `submit --note`"),
            Field(
                "notes",
                _note_views,
                "the notes that were put on the submission later",
                "list of [note](#note)",
            ),
            Field(
                "rerun",
                _rerun_view,
                "the submission that it repeats",
                "[rerun](#rerun) or `null`",
            ),
            Field(
                "removed",
                _removal_view,
                "the removal from the standings",
                "[removal](#removal) or `null`",
            ),
        ),
    ),
    RunColumn(
        "trust",
        in_report=False,
        listed=Listed({RunList.RANKED: Width(9, from_width=100)}, title="Trust", text=lambda line: trust(line.run)),
        fields=(Field("trust", lambda line: line.run.trust, "`self-run` or `verified`"),),
    ),
    RunColumn(
        "milestone",
        in_report=False,
        fields=(
            Field(
                "milestone",
                lambda line: one_line(line.run.milestone) or None,
                "the name under which the task's author shows it beside the ranks",
                "text or `null`",
            ),
        ),
    ),
    RunColumn(
        "job",
        "Job",
        lambda line: one_line(line.run.status.job_id, _JOB_CHARACTERS_MAX),
        leaves=1,
        optional=True,
        fields=(Field("job", _job_view, "the job", "[job](#job)"),),
    ),
    RunColumn(
        "cases",
        in_report=False,
        fields=(Field("cases", lambda line: list(line.cases), "the cases", "list of [case](#case)"),),
    ),
    RunColumn(
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
        fields=(
            Field(
                "state_since",
                lambda line: moment(line.run.status.at),
                "the time at which the board noticed the state",
                "moment",
            ),
            Field(
                "ended_at",
                lambda line: moment(line.run.ended_at),
                "the end of the job by the clock of the node; `null` where no result has a possible one",
                "moment or `null`",
            ),
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
_JSON_ORDER = (
    "id",
    "gpu",
    "state",
    "verdict",
    "score_s",
    "rank",
    "job",
    "cases",
    "message",
    "task",
    "mode",
    "submission",
    "user",
    "file_name",
    "submitted_at",
    "state_since",
    "ended_at",
    "reason",
    "expected_start",
    "trust",
    "emulated",
    "note",
    "verdict_line",
    "milestone",
    "account",
    "notes",
    "rerun",
    "removed",
    "score_low_s",
    "score_high_s",
    "options",
    "retries",
)
