"""Shared parts of commands: access to the board, options, examples, completion of names."""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from hpc_board.cli.global_options import config_of, is_verbose
from hpc_board.errors import BoardError, InputError

if TYPE_CHECKING:
    from hpc_board.board import Board
    from hpc_board.domain.run import Run, RunState
    from hpc_board.model.result import Verdict

Open = Callable[[], "Board"]
"""A function that opens the board of the command line; commands find it in click's context."""


class Number(click.ParamType[int]):
    """A number from 1 to `most`; for one of a row in the board's database, `words` name the row and a list of them."""

    name = "number"

    def __init__(self, most: int = 2**63 - 1, words: str = "") -> None:
        self._most = most
        self._words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if self is NUMBER and (command := RUN_COMMANDS.get(value)):
            raise click.UsageError(f"{value!r} is not a run number. Did you mean `hpc-board {command}`?", ctx)
        try:
            number = int(value)
        except ValueError:
            number = 0
        if not 1 <= number <= self._most:
            from hpc_board.files import is_file

            words = self._words or f"number from 1 to {self._most:,}."
            to_submit = f" To submit the file: hpc-board submit {value}" if self._words and is_file(Path(value)) else ""
            self.fail(f"{value!r} is not a {words}{to_submit}", param, ctx)
        return number


class _RowCount(Number):
    """A number of rows from 1 to `most`; the word `all` becomes 0, which `output.row_limit` reads."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return 0 if value == "all" else super().convert(value, param, ctx)


class Seconds(click.ParamType[float]):
    """A time-out in finite seconds, 0 or more; 0 does not wait."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if not 0 <= seconds < math.inf:
            self.fail(
                f"{value!r} is not a valid number of seconds (0 or more); omit the option to wait indefinitely.",
                param,
                ctx,
            )
        return seconds


class Length(click.ParamType[int]):
    """A length of time with its units, such as 30m, 1h30m or 90s, in whole seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from hpc_board.domain.clock import span_of

        try:
            return int(span_of(str(value)).total_seconds())
        except (ValueError, OverflowError):
            self.fail(
                f"{value!r} is not a length of time. Use hours, minutes and seconds: 30m, 1h30m, 90s.", param, ctx
            )


class _Text(click.types.StringParamType):
    """A text in UTF-8, which databases can store and terminals can print."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
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


COMMANDS_BY_WORD: Mapping[str, str] = {
    word: command
    for command, words in {
        "show TASK": "board leaderboard standings rank ranks ranking rankings results scores",
        "show TASK --own": "mine personal show-personal",
        "show": "boards leaderboards",
        "list": "ls tasks problems",
        "status": "queue jobs ps squeue",
        "run ID": "view info result report",
        "run ID --log": "log logs output",
        "cancel ID": "kill stop abort scancel rm",
        "compare ID OTHER": "diff",
        "code ID": "cat source",
        "submit FILE": "sbatch push upload rerun retry",
        **{f"submit FILE --mode {mode}": mode for mode in ("test", "benchmark", "profile", "ranked", "sanitize")},
        "admin init": "init setup config",
        "admin doctor": "doctor check",
    }.items()
    for word in words.split()
}
"""The commands for words that users of other tools try in the place of a command."""

RUN_COMMANDS: Mapping[str, str] = {
    **{word: f"{word} ID" for word in ("cancel", "code", "watch")},
    **{word: COMMANDS_BY_WORD[word] for word in ("view", "log", "logs", "kill", "diff")},
    **dict.fromkeys(("list", "ls"), "runs"),
    "show": "run ID",
}
"""The commands for words in the place of a run's number, as in `run show 2`."""

ROWS_MAX = 1_000_000
NUMBER = Number(words="run number. `hpc-board runs` lists your runs.")
SECONDS = Seconds()
LENGTH = Length()
SUBMISSION_NUMBER = Number(words="submission number. `hpc-board run ID` shows the submission of a run.")

_JSON_FORMS = ("full", "brief", "lines")

_json = click.option(
    "--json",
    "json_form",
    metavar="[=FORM]",
    type=click.Choice(_JSON_FORMS),
    help="Print JSON instead of text: full, brief, or brief with one line per run.",
)
_fields = click.option("--fields", metavar="KEYS", help="Print only these keys of the JSON, such as id,verdict.")


class JsonCommand(click.Command):
    """A command with the options for JSON; `--json` has no value in the next word, as an option of click would have."""

    def __init__(
        self, *args: Any, sections: Mapping[str, Sequence[str]] = MappingProxyType({}), **options: Any
    ) -> None:
        """Create the command; `sections` are heads in its help, with names of options; others are below "Options"."""
        super().__init__(*args, **options)
        self._sections = sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = (param for param in self.get_params(ctx) if isinstance(param, click.Option))
        shown = {param.name: row for param in options if (row := param.get_help_record(ctx)) is not None}
        width = max(len(names) for names, _ in shown.values())
        groups = [(title, [shown.pop(name) for name in names]) for title, names in self._sections.items()]
        for title, rows in (*groups, ("Options", [*shown.values()])):
            with formatter.section(title):
                formatter.write_dl([(f"{names:{width}}", text) for names, text in rows])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        for word, form in pairwise(args[:end]):
            if word == "--json" and form in _JSON_FORMS:
                raise click.UsageError(f"the form follows --json after =, without a space: write --json={form}.", ctx)
        given = [f"--json={_JSON_FORMS[0]}" if word == "--json" else word for word in args[:end]]
        return super().parse_args(ctx, given + args[end:])


def json_option(target: Any) -> Any:
    """Add the options for JSON to a function or a command, which gets `as_json`."""
    if isinstance(target, click.Command):
        target.callback = _with_json(target.callback)
        _fields(_json(target))
        return target
    return _json(_fields(_with_json(target)))


def _with_json(function: Any) -> Any:
    @wraps(function)
    def command(*args: Any, json_form: str | None, fields: str | None, **options: Any) -> Any:
        if json_form is not None or fields is not None:
            _keep_json_form(click.get_current_context(), json_form, fields)
        return function(*args, as_json=json_form is not None or fields is not None, **options)

    return command


def _keep_json_form(ctx: click.Context, form: str | None, fields: str | None) -> None:
    """Keep the form of the command's JSON for `output.print_json`.

    Raises:
        UsageError: the command's objects have no key with the name of a field.
    """
    from hpc_board.cli.output import JSON_FORM, JsonForm
    from hpc_board.model.names import listed, suggestion
    from hpc_board.model.text import one_line

    names = [] if fields is None else listed([fields])
    if names:
        from hpc_board.report.views.printed import unknown_field

        words = ctx.command_path.removeprefix(f"{ctx.find_root().command_path} ")
        if found := unknown_field(words, names):
            unknown, known = found
            raise click.UsageError(f'unknown key "{one_line(unknown, 80)}".{suggestion(unknown, known)}', ctx)
    ctx.meta[JSON_FORM] = JsonForm(tuple(names), is_short=form != "full" or bool(names), has_lines=form == "lines")


python_option = click.option(
    "--python",
    metavar="PROGRAM",
    type=PATH_OR_NAME,
    help="Python that has the modules the task imports; default: the current one.",
)
format_option = click.option(
    "--format",
    "format_name",
    metavar="F",
    help="Format of SOURCE: kernelbench, flashinfer or pair; default: by its contents.",
)
output_option = click.option(
    "-o", "--output", metavar="FILE", default="-", type=PATH_OR_NAME, help="Write to FILE instead of stdout (`-`)."
)
force_option = click.option("--force", is_flag=True, help="Overwrite FILE.")
plot_option = click.option(
    "--plot", metavar="FILE", type=click.Path(path_type=Path), help="Also write the plot to FILE as SVG (`.svg`)."
)


def examples(*lines: str) -> str:
    """Return the end of a command's help: one example per line."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def command(
    *lines: str, name: str | None = None, sections: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> Callable[[Callable[..., object]], click.Command]:
    """Return the decorator of a command on a board, with these examples and sections of its options.

    It gets `open_`, and has `--json` last.
    """

    def decorated(function: Callable[..., object]) -> click.Command:
        create = click.command(name, cls=JsonCommand, sections=sections, epilog=examples(*lines))
        made = create(click.pass_obj(function))
        json_option(made)
        return made

    return decorated


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


Decorator = Callable[[Callable[..., object]], Callable[..., object]]
"""A function that adds a parameter to a command."""

Complete = Callable[[click.Context, click.Parameter, str], list[str]]
"""A function that returns the words with which a parameter may be completed."""


def _of_board(names: "Callable[[Board], Iterable[str]]") -> Complete:
    """Return the completion of names that a board has; it has none of an unreadable one: a prompt shows no errors."""

    def complete(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        try:
            return _beginning(incomplete, names(open_board(config_of(ctx))))
        except BoardError:
            return []

    return complete


def _of_words(module: str, attribute: str, prefix: str = "") -> Complete:
    """Return the completion of the words in `attribute` of a module, which is imported when it is needed."""

    def complete(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        words = getattr(import_module(f"hpc_board.{module}"), attribute)
        return _beginning(incomplete, (f"{prefix}{word}" for word in words))

    return complete


def _beginning(incomplete: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.casefold().startswith(incomplete.casefold())]


def _runs(board: "Board") -> "tuple[Run, ...]":
    """Return the user's newest runs, without creating a missing board."""
    return board.runs.list() if board.exists else ()


def _held(board: "Board") -> list[str]:
    """Return the numbers of the user's runners, and their GPUs."""
    from hpc_board.board.held import live_runners

    live = live_runners(board)
    return [*(str(each.id) for each in live), *dict.fromkeys(each.gpu for each in live)]


def other_run_numbers(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete a run to compare with the parameter `one`: of the same task."""
    one = ctx.params.get("one")

    def others(board: "Board") -> Iterable[str]:
        runs = _runs(board)
        task = next((run.task for run in runs if run.id == one), None)
        return (str(run.id) for run in runs if run.id != one and task in {None, run.task})

    return _of_board(others)(ctx, parameter, incomplete)


task_names = _of_board(lambda board: (task.name for task in board.tasks.catalog().tasks))
created_names = _of_board(lambda board: (each.name for each in board.leaderboards.list()))
gpu_names = _of_board(lambda board: (gpu.name for gpu in board.gpus.all()))
entrant_names = _of_board(lambda board: board.submissions.entrants())
user_names = _of_board(lambda board: board.standings.users())
run_numbers = _of_board(lambda board: (str(run.id) for run in _runs(board)))
going_run_numbers = _of_board(lambda board: (str(run.id) for run in _runs(board) if not run.state.ended))
submission_numbers = _of_board(lambda board: dict.fromkeys(str(run.submission) for run in _runs(board)))
held_names = _of_board(_held)
template_names = _of_words("model.task", "Template")
mode_names = _of_words("model.task", "Mode")
sbatch_options = _of_words("domain.job_options", "SBATCH_NAMES", "--")
ncu_sets = _of_words("domain.job_options", "NCU_SETS")


def gpus_option(text: str) -> Decorator:
    """Return the option for names of GPUs, with this help."""
    return click.option("-g", "--gpu", "gpus", metavar="GPU", multiple=True, help=text, shell_complete=gpu_names)


def tasks_option(text: str) -> Decorator:
    """Return the option for names of tasks, with this help."""
    return click.option("-t", "--task", "tasks", metavar="TASK", multiple=True, help=text, shell_complete=task_names)


def mode_option(text: str = "test (the default), benchmark, profile, sanitize or ranked.") -> Decorator:
    """Return the option for the mode of runs, with this help."""
    return click.option("-m", "--mode", metavar="MODE", help=text, shell_complete=mode_names)


def timeout_option(text: str) -> Decorator:
    """Return the option for the longest wait, with this help."""
    return click.option("--timeout", "timeout_seconds", metavar="SECONDS", type=SECONDS, help=text)


def limit_option(rows: str, default: int, name: str = "--limit") -> Decorator:
    """Return the option for the maximum number of rows of a list, which `output.row_limit` reads."""
    text = f"Number of {rows}, or `all`; default: {default}, with --json all."
    return click.option("-n", name, metavar="N", type=_RowCount(ROWS_MAX), help=text)


def entrant_option(text: str, **options: Any) -> Decorator:
    """Return the option for the name of an entrant, with this help."""
    return click.option("--as", "entrant", metavar="NAME", help=text, shell_complete=entrant_names, **options)


def by_option(text: str) -> Decorator:
    """Return the option for the unit of rows, an account or an entrant, with this help."""
    kinds = click.Choice(["account", "entrant"])
    return click.option("--by", type=kinds, default="account", show_default=True, help=text)


def tags_option(text: str) -> Decorator:
    """Return the option for tags, with this help."""
    return click.option("--tag", "tags", metavar="KEY=VALUE", multiple=True, help=text)


def outcome_names(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete states and verdicts."""
    return _beginning(incomplete, _outcomes())


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


def _outcomes() -> "dict[str, RunState | Verdict]":
    """Return all states and verdicts by name; a verdict hides the state of the same name, as in lists of runs."""
    from hpc_board.domain.run import RunState
    from hpc_board.model.result import Verdict

    return {str(each): each for each in (*RunState, *Verdict)}
