"""`feed`: recent changes of the standings."""

import click

from hpc_board.cli.options import Count, Open, examples, gpu_names, json_option, task_names


@click.command(
    epilog=examples("hpc-board feed", "hpc-board feed vectoradd_py --gpu H100 --limit 5", "hpc-board feed --json")
)
@click.argument("name", required=False, shell_complete=task_names)
@click.option("-g", "--gpu", metavar="NAME", help="Only the boards of this GPU.", shell_complete=gpu_names)
@click.option("--user", metavar="NAME", help="Only changes by this user.")
@click.option("--limit", metavar="N", type=Count(1_000_000), default=20, show_default=True, help="Number of entries.")
@click.option("--before", type=Count(2**63 - 1), metavar="ID", help="Only entries older than this one.")
@json_option
@click.pass_obj
def feed(
    open_: Open,
    *,
    name: str | None,
    gpu: str | None,
    user: str | None,
    limit: int,
    before: int | None,
    as_json: bool,
) -> None:
    """Show recent changes of the standings.

    Newest first: records, ranks among the first three, first results and personal bests, with the users they beat.
    """
    from hpc_board.cli.output import print_blocks, print_json, refresh
    from hpc_board.report.feeds import feed_lines

    board = open_()
    refresh(board)
    entries = board.standings.feed(task=name, gpu=gpu, user=user, before=before, limit=limit)
    if as_json:
        from hpc_board.report.views.standings import FeedView

        print_json([FeedView.of(entry) for entry in entries])
    else:
        print_blocks(feed_lines(entries))
