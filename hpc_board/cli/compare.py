"""`compare`: the times of two submissions."""

from collections.abc import Sequence

import click

from hpc_board.cli.options import SUBMISSION_NUMBER, Open, examples, gpus_option, json_option, submission_numbers


@click.command(epilog=examples("hpc-board compare 12 15", "hpc-board compare 12 15 --gpu H100 --json"))
@click.argument("one", metavar="SUBMISSION", type=SUBMISSION_NUMBER, shell_complete=submission_numbers)
@click.argument("other", metavar="OTHER", type=SUBMISSION_NUMBER, shell_complete=submission_numbers)
@gpus_option("Only on this GPU; may be repeated. Default: all common GPUs.")
@json_option
@click.pass_obj
def compare(open_: Open, one: int, other: int, gpus: Sequence[str], as_json: bool) -> None:
    """Compare two submissions.

    Prints the difference in each case and its 95 % confidence interval, or
    "no difference shown" if the scatter of the times is larger. Of two profiles, it
    prints the numbers of each kernel.
    """
    from hpc_board.cli.output import print_blocks, print_json, refresh
    from hpc_board.report.comparisons import comparison_report

    board = open_()
    refresh(board)
    found = board.submissions.compare(one, other, gpus)
    if as_json:
        from hpc_board.report.views.standings import ComparisonsView, ComparisonView

        boards = [ComparisonView.of(each.runs, each.results, each.comparison) for each in found]
        print_json(ComparisonsView(task=found[0].runs[0].task, boards=boards))
        return
    print_blocks(*(block for each in found for block in comparison_report(each.runs, each.results, each.comparison)))
