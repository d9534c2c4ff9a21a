"""`admin export` and `admin stats`: runs and standings as files, and usage statistics."""

import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from hpc_board.cli.options import (
    PATH_OR_NAME,
    Number,
    Open,
    command,
    examples,
    force_option,
    gpus_option,
    task_names,
)
from hpc_board.cli.output import print_found, refresh, remark
from hpc_board.domain.clock import span_of
from hpc_board.files import new_file
from hpc_board.model.names import listed
from hpc_board.report.formatting import count_text
from hpc_board.report.usage import statistics_report
from hpc_board.report.views import view_of
from hpc_board.report.views.usage import StatisticsView

_FORMATS = ("csv", "json", "parquet", "html")


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


@click.command(
    epilog=examples(
        "hpc-board admin export --format csv -o runs.csv",
        "hpc-board admin export --format html -o boards.html --force",
        "hpc-board admin export --format json --task softmax_py --since 30d --with-code",
    )
)
@click.option(
    "--format", "form", type=click.Choice(_FORMATS), required=True, help="Runs as csv, json or parquet; boards as html."
)
@click.option(
    "-o", "--output", metavar="FILE", default="-", type=PATH_OR_NAME, help="Write to FILE instead of stdout (`-`)."
)
@click.option(
    "-t",
    "--task",
    "tasks",
    metavar="NAME",
    multiple=True,
    shell_complete=task_names,
    help="Only this task; may be repeated.",
)
@gpus_option("Only this GPU; comma-separated or repeated.")
@click.option("--since", metavar="MOMENT", type=Since(), help="Only submissions since: 2026-11-22, 30d, 12h.")
@click.option("--with-code", is_flag=True, help="Include the submitted files of all users.")
@force_option
@click.pass_obj
def export(
    open_: Open,
    form: str,
    output: str,
    tasks: tuple[str, ...],
    gpus: tuple[str, ...],
    since: datetime | None,
    with_code: bool,
    force: bool,
) -> None:
    """Export all runs, or the boards as an HTML page.

    csv and parquet have a row for each run, with its rank; json adds the standings. html is a self-contained page
    of the boards; it includes closed boards only if --task names them. FILE is written completely or not at all.
    Only you can read it, except for the HTML page.
    """
    if output == "-" and sys.stdout.isatty() and (form == "parquet" or with_code):
        raise click.UsageError("this format is not printed to a terminal; use -o FILE.")
    board = open_()
    chosen = listed(gpus)
    wanted = board.admin.export(form, tasks=tasks, gpus=chosen, since=since, with_code=with_code)
    refresh(board)
    if output == "-":
        wanted.write(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    # The page is public; the other formats have the runs of closed boards, too.
    with new_file(Path(output), force=force, most=0o666 if form == "html" else 0o600) as file:
        written = wanted.write(file)
    counts = [(written.runs, "run", form != "html"), (written.boards, "board", form in ("json", "html"))]
    remark(f"{output} has {' and '.join(count_text(count, noun) for count, noun, told in counts if told)}.")
    if written.closed:
        remark(f"Not included: {count_text(written.closed, 'closed board')}; --task NAME adds one.")


@command("hpc-board admin stats", "hpc-board admin stats --days 7 --task softmax_py --json")
@click.option("--days", type=Number(700_000), metavar="N", help="Only the last N days.")
@click.option("-t", "--task", metavar="NAME", shell_complete=task_names, help="Only this task.")
def stats(open_: Open, days: int | None, task: str | None, as_json: bool) -> None:
    """Show usage statistics.

    For each GPU: number of runs, passed runs and scored runs, waiting times
    and run times. Users are ordered by the GPU-seconds of their runs and held
    GPUs.
    """
    board = open_()
    refresh(board)
    since = None if days is None else datetime.now(UTC) - timedelta(days=days)
    found = board.admin.statistics(tasks=[task] if task else [], since=since)
    print_found(view_of(StatisticsView, found), *statistics_report(found), as_json=as_json)
