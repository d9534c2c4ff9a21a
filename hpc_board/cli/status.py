"""`status`: the user's runners and runs in flight, and those that ended since the last look."""

import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from hpc_board.accounts import user_folder
from hpc_board.board import Board
from hpc_board.board.held import live_runners
from hpc_board.cli.options import Open, command
from hpc_board.cli.output import listed_runs, now, print_blocks, print_json, refresh, table_time
from hpc_board.domain.run import Run
from hpc_board.domain.runner import Runner
from hpc_board.errors import BoardError
from hpc_board.files import read_text, write_whole
from hpc_board.report.blocks import Block, Heading
from hpc_board.report.run_table import runs_table
from hpc_board.report.runners import runners_facts
from hpc_board.report.views.runs import LookView, RunnerView

_FIRST_LOOK = timedelta(days=1)
_RUNS_MAX = 1_000
_RUNNERS_MAX = 1_000
_BOARDS_MAX = 100
_BYTES_MAX = 64 * 1024


@command("hpc-board status", "hpc-board status --json")
def status(open_: Open, as_json: bool) -> None:
    """List your runs in flight and those that ended recently.

    Begins with the GPUs that you hold. Lists runs and held GPUs that ended since the last call; the first call covers
    one day. `hpc-board runs` lists all runs.
    """
    board = open_()
    refresh(board)
    held = live_runners(board)
    going = board.runs.followed()
    ended, released, is_first = _newly_ended(board)
    if as_json:
        print_json(
            LookView(
                in_flight=listed_runs(board, going),
                ended=listed_runs(board, ended),
                runners=[RunnerView.of(runner, now()) for runner in held],
                ended_runners=[RunnerView.of(runner, now()) for runner in released],
            )
        )
        return
    since = table_time()
    blocks: list[Block] = [Heading("Held GPUs"), runners_facts(held, now())] if held else []
    blocks += [Heading("In flight"), runs_table(going, now=since, empty="No runs in flight.")]
    blocks += [
        Heading("Ended in the last day" if is_first else "Ended since the last call"),
        *([runners_facts(released, now())] if released else []),
    ]
    blocks += [runs_table(ended, now=since, empty="None.")] if ended or not released else []
    print_blocks(*blocks)


def _newly_ended(board: Board) -> tuple[list[Run], list[Runner], bool]:
    """Return the user's newest runs and runners that ended since the last look, and whether this is the first one.

    The time of the newest end is stored.
    """
    file = user_folder(os.environ, "XDG_STATE_HOME", ".local/state") / "status.json"
    key = str(getattr(board, "address", None) or board.settings.board)
    looks = _looks(file)
    is_first = key not in looks
    since = looks.pop(key, datetime.now(UTC) - _FIRST_LOOK)
    found = [run for run in board.runs.list(limit=_RUNS_MAX) if run.state.ended and run.status.at > since]
    newest = [each for each in board.runners.recent(_RUNNERS_MAX) if each.user == board.user]
    held = [each for each in newest if each.state.ended and each.status.at > since]
    looks[key] = max([since, *(run.status.at for run in found), *(runner.status.at for runner in held)])
    with suppress(OSError):  # without space or permission the next look repeats this one
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(file, msgspec.json.encode(dict(list(looks.items())[-_BOARDS_MAX:])))
    return found, held, is_first


def _looks(file: Path) -> dict[str, datetime]:
    """Return the last look at each board; a damaged file has none."""
    try:
        return msgspec.json.decode(read_text(file, _BYTES_MAX), type=dict[str, datetime])
    except (BoardError, msgspec.MsgspecError):
        return {}
