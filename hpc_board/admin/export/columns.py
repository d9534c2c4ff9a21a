"""The columns of exported runs: their names, types and meanings. Columns are added at the end, never renamed."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache

import msgspec

from hpc_board.domain.moderation import Remarks, Removal, Rerun
from hpc_board.domain.run import RunState
from hpc_board.model.text import one_line
from hpc_board.store.row_reader import Row

_MESSAGE_MAX = 2000

Value = str | int | float | bool | datetime | tuple[str, ...] | None
"""The value of a cell; None if it is empty."""


class Kind(StrEnum):
    """The type of a column's cells. Moments are in UTC, numbers of seconds are floats, texts are lists of them."""

    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    TEXTS = "texts"
    BOOLEAN = "boolean"
    MOMENT = "moment"


class Column(msgspec.Struct, frozen=True):
    """One column: its name, its type, its meaning, and its value from a row of the store."""

    name: str
    kind: Kind
    meaning: str
    value: Callable[[Row], Value]


def columns(*, with_code: bool) -> Sequence[Column]:
    """Return the columns of an export, in their order."""
    return (*COLUMNS, CODE) if with_code else COLUMNS


@lru_cache(maxsize=4096)
def _line(text: str) -> str:
    return one_line(text, _MESSAGE_MAX)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)


def _ended(row: Row) -> datetime | None:
    """Return the end of the job by its own clock; else the time at which the board recorded it."""
    if not RunState(row["state"]).ended:
        return None
    return _moment(row["job_ended_at"] or row["state_since"])


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else max(0.0, (end - start).total_seconds())


def _waited(row: Row) -> float | None:
    return _seconds(_moment(row["submitted_at"]), _moment(row["started_at"]))


def _ran(row: Row) -> float | None:
    return _seconds(_moment(row["started_at"]), _ended(row))


def _integer(name: str, meaning: str) -> Column:
    return Column(name, Kind.INTEGER, meaning, lambda row: row[name])


def _number(name: str, meaning: str) -> Column:
    return Column(name, Kind.NUMBER, meaning, lambda row: row[name])


def _text(name: str, meaning: str) -> Column:
    return Column(name, Kind.TEXT, meaning, lambda row: None if row[name] is None else _line(row[name]) or None)


def _flag(name: str, meaning: str) -> Column:
    return Column(name, Kind.BOOLEAN, meaning, lambda row: bool(row[name]))


def _notes(row: Row) -> tuple[str, ...]:
    said: Remarks = row["remarks"]
    return tuple(filter(None, map(_line, (row["note"], *(note.text for note in said.notes)))))


def _of_removal(name: str, kind: Kind, meaning: str, value: Callable[[Removal], Value]) -> Column:
    def found(row: Row) -> Value:
        said: Remarks = row["remarks"]
        return None if said.removal is None else value(said.removal)

    return Column(name, kind, meaning, found)


def _of_rerun(name: str, kind: Kind, meaning: str, value: Callable[[Rerun], Value]) -> Column:
    def found(row: Row) -> Value:
        said: Remarks = row["remarks"]
        return None if said.rerun is None else value(said.rerun)

    return Column(name, kind, meaning, found)


COLUMNS: Sequence[Column] = (
    _integer("run", "number of the run"),
    _integer("submission", "number of its submission"),
    _text("task", "name of the task"),
    _text("task_version", "sha256 of the parts of the task that affect a result; each version has its own standings"),
    _text("gpu", "name of the GPU in the settings"),
    _text("user", "author of the submission, who is ranked"),
    _text("account", "owner of the job, if that is not the user"),
    _text("file_name", "name of the submitted file"),
    _text("mode", "`test`, `benchmark`, `profile` or `ranked`"),
    _text("state", "state of the run"),
    _text("verdict", "verdict of a finished run"),
    _number("score_s", "score in seconds"),
    _integer("rank", "place of the run in the standings of its task's version on its GPU, if it holds one"),
    Column("submitted_at", Kind.MOMENT, "time of the submission", lambda row: _moment(row["submitted_at"])),
    Column(
        "started_at",
        Kind.MOMENT,
        "time at which the run was first seen running",
        lambda row: _moment(row["started_at"]),
    ),
    Column("ended_at", Kind.MOMENT, "end of its job, else the time at which that was noticed", _ended),
    Column("waited_s", Kind.NUMBER, "seconds from `submitted_at` to `started_at`", _waited),
    Column("ran_s", Kind.NUMBER, "seconds from `started_at` to `ended_at`", _ran),
    _text("cluster", "name of the cluster in the settings"),
    _text("partition", "partition of the job"),
    _text("job_id", "the scheduler's number of the job"),
    _text("node", "node of the job"),
    _text("trust", "`self-run` or `verified`"),
    _flag("emulated", "whether a CPU emulated the GPU"),
    _text("milestone", "name of the author's milestone; such runs hold no rank"),
    _text("code_sha256", "sha256 of the submitted file"),
    _text("harness_sha256", "sha256 of the judge"),
    _text("note", "first note, given with the submission"),
    _text("message", "message of the verdict"),
    _flag("removed", "whether an admin has removed its submission from the standings"),
    Column("notes", Kind.TEXTS, "all notes of the user, oldest first; `note` is the first of them", _notes),
    _of_removal("removed_by", Kind.TEXT, "admin who removed its submission", lambda each: _line(each.by_user)),
    _of_removal("removed_at", Kind.MOMENT, "time of the removal", lambda each: each.at.astimezone(UTC)),
    _of_removal("removed_reason", Kind.TEXT, "reason of the removal", lambda each: _line(each.reason) or None),
    _of_rerun("rerun_of", Kind.INTEGER, "submission that this one repeats", lambda each: each.of_submission),
    _of_rerun("rerun_by", Kind.TEXT, "admin who sent it again", lambda each: _line(each.by_user)),
    _number("score_low_s", "lower bound of the 80 % confidence interval of `score_s`, of times on a CPU"),
    _number("score_high_s", "upper bound of the same interval"),
    Column(
        "overlaps_above",
        Kind.BOOLEAN,
        "for a run with a `rank`: whether its interval overlaps that of the next better one (a statistical tie)",
        lambda row: row["overlaps_above"],
    ),
    _number("busy_processors", "processors that other work used while a case was timed, the maximum of its cases"),
)

CODE = Column(
    "code",
    Kind.TEXT,
    "the submitted file, with `--with-code` only",
    lambda row: row["code"].decode("utf-8", "replace"),
)
