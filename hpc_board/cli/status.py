"""`status`: the user's runs in flight, and those that ended since the last look."""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import msgspec

from hpc_board.board import Board
from hpc_board.board.runs import FOLLOWED_MAX
from hpc_board.cli.options import Open, examples, json_option
from hpc_board.cli.output import listed_runs, print_blocks, print_json, refresh, table_time
from hpc_board.domain.run import Run
from hpc_board.errors import BoardError
from hpc_board.files import read_text, user_folder, write_whole
from hpc_board.report.blocks import Heading
from hpc_board.report.run_table import runs_table
from hpc_board.report.views.runs import LookView

_FIRST_LOOK = timedelta(days=1)
_PAGE = 200
_BOARDS_MAX = 100
_BYTES_MAX = 64 * 1024


@click.command(epilog=examples("hpc-board status", "hpc-board status --json"))
@json_option
@click.pass_obj
def status(open_: Open, as_json: bool) -> None:
    """List your runs in flight and the newly ended ones.

    The first look goes back one day. `hpc-board runs` lists all runs.
    """
    board = open_()
    refresh(board)
    going = board.runs.followed()
    ended = _newly_ended(board, going)
    if as_json:
        print_json(LookView(in_flight=listed_runs(board, going), ended=listed_runs(board, ended)))
        return
    now = table_time()
    print_blocks(
        Heading("In flight"),
        runs_table(going, now=now, empty="No runs in flight."),
        Heading("Ended since the last look"),
        runs_table(ended, now=now, empty="None."),
    )


def _newly_ended(board: Board, going: Sequence[Run]) -> list[Run]:
    """Return the user's runs that ended since the last look, and store this one: its newest end and settled number.

    All runs below the settled number had ended. The first look is at the newest runs alone.
    """
    file = user_folder(os.environ, "XDG_STATE_HOME", ".local/state") / "status.json"
    key = str(getattr(board, "address", None) or board.settings.board)
    looks = _looks(file)
    since, settled = looks.get(key) or (datetime.now(UTC) - _FIRST_LOOK, sys.maxsize)
    runs = list(board.runs.list(limit=_PAGE))
    last = runs
    while len(last) == _PAGE and last[-1].id > settled:
        last = list(board.runs.list(limit=_PAGE, before=last[-1].id))
        runs += last
    found = [run for run in runs if run.state.ended and run.status.at > since]
    newest = max((run.status.at for run in found), default=since)
    open_ = [run.id for run in (*going, *runs) if not run.state.ended]
    # Only the newest runs in flight are known of a user with more.
    known = settled if len(going) == FOLLOWED_MAX else sys.maxsize
    next_settled = min(known, min(open_, default=runs[0].id + 1 if runs else 0))
    _store(file, {**{name: look for name, look in looks.items() if name != key}, key: (newest, next_settled)})
    return found


def _looks(file: Path) -> dict[str, tuple[datetime, int]]:
    """Return the last look at each board; a damaged file has none."""
    try:
        return msgspec.json.decode(read_text(file, _BYTES_MAX), type=dict[str, tuple[datetime, int]])
    except (BoardError, msgspec.MsgspecError):
        return {}


def _store(file: Path, looks: Mapping[str, tuple[datetime, int]]) -> None:
    """Write the looks; without space or permission the next look repeats this one."""
    newest = dict(list(looks.items())[-_BOARDS_MAX:])
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(file, msgspec.json.encode(newest))
