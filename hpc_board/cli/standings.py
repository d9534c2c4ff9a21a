"""`show` and `show-personal`: the boards."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from hpc_board.cli.options import Open, examples, gpu_names, json_option, task_names

if TYPE_CHECKING:
    from hpc_board.board import Board
    from hpc_board.model.gpu import Gpu
    from hpc_board.model.standings import Standing
    from hpc_board.report import Block

_name = click.argument("name", shell_complete=task_names)
_NONE_OF_YOURS = "You have no passing ranked run on it."
_gpus = click.option(
    "--gpu",
    "gpus",
    metavar="NAME",
    multiple=True,
    help="Only this GPU, or several with commas between them; may be repeated. Else all of the task's.",
    shell_complete=gpu_names,
)


@click.command(epilog=examples("hpc-board show vectoradd_py", "hpc-board show vectoradd_py --gpu H100,A100 --json"))
@_name
@_gpus
@json_option
@click.pass_obj
def show(open_: Open, name: str, gpus: tuple[str, ...], as_json: bool) -> None:
    """Show the standings of a task on each GPU.

    A row is a user's best passing ranked run.
    """
    _print_boards(open_(), name, gpus, lambda board: board.standings, as_json=as_json)


@click.command("show-personal", epilog=examples("hpc-board show-personal vectoradd_py --gpu H100"))
@_name
@_gpus
@json_option
@click.pass_obj
def show_personal(open_: Open, name: str, gpus: tuple[str, ...], as_json: bool) -> None:
    """Show all your passing ranked runs of a task on each GPU."""
    _print_boards(open_(), name, gpus, lambda board: board.personal, as_json=as_json, empty=_NONE_OF_YOURS)


def _print_boards(
    board: "Board",
    name: str,
    gpu_words: Sequence[str],
    rows: "Callable[[Board], Callable[[str, str], Sequence[Standing]]]",
    *,
    as_json: bool,
    empty: str = "Nobody is on this board yet.",
) -> None:
    from hpc_board.cli.printing import print_blocks, print_json, refresh
    from hpc_board.report import Heading, standings_table

    task = board.task(name)
    chosen = _chosen(board, gpu_words) if gpu_words else board.allowed_gpus(task)
    refresh(board)
    boards = [(gpu, rows(board)(task.name, gpu.name)) for gpu in chosen]
    if as_json:
        from hpc_board.cli.json_output import board_object

        print_json({"task": task.name, "boards": [board_object(gpu, found) for gpu, found in boards]})
        return
    blocks: list[Block] = []
    for gpu, found in boards:
        blocks += [Heading(f"{task.name} on {gpu.name}"), standings_table(found, board.user, empty)]
    print_blocks(*blocks)


def _chosen(board: "Board", words: Sequence[str]) -> "Sequence[Gpu]":
    names = [name.strip() for word in words for name in word.split(",")]
    return [board.gpu(name) for name in names]
