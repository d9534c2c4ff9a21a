"""`export`, `admin export` and `admin stats`: runs and standings as files, and usage statistics."""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from hpc_board.board import Board
from hpc_board.cli.options import (
    Number,
    Open,
    by_option,
    command,
    examples,
    force_option,
    gpus_option,
    output_option,
    task_names,
    tasks_option,
)
from hpc_board.cli.output import print_found, refresh, remark
from hpc_board.domain.clock import span_of
from hpc_board.domain.export import FORMATS, HTML, JSON, OVERALL, PARQUET, RUNS, TABLE_FORMATS, TABLES, TRACES
from hpc_board.domain.origin import By
from hpc_board.files import new_file
from hpc_board.model.names import listed
from hpc_board.report.formatting import count_text
from hpc_board.report.usage import statistics_report
from hpc_board.report.views import view_of
from hpc_board.report.views.usage import StatisticsView


class Since(click.ParamType[datetime]):
    """A moment in the past: a date, a date with a time, or an age."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        text = str(value).strip()
        try:
            with suppress(ValueError):
                return datetime.now(UTC) - span_of(text)
            moment = datetime.fromisoformat(text)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            self.fail(
                f"{value!r} is not a valid time. Use a date (2026-11-22), a date with a time (2026-11-22T18:00, in UTC "
                "unless it has a time zone), or an age (12h, 30d, 4w).",
                param,
                ctx,
            )


def _table_options(forms: Sequence[str], formats: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Return the decorator of a command that exports a table in one of these formats."""
    options = (
        click.option("--format", "form", type=click.Choice(forms), required=True, help=formats),
        click.option(
            "--what",
            type=click.Choice(TABLES),
            default=RUNS,
            show_default=True,
            help="Table: the runs, their cases, the samples of these, the tasks, or the overall standings.",
        ),
        output_option,
        tasks_option("Only this task; may be repeated."),
        gpus_option("Only this GPU; comma-separated or repeated."),
        click.option("--since", metavar="MOMENT", type=Since(), help="Only submissions since: 2026-11-22, 30d, 12h."),
        click.option("--ended-only", is_flag=True, help="Only runs that have ended."),
        click.option("--with-code", is_flag=True, help="Include the submitted files."),
        click.option(
            "--with-output", is_flag=True, help="Include the output of compiler and kernel, profiles and machines."
        ),
        click.option(
            "--anonymous",
            is_flag=True,
            help="Replace users by pseudonyms; omit notes and names of files and nodes. Numbers and times of runs "
            "stay: they link to the names on other boards.",
        ),
        force_option,
    )

    def decorated(function: Callable[..., object]) -> Callable[..., object]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorated


@click.command(
    "export",
    epilog=examples(
        "hpc-board export --format jsonl -o runs.jsonl",
        "hpc-board export --format parquet --what samples --task softmax_py -o samples.parquet",
        "hpc-board export --format jsonl --ended-only --with-code --with-output --since 30d -o runs.jsonl",
    ),
)
@_table_options(TABLE_FORMATS, "Format of the table.")
@click.pass_obj
def export_own(open_: Open, /, **options: Any) -> None:
    """Export your runs as a table.

    The table has a row for each run, or for each case or sample of your runs, or for each version of their tasks. FILE
    is written completely or not at all, and only you can read it.
    """
    _export(open_(), own=True, **options)


@click.command(
    epilog=examples(
        "hpc-board admin export --format csv -o runs.csv",
        "hpc-board admin export --format html -o boards.html --force",
        "hpc-board admin export --format json --task softmax_py --since 30d --with-code",
        "hpc-board admin export --format parquet --what cases --ended-only --anonymous -o cases.parquet",
    )
)
@_table_options(FORMATS, "Runs as csv, jsonl, parquet or json; boards as html.")
@click.pass_obj
def export(open_: Open, /, **options: Any) -> None:
    """Export the runs of all users, or the boards as an HTML page.

    csv, jsonl and parquet have a row for each run with its rank, or the rows of another table; json adds the standings.
    html is a self-contained page of the boards; it includes closed boards only if --task names them. FILE is written
    completely or not at all. Only you can read it, except for the HTML page.
    """
    _export(open_(), own=False, **options)


def _export(board: Board, *, form: str, output: str, force: bool, gpus: tuple[str, ...], **options: Any) -> None:
    long = form == PARQUET or options["with_code"] or options["with_output"]
    if output == "-" and sys.stdout.isatty() and long:
        raise click.UsageError("this format is not printed to a terminal; use -o FILE.")
    wanted = board.admin.export(form, gpus=listed(gpus), **options)
    refresh(board)
    if output == "-":
        wanted.write(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    # The page is public; the other formats have the runs of closed boards, too.
    with new_file(Path(output), force=force, most=0o666 if form == HTML else 0o600) as file:
        written = wanted.write(file)
    counts = [
        (written.rows, "row" if options["what"] == OVERALL else options["what"].removesuffix("s"), form != HTML),
        (written.boards, "board", form in (JSON, HTML)),
    ]
    remark(f"{output} has {' and '.join(count_text(count, noun) for count, noun, told in counts if told)}.")
    if form == TRACES and not written.rows:
        remark("Only runs of tasks that were imported from FlashInfer Trace have traces.")
    if written.closed:
        remark(f"Not included: {count_text(written.closed, 'closed board')} with results; --task TASK adds one.")


@command("hpc-board admin stats", "hpc-board admin stats --days 7 --task softmax_py --json")
@click.option("--days", type=Number(700_000), metavar="N", help="Only the last N days.")
@click.option("-t", "--task", metavar="TASK", shell_complete=task_names, help="Only this task.")
@by_option("Count the runs of each account, or of each entrant.")
def stats(open_: Open, days: int | None, task: str | None, by: str, as_json: bool) -> None:
    """Show usage statistics.

    For each GPU: number of runs, passed runs and scored runs, waiting times
    and run times. Users, or entrants, are ordered by the GPU-seconds of their runs and held
    GPUs.
    """
    board = open_()
    refresh(board)
    since = None if days is None else datetime.now(UTC) - timedelta(days=days)
    found = board.admin.statistics(tasks=[task] if task else [], since=since, by=By(by))
    print_found(view_of(StatisticsView, found), *statistics_report(found), as_json=as_json)
