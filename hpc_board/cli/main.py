"""`hpc-board`: its commands in one place, and the terminal app where no command is given."""

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from hpc_board import __version__
from hpc_board.cli.admin import admin
from hpc_board.cli.compare import compare
from hpc_board.cli.completion import completion
from hpc_board.cli.exits import Program
from hpc_board.cli.options import examples, open_board
from hpc_board.cli.runs import cancel, code, poll, run, runs, watch
from hpc_board.cli.standings import show, show_personal
from hpc_board.cli.streams import open_streams
from hpc_board.cli.submit import submit
from hpc_board.cli.tasks import gpus, list_, task, template


def _command_names(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    try:
        _, command = _command(ctx.find_root(), ctx.params.get("names") or ())
    except click.UsageError:
        return []
    return [name for name in getattr(command, "commands", ()) if name.startswith(incomplete)]


@click.group(
    cls=Program,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "hpc-board template vectoradd_py -o kernel.py",
        "hpc-board submit kernel.py --mode test --wait",
        "hpc-board show vectoradd_py",
    ),
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The settings; else $HPC_BOARD_CONFIG, ./hpc-board.yaml, yours, the system's, or built-in ones.",
)
@click.version_option(__version__, prog_name="hpc-board")
@click.pass_context
def cli(ctx: click.Context, config: Path | None) -> None:
    """GPU-kernel leaderboards on a Slurm cluster.

    Without a command, on a terminal, the app opens.
    """
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        ctx.color = False
    if ctx.obj is None:
        ctx.obj = partial(open_board, config)
    if ctx.invoked_subcommand is not None:
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        click.echo(ctx.get_help())
        return
    from hpc_board.tui.app import run as run_app

    run_app(ctx.obj())


@click.command("help", epilog=examples("hpc-board help", "hpc-board help submit", "hpc-board help task check"))
@click.argument("names", metavar="[COMMAND]...", nargs=-1, shell_complete=_command_names)
@click.pass_context
def help_(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Show the help of a command, or the list of all."""
    found, command = _command(ctx.find_root(), names)
    click.echo(command.get_help(found))


def _command(root: click.Context, names: Sequence[str]) -> tuple[click.Context, click.Command]:
    """The command that these names lead to, one below the other, and its context.

    Raises:
        click.UsageError: there is none; the nearest one is offered.
    """
    found, command = root, root.command
    for name in names:
        if not isinstance(command, click.Group):
            raise click.UsageError(f"`{found.command_path}` has no commands of its own.", root)
        command.resolve_command(found, [name])  # where there is no such command, it ends here with the nearest one
        command = command.commands[name]
        found = click.Context(command, info_name=name, parent=found)
    return found, command


for command in (
    submit,
    list_,
    gpus,
    task,
    template,
    show,
    show_personal,
    compare,
    runs,
    run,
    watch,
    cancel,
    code,
    poll,
    admin,
    completion,
    help_,
):
    cli.add_command(command)


def main() -> None:
    """Run `hpc-board` with this process's arguments, and exit."""
    open_streams()
    cli(prog_name="hpc-board")
