"""How commands end: exit codes, and what stderr says when one fails."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from hpc_board.errors import BoardError

if TYPE_CHECKING:
    from hpc_board.model.run import Run

DONE = 0
NOT_PASSED = 1
NO_VERDICT = 3
INTERRUPTED = 130
BROKEN_PIPE = 141


class Program(click.Group):
    """The group of all commands, which turns what a command raised into words on stderr and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order in which they were added, which is the order of use."""
        del ctx
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that `ctx` names."""
        try:
            return super().invoke(ctx)
        except BoardError as error:
            print_error(error)
            raise click.exceptions.Exit(error.exit_code) from error
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # What Python still holds for stdout would fail once more, with a traceback, when the process ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(BROKEN_PIPE) from None


def print_error(error: BoardError) -> None:
    """Print what went wrong and what to do next to stderr."""
    from hpc_board.model.text import printable

    message = printable(error.message)
    separator = "\n" if "\n" in message else " "
    click.echo(f"{click.style('Error:', fg='red')} {error.title}:{separator}{message}", err=True)
    if error.hint:
        click.echo(f"Hint: {printable(error.hint)}", err=True)


def exit_code_of(runs: "Sequence[Run]") -> int:
    """The exit code for runs that have ended: 3 where the machine is to blame, else 1 where a kernel is, else 0."""
    verdicts = [run.verdict for run in runs]
    if any(verdict is None or (verdict != "pass" and not verdict.blames_kernel) for verdict in verdicts):
        return NO_VERDICT
    return DONE if all(verdict == "pass" for verdict in verdicts) else NOT_PASSED
