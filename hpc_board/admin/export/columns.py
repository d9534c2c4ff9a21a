"""The tables of an export: a Struct for the rows of each, whose fields are the columns, each with its meaning.

`scripts/data_page.py` makes the tables of docs/data.md from them. A new column comes last, and none is renamed or
removed.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from pathlib import PurePath
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from hpc_board.domain.export import CASES, OVERALL, RUNS, SAMPLES, TASKS
from hpc_board.domain.grading import Overall, OverallRow
from hpc_board.domain.reference import speedup_keys
from hpc_board.domain.run import RunState
from hpc_board.model.result import Case, Log
from hpc_board.model.task import Task
from hpc_board.model.text import one_line, printable
from hpc_board.store.export import OUTPUTS

Value = str | int | float | bool | datetime | tuple[str, ...] | None
"""The value of a cell; None if it is empty."""

Row = Mapping[str, Any]
"""A row of the store."""

_CHARACTERS_MAX = 2000
_LINES_CHARACTERS_MAX = 2**20
_REFERENCE = "reference.py"
_PLACES = ("host", "node")
"""The facts in a result's provenance that name a machine."""

_PRIVATE = (
    "account",
    "job_id",
    "node",
    "note",
    "notes",
    "options",
    "removed_by",
    "removed_reason",
    "rerun_by",
    "entrant",
    "tags",
)
_WITH_PATHS = ("message", "build", "stdout", "stderr", "profile", "kernels", "findings", "provenance")
"""The columns that an anonymous export lacks, and those whose texts may have the names of user and file."""


class Kind(StrEnum):
    """The type of a column. Moments are in UTC, numbers of seconds are floats, texts are lists of them."""

    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    TEXTS = "texts"
    BOOLEAN = "boolean"
    MOMENT = "moment"
    LINES = "lines"
    JSON = "json"


Lines = Annotated[str | None, Meta(description="lines")]
"""A text of several lines; any other text is one line."""

Json = Annotated[str | None, Meta(description="json")]
"""A text with JSON."""


class Columns(msgspec.Struct, frozen=True):
    """A set of columns."""


class RunColumns(Columns, frozen=True):
    """The columns of a run."""

    run: int
    """number of the run"""
    submission: int
    """number of its submission"""
    task: str
    """name of the task"""
    task_version: str
    """sha256 of the parts of the task that affect a result; each version has its own standings"""
    gpu: str
    """name of the GPU in the settings"""
    user: str
    """author of the submission, who is ranked"""
    account: str | None
    """owner of the job, if that is not the user"""
    file_name: str
    """name of the submitted file"""
    mode: str
    """`test`, `benchmark`, `profile`, `sanitize` or `ranked`"""
    state: str
    """state of the run"""
    verdict: str | None
    """verdict of a finished run"""
    score_s: float | None
    """score in seconds"""
    rank: int | None
    """place of the run in the standings of its task's version on its GPU, if it holds one"""
    submitted_at: datetime
    """time of the submission"""
    started_at: datetime | None
    """time at which the last job of the run was first seen running"""
    ended_at: datetime | None
    """end of its job, else the time at which that was noticed"""
    waited_s: float | None
    """seconds from `submitted_at` to `started_at`"""
    ran_s: float | None
    """seconds from `started_at` to `ended_at`"""
    cluster: str
    """name of the cluster in the settings"""
    partition: str | None
    """partition of the job"""
    job_id: str | None
    """the scheduler's number of the job"""
    node: str | None
    """node of the job"""
    trust: str
    """`self-run` or `verified`"""
    emulated: bool
    """whether a CPU emulated the GPU"""
    milestone: str | None
    """name of the author's milestone; such runs hold no rank"""
    code_sha256: str
    """sha256 of the submitted file"""
    harness_sha256: str
    """sha256 of the judge"""
    note: str | None
    """first note, given with the submission"""
    message: str | None
    """message of the verdict"""
    removed: bool
    """whether an admin has removed its submission from the standings"""
    notes: tuple[str, ...]
    """all notes of the user, oldest first; `note` is the first of them"""
    removed_by: str | None
    """admin who removed its submission"""
    removed_at: datetime | None
    """time of the removal"""
    removed_reason: str | None
    """reason of the removal"""
    rerun_of: int | None
    """submission that this one repeats"""
    rerun_by: str | None
    """admin who sent it again"""
    score_low_s: float | None
    """lower bound of the 80 % confidence interval of `score_s`, of times by the judge's clock"""
    score_high_s: float | None
    """upper bound of the same interval"""
    overlaps_above: bool | None
    """for a run with a `rank`: whether its interval overlaps that of the next better one (a statistical tie)"""
    busy_processors: float | None
    """processors that other work used while a case was timed, the maximum of its cases"""
    gpu_seconds: float | None
    """[GPU-seconds](boards.md#statistics) of an ended run"""
    options: Json
    """options that the user set for the job"""
    duplicate_of: int | None
    """first submission of an identical file for the task, if this is a later one"""
    entrant: str | None
    """[entrant](experiments.md) of the account"""
    tags: tuple[str, ...]
    """its tags, as `KEY=VALUE`"""
    parent: int | None
    """submission that it continues"""
    speedup: float | None
    """speedup of the score over the [reference](results.md#the-reference) of the standings"""
    speedup_low: float | None
    """lower bound of its 80 % confidence interval, if the score has one"""
    speedup_high: float | None
    """its upper bound"""
    late_s: float | None
    """seconds by which its submission missed the deadline"""


class CodeColumns(Columns, frozen=True):
    """The column of `--with-code`."""

    code: Lines
    """the submitted file, unchanged"""


class OutputColumns(Columns, frozen=True):
    """The columns of `--with-output`; they are empty without a result."""

    build: Lines
    """output of the compiler"""
    stdout: Lines
    """beginning and end of the kernel's output"""
    stderr: Lines
    """those of its errors"""
    profile: Lines
    """text of the profile, or output of the tools of mode sanitize"""
    kernels: Json
    """metrics of the profiled kernels, a list of [kernels](json.md#kernel)"""
    findings: Json
    """faults that the tools of mode sanitize found, a list of [findings](json.md#sanitizer-finding)"""
    provenance: Json
    """facts on the machine and the tools"""


class CaseColumns(Columns, frozen=True):
    """The columns of a case of a run with a verdict; those of times are empty for a case that was not timed."""

    run: int
    """number of the run"""
    phase: str
    """`test`, `benchmark` or `profile`"""
    index: int
    """number of the case in its phase, from 0"""
    spec: str
    """arguments of the case"""
    verdict: str
    """verdict of the case"""
    message: Lines
    """explanation of the verdict"""
    samples: int | None
    """number of timed samples: rows of calls on a CPU, else calls"""
    time_ns: float | None
    """the time that counts: on a CPU the lower quartile of its rows, on a GPU the median"""
    low_ns: float | None
    """lower bound of the 80 % confidence interval of `time_ns`"""
    high_ns: float | None
    """its upper bound"""
    mean_ns: float | None
    """mean of the samples"""
    std_ns: float | None
    """their standard deviation"""
    err_ns: float | None
    """standard error of their mean"""
    best_ns: float | None
    """the shortest sample"""
    worst_ns: float | None
    """the longest one"""
    reference_ns: float | None
    """time of the reference by the same statistic, timed in between"""
    reference_low_ns: float | None
    """lower bound of the 80 % confidence interval of `reference_ns`"""
    reference_high_ns: float | None
    """its upper bound"""
    speedup: float | None
    """ratio of `reference_ns` to `time_ns`"""
    bound_ns: float | None
    """lower bound of a call's time by the judge's clock"""
    alone_ns: float | None
    """on a CPU the time of the fastest call that was made alone"""
    kernel_clock_ns: float | None
    """median by the kernel's own clock"""
    slack_ns: float | None
    """on a GPU the error of the judge's window"""
    busy_processors: float | None
    """processors that other work used meanwhile"""
    throttled: bool | None
    """whether the GPU had lowered its clocks for its own protection in most calls"""
    repeats: int | None
    """number of further processes that measured the case again, since its interval was wide"""


class SampleColumns(Columns, frozen=True):
    """The columns of a sample: a timed call, or a row of them on a CPU."""

    run: int
    """number of the run"""
    phase: str
    """phase of its case, `benchmark`"""
    index: int
    """number of the case in its phase, from 0"""
    process: int
    """number of the process that was timed, from 0"""
    sample: int
    """number of the sample in its case, from 0"""
    time_ns: float
    """time of the call"""


class TaskColumns(Columns, frozen=True):
    """The columns of a version of a task."""

    task: str
    """name of the task"""
    task_version: str
    """its version, as in the table of runs"""
    added_at: datetime
    """time of its first submission or board"""
    language: str
    """language of submissions"""
    description: Lines
    """text of the task"""
    ranking_by: str
    """rule for a score from the benchmark cases: `last`, `mean` or `geom`"""
    tests: Json
    """arguments of the test cases, a list"""
    benchmarks: Json
    """arguments of the benchmark cases, a list"""
    templates: Json
    """templates of submissions by language"""
    reference: Lines
    """its `reference.py`, in the exports of admins; empty for others, and for a task with its own eval"""


class OverallColumns(Columns, frozen=True):
    """A user in the overall standings of a competition."""

    competition: str
    """name of the competition"""
    rank: int
    """rank by the score"""
    user: str
    """user"""
    scoring: str
    """the score that ranks: `points`, `geomean`, `sum` or `fast_P`"""
    score: float
    """its value"""
    score_low: float
    """its value at the lower bounds of all speedups"""
    score_high: float
    """its value at their upper bounds"""
    geomean: float
    """geometric mean of the speedups, each at least 1"""
    sum: float
    """sum of the speedups"""
    fast: float
    """share of tasks with a speedup above P, which is 1 without `fast_P`"""
    points: float | None
    """sum of the points; empty without a rule"""
    passed: int
    """number of tasks with a passing ranked run"""
    tasks: int
    """number of tasks"""
    overlaps_above: bool
    """whether it is a statistical tie with the row above"""


COLUMNS: Mapping[str, type[Columns]] = {
    RUNS: RunColumns,
    CASES: CaseColumns,
    SAMPLES: SampleColumns,
    TASKS: TaskColumns,
    OVERALL: OverallColumns,
}
"""The columns of each table."""

_TYPES = {
    int: Kind.INTEGER,
    float: Kind.NUMBER,
    str: Kind.TEXT,
    bool: Kind.BOOLEAN,
    datetime: Kind.MOMENT,
}


def kinds_of(*columns: type[Columns]) -> dict[str, Kind]:
    """Return the type of each column, in their order."""
    hints = {name: hint for each in columns for name, hint in get_type_hints(each, include_extras=True).items()}
    return {name: _kind(hint) for name, hint in hints.items()}


def _kind(hint: Any) -> Kind:
    if marks := getattr(hint, "__metadata__", ()):
        return Kind(marks[0].description)
    if get_origin(hint) is tuple:
        return Kind.TEXTS
    return next(_TYPES[each] for each in (hint, *get_args(hint)) if each in _TYPES)


def run_cells(row: Row) -> dict[str, Value]:
    """Return the values of all columns in a row of a run, with those of its code and output, if it has them."""
    removal, rerun = row["remarks"].removal, row["remarks"].rerun
    notes = map(_line, (row["note"], *(note.text for note in row["remarks"].notes)))
    # The end of the job is that by its own clock, else the time at which the board recorded it.
    ended_at = (row["job_ended_at"] or row["state_since"]) if RunState(row["state"]).ended else None
    sent, started, ended = (_moment(each) for each in (row["submitted_at"], row["started_at"], ended_at))
    found = {
        **row,
        "ended_at": ended_at,
        "waited_s": _seconds(sent, started),
        "ran_s": _seconds(started, ended),
        "notes": tuple(filter(None, notes)),
        "removed_by": removal and removal.by_user,
        "removed_at": removal and removal.at,
        "removed_reason": removal and removal.reason,
        "rerun_of": rerun and rerun.of_submission,
        "rerun_by": rerun and rerun.by_user,
        "late_s": _seconds(_moment(row["due_at"]), sent),
        "tags": tuple("=".join(map(_line, tag)) for tag in row["origin"].tags),
        **speedup_keys(row["speedup"]),
    }
    code = {} if row["code"] is None else {"code": row["code"].decode("utf-8", "replace")}
    return {**_cells(found, _RUN_KINDS), **code, **_output_cells(row["outputs"])}


def _output_cells(outputs: str | None) -> dict[str, Value]:
    """Return the values of the columns of `--with-output` in the store's JSON; none without a result."""
    found = dict(zip(OUTPUTS, json.loads(outputs), strict=True)) if outputs else {}
    # A result of an older version lacks the younger parts.
    parts = {name: value for name, value in found.items() if value}
    if kernels := parts.get("kernels"):
        parts["kernels"] = [{**each, "stalls": dict(each.get("stalls", ()))} for each in kernels]
    texts = {name: Log(**value).text if name in _LOGS else json.dumps(value) for name, value in parts.items()}
    return _cells({**dict.fromkeys(OUTPUTS), **texts}, _OUTPUT_KINDS) if outputs else {}


def case_cells(run: int, case: Case) -> dict[str, Value]:
    """Return the values of all columns of a case."""
    times = {name: getattr(case.timing, name, None) for name in _TIMING}
    return _cells({"run": run, **{name: getattr(case, name) for name in _OF_CASE}, **times}, _CASE_KINDS)


def sample_cells(row: Row) -> Iterator[dict[str, Value]]:
    """Yield the values of all columns of each sample of a case."""
    samples = json.loads(row["samples_ns"])
    counts = json.loads(row["worker_samples"] or "[]") or [len(samples)]
    of_case = {name: row[name] for name in ("run", "phase", "index")}
    processes = (process for process, count in enumerate(counts) for _ in range(count))
    for number, (process, time_ns) in enumerate(zip(processes, samples, strict=False)):
        yield {**of_case, "process": process, "sample": number, "time_ns": float(time_ns)}


def task_cells(task: Task, added_at: datetime, *, whole: bool) -> dict[str, Value]:
    """Return the values of all columns of a version of a task; only a `whole` one has its reference."""
    found = {
        "task": task.name,
        "task_version": task.version,
        "added_at": added_at,
        "language": str(task.language),
        "description": task.description,
        "ranking_by": str(task.ranking_by),
        "tests": json.dumps([*map(dict, task.tests)]),
        "benchmarks": json.dumps([*map(dict, task.benchmarks)]),
        "templates": json.dumps(dict(task.templates)),
        "reference": next((file.text for file in task.files if whole and file.name == _REFERENCE), None),
    }
    return _cells(found, _TASK_KINDS)


def overall_cells(overall: Overall, row: OverallRow) -> dict[str, Value]:
    """Return the values of all columns of a row of overall standings."""
    found = {
        "competition": overall.competition,
        "scoring": overall.scoring.name,
        "score": row.score.value,
        "score_low": row.score.low,
        "score_high": row.score.high,
        "points": None if row.points is None else row.points.value,
        "tasks": len(overall.tasks),
        **{name: getattr(row, name).value for name in ("geomean", "sum", "fast")},
        **{name: getattr(row, name) for name in ("rank", "user", "passed", "overlaps_above")},
    }
    return _cells(found, _OVERALL_KINDS)


def anonymous(cells: dict[str, Value], user: str, pseudonym: str, file_name: str) -> dict[str, Value]:
    """Return the cells of a run or a case of `user` without names of people and machines.

    In paths, the user's name becomes the pseudonym, and messages and output name the file `submission`. The submitted
    file stays as it is.
    """
    of_user = re.compile(rf"(?<=/){re.escape(user)}(?![\w.-])")
    of_file, other = re.compile(rf"(?<![\w.-]){re.escape(file_name)}(?!\w)"), f"submission{PurePath(file_name).suffix}"

    def in_text(text: str) -> str:
        return of_file.sub(other, of_user.sub(pseudonym, text))

    found = {name: _without(name, value, in_text) for name, value in cells.items()}
    return found | ({"user": pseudonym, "file_name": other} if "user" in found else {})


def _without(name: str, value: Value, in_text: Callable[[str], str]) -> Value:
    """Return a cell without names; `in_text` replaces those of the user and the file in a text."""
    if name in _PRIVATE:
        return () if name in ("notes", "tags") else None
    if name not in _WITH_PATHS or not isinstance(value, str):
        return value
    if _OUTPUT_KINDS.get(name) is not Kind.JSON:
        return in_text(value)
    found = json.loads(value)
    if name == "provenance":
        found = {key: each for key, each in found.items() if key not in _PLACES}
    # An escape may be a letter of a name.
    return json.dumps(json.loads(in_text(json.dumps(found, ensure_ascii=False))))


_RUN_KINDS, _OUTPUT_KINDS = kinds_of(RunColumns), kinds_of(OutputColumns)
_CASE_KINDS, _TASK_KINDS = kinds_of(CaseColumns), kinds_of(TaskColumns)
_OVERALL_KINDS = kinds_of(OverallColumns)
_LOGS = [name for name, kind in _OUTPUT_KINDS.items() if kind is Kind.LINES]
_OF_CASE = ("phase", "index", "spec", "verdict", "message")
_TIMING = tuple(name for name in _CASE_KINDS if name not in ("run", *_OF_CASE))
"""The columns of a case that are attributes of its `Timing`."""


def _cells(found: Row, kinds: Mapping[str, Kind]) -> dict[str, Value]:
    return {name: _cell(found[name], kind) for name, kind in kinds.items()}


def _cell(value: Any, kind: Kind) -> Value:
    if value is None:
        return None
    match kind:
        case Kind.TEXT:
            return _line(value) or None
        case Kind.LINES:
            return printable(value, _LINES_CHARACTERS_MAX) or None
        case Kind.JSON:
            return value or None
        case Kind.BOOLEAN:
            return bool(value)
        case Kind.MOMENT:
            return _moment(value)
    cell: Value = value
    return cell


@lru_cache(maxsize=4096)
def _line(text: str) -> str:
    return one_line(text, _CHARACTERS_MAX)


def _moment(value: str | datetime | None) -> datetime | None:
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    return None if at is None else at.astimezone(UTC)


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else max(0.0, (end - start).total_seconds())
