"""Standings and runs as one JSON object, with a line for each run and each board."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import IO, Any

from hpc_board.model.text import one_line
from hpc_board.report.run_columns import Exported, Value
from hpc_board.report.standing_columns import Document, Line, values
from hpc_board.store import Store
from hpc_board.store.batches import RunSelection
from hpc_board.store.export import RankedBoard

FORMAT = "hpc-board export 1"


def write(
    sink: IO[bytes], store: Store, columns: Sequence[Exported], chosen: RunSelection, at: datetime
) -> tuple[int, int]:
    """Write the selected runs and the standings of their boards; return the number of each."""
    head = {
        "format": FORMAT,
        "exported_at": moment(at),
        "tasks": list(chosen.tasks),
        "gpus": list(chosen.gpus),
        "since": None if chosen.since is None else moment(chosen.since),
    }
    sink.write(_text(head).removesuffix("}").encode() + b',\n"boards": [')
    boards = _write_lines(sink, (_board(store, key) for key in store.export.ranked_boards(chosen)))
    sink.write(b'],\n"runs": [')
    rows = store.export.runs(chosen, with_code=columns[-1].name == "code")
    runs = _write_lines(sink, ({column.name: _plain(column.value(row)) for column in columns} for row in rows))
    sink.write(b"]}\n")
    return runs, boards


def _write_lines(sink: IO[bytes], values: Iterable[Any]) -> int:
    count = 0
    for count, value in enumerate(values, start=1):
        sink.write((",\n" if count > 1 else "\n").encode() + _text(value).encode())
    return count


def _board(store: Store, key: RankedBoard) -> dict[str, Any]:
    return {
        "task": one_line(key.task),
        "task_version": key.task_version,
        "gpu": one_line(key.gpu),
        "rows": [
            {key: _plain(_printable(value)) for key, value in values(Line(row), Document.EXPORT).items()}
            for row in store.standings.list(key.task, key.task_version, key.gpu)
        ],
    }


def moment(at: datetime) -> str:
    """Format a time in ISO 8601, UTC, to the microsecond."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _plain(value: Value) -> Any:
    return moment(value) if isinstance(value, datetime) else value


def _printable(value: Value) -> Value:
    return one_line(value) if isinstance(value, str) else value


def _text(value: Any) -> str:
    # In ASCII, which no terminal and no locale can trip over.
    return json.dumps(value, allow_nan=False)
