"""How commands end: exit codes, and what stderr says when one fails."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from hpc_board.cli.streams import OutputError, drop_output
from hpc_board.errors import BoardError

if TYPE_CHECKING:
    from hpc_board.board import Board
    from hpc_board.domain.run import Run
    from hpc_board.model.result import Case

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

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line; output that cannot be written ends it."""
        try:
            return super().main(*args, **kwargs)
        except OutputError as error:
            drop_output()
            if error.reader_has_gone:
                sys.exit(BROKEN_PIPE)
            print_error(BoardError(str(error), hint=error.hint))
            sys.exit(BoardError.exit_code)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that `ctx` names."""
        try:
            return super().invoke(ctx)
        except BoardError as error:
            print_error(error)
            raise click.exceptions.Exit(error.exit_code) from error
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None


def print_error(error: BoardError) -> None:
    """Print what went wrong and what to do next to stderr."""
    from hpc_board.model.text import printable

    message = printable(error.message)
    separator = "\n" if "\n" in message else " "
    click.echo(f"{click.style('Error:', fg='red')} {error.title}:{separator}{message}", err=True)
    if error.hint:
        click.echo(f"Hint: {printable(error.hint)}", err=True)


def exit_code_of(board: "Board", runs: "Sequence[Run]") -> int:
    """The exit code for runs that have ended: 3 where the machine is to blame, else 1 where a kernel is, else 0."""
    codes = {_exit_code(board, run) for run in runs}
    return max(codes, default=DONE)


def _exit_code(board: "Board", run: "Run") -> int:
    if run.verdict == "pass":
        return DONE
    return NOT_PASSED if _blamed(run, lambda: board.runs.cases(run.id)) else NO_VERDICT


def exit_code_of_trial(run: "Run", cases: "Sequence[Case]") -> int:
    """The exit code for a submission that an author tries: a task that fails is no more the machine's fault."""
    if run.verdict == "pass":
        return DONE
    return NOT_PASSED if run.verdict == "task_error" or _blamed(run, lambda: cases) else NO_VERDICT


def _blamed(run: "Run", cases: "Callable[[], Sequence[Case]]") -> bool:
    """Whether the kernel is to blame for a run that did not pass."""
    if run.verdict == "device_error":
        # A node without a usable device comes to no case; in a case, the kernel ran and the device broke under it.
        return any(case.verdict == run.verdict for case in cases())
    return run.verdict is not None and run.verdict.blames_kernel
