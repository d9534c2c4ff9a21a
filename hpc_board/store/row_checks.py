"""One pass over all rows of a database that another account may have written, by the readers of single rows."""

from collections.abc import Callable

from hpc_board.store.boards import check_board_row
from hpc_board.store.reading import Readable
from hpc_board.store.row_values import Row, RowReader
from hpc_board.store.rows import case_value, check_retry_row, status_value, submission_value
from hpc_board.store.task_rows import task_value


def check_rows(db: Readable) -> None:
    """Check each row of the tables that decide about jobs, one in memory at a time.

    Raises:
        DamagedRowError: one holds a value that hpc-board does not write.
    """
    for table, read in _READERS.items():
        for row in db.table(table).rows_where():
            read(row)
    for row in db.table("boards").rows_where():
        check_board_row(db, row)


def _run(row: Row) -> None:
    found = RowReader(row, "runs")
    for column in ("gpu", "cluster"):
        found.name(column)
    found.token()
    found.digest("harness_sha256")
    for column in ("partition", "nonce", "trust", "account"):
        found.text(column)
    found.job_options()
    found.integer("submission")


def _result(row: Row) -> None:
    found = RowReader(row, "results", "run")
    found.text("verdict")
    if found.has("score_s"):
        found.score()


_READERS: dict[str, Callable[[Row], object]] = {
    "tasks": task_value,
    "submissions": submission_value,
    "runs": _run,
    "retries": check_retry_row,
    "events": status_value,
    "results": _result,
    "cases": case_value,
}
