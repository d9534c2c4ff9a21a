"""`admin`: settings of a cluster, checks of an installation, backups, and the group of all commands for admins."""

import os
import re
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from hpc_board.admin.detect import detected_settings
from hpc_board.board import Board
from hpc_board.cli import moderation
from hpc_board.cli.boards import milestones, sync
from hpc_board.cli.exits import NO_VERDICT, Group
from hpc_board.cli.export import Since, export, stats
from hpc_board.cli.global_options import config_of
from hpc_board.cli.grading import copies, grades
from hpc_board.cli.init import init
from hpc_board.cli.options import (
    JsonCommand,
    Open,
    command,
    examples,
    force_option,
    gpu_names,
    json_option,
    timeout_option,
)
from hpc_board.cli.output import confirm, print_done, print_found, print_json, remark
from hpc_board.domain.diagnostic import Diagnostic, Severity
from hpc_board.errors import BoardError, InputError
from hpc_board.files import write_file
from hpc_board.model.names import NAME, NAME_WORDS
from hpc_board.report.diagnostics import diagnostics_report, node_checks_report
from hpc_board.report.formatting import count_text
from hpc_board.report.usage import pruned_report
from hpc_board.report.views import view_of, views_of
from hpc_board.report.views.diagnostics import DiagnosticView, GpuCheckView, NodeCheckView
from hpc_board.report.views.setup import BackupView, ContentsView, DetectionView, PrunedView, RestoredView
from hpc_board.service.client import RemoteBoard
from hpc_board.service.diagnosis import diagnose_client, diagnose_python, diagnose_service
from hpc_board.settings_file import FILE_MODE
from hpc_board.store.backup import Contents
from hpc_board.transport.this_host import ThisHost

if TYPE_CHECKING:
    from hpc_board.admin.probe import Checked


@click.command(
    cls=JsonCommand,
    epilog=examples("hpc-board admin detect", "hpc-board admin detect --cluster main -o hpc-board.yaml"),
)
@click.option("--cluster", metavar="NAME", help="Name of the cluster; default: the name in Slurm.")
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE instead of stdout."
)
@force_option
@json_option
def detect(cluster: str | None, output: Path | None, force: bool, as_json: bool) -> None:
    """Generate settings from the GPUs that Slurm reports.

    Each type of GPU becomes an entry. Comments mark the values that Slurm
    does not report and those that you must choose. No job is sent, and no
    settings are read.
    """
    if as_json and output is not None:
        raise click.UsageError("--json and --output are mutually exclusive.")
    if cluster is not None and not re.fullmatch(NAME, cluster):
        raise InputError(f"--cluster: {cluster!r} is not a valid name.", hint=f"Give {NAME_WORDS}.")
    detected = detected_settings(ThisHost(), cluster=cluster)
    if as_json:
        print_json(view_of(DetectionView, detected))
        return
    for each in detected.diagnostics:
        remark(" ".join(filter(None, (each.message, each.hint))))
    if output is None:
        click.echo(detected.text.encode(), nl=False)
        return
    write_file(output, detected.text.encode(), force=force, most=FILE_MODE)
    remark(f"Settings written to {output}, with {', '.join(detected.gpus) or 'no GPU'}.")
    remark(f"Fill in the commented-out keys (#). Then run: hpc-board --config {output} admin check")


@command(
    "hpc-board admin check",
    "hpc-board admin check H100 --timeout 1800",
    "hpc-board admin check --no-job --json",
    "hpc-board admin check H100 --each-node",
)
@click.argument("gpus", metavar="[GPU]...", nargs=-1, shell_complete=gpu_names)
@click.option("--no-job", is_flag=True, help="Send no probe jobs; only validate the options with Slurm.")
@click.option("--each-node", is_flag=True, help="Send a probe job to each node, and compare the nodes.")
@click.option(
    "--at-once",
    metavar="N",
    type=click.IntRange(1, 1000),
    help="With --each-node: maximum number of concurrent jobs; default: 8.",
)
@timeout_option("Maximum time to wait for the jobs, in seconds; default: 600.")
def check(
    open_: Open,
    /,
    *,
    gpus: tuple[str, ...],
    no_job: bool,
    each_node: bool,
    at_once: int | None,
    timeout_seconds: float | None,
    as_json: bool,
) -> None:
    """Test the GPUs in the settings, or only the named ones.

    Slurm validates the job options; then a short probe job for each GPU
    reports on its node. Probe jobs leave no runs, ranks or folders, and
    Ctrl-C cancels them. The exit code is 3 if there is an error.

    With --each-node, a job on each node also measures its speed. The table marks nodes that are broken, have a
    different GPU model, or are slow; nodes that are down are listed without a job. The exit code is 3 if a node is
    broken or has a different model.
    """
    if each_node:
        if no_job:
            raise click.UsageError("--each-node and --no-job are mutually exclusive.")
        _check_nodes(open_, gpus, timeout_seconds, at_once, as_json=as_json)
        return
    if at_once is not None:
        raise click.UsageError("--at-once requires --each-node.")
    board = open_()
    checked = board.admin.check_gpus(gpus, send=not no_job, timeout_seconds=timeout_seconds, say=remark)
    if board.settings.socket is not None:
        checked = [_beside_service(board, each) for each in checked]
    good = "No errors; no probe job sent" if no_job else "Passed"
    print_found(
        views_of(GpuCheckView, checked),
        *(block for each in checked for block in diagnostics_report(each.gpu.name, each.diagnostics, good)),
        as_json=as_json,
    )
    if not all(each.proven for each in checked):
        raise click.exceptions.Exit(NO_VERDICT)


def _beside_service(board: Board, checked: "Checked") -> "Checked":
    """Return a check with the difference of its Python from the one that the board's service would find."""
    used = checked.inspection.executable if checked.inspection else ""
    found = diagnose_python(board.settings, checked.gpu, used, "python")
    return replace(checked, diagnostics=(*checked.diagnostics, *found))


def _check_nodes(
    open_: Open, gpus: tuple[str, ...], timeout: float | None, at_once: int | None, *, as_json: bool
) -> None:
    checks = open_().admin.check_nodes(gpus, timeout_seconds=timeout, at_once=at_once, say=remark)
    print_found(list(map(NodeCheckView.of, checks)), *node_checks_report(checks), as_json=as_json)
    if any(each.verdict.is_problem for each in checks):
        raise click.exceptions.Exit(NO_VERDICT)


@click.command(cls=JsonCommand, epilog=examples("hpc-board admin doctor", "hpc-board admin doctor --json"))
@json_option
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Diagnose this installation.

    Checks the settings, the board's folder, its file system and locks, the tasks, Slurm's commands and controller,
    the Python of each GPU, and the service, if one is configured. For a participant of a service, it checks the
    connection to it. Nothing is sent or changed. The exit code is 3 if there is an error.
    """
    try:
        diagnostics = _diagnostics(ctx.obj(), _origin(ctx))
    except BoardError as error:
        diagnostics = [Diagnostic(Severity.ERROR, "settings", error.message, error.hint)]
    views = views_of(DiagnosticView, diagnostics)
    print_found(views, *diagnostics_report("", diagnostics, "No errors"), as_json=as_json)
    if any(each.severity is Severity.ERROR for each in diagnostics):
        raise click.exceptions.Exit(NO_VERDICT)


@command("hpc-board admin backup /backups/hpc-board-$(date +%F).db")
@click.argument("file", type=click.Path(path_type=Path))
@force_option
def backup(open_: Open, file: Path, force: bool, as_json: bool) -> None:
    """Back up the board's database to FILE while it is in use.

    FILE contains all submissions, runs, results and submitted files. The job
    folders, with job scripts and raw output, are not included.
    """
    contents = open_().admin.backup(file, force=force)
    view = BackupView(file=str(file), contents=view_of(ContentsView, contents))
    print_done(view, f"{file} holds {_contents(contents)}.", as_json=as_json)


@command("hpc-board admin restore /backups/hpc-board-2026-11-21.db")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@click.option(
    "--force", is_flag=True, help="Drop runs in flight and held GPUs that are not in FILE; jobs keep running."
)
def restore(open_: Open, *, file: Path, yes: bool, force: bool, as_json: bool) -> None:
    """Replace the board's database with a backup.

    The current database is kept beside the new one. Its submission and run numbers
    are not reused.
    """
    board = open_()
    restored = board.admin.restore  # a client of a service has none, and says so before it asks
    if not yes:
        confirm(f"Replace {board.settings.board / 'board.db'} with {file}?")
    done = restored(file, force=force)
    text = f"The board now has {_contents(done.now)}. {done.kept} has the previous {_contents(done.before)}."
    print_done(view_of(RestoredView, done), text, as_json=as_json)


@command(
    "hpc-board admin prune --dry-run",
    "hpc-board admin prune --older-than 90d",
    "hpc-board admin prune --older-than 2026-10-01 --json",
)
@click.option(
    "--older-than",
    "before",
    metavar="MOMENT",
    type=Since(),
    help="Only runs that ended before: 30d, 12h, 2026-11-22; default: `prune_days` in the settings, else 30d.",
)
@click.option("--dry-run", is_flag=True, help="Only count; remove nothing.")
def prune(open_: Open, before: datetime | None, dry_run: bool, as_json: bool) -> None:
    """Remove the job folders of runs that ended long ago.

    Reports, results, code and the end of the job's output stay in the database; profiler files, scripts and
    progress files are lost. Folders of runs in flight and of other boards are kept. Unused harness files are
    removed too. The exit code is 3 if something could not be removed.
    """
    pruned = open_().admin.prune(before, dry_run=dry_run)
    print_found(PrunedView.of(pruned), *pruned_report(pruned), as_json=as_json)
    if any(each.problem for each in pruned.clusters.values()):
        raise click.exceptions.Exit(NO_VERDICT)


def _contents(contents: Contents) -> str:
    going = f" ({contents.in_flight} in flight)" if contents.in_flight else ""
    return f"{count_text(contents.submissions, 'submission')} and {count_text(contents.runs, 'run')}{going}"


def _diagnostics(board: Board, origin: str) -> list[Diagnostic]:
    if isinstance(board, RemoteBoard):
        return list(diagnose_client(board, origin or "from the settings"))
    found = board.admin.diagnose(origin, remark)
    if board.settings.socket is not None:
        found += diagnose_service(board.settings)
    return found


def _origin(ctx: click.Context) -> str:
    """Return the origin of the settings file's path, "" for the default paths."""
    if config_of(ctx) is not None:
        return "from --config"
    if os.environ.get("HPC_BOARD_SERVICE"):
        return "from $HPC_BOARD_SERVICE"
    if os.environ.get("HPC_BOARD_CONFIG"):
        return "from $HPC_BOARD_CONFIG"
    return ""


@click.group(
    cls=Group,
    epilog=examples(
        "hpc-board admin detect -o hpc-board.yaml",
        "hpc-board admin check",
        "hpc-board admin doctor",
    ),
)
def admin() -> None:
    """Administer a board: setup, checks, export and moderation."""


for each in (
    *(check, detect, doctor, backup, restore, prune, export, grades, copies, stats, init, milestones, sync),
    *(moderation.limit, moderation.limits, moderation.link, moderation.unlink, moderation.links),
    *(moderation.ban, moderation.unban, moderation.bans, moderation.stop),
    *(moderation.start, moderation.remove, moderation.readmit, moderation.log, moderation.rerun),
):
    admin.add_command(each)
