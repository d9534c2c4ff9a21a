"""What stdout and stderr get: blocks fitted to the terminal, JSON, and remarks."""

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from hpc_board.errors import BoardError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hpc_board.board import Board
    from hpc_board.domain.run import Run
    from hpc_board.report.blocks import Block, Tone
    from hpc_board.report.views.runs import RunView, WholeRunView

_STYLES: dict[str, dict[str, Any]] = {
    "strong": {"bold": True},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "quiet": {"dim": True},
}


def print_blocks(*blocks: "Block") -> None:
    """Print blocks to stdout: fitted to a terminal, or whole and without colours into a file or pipe."""
    from hpc_board.report.plain import plain

    click.echo(plain(blocks, output_width(), _painted), nl=False)


def output_width() -> int | None:
    """How many columns stdout has; None where it is no terminal, and nothing is cut."""
    if not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size

    return get_terminal_size().columns


def print_json(view: Any) -> None:
    """Print the Structs of `report.views` to stdout as JSON in ASCII, which no terminal and no locale can trip over."""
    import msgspec

    click.echo(json.dumps(msgspec.to_builtins(view), indent=2, allow_nan=False))


def listed_runs(board: "Board", runs: "Iterable[Run]") -> "list[RunView]":
    """Return the objects of a list of runs."""
    from hpc_board.report.views.runs import listed

    return [listed(run, board.standings.placing(run), board.runs.cases(run.id)) for run in runs]


def whole_run(board: "Board", id_: int, *, samples: bool = False) -> "WholeRunView":
    """Return the object of a run with its result; `samples` adds the time of every call."""
    from hpc_board.report.views.runs import whole

    found = board.runs.whole(id_)
    return whole(found.run, found.placing, found.result, found.history, samples=samples)


def remark(text: str) -> None:
    """Print a line to stderr, for people; scripts need not read it."""
    from hpc_board.model.text import printable

    click.echo(printable(text), err=True)


def refresh(board: "Board") -> None:
    """Carry the runs in flight on before they are shown; what hinders that is a remark, and what is known is shown."""
    try:
        board.runs.advance()
    except BoardError as error:
        remark(f"Not up to date: {error.title}: {error.message}")


def _painted(text: str, tone: "Tone") -> str:
    return click.style(text, **_STYLES[tone]) if tone in _STYLES else text
