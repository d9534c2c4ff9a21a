"""`admin milestones`: runs of a task's milestones."""

import click

from hpc_board.cli.options import Open, examples, gpus_option, json_option, task_names
from hpc_board.model.names import listed


@click.command(
    epilog=examples("hpc-board admin milestones vectoradd_py", "hpc-board admin milestones vectoradd_py --gpu H100")
)
@click.argument("name", shell_complete=task_names)
@gpus_option("Only this GPU; comma-separated or repeated. Default: all GPUs of the task.")
@json_option
@click.pass_obj
def milestones(open_: Open, name: str, gpus: tuple[str, ...], as_json: bool) -> None:
    """Run the milestones of a task.

    The board shows the newest passing run of each milestone without a rank. Requires the role creator.

    The exit codes are those of `submit` without --wait.
    """
    from hpc_board.cli.exits import DONE, NO_VERDICT
    from hpc_board.cli.follow import report_unsent
    from hpc_board.cli.output import print_blocks, print_json
    from hpc_board.report.run_columns import runs_table

    board = open_()
    names = listed(gpus)
    runs = board.submissions.submit_milestones(name, names)
    if as_json:
        from hpc_board.cli.output import listed_runs

        print_json(listed_runs(board, runs))
    else:
        print_blocks(runs_table(runs))
    report_unsent(runs, served=board.served)
    raise click.exceptions.Exit(NO_VERDICT if any(run.state == "error" for run in runs) else DONE)
