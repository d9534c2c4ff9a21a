"""What the app does when it is used: every test drives it through its keys and reads its screen."""

import dataclasses
import threading
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Button

from hpc_board.errors import BoardError, SchedulerError, StorageError
from hpc_board.model.result import Verdict
from hpc_board.model.run import Run, RunState
from hpc_board.model.task import Mode
from hpc_board.tui.screens.confirm import Confirm
from hpc_board.tui.screens.report import ReportScreen
from hpc_board.tui.screens.runs import RunsScreen
from hpc_board.tui.screens.submit import SubmitScreen
from hpc_board.tui.screens.tasks import TasksScreen
from hpc_board.tui.widgets.grid import Grid
from tests.tui.driving import app_on, press, settled, text_of, until
from tests.tui.fake_board import RUNS, TASKS, FakeBoard, run

HOSTILE = "[bold red]loud[/] [@click=app.quit]click[/] \x1b]0;title\x07\x1b[31mred \x9b2J \u202eright"


def toasts(pilot: Pilot[Any]) -> list[str]:
    return [f"{toast.title}: {toast.message}" for toast in pilot.app._notifications]


async def test_a_file_is_submitted_with_what_its_header_says(kernel: Path) -> None:
    board = FakeBoard()
    async with app_on(board, kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert [line[8:16] for line in text_of(pilot.app).splitlines() if "[x]" in line] == ["[x] H100", "[x] A100"]
        await press(pilot, "ctrl+s")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunsScreen))
        await settled(pilot)
        assert [gpu.name for gpu in board.sent[0].gpus] == ["H100", "A100"]
        assert (board.sent[0].task.name, board.sent[0].mode) == ("vectoradd", Mode.TEST)
        assert pilot.app.screen.query_one(Grid).current == "42"


async def test_mode_gpus_and_note_are_chosen_with_the_keyboard(kernel: Path) -> None:
    kernel.write_text("#!POPCORN leaderboard vectoradd\n")
    board = FakeBoard()
    async with app_on(board, kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert "Choose at least one GPU." in text_of(pilot.app)
        await press(pilot, *["tab"] * 3, "enter", "end", "enter", "tab", *"fast", "tab", "down", "space")
        assert "Ready: vectoradd on A100, mode ranked: one job." in text_of(pilot.app)
        await press(pilot, "ctrl+s")
        await until(pilot, lambda: bool(board.sent))
        draft = board.sent[0]
        assert ([gpu.name for gpu in draft.gpus], draft.mode, draft.note) == (["A100"], Mode.RANKED, "fast")


async def test_the_same_choice_is_there_for_the_next_submission(kernel: Path) -> None:
    async with app_on(FakeBoard(), kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "ctrl+s")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunsScreen))
        await settled(pilot)
        await press(pilot, "s")
        assert "Ready: vectoradd on H100 and A100" in text_of(pilot.app)


async def test_a_file_is_picked_from_the_tree(kernel: Path) -> None:
    (kernel.parent / "notes.txt").write_text("not a kernel")
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "s", "ctrl+o")
        await until(pilot, lambda: "kernel.py" in text_of(pilot.app))
        assert "notes.txt" not in text_of(pilot.app)
        await press(pilot, "down", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, SubmitScreen))
        await until(pilot, lambda: "Ready: vectoradd on H100 and A100" in text_of(pilot.app))


async def test_a_refused_submission_says_why_and_keeps_the_form(kernel: Path) -> None:
    board = FakeBoard(failures={"submit": SchedulerError("sbatch: invalid partition", hint="Mend the settings.")})
    async with app_on(board, kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "ctrl+s")
        text = text_of(pilot.app)
        assert "The scheduler failed" in text
        assert "sbatch: invalid partition" in text
        assert "Mend the settings." in text
        assert isinstance(pilot.app.screen, SubmitScreen)
        assert "Sending" not in text
        assert not pilot.app.screen.query_one("#send", Button).disabled


async def test_selection_and_place_survive_a_new_run_on_top() -> None:
    board = FakeBoard(runs=[run(id_, RunState.QUEUED) for id_ in range(100, 0, -1)])
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", *["down"] * 33, *["up"] * 3)
        grid = pilot.app.screen.query_one(Grid)
        line = grid.cursor_row - grid.scroll_offset.y
        assert (grid.current, grid.scroll_offset.y > 0) == ("70", True)
        board.known_runs.insert(0, run(101, RunState.QUEUED))
        screen = pilot.app.screen
        assert isinstance(screen, RunsScreen)
        screen.look_again()
        await settled(pilot)
        assert grid.row_count == 101
        assert grid.current == "70"
        assert grid.get_row_at(grid.cursor_row)[1].plain.strip() == "70"
        assert grid.cursor_row - grid.scroll_offset.y == line


async def test_the_table_updates_itself_and_tells_the_end_of_a_run() -> None:
    board = FakeBoard()
    async with app_on(board, beat_seconds=0.05).run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "running" in text_of(pilot.app) and "2 in flight" in text_of(pilot.app))
        running = board.run(40)
        ended = dataclasses.replace(running.status, state=RunState.FINISHED)
        board.boards["H100"] = (dataclasses.replace(board.boards["H100"][0], run=40, user="ada"),)
        board.replace_run(dataclasses.replace(running, status=ended, verdict=Verdict.PASS, score_s=9.5e-6))
        await until(
            pilot, lambda: any("Run 40: vectoradd on H100: passed, 9.50 µs, rank 1" in t for t in toasts(pilot))
        )
        await until(pilot, lambda: "running" not in text_of(pilot.app) and "9.50 µs" in text_of(pilot.app))


async def test_a_run_is_cancelled_only_after_a_yes() -> None:
    board = FakeBoard()
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "c")
        assert isinstance(pilot.app.screen, Confirm)
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, RunsScreen)
        assert board.run(41).state is RunState.QUEUED
        await press(pilot, "c", "y")
        assert board.run(41).state is RunState.CANCELLED
        assert "cancelled" in text_of(pilot.app)


async def test_a_run_that_has_ended_cannot_be_cancelled() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "end", "c")
        assert not isinstance(pilot.app.screen, Confirm)
        assert any("already ended" in toast for toast in toasts(pilot))


async def test_a_late_answer_to_an_earlier_question_is_not_shown() -> None:
    own_may_come, own_came = threading.Event(), threading.Event()

    class SlowForOwnRuns(FakeBoard):
        """Keeps back what the screen asks first; following the runs in flight takes a shorter list."""

        def runs(
            self, *, everyone: bool = False, task: str | None = None, limit: int = 50, offset: int = 0
        ) -> tuple[Run, ...]:
            if not everyone and limit > 50:
                own_may_come.wait(30)
                own_came.set()
            return super().runs(everyone=everyone, task=task, limit=limit, offset=offset)

    async with app_on(SlowForOwnRuns()).run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        await pilot.press("a")
        await until(pilot, lambda: "carol" in text_of(pilot.app))
        own_may_come.set()
        await until(pilot, own_came.is_set)
        await settled(pilot)
        assert "carol" in text_of(pilot.app)


async def test_log_and_progress_come_in_while_a_run_goes_on() -> None:
    board = FakeBoard()
    async with app_on(board, beat_seconds=0.05).run_test(size=(120, 40)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "running" in text_of(pilot.app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: "benchmark 2 of 3" in text_of(pilot.app))
        board.logs[40] += "one more line\n"
        await until(pilot, lambda: "one more line" in text_of(pilot.app))
        board.replace_run(dataclasses.replace(RUNS[2], id=40))
        await until(pilot, lambda: "Passed: 3 tests and 3 benchmarks" in text_of(pilot.app))


async def test_leaving_a_screen_ends_its_questions() -> None:
    board = FakeBoard()
    async with app_on(board, beat_seconds=0.02).run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "vectoradd" in text_of(pilot.app))
        await pilot.press("end", "b")
        await until(pilot, lambda: "dmitri" in text_of(pilot.app))
        await until(pilot, lambda: board.calls.count("standings") > 6)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, TasksScreen))
        await settled(pilot)
        asked, advanced = board.calls.count("standings"), board.calls.count("advance")
        await until(pilot, lambda: board.calls.count("advance") > advanced + 3)
        assert board.calls.count("standings") == asked


async def test_the_standings_turn_from_gpu_to_gpu_and_mark_what_is_emulated() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b")
        assert "ada (you)" in text_of(pilot.app)
        await press(pilot, "right")
        assert "carol" in text_of(pilot.app)
        assert "ada (you)" not in text_of(pilot.app)
        await press(pilot, "right")
        assert "self-run emulated" in text_of(pilot.app)
        await press(pilot, "left", "o")
        assert "You have no passing ranked run on A100 yet." in text_of(pilot.app)


async def test_a_scheduler_that_answers_again_takes_its_error_away() -> None:
    board = FakeBoard(failures={"advance": SchedulerError("squeue did not answer")})
    async with app_on(board, beat_seconds=0.05).run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "squeue did not answer" in text_of(pilot.app))
        assert "asked 12 s ago" in text_of(pilot.app)
        assert "node07" in text_of(pilot.app)
        board.failures.clear()
        await until(pilot, lambda: "squeue did not answer" not in text_of(pilot.app))


@pytest.mark.parametrize("keys", [("r",), ("r", "enter"), ("s",), ("b",), ("end", "b", "enter"), ("question_mark",)])
async def test_no_error_of_the_board_ends_the_app(keys: tuple[str, ...]) -> None:
    error: BoardError = StorageError("the disk is full", hint="Free some space.")
    board = FakeBoard()
    async with app_on(board, beat_seconds=0.05).run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "vectoradd" in text_of(pilot.app))
        for name in ("tasks", "gpus", "runs", "standings", "advance", "submit", "cancel", "draft"):
            board.failures[name] = error
        for key in keys:
            await pilot.press(key)
        await pilot.press("escape")
        await until(pilot, lambda: "the disk is full" in text_of(pilot.app))


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_hostile_text_is_shown_as_text(size: tuple[int, int]) -> None:
    evil = dataclasses.replace(
        run(41, RunState.RUNNING, reason=HOSTILE, evidence=HOSTILE, node=HOSTILE),
        file_name=HOSTILE,
        user=HOSTILE,
        partition=HOSTILE,
    )
    failed = run(40, RunState.FINISHED, verdict=Verdict.WRONG_VALUE, message=HOSTILE)
    board = FakeBoard(
        runs=(evil, failed), tasks=[dataclasses.replace(TASKS[-1], description=f"# {HOSTILE}\n\n{HOSTILE}")]
    )
    board.user = HOSTILE
    board.logs[41] = HOSTILE
    board.failures["gpus"] = SchedulerError(HOSTILE, hint=HOSTILE)
    board.boards["H100"] = (dataclasses.replace(board.boards["H100"][0], user=HOSTILE, file_name=HOSTILE),)
    ways = [
        (),
        ("r",),
        ("r", "a"),
        ("r", "enter"),
        ("r", "enter", "l"),
        ("r", "down", "enter"),
        ("b",),
        ("s",),
        ("r", "c"),
    ]
    for way in ways:
        async with app_on(board).run_test(size=size) as pilot:
            await settled(pilot)
            await press(pilot, *way)
            text = text_of(pilot.app)
            assert "loud" in text, way
            assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(text), way
            assert "[bold" in text, way


async def test_pasted_text_presses_no_keys() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r")
        pilot.app.post_message(events.Paste("c\ny\nq\x11s"))
        await settled(pilot)
        assert isinstance(pilot.app.screen, RunsScreen)
        assert pilot.app._exit is False


async def test_a_row_is_opened_with_the_mouse() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r")
        await pilot.click(Grid, offset=(10, 3))
        await settled(pilot)
        await pilot.click(Grid, offset=(10, 3))
        await settled(pilot)
        assert isinstance(pilot.app.screen, ReportScreen)
        assert "Run 39" in text_of(pilot.app)


async def test_leaving_with_runs_in_flight_says_that_they_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    app = app_on(FakeBoard())
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "q")
    app._print_error_renderables()
    assert "Runs 41, 40 go on." in capsys.readouterr().err


async def test_help_names_the_keys_of_the_screen() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "question_mark")
        assert "Switch between your own runs and everyone's" in text_of(pilot.app)
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, RunsScreen)


@pytest.mark.parametrize("width", [72, 80, 100, 120, 200])
async def test_every_column_fits_at_every_width(width: int) -> None:
    async with app_on(FakeBoard()).run_test(size=(width, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "a")
        grid = pilot.app.screen.query_one(Grid)
        assert grid.virtual_size.width <= grid.size.width
        assert "Score" in text_of(pilot.app)


async def test_a_beat_that_comes_while_the_app_closes_is_harmless() -> None:
    app = app_on(FakeBoard())
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
    assert not app.screen_stack
    app._beat()
