"""The progress of a run in flight, on its screen and while its file is watched."""

from datetime import timedelta
from pathlib import Path

import pytest

from hpc_board.domain.run import Progress, RunState
from hpc_board.tui.screens import watch
from hpc_board.tui.screens.watch import WatchScreen
from hpc_board.tui.widgets.progress_line import ProgressLine
from tests.tui.driving import app_on, press, settled, text_of, until
from tests.tui.fake_board import NOW, RUNS, FakeBoard
from tests.values import replace


def _board(*, seconds: float | None = None) -> FakeBoard:
    """Return a board whose earlier runs took `seconds`, or passed none."""
    runs = [
        replace(each, ended_at=each.created_at + timedelta(seconds=4 + seconds)) if seconds and each.ended_at else each
        for each in RUNS
        if seconds or each.state is not RunState.FINISHED
    ]
    return FakeBoard(runs=tuple(runs))


@pytest.mark.parametrize(
    ("seconds", "remark"),
    [
        (80, "usually 24 s more  benchmark 2 of 3"),
        (56.5, "benchmark 2 of 3"),
        (14, "benchmark 2 of 3"),
        (None, "benchmark 2 of 3"),
    ],
)
async def test_a_running_run_has_a_bar_and_the_time_left(seconds: float | None, remark: str) -> None:
    app = app_on(_board(seconds=seconds))
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "enter")
        row = next(line for line in text_of(app).splitlines() if "5/7" in line)
        bar = row.split()[0]
        assert bar.count("━") == round(len(bar) * 5 / 7)
        assert row.endswith(remark)


async def test_a_judged_run_has_a_full_bar_and_its_verdict_in_plain_words() -> None:
    board = FakeBoard()
    ended = Progress("2030-05-17T12:00:00Z", "end", None, None, "pass")
    vars(board.runs)["progress"] = lambda run: [*board.progress(run), ended]
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "enter")
        shown = text_of(pilot.app)
        row = next(line for line in shown.splitlines() if "7/7" in line)
        assert row.split()[0] == "━" * len(row.split()[0])
        assert row.endswith("7/7")
        assert "Verdict: pass; the result follows." in shown
        assert "ranked: running for" in " ".join(shown.split())
        assert "collecting" not in shown


async def test_a_waiting_run_has_its_reason_and_its_expected_start() -> None:
    waiting = replace(RUNS[0], status=replace(RUNS[0].status, expected_start=NOW + timedelta(minutes=4)))
    app = app_on(FakeBoard(runs=(waiting, *RUNS[1:])))
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "enter")
        assert "Waiting: Priority · start 12:04, in 4 min" in text_of(app)
        assert "has no output" not in text_of(app)


async def test_an_ended_run_has_no_bar() -> None:
    app = app_on(FakeBoard())
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "enter")
        assert not app.screen.query_one(ProgressLine).display


async def test_a_watch_has_the_bar_of_its_newest_run(monkeypatch: pytest.MonkeyPatch, kernel: Path) -> None:
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.02)
    header = "#!POPCORN leaderboard vectoradd\n#!POPCORN gpu H100\n"
    kernel.write_text(header)
    board = FakeBoard(runs=[])
    app = app_on(board, kernel)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("w")
        await until(pilot, lambda: isinstance(app.screen, WatchScreen))
        screen = app.screen
        assert isinstance(screen, WatchScreen)
        await until(pilot, lambda: screen.answered_at("look") is not None)
        kernel.write_text(header + "# saved\n")
        await until(pilot, lambda: bool(board.sent))
        board.replace_run(replace(RUNS[1], id=1))

        def has_bar() -> bool:
            # A look while another one reads the runs is left out.
            screen.look_again()
            return "5/7" in text_of(app)

        await until(pilot, has_bar)
