"""The columns of exported runs; docs/boards.md has their meanings."""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

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


_COLUMNS = (
    (Kind.INTEGER, "run submission"),
    (Kind.TEXT, "task task_version gpu user account file_name mode state verdict"),
    (Kind.NUMBER, "score_s"),
    (Kind.INTEGER, "rank"),
    (Kind.MOMENT, "submitted_at started_at ended_at"),
    (Kind.NUMBER, "waited_s ran_s"),
    (Kind.TEXT, "cluster partition job_id node trust"),
    (Kind.BOOLEAN, "emulated"),
    (Kind.TEXT, "milestone code_sha256 harness_sha256 note message"),
    (Kind.BOOLEAN, "removed"),
    (Kind.TEXTS, "notes"),
    (Kind.TEXT, "removed_by"),
    (Kind.MOMENT, "removed_at"),
    (Kind.TEXT, "removed_reason"),
    (Kind.INTEGER, "rerun_of"),
    (Kind.TEXT, "rerun_by"),
    (Kind.NUMBER, "score_low_s score_high_s"),
    (Kind.BOOLEAN, "overlaps_above"),
    (Kind.NUMBER, "busy_processors gpu_seconds"),
)
COLUMNS: Mapping[str, Kind] = {name: kind for kind, names in _COLUMNS for name in names.split()}
"""All columns but CODE, in their order: a new one comes last, and none is renamed or removed."""

CODE = "code"
"""The column with the text of the submitted file, for exports that have it."""


def cells(row: Row) -> dict[str, Value]:
    """Return the values of all columns in a row, by their names."""
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
    }
    code = {} if row["code"] is None else {CODE: row["code"].decode("utf-8", "replace")}
    return {**{name: _cell(found[name], kind) for name, kind in COLUMNS.items()}, **code}


def _cell(value: Any, kind: Kind) -> Value:
    if value is None:
        return None
    match kind:
        case Kind.TEXT:
            return _line(value) or None
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
