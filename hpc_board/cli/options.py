"""What the commands have in common: the door to the board, shared options, examples, completion of names."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpc_board.errors import BoardError, InputError

if TYPE_CHECKING:
    from hpc_board.board import Board
    from hpc_board.domain.run import Run, RunState
    from hpc_board.model.result import Verdict

Open = Callable[[], "Board"]
"""Opens the board that the command line names; commands find it in click's context."""


class Number(click.IntRange):
    """A number that the board's database can count to; the error for others says `what` has it and `where` it is."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(1, 2**63 - 1)
        self._wanted = f"is not a {what} number. {where}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """`value` as an int."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} {self._wanted}", param, ctx)


class Seconds(click.FloatRange):
    """How long to wait: a finite number of seconds, 0 for not at all."""

    def __init__(self) -> None:
        super().__init__(min=0)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """`value` as a float."""
        seconds = super().convert(value, param, ctx)
        if not math.isfinite(seconds):
            self.fail(f"{value!r} is not a number of seconds; omit the option to wait without limit.", param, ctx)
        return seconds


class _Text(click.types.StringParamType):
    """Words that a database can hold and everybody can read: bytes that are not UTF-8 are refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """`value` as it is."""
        text = super().convert(value, param, ctx)
        try:
            text.encode()
        except UnicodeEncodeError:
            from hpc_board.model.text import one_line

            self.fail(f"{one_line(text, 80)!r} is not UTF-8 text.", param, ctx)
        return text


_TEXT = _Text()

PATH_OR_NAME = click.UNPROCESSED
"""The type of a parameter that takes a path as well, which may have any bytes."""


def take_text(command: click.Command) -> None:
    """Have every parameter of `command`, and of the commands below it, that takes words take UTF-8 text alone."""
    for param in command.params:
        if param.type is click.STRING:
            param.type = _TEXT
    if isinstance(command, click.Group):
        for each in command.commands.values():
            take_text(each)


NUMBER = Number("run", "`hpc-board runs` lists your runs.")
SECONDS = Seconds()
SUBMISSION_NUMBER = Number("submission", "`hpc-board run ID` shows the submission of a run.")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
force_option = click.option("--force", is_flag=True, help="Overwrite FILE.")


def examples(*lines: str) -> str:
    """The end of a command's help: one example to a line."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def open_board(config: Path | None) -> "Board":
    """The board that the settings describe, in the file `config` or where settings are looked for."""
    from hpc_board.board import Board
    from hpc_board.cli.output import remark

    return Board.open(config, warn=lambda text: remark(f"Warning: {text}"))


def task_names(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The tasks' names that begin with `incomplete`, for the shell."""
    return _beginning(incomplete, lambda board: (task.name for task in board.tasks.catalog().tasks), ctx)


def created_names(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The names of boards that somebody made, as far as they begin with `incomplete`, for the shell."""
    return _beginning(incomplete, lambda board: (each.name for each in board.leaderboards.list()), ctx)


def gpu_names(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The GPUs' names that begin with `incomplete`, for the shell."""
    return _beginning(incomplete, lambda board: (gpu.name for gpu in board.settings.gpus), ctx)


def mode_names(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The modes that begin with `incomplete`, for the shell."""
    from hpc_board.model.task import Mode

    return [str(mode) for mode in Mode if mode.startswith(incomplete.casefold())]


def outcome_names(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The states and verdicts that begin with `incomplete`, for the shell."""
    return [word for word in _outcomes() if word.startswith(incomplete.casefold())]


def outcome_called(word: str) -> "RunState | Verdict":
    """The state of a run, or the verdict, that `word` means.

    Raises:
        InputError: there is none.
    """
    from hpc_board.model.names import suggestion
    from hpc_board.model.text import one_line

    known = _outcomes()
    name = word.strip().casefold().replace(" ", "_").replace("-", "_")
    if name not in known:
        raise InputError(
            f'"{one_line(word, 80)}" is neither a state nor a verdict.{suggestion(name, list(known))}',
            hint=f"There are: {', '.join(known)}.",
        )
    return known[name]


def _outcomes() -> "dict[str, RunState | Verdict]":
    """Every state and verdict by its name; where both have one, the state is shown only where there is no verdict."""
    from hpc_board.domain.run import RunState
    from hpc_board.model.result import Verdict

    return {str(each): each for each in (*RunState, *Verdict)}


def run_numbers(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The numbers of the user's newest runs that begin with `incomplete`, for the shell."""
    return _beginning(incomplete, lambda board: (str(run.id) for run in _runs(board)), ctx)


def going_run_numbers(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The numbers of the user's runs that have not ended, as far as they begin with `incomplete`, for the shell."""
    return _beginning(incomplete, lambda board: (str(run.id) for run in _runs(board) if not run.state.ended), ctx)


def submission_numbers(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The numbers of the user's newest submissions that begin with `incomplete`, for the shell."""
    return _beginning(incomplete, lambda board: dict.fromkeys(str(run.submission) for run in _runs(board)), ctx)


def _runs(board: "Board") -> "tuple[Run, ...]":
    """The user's newest runs; a board that is not there yet is not made for that."""
    return board.runs.list() if board.settings.board.is_dir() else ()


def _beginning(incomplete: str, names: "Callable[[Board], Iterable[str]]", ctx: click.Context) -> list[str]:
    """What fits; nothing where the board cannot be read, since a shell in the middle of a line cannot show why."""
    try:
        found = list(names(open_board(ctx.find_root().params.get("config"))))
    except BoardError:
        return []
    return [name for name in found if name.casefold().startswith(incomplete.casefold())]
