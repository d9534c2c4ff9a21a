"""The user's own runners, as the front ends ask for them."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from hpc_board.errors import BoardError, Refused, WaitExpired
from hpc_board.model.text import one_line
from hpc_board.report.runners import reason_text

if TYPE_CHECKING:
    from hpc_board.board import Board
    from hpc_board.domain.runner import Runner

_POLL_SECONDS = 0.5


def live_runners(board: "Board") -> "list[Runner]":
    """Return the user's runners that have not ended, newest first."""
    try:
        found = board.runners.live()[::-1]
    except Refused:
        # Users who have lost their role still see the GPUs that they hold.
        found = board.runners.recent()
    return [each for each in found if each.user == board.user and not each.state.ended]


def granted(
    board: "Board",
    runner: "Runner",
    timeout_seconds: float | None = None,
    say: Callable[[str], object] = lambda _: None,
) -> "Runner":
    """Wait until a runner has its GPU or has ended, and return it; `say` receives each new reason of the wait.

    Raises:
        WaitExpired: `timeout_seconds` are over.
    """
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    told = ""
    while runner.started_at is None and not runner.state.ended:
        if deadline is not None and time.monotonic() >= deadline:
            raise WaitExpired(
                f"runner {runner.id} has no {one_line(runner.gpu)} after {timeout_seconds:g} s",
                hint=f"It {stays_text(runner)}",
            )
        time.sleep(_POLL_SECONDS)
        problem = ""
        try:
            board.runs.advance()
        except BoardError as error:
            problem = error.message
        runner = board.runners.get(runner.id)
        problem = problem or reason_text(runner)
        if problem not in ("", told):
            told = problem
            say(problem)
    return runner


def stays_text(runner: "Runner") -> str:
    """Return the state of a runner whose GPU is waited for no more, and the commands that show and end it."""
    how = "is stored, and not queued yet" if runner.state.unsent else "keeps its place in the queue"
    return f"{how}: `hpc-board status` shows it, `hpc-board release {runner.id}` ends it."
