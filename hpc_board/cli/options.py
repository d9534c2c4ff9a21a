"""Shared parts of commands: access to the board, options, examples, completion of names."""

import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpc_board.cli.global_options import config_of, is_verbose
from hpc_board.errors import BoardError, InputError

if TYPE_CHECKING:
    from hpc_board.board import Board
    from hpc_board.domain.run import Run, RunState
    from hpc_board.domain.run_order import SortColumn
    from hpc_board.model.result import Verdict

Open = Callable[[], "Board"]
"""A function that opens the board of the command line; commands find it in click's context."""


class Number(click.IntRange):
    """A number of a row in the board's database; the error message names the row by `what` and a source by `where`."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(1, 2**63 - 1)
        self._wanted = f"is not a {what} number. {where}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return `value` as an int."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            to_submit = f" To submit the file: hpc-board submit {value}" if _is_file(value) else ""
            self.fail(f"{value!r} {self._wanted}{to_submit}", param, ctx)


def _is_file(word: object) -> bool:
    try:
        return Path(str(word)).is_file()
    except (OSError, ValueError):
        return False


class Count(click.ParamType[int]):
    """A number from 1 to `most`."""

    name = "number"

    def __init__(self, most: int) -> None:
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return `value` as an int."""
        try:
            number = int(value)
        except ValueError:
            number = 0
        if not 1 <= number <= self._most:
            self.fail(f"{value!r} is not a number from 1 to {self._most:,}.", param, ctx)
        return number


class Seconds(click.ParamType[float]):
    """A time-out in finite seconds, 0 or more; 0 does not wait."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return `value` as a float."""
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if not 0 <= seconds < math.inf:
            self.fail(
                f"{value!r} is not a number of seconds, 0 or more; omit the option to wait without limit.", param, ctx
            )
        return seconds


class _Text(click.types.StringParamType):
    """A text in UTF-8, which databases can store and terminals can print."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return `value` unchanged."""
        text = super().convert(value, param, ctx)
        try:
            text.encode()
        except UnicodeEncodeError:
            from hpc_board.model.text import one_line

            self.fail(f"{one_line(text, 80)!r} is not UTF-8 text.", param, ctx)
        return text


_TEXT = _Text()

PATH_OR_NAME = click.UNPROCESSED
"""The type of a parameter that also takes a path, which may have any bytes."""


def take_text(command: click.Command) -> None:
    """Restrict all text parameters of `command` and of its subcommands to UTF-8."""
    for param in command.params:
        if param.type is click.STRING:
            param.type = _TEXT
    if isinstance(command, click.Group):
        for each in command.commands.values():
            take_text(each)


NUMBER = Number("run", "`hpc-board runs` lists your runs.")
SECONDS = Seconds()
SUBMISSION_NUMBER = Number("submission", "`hpc-board run ID` shows the submission of a run.")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
force_option = click.option("--force", is_flag=True, help="Overwrite FILE.")


def examples(*lines: str) -> str:
    """Return the end of a command's help: one example per line."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def open_board(config: Path | None) -> "Board":
    """Open the board of the settings file `config`, of a service, or of the file at a default path."""
    from hpc_board import opening

    def warn(text: str) -> None:
        from hpc_board.cli.output import warning

        warning(text)

    return opening.open_board(config, os.environ, warn=warn, tell=_tell)


def _tell(line: str) -> None:
    """Print the settings or the board in use, if --verbose is given."""
    if is_verbose():
        from hpc_board.model.text import printable

        click.echo(printable(line), err=True)


def task_names(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of tasks."""
    return _beginning(incomplete, lambda board: (task.name for task in board.tasks.catalog().tasks), ctx)


def template_names(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of templates."""
    from hpc_board.model.task import Template

    return [str(name) for name in Template if name.casefold().startswith(incomplete.casefold())]


def created_names(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of user boards."""
    return _beginning(incomplete, lambda board: (each.name for each in board.leaderboards.list()), ctx)


def gpu_names(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of GPUs."""
    return _beginning(incomplete, lambda board: (gpu.name for gpu in board.gpus.all()), ctx)


def gpus_option(text: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Return the option for names of GPUs, with this help."""
    return click.option("-g", "--gpu", "gpus", metavar="NAME", multiple=True, help=text, shell_complete=gpu_names)


def mode_names(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete modes."""
    from hpc_board.model.task import Mode

    return [str(mode) for mode in Mode if mode.startswith(incomplete.casefold())]


def sbatch_options(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete options of sbatch."""
    from hpc_board.domain.job_options import SBATCH_NAMES

    return [f"--{name}" for name in SBATCH_NAMES if f"--{name}".startswith(incomplete)]


def ncu_sets(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete sets of sections of Nsight Compute."""
    from hpc_board.domain.job_options import NCU_SETS

    return [name for name in NCU_SETS if name.startswith(incomplete)]


def outcome_names(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete states and verdicts."""
    return [word for word in _outcomes() if word.startswith(incomplete.casefold())]


def outcome_called(word: str) -> "RunState | Verdict":
    """Return the state or the verdict called `word`.

    Raises:
        InputError: `word` is neither.
    """
    from hpc_board.domain.run import RunState
    from hpc_board.model.names import suggestion
    from hpc_board.model.result import Verdict
    from hpc_board.model.text import one_line
    from hpc_board.report.run_words import outcome_words

    known = _outcomes()
    shown = " ".join(word.casefold().split())
    name = next((each for each, outcome in known.items() if outcome_words(outcome).casefold() == shown), "")
    name = name or shown.replace(" ", "_").replace("-", "_")
    if name not in known:
        raise InputError(
            f'"{one_line(word, 80)}" is neither a state nor a verdict.{suggestion(name, list(known))}',
            hint=f"States: {', '.join(RunState)}.\nVerdicts: {', '.join(Verdict)}.",
        )
    return known[name]


def sort_columns(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the columns by which runs are sorted."""
    from hpc_board.domain.run_order import SortColumn

    return [column for column in SortColumn if column.startswith(incomplete.casefold())]


def sort_column_called(name: str) -> "SortColumn":
    """Return the column called `name`.

    Raises:
        InputError: runs are not sorted by a column of this name.
    """
    from hpc_board.domain.run_order import SortColumn
    from hpc_board.model.names import suggestion
    from hpc_board.model.text import one_line

    key = name.strip().casefold()
    if key not in set(SortColumn):
        raise InputError(
            f'runs cannot be sorted by "{one_line(name, 80)}".{suggestion(key, list(SortColumn))}',
            hint=f"Columns: {', '.join(SortColumn)}.",
        )
    return SortColumn(key)


def _outcomes() -> "dict[str, RunState | Verdict]":
    """Return all states and verdicts by name; a verdict hides the state of the same name, as in lists of runs."""
    from hpc_board.domain.run import RunState
    from hpc_board.model.result import Verdict

    return {str(each): each for each in (*RunState, *Verdict)}


def run_numbers(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete numbers of the user's newest runs."""
    return _beginning(incomplete, lambda board: (str(run.id) for run in _runs(board)), ctx)


def going_run_numbers(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete numbers of the user's runs in flight."""
    return _beginning(incomplete, lambda board: (str(run.id) for run in _runs(board) if not run.state.ended), ctx)


def submission_numbers(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete numbers of the user's newest submissions."""
    return _beginning(incomplete, lambda board: dict.fromkeys(str(run.submission) for run in _runs(board)), ctx)


def _runs(board: "Board") -> "tuple[Run, ...]":
    """Return the user's newest runs, without creating a missing board."""
    return board.runs.list() if board.exists else ()


def _beginning(incomplete: str, names: "Callable[[Board], Iterable[str]]", ctx: click.Context) -> list[str]:
    """Return the names that begin with `incomplete`; none if the board is unreadable: a prompt cannot show errors."""
    try:
        found = list(names(open_board(config_of(ctx))))
    except BoardError:
        return []
    return [name for name in found if name.casefold().startswith(incomplete.casefold())]
