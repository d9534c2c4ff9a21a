"""`admin grades` and `admin copies`: the results of users on tasks with their points, and similar files of users."""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from hpc_board.cli.options import Open, command, force_option, gpus_option, output_option, tasks_option
from hpc_board.cli.output import print_found, refresh, remark
from hpc_board.domain.export import CSV
from hpc_board.domain.near_copies import SHARE
from hpc_board.files import new_file
from hpc_board.model.names import listed
from hpc_board.report.formatting import count_text
from hpc_board.report.grading import Cell, grade_rows, grades_report
from hpc_board.report.moderation import copies_table, copy_rows
from hpc_board.report.views import view_of, views_of
from hpc_board.report.views.grading import GradesView
from hpc_board.report.views.moderation import NearCopyView

_tasks = tasks_option("Only this task; may be repeated. Default: the boards that you manage.")


def _csv_option(noun: str) -> Callable[[Any], Any]:
    return click.option("--format", "form", type=click.Choice([CSV]), help=f"A table with a row for each {noun}.")


def _wants_csv(form: str | None, output: str, *, force: bool, as_json: bool) -> bool:
    """Return whether the options ask for a CSV.

    Raises:
        UsageError: one of them would have no effect.
    """
    if force and output == "-":
        raise click.UsageError("--force requires -o FILE.")
    is_csv = form is not None or output != "-"
    if is_csv and as_json:
        raise click.UsageError("--json and a CSV (--format csv, -o) are mutually exclusive.")
    return is_csv


def _write_csv(output: str, rows: Iterable[Sequence[Cell]], noun: str, *, force: bool) -> None:
    """Write lines as CSV to a new file, or to standard output for `-`."""
    from hpc_board.admin.export import write_csv

    if output == "-":
        write_csv(sys.stdout.buffer, rows)
        sys.stdout.buffer.flush()
        return
    with new_file(Path(output), force=force, most=0o600) as sink:
        count = write_csv(sink, rows)
    remark(f"{output} has {count_text(count, noun)}.")


@command(
    "hpc-board admin grades --member @course",
    "hpc-board admin grades --task week1 --task week2 --points '1x: 50, 2x: 80, 4x: 100'",
    "hpc-board admin grades --member @course --points '1: 25, 3: 15, 10: 5' --format csv -o grades.csv",
)
@click.option(
    "--member",
    "members",
    metavar="WHO",
    multiple=True,
    help="User or @group with a row; default: members of the boards and all who submitted, except their managers.",
)
@_tasks
@gpus_option("Only this GPU; comma-separated or repeated.")
@click.option(
    "--points", metavar="RULE", default="", help="Points by speedup, '1x: 50, 2x: 80', or rank, '1: 25, 3: 15'."
)
@_csv_option("user")
@output_option
@force_option
def grades(
    open_: Open,
    *,
    members: tuple[str, ...],
    tasks: tuple[str, ...],
    gpus: tuple[str, ...],
    points: str,
    form: str | None,
    output: str,
    force: bool,
    as_json: bool,
) -> None:
    """List the results of users on tasks, and their points.

    Each user has a row, also without a passing run: the best ranked run on each task with its speedup over the
    reference, the best late one, the first pass and the last submission. A rule such as '1x: 50, 2x: 80, 4x: 100'
    gives points for the last threshold that the speedup reaches, '1: 25, 3: 15' for the rank; 'pass: 20' is the least
    for a passing run. Points that depend on noise are marked. Creators may grade their own boards.
    """
    is_csv = _wants_csv(form, output, force=force, as_json=as_json)
    board = open_()
    refresh(board)
    found = board.standings.grades(members, tasks=tasks, gpus=listed(gpus), points=points)
    if is_csv:
        _write_csv(output, grade_rows(found), "user", force=force)
    else:
        print_found(view_of(GradesView, found), *grades_report(found), as_json=as_json)


@command(
    "hpc-board admin copies --task matmul",
    "hpc-board admin copies --task matmul --share 0.8 --format csv -o copies.csv",
)
@_tasks
@click.option(
    "--share", metavar="SHARE", type=float, default=SHARE, show_default=True, help="Minimum share, from 0 to 1."
)
@_csv_option("pair")
@output_option
@force_option
def copies(
    open_: Open, *, tasks: tuple[str, ...], share: float, form: str | None, output: str, force: bool, as_json: bool
) -> None:
    """List similar files of different users on each task: a hint, not a verdict.

    Compares the newest 10 different files that each user sent in mode ranked, by fingerprints of their tokens:
    names, numbers, comments and layout do not matter, and the task's own files and templates are left out. SHARE is
    the part of the shorter file that is in the other, from 0 to 1. Creators may compare files on their own boards.
    OLDER and NEWER are runs; `compare OLDER NEWER --diff` prints the difference of their files.
    """
    is_csv = _wants_csv(form, output, force=force, as_json=as_json)
    found = open_().submissions.near_copies(tasks, share)
    if is_csv:
        _write_csv(output, copy_rows(found), "pair", force=force)
    else:
        print_found(views_of(NearCopyView, found), copies_table(found), as_json=as_json)
