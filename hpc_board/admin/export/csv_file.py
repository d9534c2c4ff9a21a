"""Runs as CSV: UTF-8, a line of names first, and no cell that a spreadsheet would take for a formula."""

import csv
import json
from collections.abc import Sequence
from datetime import datetime
from io import TextIOWrapper
from typing import IO

from hpc_board.admin.export.json_file import moment
from hpc_board.report.run_columns import Exported, Value
from hpc_board.store import Store
from hpc_board.store.batches import RunSelection

_MARK = "'"
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")  # noqa: RUF001 spreadsheets take the wide ones too
"""The first characters of cells that spreadsheets compute, and may send elsewhere."""


def write(sink: IO[bytes], store: Store, columns: Sequence[Exported], chosen: RunSelection) -> int:
    """Write every chosen run as one record, and return how many there were."""
    text = TextIOWrapper(sink, encoding="utf-8", newline="")
    try:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([column.name for column in columns])
        count = 0
        for row in store.export.runs(chosen, with_code=columns[-1].name == "code"):
            writer.writerow([_cell(column.value(row)) for column in columns])
            count += 1
        text.flush()
    finally:
        text.detach()
    return count


def _cell(value: Value) -> str | int | float:
    """Format a cell: a text that starts as a formula, or with an apostrophe, gets an apostrophe before it.

    To recover the text, remove one apostrophe from its beginning.
    """
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case datetime():
            return moment(value)
        case tuple():
            return _cell(json.dumps(value, ensure_ascii=False) if value else "")
        case str():
            # A reader of CSV may end at a null.
            text = value.replace("\0", "\N{REPLACEMENT CHARACTER}")
            # Some spreadsheets trim a cell before they look at it.
            risky = text.startswith((*_FORMULA, _MARK)) or text.lstrip().startswith(_FORMULA)
            return _MARK + text if risky else text
    return value
