"""Changed copies of values, of the node's dataclasses and the login side's structs alike, and requests to a board."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hpc_board.board import Board
from hpc_board.domain.board_options import UNCHANGED, RequestedOptions
from hpc_board.domain.draft import SubmissionRequest
from hpc_board.domain.user_board import BoardRequest, Plan
from hpc_board.runs.drafts import read_source

T = TypeVar("T")


def replace(value: T, **changes: Any) -> T:
    """Return a copy of `value` with these fields."""
    change: Any = msgspec.structs.replace if isinstance(value, msgspec.Struct) else dataclasses.replace
    changed: T = change(value, **changes)
    return changed


def requested(file: Path, *, gpus: Sequence[str] = (), **choices: Any) -> SubmissionRequest:
    """Return the request to submit `file` with these choices."""
    return SubmissionRequest(read_source(file), gpus=tuple(gpus), **choices)


def created(board: Board, source: str, name: str | None = None, options: RequestedOptions = UNCHANGED) -> None:
    """Create the leaderboards of the tasks in `source`."""
    carried_out(board, BoardRequest(source, name, options))


def updated(board: Board, name: str, source: str | None = None, options: RequestedOptions = UNCHANGED) -> None:
    """Change a leaderboard."""
    carried_out(board, BoardRequest(source, name, options, update=True))


def carried_out(board: Board, request: BoardRequest, *, force: bool = False, reason: str = "") -> tuple[Plan, ...]:
    """Plan what `request` asks for, and carry it out."""
    changes = {plan.name: plan.after_change for plan in board.leaderboards.plan(request)}
    return board.leaderboards.carry_out(request, changes, force=force, reason=reason)
