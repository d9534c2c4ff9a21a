"""The columns of exported runs, those of the table of runs. Columns are added at the end, never renamed or removed."""

from collections.abc import Sequence

from hpc_board.report.run_columns import Exported, Kind, exported_columns


def columns(*, with_code: bool) -> Sequence[Exported]:
    """Return the columns of an export, in their order."""
    return (*exported_columns(), CODE) if with_code else exported_columns()


CODE = Exported(
    "code",
    Kind.TEXT,
    "the submitted file, with `--with-code` only",
    lambda row: row["code"].decode("utf-8", "replace"),
)
