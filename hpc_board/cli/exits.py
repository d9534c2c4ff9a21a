"""Exit codes of commands, and error messages on stderr."""

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
    """A root group that turns exceptions of its commands into error messages and exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which they were added, that of use."""
        del ctx
        return list(self.commands)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line; exit with an error if stdout cannot be written."""
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
    """Print an error and its hint to stderr."""
    from hpc_board.model.text import printable

    message = printable(error.message)
    separator = "\n" if "\n" in message else " "
    click.echo(f"{click.style('Error:', fg='red')} {error.title}:{separator}{message}", err=True)
    if error.hint:
        click.echo(f"Hint: {printable(error.hint)}", err=True)


def exit_code_of(board: "Board", runs: "Sequence[Run]") -> int:
    """Return the exit code of ended runs: 3 for a fault of the machine, else 1 for a fault of a kernel, else 0."""
    codes = {_exit_code(board, run) for run in runs}
    return max(codes, default=DONE)


def _exit_code(board: "Board", run: "Run") -> int:
    if run.verdict == "pass":
        return DONE
    return NOT_PASSED if _blamed(run, lambda: board.runs.cases(run.id)) else NO_VERDICT


def exit_code_of_trial(run: "Run", cases: "Sequence[Case]") -> int:
    """Return the exit code of an author's trial run, where a faulty task counts as 1, not as 3."""
    if run.verdict == "pass":
        return DONE
    return NOT_PASSED if run.verdict == "task_error" or _blamed(run, lambda: cases) else NO_VERDICT


def _blamed(run: "Run", cases: "Callable[[], Sequence[Case]]") -> bool:
    """Return whether the kernel is to blame for a run that did not pass."""
    if run.verdict == "device_error":
        # Without a usable device no case starts; within a case, the kernel broke the device.
        return any(case.verdict == run.verdict for case in cases())
    return run.verdict is not None and run.verdict.blames_kernel
