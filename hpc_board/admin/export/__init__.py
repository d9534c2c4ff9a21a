"""Exports of a board: its runs as CSV, JSON or Parquet, and its standings as a web page."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import IO

import msgspec

from hpc_board.errors import InputError
from hpc_board.model.task import Task
from hpc_board.report.run_columns import Exported, Kind, exported_columns
from hpc_board.store import Store
from hpc_board.store.batches import RunSelection

CSV, JSON, PARQUET, HTML = "csv", "json", "parquet", "html"
FORMATS = (CSV, JSON, PARQUET, HTML)

_CODE = Exported(
    "code",
    Kind.TEXT,
    "the submitted file, with `--with-code` only",
    lambda row: row["code"].decode("utf-8", "replace"),
)


def columns(*, with_code: bool) -> Sequence[Exported]:
    """Return the columns of exported runs; they are added at the end of the table, never renamed or removed."""
    return (*exported_columns(), _CODE) if with_code else exported_columns()


class Written(msgspec.Struct, frozen=True):
    """The result of an export: the numbers of runs and of leaderboards with ranked users.

    `closed` is the number of closed boards with ranked users that a public page lacks.
    """

    runs: int
    boards: int
    closed: int = 0


class Export(msgspec.Struct, frozen=True):
    """A requested export: its contents and its format.

    `tasks` are the existing ones, by their names; those that are `kept_back` are not on a public page.
    """

    store: Store
    tasks: Mapping[str, Task]
    form: str
    chosen: RunSelection
    with_code: bool
    at: datetime
    kept_back: frozenset[str] = frozenset()

    def check(self) -> None:
        """Check that this export can be written.

        Raises:
            InputError: the form is unknown, cannot hold the selection, or needs a library that is not installed.
        """
        if self.form not in FORMATS:
            raise InputError(f"{self.form!r} is no format", hint=f"Formats: {', '.join(FORMATS)}.")
        if self.form == HTML and (self.with_code or self.chosen.since):
            raise InputError(
                "the page shows standings, which have neither files nor a day on which they begin",
                hint="Leave the option out, or take the format csv, json or parquet.",
            )
        if self.form == PARQUET:
            from hpc_board.admin.export.parquet_file import check

            check()

    def write(self, sink: IO[bytes]) -> Written:
        """Write everything to `sink`, in the order of the runs' numbers, with memory for some of them at a time.

        Raises:
            InputError: as `check` says.
            StorageError: the database cannot be read.
        """
        self.check()
        if self.form == HTML:
            from hpc_board.admin.export.page import write as write_page

            ranked = self.store.export.ranked_boards(self.chosen)
            boards = [board for board in ranked if board.task not in self.kept_back]
            lacking = len({board.task for board in ranked if board.task in self.kept_back})
            return Written(0, write_page(sink, self.store, self.tasks, boards, self.at), lacking)
        if self.form == JSON:
            from hpc_board.admin.export.json_file import write as write_json

            return Written(*write_json(sink, self.store, columns(with_code=self.with_code), self.chosen, self.at))
        if self.form == PARQUET:
            from hpc_board.admin.export.parquet_file import write as write_parquet

            return Written(write_parquet(sink, self.store, columns(with_code=self.with_code), self.chosen), 0)
        from hpc_board.admin.export.csv_file import write as write_csv

        return Written(write_csv(sink, self.store, columns(with_code=self.with_code), self.chosen), 0)
