"""Random keys on a real board: whatever is pressed, clicked and pasted, nothing is raised.

HPC_BOARD_FUZZ_STEPS is how many steps are taken, HPC_BOARD_FUZZ_SEED which ones: the same ones unless it is given.
"""

import os
import random
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.app import App
from textual.errors import NoWidget
from textual.pilot import OutOfBounds, Pilot

from hpc_board.board import Board
from hpc_board.errors import BoardError
from hpc_board.tui.app import BoardApp
from hpc_board.tui.preferences import Memory
from hpc_board.tui.screens.dialogs import AskLines
from hpc_board.tui.screens.frame import TooSmallScreen
from hpc_board.tui.screens.tasks import TasksScreen
from hpc_board.tui.widgets.grid import Grid
from tests.e2e.boards import RIGHT, WRONG, board_files
from tests.tui.driving import until
from tests.values import created, requested

STEPS = int(os.environ.get("HPC_BOARD_FUZZ_STEPS", "400"))
SEED = int(os.environ.get("HPC_BOARD_FUZZ_SEED") or 20302)

SESSION_STEPS = max(1, min(500, STEPS // 8))
"""After so many steps the app is left and started again."""

JOURNEYS: tuple[tuple[tuple[str, str], ...], ...] = (
    (),
    (("r", "RunsScreen"), ("b", "StandingsScreen"), ("f", "FeedScreen")),
    (
        *(("r", "RunsScreen"), ("end", "RunsScreen"), ("m", "RunsScreen"), ("up", "RunsScreen")),
        ("m", "CompareScreen"),
    ),
    (("r", "RunsScreen"), ("b", "StandingsScreen"), ("v", "CodeScreen")),
    (("r", "RunsScreen"), ("b", "StandingsScreen"), ("t", "TrendScreen")),
    (("r", "RunsScreen"), ("p", "ClusterScreen")),
    (("r", "RunsScreen"), ("ctrl+p", "Actions")),
)
"""Keys that lead to where the random ones would seldom get, each with the screen that is there then; one a session.

A session without a journey begins in the form, with what the app remembers of those before.
"""

DESTINATIONS = {"FeedScreen", "CompareScreen", "CodeScreen", "TrendScreen", "ClusterScreen", "Actions"}

NAMED = (
    *("enter", "enter", "enter", "escape", "escape", "tab", "shift+tab", "up", "down", "down", "down", "left", "right"),
    *("home", "end", "pageup", "pagedown", "space", "backspace", "delete", "f1", "f2", "f5", "question_mark", "slash"),
    *(f"ctrl+{letter}" for letter in "sogpaekuwvx"),
    *("ctrl+end", "ctrl+home", "shift+up", "shift+down", "tilde", "full_stop", "minus"),
    *("left_square_bracket", "right_square_bracket"),
)
LETTERS = (*"abcdefghijklmnoprstuvwxyz", *"AGVNRFS", *"0123456789")
"""Every letter but q, which leaves."""

PASTES = ["double", "kernel.py", "c\ny\nq\x11s", "\x1b[31mred", "ä\u202e" * 50, "x" * 10_000, "a\tb"]
SIZES = [(80, 24), (120, 40), (60, 16), (59, 15), (20, 5), (200, 60), (1, 1)]


async def step(pilot: Pilot[Any], chosen: random.Random) -> str:
    """Take one step; what it was."""
    app = pilot.app
    kind = chosen.random()
    if kind < (0.3 if isinstance(app.screen, TooSmallScreen) else 0.01):
        size = chosen.choice(SIZES)
        await pilot.resize_terminal(*size)
        return f"resize {size}"
    if kind < 0.03:
        app.post_message(events.Paste(chosen.choice(PASTES)))
        await pilot.pause()
        return "paste"
    if kind < 0.08:
        offset = (chosen.randrange(app.size.width), chosen.randrange(app.size.height))
        try:
            await pilot.click(offset=offset, times=chosen.choice((1, 1, 2)))
        except (NoWidget, OutOfBounds):
            return "no click"
        return f"click {offset}"
    if isinstance(app.screen, TasksScreen) and kind > 0.75:
        await pilot.press("A")
        return "A"
    keys: Sequence[str] = NAMED if chosen.random() < 0.6 else LETTERS
    key = chosen.choice(keys)
    if key in ("slash", "tilde") and isinstance(app.screen, AskLines):
        key = "a"  # files that it writes stay in the folder of the test
    await pilot.press(key)
    return key


async def session(
    app: BoardApp,
    chosen: random.Random,
    steps: int,
    seen: Counter[str],
    trail: list[str],
    journey: Sequence[tuple[str, str]],
) -> int:
    """Go on a journey, then take up to `steps` steps in one app; how many were taken until it was left."""
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        for key, name in journey:
            await arrived(pilot)
            await pilot.press(key)
            trail.append(f"journey: {key}")
            await until(pilot, lambda name=name: type(app.screen).__name__ == name)  # type: ignore[misc]
        for number in range(steps):
            seen[type(app.screen).__name__] += 1
            trail.append(f"{type(app.screen).__name__}: {await step(pilot, chosen)}")
            if app._exit or app._exception is not None:
                return number + 1
    return steps


async def arrived(pilot: Pilot[Any]) -> None:
    """Come back when the tables of the screen in front have their rows."""
    await until(pilot, lambda: all(grid.current is not None for grid in pilot.app.screen.query(Grid)))


def tell(text: str) -> None:
    """Put something into the test's output, which pytest shows when the test fails, or with -s."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def failure(app: App[Any]) -> str:
    return "" if app._exception is None else repr(app._exception)


@pytest.mark.timeout(max(300, STEPS))
@pytest.mark.usefixtures("every_paint")
async def test_random_keys_raise_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    files = board_files(tmp_path / "site", slurm=False)
    (tmp_path / "kernel.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    board = Board.open(files.settings)
    created(board, "double", "race")
    sent = [
        run.id
        for kernel, mode in (("kernel.py", "ranked"), ("kernel.py", "benchmark"), ("wrong.py", "test"))
        for run in board.submissions.submit([requested(Path(kernel), gpus=["CPU"], mode=mode)])
    ]
    # A board without a ranked run has no feed, no trend and no code to read; a comparison needs two runs with times.
    list(board.runs.wait(sent, timeout_seconds=120))
    tell(f"seed {SEED}, {STEPS} steps")
    chosen, seen, trail = random.Random(SEED), Counter[str](), list[str]()
    taken, sessions = 0, 0
    while taken < STEPS:
        journey = JOURNEYS[sessions % len(JOURNEYS)]
        file = None if journey else Path("kernel.py")
        memory = Memory(None if journey else tmp_path / "app.json")
        app = BoardApp(lambda: board, file, tick_seconds=0.05, follow_seconds=0.1, memory=memory)
        try:
            taken += await session(app, chosen, min(SESSION_STEPS, STEPS - taken), seen, trail, journey)
        except BaseException:
            tell("\n  ".join([f"seed {SEED}, after {len(trail)} steps; the last ones:", *trail[-40:]]))
            raise
        assert not failure(app), f"seed {SEED}: {failure(app)} after {trail[-20:]}"
        sessions += 1
        tell(f"{taken} steps in {sessions} sessions")
    tell(f"{taken} steps in {sessions} sessions; on which screens: {dict(seen.most_common())}")
    if sessions >= len(JOURNEYS):
        assert set(seen) >= DESTINATIONS
    for run in board.runs.in_flight():
        with suppress(BoardError):
            board.runs.cancel_each([run.id])
