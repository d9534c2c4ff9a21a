"""Runs as Parquet, where pyarrow is installed."""

from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from itertools import islice
from typing import IO, Any

from hpc_board.errors import InputError
from hpc_board.report.run_columns import Exported, Kind
from hpc_board.store import Store
from hpc_board.store.batches import RunSelection
from hpc_board.store.row_values import Row

_ROWS_AT_ONCE = 20_000
_ROWS_AT_ONCE_WITH_CODE = 50


def check() -> None:
    """Check that Parquet can be written.

    Raises:
        InputError: pyarrow is not installed.
    """
    if find_spec("pyarrow") is None:
        raise InputError(
            "Parquet is written by pyarrow, which is not installed",
            hint="Install it where hpc-board is (pip install 'hpc-board[parquet]'), or take --format csv or json.",
        )


def write(sink: IO[bytes], store: Store, columns: Sequence[Exported], chosen: RunSelection) -> int:
    """Write every chosen run as one row, and return how many there were."""
    import pyarrow as pa
    from pyarrow import parquet

    types = {
        Kind.INTEGER: pa.int64(),
        Kind.NUMBER: pa.float64(),
        Kind.TEXT: pa.string(),
        Kind.TEXTS: pa.list_(pa.string()),
        Kind.BOOLEAN: pa.bool_(),
        Kind.MOMENT: pa.timestamp("us", tz="UTC"),
    }
    schema = pa.schema([(column.name, types[column.kind]) for column in columns])
    with_code = columns[-1].name == "code"
    rows = store.export.runs(chosen, with_code=with_code)
    count = 0
    with parquet.ParquetWriter(sink, schema) as writer:
        for batch in _batches(rows, _ROWS_AT_ONCE_WITH_CODE if with_code else _ROWS_AT_ONCE):
            cells: dict[str, list[Any]] = {column.name: [column.value(row) for row in batch] for column in columns}
            writer.write_table(pa.Table.from_pydict(cells, schema=schema))
            count += len(batch)
    return count


def _batches(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    remaining = iter(rows)
    while batch := list(islice(remaining, size)):
        yield batch
