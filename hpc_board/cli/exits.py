"""Exit codes of commands, and error messages on stderr."""

import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from hpc_board.cli.streams import OutputError, drop_output
from hpc_board.errors import BoardError, InputError

if TYPE_CHECKING:
    from hpc_board.domain.run import Run

_USAGE_CHARACTERS_MAX = 400
_ERROR = click.style("error:", fg="red", bold=True)
_HINT = click.style("hint:", fg="cyan")
_LISTED = {
    "name": "`hpc-board list` lists the tasks.",
    "id_": "`hpc-board runs` lists your runs.",
    "ids": "`hpc-board runs` lists your runs.",
    **dict.fromkeys(("submission", "one", "other"), "`hpc-board run ID` shows the submission of a run."),
}
"""The place that lists the values of an argument, by its name."""

_OF_ONE = {
    **dict.fromkeys(("status", "runs"), "`hpc-board run ID` shows one run."),
    "list": "`hpc-board task TASK` shows one task.",
}
"""The command that takes the argument which a list refuses."""

_ERROR_COLUMNS, _HINT_COLUMNS = len("error: "), len("hint: ")

DONE = 0
NOT_PASSED = 1
NO_VERDICT = 3
INTERRUPTED = 130
BROKEN_PIPE = 141


class Group(click.Group):
    """A group whose errors of usage show the usage of the command that they concern."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            # click's parser of options knows no context.
            if error.ctx is None and ctx.invoked_subcommand is not None:
                name, command, _ = self.resolve_command(ctx, [ctx.invoked_subcommand])
                error.ctx = click.Context(command, info_name=name, parent=ctx) if command else ctx
            raise


class Program(Group):
    """A root group that turns exceptions of its commands into error messages and exit codes.

    `sections` has the names of its commands under the titles of its help.
    """

    sections: Mapping[str, Sequence[str]] = MappingProxyType({})
    _words: Sequence[str] = ()

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        width = max(map(len, self.commands))
        for title, names in self.sections.items():
            rows = [(f"{name:{width}}", self.commands[name].get_short_help_str(formatter.width)) for name in names]
            with formatter.section(title):
                formatter.write_dl(rows)

    def main(self, *args: Any, standalone_mode: bool = True, **kwargs: Any) -> Any:
        """Run the command line; print errors of usage, and an error if stdout cannot be written."""
        kwargs["standalone_mode"] = False
        if not standalone_mode:
            return super().main(*args, **kwargs)
        self._words = [*(kwargs.get("args") or (args[0] if args else None) or sys.argv[1:])]
        try:
            sys.exit(super().main(*args, **kwargs))
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(error.exit_code)
        except click.ClickException as error:
            _print_usage_error(error)
            self._print_failure("usage", error.format_message(), _hint_of(error), error.exit_code)
            sys.exit(error.exit_code)
        except click.Abort:
            click.echo("Aborted.", err=True)
            sys.exit(INTERRUPTED)
        except OutputError as error:
            drop_output()
            if error.reader_has_gone:
                sys.exit(BROKEN_PIPE)
            print_error(
                BoardError(
                    str(error),
                    hint="Redirect it elsewhere, or free disk space. Changes made by the command remain.",
                )
            )
            sys.exit(BoardError.exit_code)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BoardError as error:
            print_error(error)
            from hpc_board.cli.output import HAS_PRINTED

            if HAS_PRINTED not in ctx.meta:
                self._print_failure(error.kind, error.message, error.hint, error.exit_code)
            raise click.exceptions.Exit(error.exit_code) from error
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None

    def _print_failure(self, kind: str, message: str, hint: str, exit_code: int) -> None:
        """Print the JSON of an error to stdout, if the command line has `--json`; its text is on stderr."""
        options = self._words[: self._words.index("--")] if "--" in self._words else self._words
        if not any(word.partition("=")[0] in ("--json", "--fields") for word in options):
            return
        from hpc_board.cli.output import JsonForm, print_json
        from hpc_board.model.text import printable
        from hpc_board.report.views.errors import ErrorView, FailureView

        told = ErrorView(kind=kind, message=printable(message), hint=printable(hint), exit_code=exit_code)
        print_json(FailureView(error=told), JsonForm())


def print_error(error: BoardError) -> None:
    """Print an error and its hint to stderr."""
    from hpc_board.cli.output import wrapped
    from hpc_board.model.text import printable

    message = printable(error.message)
    if message[-1:].isalnum() and "\n" not in message:
        message += "."
    if type(error).title != InputError.title:
        message = f"{error.title}:{chr(10) if chr(10) in message else ' '}{message}"
    click.echo(f"{_ERROR} {wrapped(message, _ERROR_COLUMNS)}", err=True)
    if error.hint:
        click.echo(f"{_HINT} {wrapped(printable(error.hint), _HINT_COLUMNS)}", err=True)


def _print_usage_error(error: click.ClickException) -> None:
    """Print an error of usage, then the usage of the command."""
    from hpc_board.cli.output import wrapped
    from hpc_board.model.text import printable

    ctx = error.ctx if isinstance(error, click.UsageError) else None
    color = error.show_color if ctx is None else ctx.color
    # click has each of several choices on a line of its own.
    message = wrapped(printable(error.format_message().replace("\n\t", " "), _USAGE_CHARACTERS_MAX), _ERROR_COLUMNS)
    click.echo(f"{_ERROR} {message}", err=True, color=color)
    if hint := _hint_of(error):
        click.echo(f"{_HINT} {wrapped(hint, _HINT_COLUMNS)}", err=True, color=color)
    if ctx is not None:
        click.echo(f"{ctx.get_usage()}\nTry '{ctx.command_path} --help' for help.", err=True, color=color)


def _hint_of(error: click.ClickException) -> str:
    """Return the place that lists the values of a missing argument, or takes a refused one; else an empty string."""
    missing = error.param if isinstance(error, click.MissingParameter) else None
    if isinstance(error, click.UsageError) and error.ctx and "extra argument" in error.message:
        return _OF_ONE.get(error.ctx.info_name or "", "")
    return _LISTED.get((missing and missing.name) or "", "")


def exit_code_of(runs: "Sequence[Run]") -> int:
    """Return the exit code of ended runs: 3 for a fault of the machine, else 1 for a fault of a kernel, else 0."""
    return max(map(_exit_code, runs), default=DONE)


def _exit_code(run: "Run") -> int:
    if run.verdict == "pass":
        return DONE
    return NOT_PASSED if run.verdict is not None and run.verdict.blames_kernel else NO_VERDICT


def exit_code_of_trial(run: "Run") -> int:
    """Return the exit code of an author's trial run, where a faulty task counts as 1, not as 3."""
    return NOT_PASSED if run.verdict == "task_error" else _exit_code(run)
