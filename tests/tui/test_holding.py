"""The GPUs that a user holds: the key that holds and releases them, the first line, the cluster and the end."""

import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from hpc_board.domain.roles import Role
from hpc_board.domain.run import RunState
from hpc_board.domain.runner import Runner
from hpc_board.domain.runner_rules import RunnerRules
from hpc_board.errors import BoardError, InputError, Refused, SchedulerRefused
from hpc_board.tui.app import BoardApp, followed
from hpc_board.tui.messages import RunsState
from hpc_board.tui.screens.cluster import ClusterScreen
from hpc_board.tui.screens.dialogs import AskLines, Confirm
from hpc_board.tui.screens.submit import SubmitScreen
from hpc_board.tui.screens.watch import WatchScreen
from tests.tui.driving import app_on, footer_keys, go_to, press, settled, text_of, toasts, until
from tests.tui.fake_board import H100, NOW, FakeBoard, runner
from tests.values import replace

HELD = runner(3, RunState.RUNNING)
WAITS = runner(4, RunState.QUEUED, reason="Priority")
ENDS = runner(5, RunState.COLLECTING, reason="it was idle for 300 s")


def first_line(app: App[None]) -> str:
    return text_of(app).splitlines()[0]


def labels(app: App[None]) -> list[str]:
    """Return the labels of the keys in the last line."""
    return [key.description for key in footer_keys(app)]


def beating(board: FakeBoard, moments: list[timedelta]) -> BoardApp:
    """The app with a beat, whose clock is `moments` after its begin."""
    return BoardApp(lambda: board, now=lambda: NOW + moments[0], tick_seconds=0.05, follow_seconds=0.05)


# The key


async def test_a_gpu_of_the_cluster_is_held_for_the_times_of_the_settings() -> None:
    board = FakeBoard()
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        app = pilot.app
        await settled(pilot)
        await press(pilot, "r", "p", "down")
        assert "Hold" in labels(app)
        await press(pilot, "f6")
        assert isinstance(app.screen, AskLines)
        text = text_of(app)
        assert "Hold A100 for your next runs" in text
        assert "For       30       min, 5 to 60" in text
        assert "Idle      5        min without a run, 1 to 5" in text
        await press(pilot, "enter")
        assert isinstance(app.screen, ClusterScreen)
        (new,) = board.known_runners
        assert (new.gpu, new.seconds, new.idle_seconds) == ("A100", 1800, 300)
        assert "ada · A100 waits" in first_line(app)
        assert "Release" in labels(app)
        await press(pilot, "up")
        assert "Hold" in labels(app)


async def test_the_times_of_a_runner_are_chosen_within_the_bounds_of_the_settings() -> None:
    board = FakeBoard()
    board.runner_rules = RunnerRules(minutes=20, idle_minutes=8)
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "p", "f6")
        assert "For       20       min, 5 to 20" in text_of(pilot.app)
        await press(pilot, "2", "1", "enter")
        assert "a GPU cannot be held for 21m: choose 5m to 20m." in text_of(pilot.app)
        assert pilot.app.screen.query(Input).first().value == "21"
        await press(pilot, "backspace", "enter")
        assert "a GPU cannot be held for 2m: choose 5m to 20m." in text_of(pilot.app)
        await press(pilot, "backspace", "minus", "enter")
        assert "a GPU cannot be held for 0s: choose 5m to 20m." in text_of(pilot.app)
        assert board.known_runners == []
        await press(pilot, "backspace", "1", "2", "down", "9", "enter")
        assert "a GPU cannot be held for 9m without a run: choose 1s to 8m." in text_of(pilot.app)
        await press(pilot, "backspace", "2", "enter")
        (new,) = board.known_runners
        assert (new.seconds, new.idle_seconds) == (720, 120)


async def test_nothing_is_held_without_an_answer() -> None:
    board = FakeBoard()
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "p", "f6", "escape")
        assert isinstance(pilot.app.screen, ClusterScreen)
        assert "hold" not in board.calls


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Refused("you hold A100 already (runner 2).", hint="`hpc-board release 2` ends it."), "you hold A100 already"),
        (SchedulerRefused("sbatch: invalid partition gpu-h100"), "sbatch: invalid partition gpu-h100"),
    ],
)
async def test_the_reason_why_no_gpu_is_held_is_told_in_words(error: BoardError, words: str) -> None:
    board = FakeBoard(failures={"hold": error})
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "p", "f6", "enter")
        text = text_of(pilot.app)
        assert words in text
        assert error.title in text
        assert "waits" not in first_line(pilot.app)
        board.failures.clear()
        await press(pilot, "f6", "enter")
        assert words not in text_of(pilot.app)
        assert "H100 waits" in first_line(pilot.app)


async def test_a_held_gpu_is_released_by_the_same_key_with_its_cost() -> None:
    board = FakeBoard(runners=[HELD])
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        app = pilot.app
        await settled(pilot)
        await press(pilot, "r", "p", "f6")
        assert isinstance(app.screen, Confirm)
        words = "So far you held H100 for 6 min, 17 runs. It ends after its current run."
        assert words in " ".join(text_of(app).split())
        await press(pilot, "escape")
        assert "release" not in board.calls
        await press(pilot, "f6", "enter")
        assert "release" in board.calls
        assert "ada · H100 held, ending" in first_line(app)
        await press(pilot, "f6")
        assert isinstance(app.screen, ClusterScreen)
        assert toasts(app) == ["H100 is being released: it ends after its current run."]


async def test_a_runner_whose_job_waits_is_told_to_have_held_nothing() -> None:
    board = FakeBoard(runners=[WAITS])
    async with app_on(board).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "p", "f6")
        assert "Release H100? Its job has not started." in " ".join(text_of(pilot.app).split())
        await press(pilot, "enter")
        assert "H100" not in first_line(pilot.app)
        assert toasts(pilot.app) == ["H100 released: never held H100; ended: released by ada"]


async def test_an_error_of_a_release_is_told_in_words() -> None:
    board = FakeBoard(runners=[HELD], failures={"release": InputError("runner 3 has ended: it was idle for 300 s.")})
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "p", "f6")
        board.replace_runner(replace(HELD, status=replace(HELD.status, state=RunState.FINISHED)))
        await press(pilot, "enter")
        assert "runner 3 has ended: it was idle for 300 s." in text_of(pilot.app)
        # The app knows the end at once.
        assert "H100 held" not in first_line(pilot.app)
        assert "Hold" in labels(pilot.app)


async def test_no_key_holds_a_gpu_where_the_settings_turn_that_off() -> None:
    board = FakeBoard()
    board.runner_rules = RunnerRules(per_user=0)
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        app = pilot.app
        await settled(pilot)
        await press(pilot, "r", "p")
        assert "Hold" not in labels(app)
        await press(pilot, "f6")
        assert isinstance(app.screen, ClusterScreen)


async def test_the_form_holds_the_gpu_under_the_cursor_or_else_the_first_ticked_one(kernel: Path) -> None:
    board = FakeBoard(runners=[HELD])
    async with app_on(board, kernel).run_test(size=(120, 40)) as pilot:
        app = pilot.app
        await settled(pilot)
        assert isinstance(app.screen, SubmitScreen)
        await go_to(pilot, "#file")
        assert "Release" in labels(app), "the key works in fields, too"
        await go_to(pilot, "#gpus")
        await press(pilot, "down")
        assert "Hold" in labels(app)
        await press(pilot, "f6")
        assert "Hold A100 for your next runs" in text_of(app)
        await press(pilot, "escape", "up", "f6")
        assert "Release H100?" in text_of(app)


async def test_the_form_tells_the_runs_that_go_to_a_held_gpu(kernel: Path) -> None:
    kernel.write_text("#!POPCORN leaderboard vectoradd\n#!POPCORN gpu H100\n")
    board = FakeBoard(runners=[WAITS])
    app = app_on(board, kernel)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert "12 queued  waits" in text_of(app)
        assert "Ready: vectoradd on H100, mode test: one run at runner 4." in text_of(app)
        board.replace_runner(replace(WAITS, started_at=NOW, status=replace(WAITS.status, state=RunState.RUNNING)))
        app._follow()
        await until(pilot, lambda: "12 queued  held" in text_of(app))
        board.replace_runner(ENDS)
        board.known_runners = [ENDS]
        app._follow()
        await until(pilot, lambda: "Ready: vectoradd on H100, mode test: one job." in text_of(app))
        assert "12 queued  ending" in text_of(app)


async def test_a_watch_holds_the_gpu_of_its_file(kernel: Path) -> None:
    kernel.write_text("#!POPCORN leaderboard vectoradd\n#!POPCORN gpu A100\n")
    async with app_on(FakeBoard(), kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("w")
        await until(pilot, lambda: isinstance(pilot.app.screen, WatchScreen))
        await pilot.press("f6")
        await until(pilot, lambda: "Hold A100 for your next runs" in text_of(pilot.app))


async def lines_of_palette(pilot: Pilot[None], *keys: str) -> list[str]:
    """Return the names in the palette after these keys."""
    await press(pilot, *keys, "ctrl+p")
    lines = pilot.app.screen.query_one(OptionList)
    await until(pilot, lambda: lines.option_count > 0)
    await settled(pilot)
    return [option.hit.text for option in lines.options]  # type: ignore[attr-defined]


async def test_the_palette_names_the_gpu_to_hold_and_releases_held_ones_from_every_screen() -> None:
    board = FakeBoard(runners=[HELD])
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        names = await lines_of_palette(pilot, "r", "p", "down")
        assert {"Hold A100", "Release H100"} <= {*names}
        names = await lines_of_palette(pilot, "escape", "up")
        assert names.count("Release H100") == 1
        assert "Hold A100" in await lines_of_palette(pilot, "escape", "down", "U")
        await press(pilot, "escape", "escape", "up")
        names = await lines_of_palette(pilot, "escape", "escape")
        assert "Hold H100" not in names
        await press(pilot, *"release", "space", *"h100")
        await until(pilot, lambda: pilot.app.screen.query_one(OptionList).option_count == 1)
        await press(pilot, "enter")
        await until(pilot, lambda: "Release H100?" in text_of(pilot.app))


# The first line


@pytest.mark.parametrize(
    ("runners", "width", "words"),
    [
        ([HELD], 120, "ada · H100 held, 24 min left · 2 in flight · updated 12 s ago"),
        ([HELD], 80, "ada · H100 held, 24 min left · 2 in flight"),
        ([HELD], 60, "ada · H100 24 min · 2 in flight"),
        ([WAITS], 80, "ada · H100 waits · 2 in flight"),
        ([WAITS], 60, "ada · H100 waits · 2 in flight"),
        ([ENDS], 80, "ada · H100 held, ending · 2 in flight"),
        ([ENDS], 60, "ada · H100 ending · 2 in flight"),
        ([WAITS, HELD], 80, "ada · H100 held, 24 min left +1 · 2 in flight"),
        ([replace(HELD, gpu="NVIDIA-H100-80GB-HBM3")], 60, "ada · NVIDIA-H100… 24 min · 2 in flight"),
        ([replace(HELD, user="bob")], 80, "ada · 2 in flight · updated 12 s ago"),
        ([], 80, "ada · 2 in flight · updated 12 s ago"),
    ],
)
async def test_the_first_line_tells_the_held_gpu_in_the_words_that_fit(
    runners: Sequence[Runner], width: int, words: str
) -> None:
    async with app_on(FakeBoard(runners=runners)).run_test(size=(width, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "p")
        assert first_line(pilot.app).endswith(words)
        assert "hpc-board" in first_line(pilot.app)


async def test_the_minutes_of_a_held_gpu_tick() -> None:
    board, moments = FakeBoard(runners=[HELD]), [timedelta()]
    app = beating(board, moments)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "H100 held, 24 min left" in first_line(app))
        moments[0] = timedelta(minutes=10)
        await until(pilot, lambda: "H100 held, 14 min left" in first_line(app))
        board.replace_runner(replace(HELD, status=replace(HELD.status, state=RunState.COLLECTING)))
        await until(pilot, lambda: "H100 held, ending" in first_line(app))


async def test_a_runner_that_another_program_started_appears_by_itself() -> None:
    board = FakeBoard()
    app = beating(board, [timedelta()])
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "in flight" in first_line(app))
        board.known_runners.append(WAITS)
        await until(pilot, lambda: "H100 waits" in first_line(app))
        board.replace_runner(replace(WAITS, started_at=NOW, status=replace(WAITS.status, state=RunState.RUNNING)))
        await until(pilot, lambda: "H100 held, 30 min left" in first_line(app))


async def test_users_without_a_role_see_the_gpu_that_they_hold() -> None:
    refused = Refused("you may not use this board: this requires the role participant.")
    board = FakeBoard(runners=[HELD], failures={"live": refused, "rules": refused})
    board.role = Role.NONE
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert "H100 held, 24 min left" in first_line(pilot.app)
        assert refused.message not in text_of(pilot.app)
        assert "Release H100" in await lines_of_palette(pilot)


# The end


@pytest.mark.parametrize(
    ("status", "words", "severity"),
    [
        (
            (RunState.FINISHED, "it was idle for 300 s"),
            "H100 released: held H100 for 6 min, 17 runs; ended: it was idle for 300 s",
            "information",
        ),
        (
            (RunState.NODE_FAIL, ""),
            "H100 released: held H100 for 6 min, 17 runs; node failure",
            "warning",
        ),
    ],
)
async def test_the_end_of_a_runner_is_told_once(status: tuple[RunState, str], words: str, severity: str) -> None:
    board = FakeBoard(runners=[HELD])
    app = beating(board, [timedelta()])
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "H100 held" in first_line(app))
        state, reason = status
        board.replace_runner(replace(HELD, status=replace(HELD.status, state=state, reason=reason)))
        await until(pilot, lambda: "H100 held" not in first_line(app))
        updates = board.calls.count("live")
        await until(pilot, lambda: board.calls.count("live") > updates + 2)
        assert toasts(app) == [words]
        assert [toast.severity for toast in app._notifications] == [severity]


async def test_an_end_that_the_key_has_told_is_not_told_by_an_update_under_way() -> None:
    board = FakeBoard(runners=[WAITS])
    app = app_on(board)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "p")
        board.held["live"] = threading.Event()
        updates = board.calls.count("live")
        app._follow()
        await until(pilot, lambda: board.calls.count("live") > updates)
        await pilot.press("f6", "enter")
        await until(pilot, lambda: len(toasts(app)) == 1)
        board.free()
        await settled(pilot)
        assert app.asking_since is None
        assert len(toasts(app)) == 1


def test_an_update_tells_the_end_of_ones_own_runners_alone() -> None:
    ended = replace(HELD, status=replace(HELD.status, state=RunState.FINISHED))
    board = FakeBoard(runners=[ended, replace(ended, id=9), replace(WAITS, user="bob")])
    found = followed(board, RunsState(runners=(HELD,)))
    assert found.released == (ended,)
    assert found.runs_state.runners == ()


async def test_the_app_leaves_a_line_on_the_gpu_that_stays_held() -> None:
    board = FakeBoard(runners=[HELD], runs=[])
    app = app_on(board)
    messages: list[object] = []
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        app.exit = lambda *_, message=None, **__: messages.append(message)  # type: ignore[method-assign]
        await press(pilot, "q")
        assert messages == ["H100 held, 24 min left. `hpc-board release 3` releases it."]


# The cluster


async def test_the_cluster_shows_the_runners_of_a_gpu() -> None:
    runners = [
        HELD,
        replace(WAITS, user="bob"),
        replace(runner(6, RunState.COLLECTING, ago_seconds=60 * 60 * 20, minutes=60 * 24), user="carol"),
        replace(runner(7, RunState.RUNNING, ago_seconds=60), user=""),
    ]
    async with app_on(FakeBoard(runners=runners)).run_test(size=(200, 60)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "p")
        text = " ".join(text_of(pilot.app).split())
        assert "held, 1 run" in text
        assert "Runner 3 ada held · since 11:54 until 12:24 · 17 runs · job 4703" in text
        assert "Runner 4 bob waits · 30 min · job 4704 · Priority" in text
        assert "Runner 6 carol ending · since 05-16 16:00 until 16:00 · 17 runs · job 4706" in text
        assert "Runner 7 the board held · since 11:59" in text
        await press(pilot, "down")
        assert "Runner" not in text_of(pilot.app)


async def test_the_cluster_counts_the_runners_that_have_no_line() -> None:
    many = [replace(runner(number, RunState.RUNNING), user=f"user{number}") for number in range(8)]
    async with app_on(FakeBoard(runners=many, gpus=[H100])).run_test(size=(200, 60)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "p")
        assert "2 more runners hold it or wait for it" in text_of(pilot.app)
