"""The command line of `hpc-board`: the list of its commands, and the terminal app without one."""

import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import click

from hpc_board import __version__
from hpc_board.cli.exits import Program
from hpc_board.cli.global_options import PATH, config_of, global_options, take_global_options
from hpc_board.cli.options import COMMANDS_BY_WORD, JsonCommand, Open, examples, json_option, open_board, take_text
from hpc_board.cli.streams import open_streams

if TYPE_CHECKING:
    from hpc_board.board import Board


class LazyCommand(click.Command):
    """A placeholder for a command that is imported when it runs: its name and the first line of its help."""

    def __init__(self, name: str, target: str, summary: str) -> None:
        """Stand in for `target`, a `module:attribute` of this package."""
        super().__init__(name, help=summary)
        self._target = target

    def load(self) -> click.Command:
        """Import the command."""
        module, _, attribute = self._target.partition(":")
        found = getattr(import_module(f"hpc_board.cli.{module}"), attribute)
        if not isinstance(found, click.Command):
            raise TypeError(f"{self._target} is not a command")
        take_text(found)
        take_global_options(found)
        return found


def loaded(command: click.Command) -> click.Command:
    """Return a command; import it if it is a placeholder."""
    return command.load() if isinstance(command, LazyCommand) else command


def _command_names(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    try:
        _, command = _command(ctx.find_root(), ctx.params.get("names") or ())
    except click.UsageError:
        return []
    return [name for name in getattr(command, "commands", ()) if name.startswith(incomplete)]


class _FileOrCommand(Program):
    """The root group; a file in the place of a command opens the app with that file."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if word not in self.commands and not ctx.resilient_parsing:
            from hpc_board.domain.submission import EXTENSIONS
            from hpc_board.files import is_file

            if is_file(Path(word)):
                if len(args) > 1:
                    more = " ".join(args[1:])
                    raise click.UsageError(
                        f"{word} opens the app, which does not accept further arguments: {more}. "
                        f"To submit it directly: hpc-board submit {word} {more}",
                        ctx,
                    )
                return "app", _app, args
            if Path(word).suffix in EXTENSIONS:
                raise click.UsageError(f"{word}: no such file or command.", ctx)
            if meant := COMMANDS_BY_WORD.get(word):
                raise click.UsageError(f"unknown command {word!r}. Did you mean `hpc-board {meant}`?", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and loaded(command), rest


@click.command("app", hidden=True, add_help_option=False)
@click.argument("file", type=PATH)
@click.pass_context
def _app(ctx: click.Context, file: Path) -> None:
    """Open the app with `file` in the form."""
    if not _on_terminal():
        raise click.UsageError(
            f"the app needs a terminal. To submit without one: hpc-board submit {file}", ctx.find_root()
        )
    _open_app(ctx, file)


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _open_app(ctx: click.Context, file: Path | None) -> None:
    from hpc_board.tui.app import run as run_app

    run_app(ctx.obj, file)


def _in_session(ctx: click.Context, open_: Open) -> "Board":
    """Open the board, with one connection to its database until the command ends."""
    board = open_()
    ctx.with_resource(board.session())
    return board


@click.group(
    cls=_FileOrCommand,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "hpc-board template vectoradd_py -o kernel.py",
        "hpc-board kernel.py",
        "hpc-board submit kernel.py --mode test --wait",
        "hpc-board show vectoradd_py",
    ),
)
@click.version_option(
    __version__,
    "-V",
    "--version",
    prog_name="hpc-board",
    message="%(prog)s %(version)s",
    help="Show the version and exit.",
)
@click.pass_context
def cli(ctx: click.Context) -> None:
    """GPU-kernel leaderboards on a Slurm cluster.

    Without a command, the terminal app opens; with a file in place of
    the command, it opens with that file in the submit form.
    """
    if ctx.invoked_subcommand != "serve":
        # The word may stand for anything else on this command line, which a lost terminal has to end.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])
    if ctx.obj is None:
        ctx.obj = lambda: open_board(config_of(ctx))
    if ctx.invoked_subcommand is not None:
        if ctx.invoked_subcommand not in (_app.name, "mcp"):
            ctx.obj = partial(_in_session, ctx, ctx.obj)
        return
    if not _on_terminal():
        click.echo(ctx.get_help())
        return
    _open_app(ctx, None)


@click.command("help", epilog=examples("hpc-board help", "hpc-board help submit", "hpc-board help task check"))
@click.argument("names", metavar="[COMMAND]...", nargs=-1, shell_complete=_command_names)
@click.pass_context
def help_(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Show the help of a command, or all commands."""
    found, command = _command(ctx.find_root(), names)
    click.echo(command.get_help(found))


def _command(root: click.Context, names: Sequence[str]) -> tuple[click.Context, click.Command]:
    """Return the command with these names, each below the one before, and its context.

    Raises:
        click.UsageError: there is no such command; the message suggests the nearest one.
    """
    found, command = root, root.command
    for name in names:
        if not isinstance(command, click.Group):
            raise click.UsageError(f"`{found.command_path}` has no subcommands.", root)
        command.resolve_command(found, [name])  # raises for an unknown command, with a suggestion
        command = loaded(command.commands[name])
        found = click.Context(command, info_name=name, parent=found)
    return found, command


@click.command(cls=JsonCommand, epilog=examples("hpc-board version", "hpc-board version --json"))
@json_option
def version(as_json: bool) -> None:
    """Print the version."""
    if as_json:
        from hpc_board.cli.output import print_json
        from hpc_board.report.views.setup import ReleaseView

        print_json(ReleaseView(version=__version__))
    else:
        click.echo(f"hpc-board {__version__}")


_SHELLS = ("bash", "zsh", "fish")


@click.command(
    epilog=examples(
        'eval "$(hpc-board completion bash)"   # this shell; in ~/.bashrc: every shell',
        'eval "$(hpc-board completion zsh)"    # this shell; in ~/.zshrc: every shell',
        "hpc-board completion fish > ~/.config/fish/completions/hpc-board.fish",
    )
)
@click.argument("shell", type=click.Choice(_SHELLS), required=False)
@click.pass_context
def completion(ctx: click.Context, shell: str | None) -> None:
    """Print a shell completion script.

    It completes commands, options, modes, tasks, GPUs and run numbers. The default shell is that of $SHELL.
    """
    from click.shell_completion import get_completion_class

    name = shell or PurePath(os.environ.get("SHELL", "")).name
    found = get_completion_class(name) if name in _SHELLS else None
    if found is None:
        raise click.UsageError(f"no completion for shell {name!r}. Choose one of: {', '.join(_SHELLS)}.")
    click.echo(found(ctx.find_root().command, {}, "hpc-board", "_HPC_BOARD_COMPLETE").source())


_COMMANDS = {
    "Submit and watch": (
        ("submit", "submit:submit", "Submit a file for evaluation on one or more GPUs."),
        ("status", "status:status", "List your runs in flight and those that ended recently."),
        ("runs", "runs:runs", "List your runs, the newest first."),
        ("run", "runs:run", "Show one run: verdict, cases, times, machine, output."),
        ("watch", "runs:watch", "Wait for runs to end and print their reports."),
        ("cancel", "runs:cancel", "Cancel your runs."),
        ("hold", "runners:hold", "Hold a GPU for your runs."),
        ("release", "runners:release", "Release GPUs that you hold."),
        ("poll", "runs:poll", "Update all runs in flight once and print the changes."),
    ),
    "Results": (
        ("show", "standings:show", "Show the standings of a task on each GPU."),
        ("history", "standings:history", "Show your times on a board over time."),
        ("feed", "standings:feed", "Show recent changes to the standings."),
        ("compare", "standings:compare", "Compare the files of two runs."),
        ("experiment", "experiment:experiment", "Compare two entrants by all their runs."),
        ("code", "runs:code", "Print the file of a run."),
        ("note", "moderation:note", "Add a note to the submission of one of your runs."),
        ("export", "export:export_own", "Export your runs as a table."),
    ),
    "Tasks": (
        ("list", "tasks:list_", "List the tasks with their deadlines and GPUs."),
        ("task", "tasks:task", "Show a task, start to work on it, or develop a new one."),
        ("template", "tasks:template", "Print a submission template."),
        ("gpus", "tasks:gpus", "List the GPUs: partition, free GPUs, waiting jobs."),
        ("eval-code", "eval_code:eval_code", "Show the programs that evaluate submissions."),
    ),
    "Boards": (
        ("create", "boards:create", "Create a board from a task."),
        ("update", "boards:update", "Change a board's task or options."),
        ("delete", "boards:delete", "Delete a board and save its standings to a file."),
    ),
    "Setup": (
        ("admin", "admin:admin", "Administer a board: setup, checks, export and moderation."),
        ("serve", "serve:serve", "Serve a board to other accounts."),
        ("mcp", "mcp:mcp", "Serve the board to a coding agent (MCP)."),
    ),
}
"""The commands of other modules, in the groups of the help: name, `module:attribute`, and first line of the help."""

for entry in (each for entries in _COMMANDS.values() for each in entries):
    cli.add_command(LazyCommand(*entry))
for here in (completion, version, help_):
    cli.add_command(here)
    take_global_options(here)
_SECTIONS = {title: [name for name, *_ in entries] for title, entries in _COMMANDS.items()}
_FileOrCommand.sections = {**_SECTIONS, "Setup": [*_SECTIONS["Setup"], "completion", "version", "help"]}
cli.params += global_options(hidden=False)
take_text(cli)


def main() -> None:
    """Run `hpc-board` with this process's arguments, and exit."""
    open_streams()
    cli(prog_name="hpc-board")
