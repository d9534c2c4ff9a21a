"""The columns of exported runs; docs/boards.md has their meanings."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

import msgspec

from hpc_board.domain.moderation import Removal, Rerun
from hpc_board.domain.run import RunState
from hpc_board.model.text import one_line

Row = Mapping[str, Any]
"""A row of the store's query."""

Value = str | int | float | bool | datetime | tuple[str, ...] | None
"""The value of a cell; None if it is empty."""

_CHARACTERS_MAX = 2000


class Kind(StrEnum):
    """The type of a column. Moments are in UTC, numbers of seconds are floats, texts are lists of them."""

    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    TEXTS = "texts"
    BOOLEAN = "boolean"
    MOMENT = "moment"


class Column(msgspec.Struct, frozen=True):
    """A column: its name, its type, and its value in a row."""

    name: str
    kind: Kind
    value: Callable[[Row], Value]


@lru_cache(maxsize=4096)
def _line(text: str) -> str:
    return one_line(text, _CHARACTERS_MAX)


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)


def _ended(row: Row) -> datetime | None:
    """Return the end of the job by its own clock; else the time at which the board recorded it."""
    return _time(row["job_ended_at"] or row["state_since"]) if RunState(row["state"]).ended else None


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else max(0.0, (end - start).total_seconds())


def _notes(row: Row) -> tuple[str, ...]:
    return tuple(filter(None, map(_line, (row["note"], *(note.text for note in row["remarks"].notes)))))


def _integer(name: str) -> Column:
    return Column(name, Kind.INTEGER, lambda row: row[name])


def _number(name: str) -> Column:
    return Column(name, Kind.NUMBER, lambda row: row[name])


def _text_column(name: str) -> Column:
    return Column(name, Kind.TEXT, lambda row: None if row[name] is None else _line(row[name]) or None)


def _flag(name: str) -> Column:
    return Column(name, Kind.BOOLEAN, lambda row: None if row[name] is None else bool(row[name]))


def _moment(name: str) -> Column:
    return Column(name, Kind.MOMENT, lambda row: _time(row[name]))


def _of_removal(name: str, kind: Kind, value: Callable[[Removal], Value]) -> Column:
    return Column(name, kind, lambda row: row["remarks"].removal and value(row["remarks"].removal))


def _of_rerun(name: str, kind: Kind, value: Callable[[Rerun], Value]) -> Column:
    return Column(name, kind, lambda row: row["remarks"].rerun and value(row["remarks"].rerun))


COLUMNS = (
    _integer("run"),
    _integer("submission"),
    _text_column("task"),
    _text_column("task_version"),
    _text_column("gpu"),
    _text_column("user"),
    _text_column("account"),
    _text_column("file_name"),
    _text_column("mode"),
    _text_column("state"),
    _text_column("verdict"),
    _number("score_s"),
    _integer("rank"),
    _moment("submitted_at"),
    _moment("started_at"),
    Column("ended_at", Kind.MOMENT, _ended),
    Column("waited_s", Kind.NUMBER, lambda row: _seconds(_time(row["submitted_at"]), _time(row["started_at"]))),
    Column("ran_s", Kind.NUMBER, lambda row: _seconds(_time(row["started_at"]), _ended(row))),
    _text_column("cluster"),
    _text_column("partition"),
    _text_column("job_id"),
    _text_column("node"),
    _text_column("trust"),
    _flag("emulated"),
    _text_column("milestone"),
    _text_column("code_sha256"),
    _text_column("harness_sha256"),
    _text_column("note"),
    _text_column("message"),
    _flag("removed"),
    Column("notes", Kind.TEXTS, _notes),
    _of_removal("removed_by", Kind.TEXT, lambda removal: _line(removal.by_user)),
    _of_removal("removed_at", Kind.MOMENT, lambda removal: removal.at.astimezone(UTC)),
    _of_removal("removed_reason", Kind.TEXT, lambda removal: _line(removal.reason) or None),
    _of_rerun("rerun_of", Kind.INTEGER, lambda rerun: rerun.of_submission),
    _of_rerun("rerun_by", Kind.TEXT, lambda rerun: _line(rerun.by_user)),
    _number("score_low_s"),
    _number("score_high_s"),
    _flag("overlaps_above"),
    _number("busy_processors"),
)
"""All columns but `code`, in their order: a new one comes last, and none is renamed or removed."""

CODE = Column("code", Kind.TEXT, lambda row: row["code"].decode("utf-8", "replace"))
