"""`experiment`: the runs of two entrants compared."""

from pathlib import Path

import click

from hpc_board.cli.options import Open, command, force_option, gpus_option, plot_option, tags_option, task_names
from hpc_board.cli.output import print_found, refresh, write_plot
from hpc_board.model.names import listed


@command(
    "hpc-board experiment agent-a agent-b",
    "hpc-board experiment agent-a bob/agent-a --task matmul --gpu H100 --plot bests.svg",
    "hpc-board experiment model=small model=large --tag prompt=3 --json",
)
@click.argument("one", metavar="A")
@click.argument("other", metavar="B")
@tags_option("Only submissions with this tag; may be repeated.")
@click.option("-t", "--task", metavar="TASK", help="Only this task.", shell_complete=task_names)
@gpus_option("Only this GPU; comma-separated or repeated. Default: all.")
@plot_option
@click.option(
    "--over",
    type=click.Choice(["runs", "time"]),
    default="runs",
    show_default=True,
    help="Axis of --plot: runs so far, or time since the first submission.",
)
@force_option
def experiment(
    open_: Open,
    *,
    one: str,
    other: str,
    tags: tuple[str, ...],
    task: str | None,
    gpus: tuple[str, ...],
    plot: Path | None,
    over: str,
    force: bool,
    as_json: bool,
) -> None:
    """Compare two entrants by all their runs.

    A and B are entrants of your account (NAME), of another (USER/NAME), or tags of your submissions (KEY=VALUE).

    Prints the best score so far over runs and over time, the difference of the bests on each task and GPU with its
    95 % confidence interval, and PASS@k, the chance that one of k files passes. Several boards are averaged by the
    geometric mean.
    """
    from hpc_board.board.experiments import experiment as compared
    from hpc_board.domain.origin import tags_of
    from hpc_board.report.experiments import Over, experiment_plot, experiment_report
    from hpc_board.report.views.experiments import ExperimentView

    board = open_()
    refresh(board)
    found = compared(board, one, other, tags=tags_of(tags), task=task, gpus=listed(gpus))
    if plot is not None:
        drawn = experiment_plot(found, Over(over))
        write_plot(plot, [drawn] if drawn else [], force=force, nothing="no board has a time of both")
    print_found(ExperimentView.of(found), *experiment_report(found), as_json=as_json)
