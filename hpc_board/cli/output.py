"""Output of commands: blocks fitted to the terminal, JSON, and remarks wrapped at its width."""

import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from hpc_board.board import Board
from hpc_board.cli.global_options import is_quiet
from hpc_board.errors import BoardError, InputError, StorageError, WaitExpired
from hpc_board.model.text import printable
from hpc_board.report.blocks import Block, Tone
from hpc_board.report.plain import cells, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from hpc_board.domain.draft import Preview
    from hpc_board.domain.run import Run
    from hpc_board.report.plots import Plot
    from hpc_board.report.views.runs import RunView, WholeRunView

T = TypeVar("T")

HAS_PRINTED = "hpc_board.has_printed_json"
"""The key in click's context of a command that has printed its JSON, and prints no other."""

JSON_FORM = "hpc_board.json_form"
"""The key there of the form of its JSON."""

READ_SECONDS = 2.0
"""The time for all questions to schedulers of a command that only reads."""

_ASKED_RUNS = 100
"""The number of runs whose cases are asked for at once."""

_WHOLE = r"`[^`]*`\S*|(?<=: )hpc-board .*|\S+"
"""A pattern of a word, or of a command, which must not be broken: a user pastes it."""

_STYLES: dict[str, dict[str, Any]] = {
    "strong": {"bold": True},
    "good": {"fg": "green"},
    "unsure": {"fg": "yellow"},
    "bad": {"fg": "red"},
    "quiet": {"dim": True},
}


def print_blocks(*blocks: Block) -> None:
    """Print blocks to stdout: fitted to a terminal, uncut and without colours to a file or pipe."""
    click.echo(plain(blocks, output_width(), _painted), nl=False)


def print_file(text: str) -> None:
    """Print the text of a file to stdout: its exact bytes, but to a terminal, which escape sequences could control."""
    click.echo(printable(text, len(text)) if sys.stdout.isatty() else text.encode(), nl=False)


def print_diff(text: str, *, after_text: bool) -> None:
    """Print a unified diff to stdout, as `print_file` does, apart from text before it, with colours to a terminal."""
    from hpc_board.report.comparisons import diff_tone

    if after_text:
        click.echo()
    if not sys.stdout.isatty():
        print_file(text)
        return
    for line in text.splitlines():
        click.echo(_painted(printable(line, len(line)), diff_tone(line)))


def output_width() -> int | None:
    """Return the number of columns of stdout; None without a terminal, where lines are not cut."""
    if not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size

    return get_terminal_size().columns


def table_time() -> datetime | None:
    """Return the time from which tables on a terminal count ages; None elsewhere, where they have dates."""
    return now() if sys.stdout.isatty() else None


def now() -> datetime:
    """Return the time from which ages count."""
    return datetime.now(UTC)


class JsonForm(msgspec.Struct, frozen=True):
    """The form of a command's JSON: the chosen `fields`, or in brief; the items of a list may have lines."""

    fields: tuple[str, ...] = ()
    is_short: bool = False
    has_lines: bool = False


def json_form() -> JsonForm:
    """Return the form of the JSON of the present command."""
    ctx = click.get_current_context(silent=True)
    form: JsonForm = JsonForm() if ctx is None else ctx.meta.get(JSON_FORM, JsonForm())
    return form


def print_json(view: Any, form: JsonForm | None = None) -> None:
    """Print the Structs of `report.views` to stdout as JSON in ASCII, which is independent of terminal and locale."""
    import json

    form = form or json_form()
    if form.is_short:
        from hpc_board.report.views.brief import short_of

        value = short_of(view, form.fields)
    else:
        value = msgspec.to_builtins(view)
    indent = 2 if sys.stdout.isatty() and not form.has_lines else None
    separators = (",", ":") if indent is None else None
    for each in value if form.has_lines and isinstance(value, list) else [value]:
        click.echo(json.dumps(each, indent=indent, separators=separators, allow_nan=False))
    if ctx := click.get_current_context(silent=True):
        ctx.meta[HAS_PRINTED] = True


def wait_as_json(
    board: Board, ids: "Sequence[int]", timeout_seconds: float | None, print_runs: "Callable[[Sequence[Run]], object]"
) -> "list[Run]":
    """Wait for runs and print their JSON with `print_runs`, or each run on a line as soon as it has ended.

    Raises:
        WaitExpired: `timeout_seconds` are over; the runs are printed as they are.
    """
    from hpc_board.cli.follow import follow

    has_lines, told = json_form().has_lines, set[int]()

    def ended(run: "Run") -> None:
        if has_lines:
            told.add(run.id)
            print_json([whole_run(board, run.id)])

    try:
        runs = follow(board, ids, timeout_seconds, ended)
    except WaitExpired:
        print_runs([run for run in board.runs.get_each(ids) if run.id not in told])
        raise
    if not has_lines:
        print_runs(runs)
    return runs


def print_found(view: Any, *blocks: Block, as_json: bool) -> None:
    """Print the JSON of a command that reads, or its blocks."""
    if as_json:
        print_json(view)
    else:
        print_blocks(*blocks)


def print_done(view: Any, text: str, *, as_json: bool) -> None:
    """Print the JSON of a command that writes, or a remark."""
    if as_json:
        print_json(view)
    else:
        remark(text)


def write_plot(path: Path, plots: "Sequence[Plot]", *, force: bool, nothing: str) -> None:
    """Write the only one of `plots` as an SVG file.

    Raises:
        InputError: the name has another ending, the file exists, or there is no plot, for the reason `nothing`.
    """
    from hpc_board.files import new_file
    from hpc_board.web.plots import svg

    if path.suffix.lower() != ".svg":
        raise InputError(f"{path}: plots are written as SVG", hint="Choose a name that ends in .svg.")
    if not plots:
        raise InputError(f"no plot: {nothing}")
    if len(plots) > 1:
        raise InputError(f"{path} has room for one plot, and {len(plots)} GPUs have one", hint="Choose one with --gpu.")
    with new_file(path, force=force) as file:
        file.write(svg(plots[0], 760, 320, is_alone=True).encode())
    remark(f"{path} has the plot.")


def print_previews(previews: "Sequence[Preview]", *, as_json: bool) -> None:
    """Print each batch script once. A single one has no title: stdout is exactly the file to be sent."""
    import shlex

    if as_json:
        from hpc_board.report.views import views_of
        from hpc_board.report.views.runs import PreviewView

        print_json(views_of(PreviewView, previews))
        return
    for gpu, words in dict.fromkeys((preview.gpu.name, preview.command) for preview in previews):
        remark(f"{gpu}: {shlex.join(words)}")
    scripts: dict[tuple[str, str], list[str]] = {}
    for preview in previews:
        title = f"GPU {preview.gpu.name}" if preview.file_name else f"Runner on GPU {preview.gpu.name}"
        if preview.array:
            scripts.setdefault((f"{title}, job array", preview.array), []).append(preview.file_name)
        scripts.setdefault((title, preview.script), []).append(preview.file_name)
    several = len({preview.file_name for preview in previews if preview.file_name}) > 1
    for (title, script), names in scripts.items():
        if len(scripts) > 1:
            click.echo(f"# ---- {title}{': ' + ', '.join(names) if several and any(names) else ''} ----")
        click.echo(script.encode(), nl=False)


def row_limit(given: int | None, default: int, *, as_json: bool) -> int | None:
    """Return the maximum number of rows by a `limit_option`; None for all of them."""
    if given is None:
        return None if as_json else default
    return given or None


def listed_rows(
    read: "Callable[[int, list[T]], Sequence[T]]", limit: int | None, default: int, *, as_json: bool
) -> "list[T]":
    """Return the rows of a list, as `in_parts` reads them, by the value of a `limit_option` with this default.

    A remark tells of further ones.
    """
    from hpc_board.board.parts import in_parts

    most = row_limit(limit, default, as_json=as_json)
    if most is None:
        return in_parts(read, None)
    found = in_parts(read, most + 1)
    if len(found) > most:
        remark(f"More than {most:,}: `--limit N` lists N, `--limit all` all.")
    return found[:most]


def listed_runs(board: Board, runs: "Iterable[Run]") -> "list[RunView]":
    """Return the objects of a list of runs."""
    from hpc_board.report.views.results import CaseView
    from hpc_board.report.views.runs import RunView

    views, left = [], list(runs)
    while left:
        # A service answers each question, and bounds the answer.
        part, left = left[:_ASKED_RUNS], left[_ASKED_RUNS:]
        numbers = [run.id for run in part]
        known = zip(part, board.standings.placing_each(numbers), board.runs.cases_each(numbers), strict=True)
        views += [RunView.of(run, placing, list(map(CaseView.of, cases))) for run, placing, cases in known]
    return views


def whole_run(board: Board, id_: int, *, samples: bool = False, hidden: bool = False) -> "WholeRunView":
    """Return the object of a run; `samples` adds the time of every call, `hidden` the arguments of hidden cases."""
    from hpc_board.report.views.runs import WholeRunView

    return WholeRunView.with_result(board.runs.whole(id_, hidden=hidden), samples=samples)


def remark(text: str) -> None:
    """Print a line to stderr, for people only; nothing with --quiet."""
    if not is_quiet():
        click.echo(wrapped(printable(text)), err=True)


def warning(text: str) -> None:
    """Print a warning to stderr; nothing with --quiet."""
    if is_quiet():
        return
    label = "warning:"
    click.echo(f"{click.style(label, fg='yellow', bold=True)} {wrapped(printable(text), len(label) + 1)}", err=True)


def wrapped(text: str, before: int = 0) -> str:
    """Return the text with lines that fit the terminal; unchanged where stderr is none.

    The first line stands behind `before` columns. A wrapped line keeps its indentation.
    """
    if not sys.stderr.isatty():
        return text
    from shutil import get_terminal_size

    width = get_terminal_size().columns
    lines: list[str] = []
    for line in text.split("\n"):
        lines += _wrapped(line, width, before if not lines else 0)
    return "\n".join(lines)


def _wrapped(line: str, width: int, before: int) -> list[str]:
    room = width - before
    if cells(line) <= room:
        return [line]
    indent = line[: min(len(line) - len(line.lstrip(" ")), width // 2)]
    lines, used = [indent], len(indent)
    for word in re.findall(_WHOLE, line):
        if lines[-1].strip() and used + 1 + cells(word) > room:
            lines.append(indent)
            room, used = width, len(indent)
        added = word if lines[-1] == indent else f" {word}"
        lines[-1] += added
        used += cells(added)
    return lines


def confirm(question: str) -> None:
    """Ask for a confirmation on the terminal.

    Raises:
        click.UsageError: stdin is not a terminal.
        click.Abort: the answer is not yes.
    """
    require_terminal()
    click.confirm(question, abort=True, err=True)


def require_terminal() -> None:
    """Require a terminal for a confirmation.

    Raises:
        click.UsageError: stdin is not a terminal.
    """
    if not sys.stdin.isatty():
        raise click.UsageError("no terminal to ask for confirmation; use --yes.")


def refresh(board: Board) -> None:
    """Update the runs in flight before they are shown; report a failure as a remark.

    A silent scheduler delays a reader by READ_SECONDS at most.
    """
    try:
        board.runs.advance(within_seconds=READ_SECONDS)
    except BoardError as error:
        if isinstance(error, StorageError):
            # The same fault may keep the board from being read, and is one error then.
            board.runs.list(limit=1)
        remark(f"Not up to date: {error.title}: {error.message}\nShowing the last known state.")


def _painted(text: str, tone: Tone) -> str:
    return click.style(text, **_STYLES[tone]) if tone in _STYLES else text
