"""The form, the watch over a file, and what the form says of headers, queues and scripts."""

import hashlib
import re
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Button, Input, Select, Static
from textual.widgets._select import SelectOverlay

from hpc_board.domain.budget import Budget
from hpc_board.domain.draft import Source, SubmissionRequest
from hpc_board.domain.job_options import JobOptions, OptionRules
from hpc_board.domain.moderation import Period
from hpc_board.domain.run import Run, RunState
from hpc_board.domain.score_interval import Interval
from hpc_board.domain.submission import Directives
from hpc_board.errors import InputError, Refused, SchedulerError
from hpc_board.model.gpu import Cluster, ContainerRuntime, JobContainer
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.report.formatting import score_text
from hpc_board.runs.drafts import header
from hpc_board.schedulers.slurm import with_options
from hpc_board.tui import editor, targets
from hpc_board.tui.app import BoardApp
from hpc_board.tui.local_files import remember_sent
from hpc_board.tui.messages import Open
from hpc_board.tui.preferences import Memory
from hpc_board.tui.screens import submit as submit_screen
from hpc_board.tui.screens import watch
from hpc_board.tui.screens.base import BoardScreen
from hpc_board.tui.screens.report import ReportScreen
from hpc_board.tui.screens.runs import RunsScreen
from hpc_board.tui.screens.standings import StandingsScreen
from hpc_board.tui.screens.submit import SubmitScreen
from hpc_board.tui.screens.tasks import TasksScreen
from hpc_board.tui.screens.watch import WatchScreen
from hpc_board.tui.widgets import form
from hpc_board.tui.widgets.bars import KeyLine
from hpc_board.tui.widgets.form import GpuList, PathInput, TypedSelect, unusual
from hpc_board.tui.widgets.grid import Grid
from tests.tui.driving import app_on, footer_keys, press, settled, text_of, toasts, until
from tests.tui.fake_board import A100, ADDRESS, H100, KERNEL, L4, NOW, RUNS, TASKS, FakeBoard, run, task
from tests.values import replace


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (
            "#!POPCORN leaderboard vectoradd\n#!POPCORN gpus h100 A100\n",
            "The file's header asks for vectoradd on h100 and A100.",
        ),
        ("#!POPCORN leaderboard vectoradd\n", "The file's header asks for vectoradd."),
        ("#!POPCORN gpu H100\n", "The file's header asks for H100."),
        ("", "No header: choose task and GPUs here."),
    ],
)
async def test_the_form_says_what_the_header_asks_for(kernel: Path, header: str, words: str) -> None:
    kernel.write_text(f"{header}import torch\n")
    async with app_on(FakeBoard(), kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert words in text_of(pilot.app)


async def test_the_form_keeps_to_the_budget_of_the_environment_and_says_what_is_left(
    kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HPC_BOARD_AS", "agent-b")
    monkeypatch.setenv("HPC_BOARD_BUDGET", "50/week")
    board = FakeBoard()
    async with app_on(board, kernel).run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        assert "Ready: 2 jobs, mode test as agent-b, 50 of 50 runs left per week." in text_of(pilot.app)
        await press(pilot, "enter")
        await settled(pilot)
        assert (len(board.sent), board.budgets) == (1, [Budget(50, None, Period.WEEK)])
    monkeypatch.setenv("HPC_BOARD_BUDGET", "many")
    async with app_on(board, kernel).run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        assert 'invalid budget "many"' in text_of(pilot.app)


async def test_the_buttons_and_the_field_in_use_stay_in_sight_above_an_error(kernel: Path) -> None:
    fault = InputError("--time 30 is longer than 0:20:00, " * 4, hint="Use a shorter time, or omit the option.")
    async with app_on(FakeBoard(), kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        pilot.app.screen.query_one("#options").focus()
        await press(pilot, *"time=30")
        screen = pilot.app.screen
        assert isinstance(screen, SubmitScreen)
        screen.fail("submit", fault)
        await settled(pilot)
        lines = text_of(pilot.app).splitlines()
        assert any("Use a shorter time" in line for line in lines)
        assert any("Submit  " in line and "Watch" in line for line in lines[:-1])
        assert any("Options time=30" in line for line in lines)


async def test_the_form_says_when_those_who_wait_are_expected_to_start(kernel: Path) -> None:
    waiting = run(50, RunState.QUEUED, gpu="A100")
    later = replace(waiting, status=replace(waiting.status, expected_start=NOW))
    runs = [
        replace(later, id=51 + index, status=replace(later.status, expected_start=NOW + wait))
        for index, wait in enumerate((timedelta(minutes=5), timedelta(minutes=25), timedelta(minutes=15)))
    ]
    async with app_on(FakeBoard(runs=[*runs, waiting]), kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        line = next(line for line in text_of(pilot.app).splitlines() if "] A100" in line)
        assert "104 queued  start in 25 min" in line
        assert sum("start in" in line for line in text_of(pilot.app).splitlines()) == 1


def test_what_is_unusual_about_a_script_is_told_with_its_lines() -> None:
    gpu = replace(
        with_options(H100, sbatch=("--comment=kernels", "--qos"), exclusive=True, reservation="class"),
        template="/etc/own.sh.j2",
        container=JobContainer(ContainerRuntime.APPTAINER, "/shared/kernels.sif"),
    )
    script = "#SBATCH --comment=kernels\n#SBATCH --commentary\n#SBATCH --qos\n#SBATCH --exclusive\n--comment\n"
    remarks = [*unusual(gpu, script)]
    words = " ".join(remark.words for remark in remarks)
    for each in ("/etc/own.sh.j2", "--comment, --qos", "class", "whole node", "apptainer, /shared/kernels.sif"):
        assert each in words
    marked = [line for remark in remarks for line in remark.lines]
    assert marked == ["#SBATCH --comment=kernels", "#SBATCH --qos", "#SBATCH --exclusive"]
    assert [*unusual(A100, script)] == []
    assert "emulated" in next(unusual(L4, script)).words


def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.02)


async def test_a_saved_file_is_sent_in_mode_test_until_one_leaves(
    kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brisk(monkeypatch)
    monkeypatch.setattr(watch, "SEND_SECONDS_MIN", 0.0)
    board = FakeBoard(runs=[])
    async with app_on(board, kernel, tick_seconds=0.05).run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "Ready: vectoradd" in text_of(pilot.app))
        await pilot.press("w")
        await until(pilot, lambda: "watching: save the file to submit it" in text_of(pilot.app))
        assert isinstance(pilot.app.screen, WatchScreen)
        assert not board.sent
        header = kernel.read_text()
        kernel.write_text(f"{header}# one\n")
        await until(pilot, lambda: len(board.sent) == 1 and " 2 12:00:00 A100" in text_of(pilot.app))
        assert (board.sent[0].mode, [gpu.name for gpu in board.sent[0].gpus]) == (Mode.TEST, ["H100", "A100"])
        assert "# one" in board.sent[0].source.text
        # A newer save ends them. Until then nothing else is sent, and of two saves the last one counts, as new.
        board.held["cancel"] = threading.Event()
        kernel.write_text(f"{header}# two\n")
        await until(pilot, lambda: "saved: cancelling runs 1 and 2 of the older file" in text_of(pilot.app))
        kernel.write_text(f"{header}# one\n")
        await until(pilot, lambda: "watching: save the file" in text_of(pilot.app))
        board.free()
        await until(pilot, lambda: len(board.sent) == 2)
        assert board.calls.count("cancel_each") == 1
        assert [board.run(number).state for number in (1, 2)] == [RunState.CANCELLED] * 2
        await until(pilot, lambda: "cancelled for the save of 12:00:00" in " ".join(text_of(pilot.app).split()))
        board.failures["cancel"] = SchedulerError("scancel timed out", hint="")
        kernel.write_text(f"{header}# three\n")
        await until(pilot, lambda: "saved: waiting for runs 3 and 4" in text_of(pilot.app))
        assert "scancel timed out" in text_of(pilot.app)
        kernel.write_text(f"{header}# one\n")
        await until(pilot, lambda: "watching: save the file" in text_of(pilot.app))
        for number in (3, 4):
            board.replace_run(replace(run(number, RunState.FINISHED, verdict=Verdict.WRONG_VALUE), mode=Mode.TEST))
        assert "# one" in board.sent[1].source.text
        await until(pilot, lambda: "wrong value" in text_of(pilot.app))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, SubmitScreen))
        kernel.write_text(f"{header}# four\n")
        beats = board.calls.count("advance")
        await until(pilot, lambda: board.calls.count("advance") > beats + 8)
        assert len(board.sent) == 2


class OneByOne(FakeBoard):
    """A board whose submissions have the numbers of their runs."""

    def submit(
        self,
        requests: Sequence[SubmissionRequest],
        *,
        array: bool | None = None,
        fresh: bool = False,
        budget: Budget | None = None,
    ) -> list[Run]:
        sent = super().submit(requests, array=array, fresh=fresh, budget=budget)
        new = [replace(each, submission=each.id) for each in sent]
        self.known_runs = [*new, *self.known_runs[len(new) :]]
        return new


async def test_a_watch_in_a_mode_with_times_compares_each_save_with_the_previous_and_the_best_one_also_of_the_board(
    kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brisk(monkeypatch)
    monkeypatch.setattr(watch, "SEND_SECONDS_MIN", 0.0)
    rung: list[str] = []
    monkeypatch.setattr(BoardApp, "_ring", lambda _, text: rung.append(text))
    header = "#!POPCORN leaderboard vectoradd\n#!POPCORN gpu H100\n"
    kernel.write_text(header)
    board = OneByOne(runs=[])
    (page,) = board.standings.pages("vectoradd", ["H100"], limit=1)
    assert page.own is not None
    ranked = replace(page, own=replace(page.own, score_s=9.5e-3))
    vars(board.standings)["pages"] = lambda *_, **__: [ranked]
    app = BoardApp(lambda: board, kernel, now=lambda: NOW, tick_seconds=0.05, follow_seconds=0.05)
    wide = Interval(7e-3, 9.5e-3)
    async with app.run_test(size=(200, 60)) as pilot:
        await until(pilot, lambda: "Ready: vectoradd" in text_of(app))
        await pilot.press("w", "M")
        await until(pilot, lambda: "#!POPCORN gpu H100" in text_of(app))
        await until(pilot, lambda: "mode benchmark" in text_of(app))
        times = [(10e-3, None, ["1.05x slower"]), (None, None, []), (8e-3, wide, ["1.25x faster", "1.19x faster"])]
        times += [(12e-3, None, ["1.50x slower"] * 2), (9e-3, wide, ["1.33x faster", "within noise"])]
        for number, (score_s, interval, words) in enumerate(times, start=1):
            kernel.write_text(f"{header}# {number}\n")
            await until(pilot, lambda run=number: run in app.runs_state.in_flight and run_line(app, run) != "")  # type: ignore[misc]
            verdict = Verdict.PASS if score_s else Verdict.WRONG_VALUE
            ended = run(number, RunState.FINISHED, verdict=verdict, mode=Mode.BENCHMARK, score_s=score_s)
            board.replace_run(replace(ended, interval=interval, file_name=kernel.name, submission=number))
            shown = score_text(score_s) or "wrong value"
            await until(pilot, lambda shown=shown, run=number: shown in run_line(app, run))  # type: ignore[misc]
            assert re.findall(r"[\d.]+x \w+|within noise", run_line(app, number)) == words
        assert "█ 67 %" in run_line(app, 4), "the speed relative to the best save"
        await until(pilot, lambda: "Run 5: changes since the previous save" in text_of(app))
        await press(pilot, "down")
        await until(pilot, lambda: "--- run-3/submission.py" in text_of(app) and "+# run 4" in text_of(app))
        await until(pilot, lambda: len(rung) == len(times))
        assert not app._notifications, "the screen shows the ends"
        await pilot.press("M")
        assert toasts(app) == ["From now on, each save is a ranked run."]
        kernel.write_text(f"{header}# ranked\n")
        await until(pilot, lambda: board.sent[-1].mode is Mode.RANKED)


def run_line(app: App[None], number: int) -> str:
    """Return the line of a list that begins with this number."""
    return next((line for line in text_of(app).splitlines() if line.split()[:1] == [str(number)]), "")


@pytest.mark.parametrize(
    ("mode", "verdict", "watched"),
    [
        (Mode.TEST, Verdict.PASS, "ranked"),
        (Mode.BENCHMARK, Verdict.WRONG_VALUE, "benchmark"),
        (Mode.SANITIZE, Verdict.PASS, "test"),
    ],
)
async def test_the_form_is_watched_in_its_mode(kernel: Path, mode: Mode, verdict: Verdict, watched: str) -> None:
    memory = Memory()
    remember_sent(memory, ADDRESS, (kernel, b"sent"))
    board = FakeBoard(runs=[replace(_TESTED, file_name=kernel.name, code_sha256=_SENT, mode=mode, verdict=verdict)])
    app = BoardApp(lambda: board, now=lambda: NOW, tick_seconds=3600, memory=memory)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "s", "w")
        assert f", mode {watched}" in text_of(app)


async def test_a_watched_file_is_edited_and_submitted_without_a_form(
    kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brisk(monkeypatch)
    monkeypatch.setattr(BoardApp, "suspend", nullcontext)
    added = iter(("", "# edited\n"))
    monkeypatch.setattr(editor, "edit", lambda file, *_: file.write_text(f"{file.read_text()}{next(added)}"))
    monkeypatch.setattr(watch, "SEND_SECONDS_MIN", 0.0)
    board = FakeBoard(runs=[])
    async with app_on(board, kernel, tick_seconds=0.05).run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "Ready: vectoradd" in text_of(pilot.app))
        await pilot.press("w")
        await until(pilot, lambda: "watching:" in text_of(pilot.app))
        await pilot.press("e")
        await until(pilot, lambda: len(board.sent) == 1)
        assert isinstance(pilot.app.screen, WatchScreen)
        assert board.sent[0].source.text == kernel.read_text(), "the first save counts without a change"
        await pilot.press("e")
        await until(pilot, lambda: len(board.sent) == 2)
        assert board.sent[1].source.text.endswith("# edited\n")


async def test_a_watch_sends_no_faster_than_it_may_and_nothing_while_it_rests(
    kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brisk(monkeypatch)
    board, moments = FakeBoard(runs=[], failures={"draft": InputError("the header is wrong")}), [NOW]
    app = BoardApp(lambda: board, kernel, now=lambda: moments[0], tick_seconds=0.05, follow_seconds=3600)
    header = kernel.read_text()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "the header is wrong" in text_of(app))
        await pilot.press("w")
        await until(pilot, lambda: "watching:" in text_of(app))
        kernel.write_text(f"{header}# one\n")
        await until(pilot, lambda: "the header is wrong" in text_of(app))
        board.failures.clear()
        kernel.write_text(f"{header}# two\n")
        await until(pilot, lambda: "saved: waiting a few seconds after the last submission" in text_of(app))
        assert not board.sent
        await pilot.press("P")
        moments[0] += timedelta(seconds=60)
        await until(pilot, lambda: "paused: P resumes" in text_of(app))
        assert not board.sent
        await pilot.press("P")
        await until(pilot, lambda: len(board.sent) == 1)


async def test_a_save_while_another_one_is_submitted_is_submitted_after_it(
    kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brisk(monkeypatch)
    monkeypatch.setattr(watch, "SEND_SECONDS_MIN", 0.0)
    send, header = WatchScreen._send, kernel.read_text()
    later = ["# two\n"]

    def saved_meanwhile(screen: WatchScreen) -> None:
        if later:
            kernel.write_text(header + later.pop())
        send(screen)

    monkeypatch.setattr(WatchScreen, "_send", saved_meanwhile)
    board = FakeBoard(runs=[])
    async with app_on(board, kernel, tick_seconds=0.05).run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "Ready: vectoradd" in text_of(pilot.app))
        await pilot.press("w")
        await until(pilot, lambda: "watching:" in text_of(pilot.app))
        kernel.write_text(f"{header}# one\n")
        await until(pilot, lambda: len(board.sent) == 2)
    assert [each.source.text for each in board.sent] == [f"{header}# one\n", f"{header}# two\n"]


async def test_a_file_that_goes_away_is_waited_for(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brisk(monkeypatch)
    board = FakeBoard(runs=[])
    async with app_on(board, kernel, tick_seconds=0.05).run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "Ready: vectoradd" in text_of(pilot.app))
        await pilot.press("w")
        await until(pilot, lambda: "watching:" in text_of(pilot.app))
        text = kernel.read_text()
        kernel.unlink()
        await until(pilot, lambda: "the file does not exist; waiting for it" in text_of(pilot.app))
        kernel.write_text(f"{text}# back\n")
        await until(pilot, lambda: len(board.sent) == 1)


async def test_the_watch_rests_behind_the_report_of_a_run(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brisk(monkeypatch)
    monkeypatch.setattr(watch, "SEND_SECONDS_MIN", 0.0)
    kernel.write_text("#!POPCORN leaderboard vectoradd\n#!POPCORN gpu H100\n")
    board = FakeBoard(runs=[])
    async with app_on(board, kernel, tick_seconds=0.05).run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "Ready: vectoradd" in text_of(pilot.app))
        await pilot.press("w")
        await until(pilot, lambda: "watching:" in text_of(pilot.app))
        kernel.write_text("#!POPCORN leaderboard vectoradd\n#!POPCORN gpu H100\n# one\n")
        await until(pilot, lambda: " 1 12:00:00 H100" in text_of(pilot.app))
        board.replace_run(run(1, RunState.FINISHED, verdict=Verdict.PASS, mode=Mode.TEST))
        await until(pilot, lambda: "pass" in text_of(pilot.app))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, ReportScreen))
        kernel.write_text("#!POPCORN leaderboard vectoradd\n#!POPCORN gpu H100\n# two\n")
        beats = board.calls.count("advance")
        await until(pilot, lambda: board.calls.count("advance") > beats + 6)
        assert len(board.sent) == 1
        await pilot.press("escape")
        await until(pilot, lambda: len(board.sent) == 2)


@pytest.mark.parametrize(("down", "mode"), [(3, "test"), (2, "benchmark")], ids=["test", "ranked"])
async def test_the_file_of_a_run_is_watched_where_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, down: int, mode: str
) -> None:
    brisk(monkeypatch)
    file, other = tmp_path / "submission.py", tmp_path / "other" / "submission.py"
    other.parent.mkdir()
    for each in (file, other):
        each.write_text("import torch\n")
    memory = Memory()
    sent = hashlib.sha256(b"sent").hexdigest()
    remember_sent(memory, ADDRESS, (tmp_path / "gone" / "submission.py", b"sent"), (file, b"sent"))
    remember_sent(memory, ADDRESS, (other, b"that of another task"))
    board = FakeBoard(runs=[replace(each, code_sha256=sent) for each in RUNS])
    app = BoardApp(lambda: board, now=lambda: NOW, tick_seconds=3600, memory=memory)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("r")
        await until(pilot, lambda: "wrong value" in text_of(app))
        await pilot.press(*["down"] * down, "w")
        await until(pilot, lambda: isinstance(app.screen, WatchScreen))
        await until(pilot, lambda: f"→ vectoradd on H100, mode {mode}" in text_of(app))
        assert isinstance(app.screen, WatchScreen)
        assert app.screen._watched.file.absolute() == file
        await pilot.press("G")  # the list has no runs yet
        await settled(pilot)


async def test_the_file_of_a_run_is_asked_for_where_it_is_not_known() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "w")
        assert isinstance(pilot.app.screen, SubmitScreen)
        assert any("then press Watch" in toast.message for toast in pilot.app._notifications)
        assert "[x] H100" in text_of(pilot.app)


async def test_a_draft_is_kept_for_the_task_of_its_header(kernel: Path) -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "s", *str(kernel), "escape")
        (toast,) = pilot.app._notifications
        assert toast.message == "Draft kept: s on vectoradd, in Tasks, opens it again."
        await press(pilot, "s")
        assert "Choose a file." in text_of(pilot.app), "the form for another task"
        await press(pilot, "escape", "end", "s")
        assert "Ready: vectoradd on H100 and A100" in text_of(pilot.app)


async def test_a_draft_for_a_task_that_the_board_lacks_is_kept_for_the_next_form(kernel: Path) -> None:
    kernel.write_text("#!POPCORN leaderboard heat\n")
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "s", *str(kernel), "escape")
        (toast,) = pilot.app._notifications
        assert toast.message == "Draft kept: s opens it again."
        await press(pilot, "end", "s")
        assert pilot.app.screen.query_one(PathInput).value == str(kernel)


async def test_a_form_stays_until_its_submission_is_answered(kernel: Path) -> None:
    board = FakeBoard(held=["submit"], failures={"submit": InputError("the deadline of vectoradd is over")})
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "s", *str(kernel))
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "submit" in board.calls)
        await pilot.press("escape")
        await until(pilot, lambda: len(pilot.app._notifications) == 1)
        assert isinstance(pilot.app.screen, SubmitScreen)
        board.held["submit"].set()
        await settled(pilot)
        assert "the deadline of vectoradd is over" in text_of(pilot.app)
        await press(pilot, "escape")
        assert not isinstance(pilot.app.screen, SubmitScreen)


async def test_a_form_that_another_screen_replaces_keeps_its_contents(kernel: Path) -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "s", *str(kernel))
        for target in (targets.Runs(), targets.Submit(), targets.Submit()):
            pilot.app.post_message(Open(target))
            await settled(pilot)
        assert pilot.app.screen.query_one(PathInput).value == str(kernel)


_SENT = hashlib.sha256(b"sent").hexdigest()
_TESTED = run(7, RunState.FINISHED, gpu="A100", mode=Mode.TEST, verdict=Verdict.PASS)


@pytest.mark.parametrize("opening", [(), ("enter",)], ids=["list", "run"])
@pytest.mark.parametrize(
    ("changes", "ready"),
    [
        ({}, "Ready: vectoradd on A100, mode ranked: one job."),
        ({"verdict": Verdict.WRONG_VALUE}, "Ready: vectoradd on A100, mode test: one job."),
        ({"mode": Mode.BENCHMARK}, "Ready: vectoradd on A100, mode ranked: one job."),
        ({"mode": Mode.PROFILE}, "Ready: vectoradd on A100, mode benchmark: one job."),
    ],
)
async def test_the_form_has_the_file_and_the_choices_of_the_run(
    tmp_path: Path, opening: tuple[str, ...], changes: dict[str, object], ready: str
) -> None:
    file, memory = tmp_path / "folder" / "submission.py", Memory()
    file.parent.mkdir()
    file.write_text("import torch  # edited since\n")
    remember_sent(memory, ADDRESS, (tmp_path / "gone" / "submission.py", b"sent"), (file, b"sent"))
    before = [replace(_TESTED, id=6 - at, mode=mode) for at, mode in enumerate((Mode.PROFILE, Mode.BENCHMARK))]
    board = FakeBoard(runs=[replace(_TESTED, code_sha256=_SENT, **changes), *before])
    app = BoardApp(lambda: board, now=lambda: NOW, tick_seconds=3600, memory=memory)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", *opening)
        if opening:
            assert ("Next: s submits it in mode ranked." in text_of(app)) == ("mode ranked" in ready)
        await press(pilot, "s")
        assert app.screen.query_one(PathInput).value == str(file)
        assert ready in text_of(app)
        await press(pilot, "escape")
        assert not app._notifications, "nothing has changed that could be a draft"


@pytest.mark.parametrize(("opening", "gpu"), [((), "A100"), (("b",), "H100")], ids=["tasks", "board"])
async def test_the_form_of_a_task_has_the_latest_known_file_unless_it_has_a_draft(
    kernel: Path, opening: tuple[str, ...], gpu: str
) -> None:
    memory = Memory()
    remember_sent(memory, ADDRESS, (kernel, b"sent"))
    kernel.write_text("import torch\n")
    sent = replace(_TESTED, file_name=kernel.name, code_sha256=_SENT)
    board = FakeBoard(runs=[replace(sent, id=8, code_sha256="gone", file_name="gone.py"), sent])
    app = BoardApp(lambda: board, now=lambda: NOW, tick_seconds=3600, memory=memory)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", *opening, "s")
        assert app.screen.query_one(PathInput).value == str(kernel)
        assert f"Ready: vectoradd on {gpu}, mode ranked: one job." in text_of(app)
        app.screen.query_one(PathInput).value = ""
        app.screen.query_one("#note", Input).value = "mine"
        await settled(pilot)
        await press(pilot, "escape", "s")
        assert app.screen.query_one("#note", Input).value == "mine"
        assert app.screen.query_one(PathInput).value == ""


@pytest.mark.parametrize("opening", [("r",), ("r", "enter"), ("end",)], ids=["runs", "run", "tasks"])
async def test_the_same_key_opens_a_complete_form_and_submits_it(kernel: Path, opening: tuple[str, ...]) -> None:
    memory = Memory()
    remember_sent(memory, ADDRESS, (kernel, b"sent"))
    board = FakeBoard(runs=[replace(_TESTED, file_name=kernel.name, code_sha256=_SENT)])
    app = BoardApp(lambda: board, kernel, now=lambda: NOW, tick_seconds=3600, memory=memory)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "escape", *opening, "s")
        assert app.focused is app.screen.query_one("#send")
        await press(pilot, "s")
    assert [draft.source.file_name for draft in board.sent] == [kernel.name]


async def test_a_profile_that_was_submitted_leaves_the_form_of_its_task_in_the_mode_before(kernel: Path) -> None:
    memory = Memory()
    remember_sent(memory, ADDRESS, (kernel, b"sent"))
    before = replace(_TESTED, file_name=kernel.name, code_sha256=_SENT, mode=Mode.BENCHMARK)
    board = FakeBoard(runs=[before])
    app = BoardApp(lambda: board, now=lambda: NOW, tick_seconds=3600, memory=memory)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "s")
        app.screen.query_one("#mode", Select).value = Mode.PROFILE
        app.screen.query_one("#note", Input).value = "mine"
        await settled(pilot)
        await press(pilot, "ctrl+s")
        assert [draft.mode for draft in board.sent] == [Mode.PROFILE]
        board.known_runs[0] = replace(board.known_runs[0], file_name=kernel.name, code_sha256=_SENT)
        await press(pilot, "escape", "escape", "end", "s")
        assert "mode benchmark: 2 jobs." in text_of(app)
        assert app.screen.query_one("#note", Input).value == "mine"


@pytest.mark.parametrize(
    ("text", "focused"),
    [
        ("#!POPCORN leaderboard vectoradd\n", GpuList),
        ("import torch\n", TypedSelect),
        ("#!POPCORN leaderboard vectoradd\n#!POPCORN gpu H100\n", Button),
        (None, GpuList),
    ],
    ids=["no GPU", "no task", "complete", "no file"],
)
async def test_a_form_begins_at_the_first_missing_choice(kernel: Path, text: str | None, focused: type[Widget]) -> None:
    if text is None:
        kernel.unlink()
    else:
        kernel.write_text(text)
    async with app_on(FakeBoard(), kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert isinstance(pilot.app.focused, focused)
        await press(pilot, "q", "z")
        assert pilot.app.screen.query_one(PathInput).value == str(kernel)


async def test_a_form_without_its_fields_has_no_draft() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "s")
        form = pilot.app.screen
        assert isinstance(form, SubmitScreen)
        await form.remove_children()
        assert not form.has_draft


async def test_a_file_of_that_name_that_was_submitted_otherwise_is_not_the_runs(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "submission.py").write_text("import torch\n")
    memory = Memory()
    remember_sent(memory, ADDRESS, (tmp_path / "other" / "submission.py", b"that of another task"))
    board = FakeBoard(runs=[replace(_TESTED, code_sha256=_SENT)])
    app = BoardApp(lambda: board, now=lambda: NOW, tick_seconds=3600, memory=memory)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "s")
        assert app.screen.query_one(PathInput).value == ""


async def test_the_form_of_a_run_has_no_file_of_a_draft_and_leaves_the_draft_alone(kernel: Path) -> None:
    async with app_on(FakeBoard(runs=[_TESTED])).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "s", *str(kernel))
        pilot.app.screen.query_one("#note", Input).value = "v2"
        await press(pilot, "escape", "r", "s")
        assert pilot.app.screen.query_one(PathInput).value == ""
        assert pilot.app.screen.query_one("#note", Input).value == ""
        assert "[x] A100" in text_of(pilot.app)
        await press(pilot, "escape", "escape", "s")
        assert pilot.app.screen.query_one(PathInput).value == str(kernel)
        assert "Ready: vectoradd on H100 and A100, mode test" in text_of(pilot.app)


async def test_a_file_that_another_program_submits_meanwhile_is_in_the_form(tmp_path: Path, kernel: Path) -> None:
    board = FakeBoard(runs=[replace(_TESTED, file_name=kernel.name, code_sha256=_SENT)])
    file = tmp_path / "folder" / kernel.name
    file.parent.mkdir()
    file.write_text("import torch\n")
    app = BoardApp(lambda: board, now=lambda: NOW, tick_seconds=3600, memory=Memory(tmp_path / "app.json"))
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        command = Memory(tmp_path / "app.json")
        remember_sent(command, ADDRESS, (file, b"sent"))
        command.flush()
        await press(pilot, "r", "s")
        assert app.screen.query_one(PathInput).value == str(file)


@pytest.mark.parametrize(
    ("opening", "kind", "way"),
    [
        ((), TasksScreen, "Tasks / Submit"),
        (("enter",), TasksScreen, "Tasks / Submit"),
        (("end", "b"), StandingsScreen, "Board vectoradd / Submit"),
        (("r",), RunsScreen, "Runs / Submit"),
        (("r", "enter"), ReportScreen, "Runs / Run 7 / Submit"),
    ],
)
async def test_escape_leads_from_the_form_to_the_screen_that_opened_it(
    opening: tuple[str, ...], kind: type[BoardScreen], way: str
) -> None:
    async with app_on(FakeBoard(runs=[_TESTED])).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, *opening)
        below = pilot.app.screen
        assert type(below) is kind
        await press(pilot, "s")
        assert isinstance(pilot.app.screen, SubmitScreen)
        assert f"hpc-board ▓▒░ {way} " in text_of(pilot.app).splitlines()[0]
        await press(pilot, "escape")
        assert pilot.app.screen is below


async def test_a_submission_from_a_run_leaves_the_list_of_runs_below_the_new_ones(kernel: Path) -> None:
    async with app_on(FakeBoard(runs=[_TESTED])).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "enter", "s", *str(kernel), "ctrl+s")
        assert [type(screen) for screen in pilot.app.screen_stack[1:]] == [TasksScreen, RunsScreen]
        assert pilot.app.screen.query_one(Grid).current == "8"


@pytest.mark.parametrize("is_below", [False, True])
async def test_a_letter_does_not_quit_while_a_form_has_contents(kernel: Path, is_below: bool) -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "s", *str(kernel))
        form = pilot.app.screen
        assert isinstance(form, SubmitScreen)
        form.gpu_list.focus()
        if is_below:
            await press(pilot, "ctrl+p", *"runs", "enter")
            assert isinstance(pilot.app.screen, RunsScreen)
        await press(pilot, "q")
        assert not pilot.app._exit
        (toast,) = pilot.app._notifications
        assert toast.message == "^q quits and discards the contents of the form."
        await press(pilot, "ctrl+p", *"quit")
        assert re.search(r" Quit +\^q ", text_of(pilot.app)) is not None
        await press(pilot, "escape", "ctrl+q")
        assert pilot.app._exit


async def test_a_letter_quits_an_empty_form() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "s", "q", "backspace")
        form = pilot.app.screen
        assert isinstance(form, SubmitScreen)
        form.gpu_list.focus()
        await press(pilot, "q")
        assert pilot.app._exit


async def test_a_submission_waits_for_the_header_of_its_file(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board, read, end = FakeBoard(runs=[]), list[str](), threading.Event()

    def slow_header(source: Source) -> Directives:
        read.append(source.file_name)
        assert len(read) == 1 or end.wait(60)
        return header(source)

    monkeypatch.setattr(submit_screen, "header", slow_header)
    async with app_on(board, kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        # A second look at the header of the first file would swallow the key for its submission.
        assert read == [kernel.name]
        other = kernel.with_name("other.py")
        other.write_text(kernel.read_text())
        pilot.app.screen.query_one(PathInput).value = str(other)
        await pilot.app._press_keys(["ctrl+s"])
        await until(pilot, lambda: read == [kernel.name, other.name])
        assert board.sent == []
        end.set()
        await settled(pilot)
        assert len(board.sent) == 1


async def test_a_header_is_checked_before_the_board_answers_with_its_tasks(kernel: Path) -> None:
    assert "gpus h100 A100" in kernel.read_text()
    board, ready = FakeBoard(held=["tasks"]), "Ready: vectoradd on H100 and A100, mode test: 2 jobs."
    async with app_on(board, kernel).run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: ready in text_of(pilot.app))
        board.free()
        await settled(pilot)
        assert ready in text_of(pilot.app)


@pytest.mark.parametrize(
    ("above", "below"), [(targets.Report(7), [ReportScreen]), (targets.Standings("vectoradd", "H100"), [])]
)
async def test_a_second_form_replaces_the_first_one_whose_contents_are_kept(
    kernel: Path, above: targets.Target, below: list[type[Screen[None]]]
) -> None:
    async with app_on(FakeBoard(runs=[_TESTED])).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "s", *str(kernel))
        pilot.app.post_message(Open(above))
        await settled(pilot)
        await press(pilot, "s")
        assert [type(screen) for screen in pilot.app.screen_stack[1:]] == [TasksScreen, *below, SubmitScreen]
        await press(pilot, "escape", "T", "s")
        assert pilot.app.screen.query_one(PathInput).value == str(kernel)


async def test_a_form_that_cannot_be_sent_leads_to_its_first_faulty_field(kernel: Path) -> None:
    kernel.write_text("import torch\n")
    board = FakeBoard()
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "s")
        screen = pilot.app.screen
        assert isinstance(screen, SubmitScreen)
        screen.options_input.focus()
        await press(pilot, "x", "ctrl+s")
        assert screen.focused is screen.path_input
        assert screen.path_input.has_class("-faulty")
        assert text_of(pilot.app).count("Choose a file.") == 1
        await press(pilot, *str(kernel))
        assert not screen.path_input.has_class("-faulty")
        for field, mend in (("gpus", "space"), ("options", "backspace")):
            await press(pilot, "ctrl+s")
            assert [each.id for each in screen.query("#form *:focus")] == [field]
            assert [each.id for each in screen.query(".-faulty")] == [field]
            await press(pilot, mend)
        assert "Ready: vectoradd on H100" in text_of(pilot.app)
        assert not screen.query(".-faulty")
        await press(pilot, "ctrl+s")
        assert len(board.sent) == 1


async def test_a_task_that_contradicts_the_header_is_the_faulty_field(kernel: Path) -> None:
    board = FakeBoard()
    async with app_on(board, kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, SubmitScreen)
        screen.task_select.value = "grayscale"
        await settled(pilot)
        await press(pilot, "ctrl+g", "ctrl+s")
        assert screen.focused is screen.task_select
        assert not screen.has_class("-preview"), "the form instead of the script"
        assert "The header names task vectoradd: choose it, or change the header." in text_of(pilot.app)
        assert not board.sent
        kernel.write_text("#!POPCORN leaderboard grayscale\n")
        await press(pilot, "ctrl+s")
        assert not board.sent
        assert "Ready: grayscale" in text_of(pilot.app)
        await press(pilot, "ctrl+s")
        assert [draft.task.name for draft in board.sent] == ["grayscale"]


@pytest.mark.parametrize("size", [(60, 16), (120, 40)])
async def test_a_header_with_an_unknown_task_is_the_fault_of_the_file(kernel: Path, size: tuple[int, int]) -> None:
    kernel.write_text("#!POPCORN leaderboard vectorad\nimport torch\n")
    board = FakeBoard()
    async with app_on(board, kernel).run_test(size=size) as pilot:
        await settled(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, SubmitScreen)
        shown = text_of(pilot.app)
        assert 'unknown task "vectorad". Did you mean "vectoradd"?' in shown
        assert "GPU." not in shown
        assert not screen.error_box.display
        assert [*screen.query(".-faulty")] == [screen.path_input]
        # The choice of another task corrects no header.
        screen.task_select.value = "vectoradd"
        await settled(pilot)
        screen.query_one("#note", Input).value = "first"
        await settled(pilot)
        await press(pilot, "ctrl+s")
        assert screen.path_input.has_focus
        assert not screen.error_box.display
        kernel.write_text("#!POPCORN leaderboard vectoradd\n#!POPCORN gpus all\n")
        await press(pilot, "ctrl+s")
        await press(pilot, "ctrl+s")
        assert [draft.task.name for draft in board.sent] == ["vectoradd"]


async def test_the_arrows_go_through_the_files_of_the_folder(kernel: Path) -> None:
    for name in ("a.cu", "b.txt", "sub/c.py"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("import torch\n")
    async with app_on(FakeBoard()).run_test(size=(120, 40)) as pilot:
        await press(pilot, "s")
        await until(pilot, lambda: "↓ chooses a file: a.cu, kernel.py" in text_of(pilot.app))
        field = pilot.app.screen.query_one(PathInput)
        for key, value in (("down", "a.cu"), ("down", str(kernel)), ("down", "a.cu"), ("up", str(kernel))):
            await press(pilot, key)
            assert field.value == value
        await settled(pilot)
        assert "Ready: vectoradd on H100 and A100" in text_of(pilot.app)
        field.offer("sub/")
        await press(pilot, "down")
        assert field.value == "sub/c.py"
        field.offer("no such folder/")
        await press(pilot, "down")
        assert field.value == "no such folder/"


async def test_a_letter_chooses_the_next_mode(kernel: Path) -> None:
    async with app_on(FakeBoard(), kernel).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert keys_of(pilot.app)["Mode"] == "M"
        await press(pilot, "M")
        assert "Ready: vectoradd on H100 and A100, mode benchmark" in text_of(pilot.app)
        await press(pilot, *"MMM")
        assert "Ready: vectoradd on H100 and A100, mode sanitize" in text_of(pilot.app)
        await press(pilot, "M")
        assert "Ready: vectoradd on H100 and A100, mode test" in text_of(pilot.app)


async def test_a_letter_does_not_choose_a_mode_without_a_tool_for_the_gpu(kernel: Path) -> None:
    kernel.write_text("#!POPCORN leaderboard identity\n")
    async with app_on(FakeBoard(), kernel).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, *"MMM")
        assert "mode profile: one job." in text_of(pilot.app)
        await press(pilot, "M")
        assert "mode test: one job." in text_of(pilot.app)


@pytest.mark.parametrize(
    ("code", "is_told"), [("import torch\n\n\n{}  # faster\n", True), ("import math\n{}\n", False)]
)
async def test_a_form_with_a_code_that_has_a_score_says_what_another_run_does(
    kernel: Path, code: str, is_told: bool
) -> None:
    kernel.write_text(f"#!POPCORN leaderboard vectoradd\n#!POPCORN gpus H100\n{code.format(KERNEL)}")
    words = "This code has a score on H100: 12.3 µs. Another run makes it the median of"
    async with app_on(FakeBoard(), kernel).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert "This code" not in text_of(pilot.app), "a test is not ranked"
        pilot.app.screen.query_one("#mode", TypedSelect).value = Mode.RANKED
        await settled(pilot)
        assert (words in str(pilot.app.screen.query_one("#file-note", Static).content)) == is_told


async def test_a_mouse_opens_the_editor_on_a_small_terminal(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edited: list[str] = []
    monkeypatch.setattr(BoardApp, "suspend", lambda _: nullcontext())
    monkeypatch.setattr(editor, "edit", lambda file, *_: edited.append(file.name))
    async with app_on(FakeBoard(), kernel).run_test(size=(60, 16)) as pilot:
        await settled(pilot)
        await pilot.click("#edit")
        await settled(pilot)
    assert edited == [kernel.name]


async def test_a_file_that_is_mended_elsewhere_is_read_again_by_the_key_that_it_has_refused(kernel: Path) -> None:
    board, text = FakeBoard(), kernel.read_text()
    kernel.unlink()
    async with app_on(board, kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "ctrl+s")
        assert "No such file." in text_of(pilot.app)
        kernel.write_text(text)
        await press(pilot, "ctrl+s", "ctrl+s")
        assert len(board.sent) == 1


async def test_a_letter_leads_to_no_field_that_would_take_the_next_one() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "s")
        screen = pilot.app.screen
        assert isinstance(screen, SubmitScreen)
        screen.gpu_list.focus()
        await press(pilot, "s", "s", "e", "e")
        assert screen.path_input.value == ""
        assert text_of(pilot.app).count("Choose a file.") == 1


async def test_the_editor_needs_a_file_that_exists() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "s", "tab", "f4")
        screen = pilot.app.screen
        assert isinstance(screen, SubmitScreen)
        assert screen.focused is screen.path_input
        assert text_of(pilot.app).count("Choose a file.") == 1
        await press(pilot, *"no-such-folder/kernel.py", "f4")
        assert "No such file." in text_of(pilot.app)
        assert screen.path_input.has_focus
        assert pilot.app.screen is screen
        assert not pilot.app._notifications


async def test_an_untouched_form_is_no_draft_and_a_ticked_gpu_makes_one(kernel: Path) -> None:
    async with app_on(FakeBoard(), kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "escape")
        assert not pilot.app._notifications
        await press(pilot, "end", "s", "shift+tab", "shift+tab", "space", "escape")
        (toast,) = pilot.app._notifications
        assert toast.message == "Draft kept: s on vectoradd, in Tasks, opens it again."


async def test_a_click_elsewhere_closes_an_open_list(kernel: Path) -> None:
    async with app_on(FakeBoard(), kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, SubmitScreen)
        task = screen.task_select
        for beside in ("#file-field Label", "TitleBar"):
            task.focus()
            await press(pilot, "enter")
            opened = task.expanded
            await pilot.click(beside)
            await settled(pilot)
            assert (opened, task.expanded, task.has_focus) == (True, False, True)
        await press(pilot, "enter")
        await pilot.click(SelectOverlay, offset=(3, 3))
        await settled(pilot)
        assert (task.expanded, task.value) == (False, "grayscale")
        await press(pilot, "enter")
        await pilot.click(KeyLine, offset=(text_of(pilot.app).splitlines()[-1].index("Esc Back"), 0))
        await settled(pilot)
        assert not task.expanded
        assert pilot.app.screen is screen


async def test_the_file_of_another_users_run_is_not_taken_for_ones_own(tmp_path: Path) -> None:
    (tmp_path / "submission.py").write_text("import torch\n")
    memory = Memory()
    memory.set("submit", "files", (str(tmp_path / "submission.py"),))
    memory.set("runs", f"everyone {FakeBoard().address}", True)
    board = FakeBoard(runs=[replace(_TESTED, user="bob")])
    app = BoardApp(lambda: board, now=lambda: NOW, tick_seconds=3600, memory=memory)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "enter")
        assert "Next: s" not in text_of(app)
        await press(pilot, "s")
        assert "Choose a file." in text_of(app)
        assert "[x] A100" in text_of(app)


# Letters, clicks and pasted paths


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take all letters for those of one name."""
    monkeypatch.setattr(form, "PAUSE_SECONDS", 3600.0)


def keys_of(app: App[None]) -> dict[str, str]:
    """Return the keys in the last line by their labels."""
    return {key.description: key.key_display for key in footer_keys(app)}


@pytest.mark.usefixtures("patient")
async def test_a_name_that_is_typed_on_the_task_selects_it_and_submits_nothing(kernel: Path) -> None:
    tasks = [*TASKS, task("softmax"), task("spmv"), task("wave-1d")]
    board = FakeBoard(tasks=tasks)
    async with app_on(board, kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, SubmitScreen)
        screen.task_select.focus()
        await settled(pilot)
        assert screen.focused is screen.task_select
        assert {"Submit": "^s", "Edit": "F4"}.items() <= keys_of(pilot.app).items()
        assert "Watch" not in keys_of(pilot.app)
        await press(pilot, *"spmv")
        assert screen.task_select.value == "spmv"
        assert (pilot.app.screen, screen.focused, board.sent) == (screen, screen.task_select, [])


@pytest.mark.parametrize(
    ("names", "letters", "value"),
    [
        ("alpha beta", "b", "beta"),
        ("Alpha beta", "a", "Alpha"),
        ("alpha beta", "bx", "beta"),
        ("s1 s2 s3", "ss", "s2"),
        ("s1 s2 s3", "ssss", "s1"),
        ("s1 s2 s3", "s2", "s2"),
        ("a_b a-c", "a-", "a-c"),
        ("ssh sort", "ss", "ssh"),
    ],
)
@pytest.mark.usefixtures("patient")
async def test_letters_select_the_next_choice_that_begins_with_them(names: str, letters: str, value: str) -> None:
    select = TypedSelect([(name, name) for name in names.split()])

    class OneField(App[None]):
        def compose(self) -> ComposeResult:
            yield select

    async with OneField().run_test() as pilot:
        select.focus()
        await pilot.press(*letters)
        assert (select.value, select.expanded) == (value, False)


async def test_after_a_pause_a_letter_begins_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form, "PAUSE_SECONDS", -1.0)
    select = TypedSelect([(name, name) for name in ("alpha", "beta", "ab")])

    class OneField(App[None]):
        def compose(self) -> ComposeResult:
            yield select

    async with OneField().run_test() as pilot:
        select.focus()
        await pilot.press(*"ab")
        assert select.value == "beta"


async def test_a_letter_submits_with_the_focus_on_the_gpus_and_the_last_line_says_so(kernel: Path) -> None:
    board = FakeBoard()
    async with app_on(board, kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, SubmitScreen)
        screen.gpu_list.focus()
        await settled(pilot)
        assert {"Submit": "s", "Edit": "e", "Watch": "w"}.items() <= keys_of(pilot.app).items()
        await press(pilot, "s")
        assert len(board.sent) == 1


async def test_a_letter_that_cannot_submit_leads_to_no_list_that_would_take_the_next_one(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("import torch\n")
    async with app_on(FakeBoard(), kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, SubmitScreen)
        screen.gpu_list.focus()
        await press(pilot, "s", "g")
        assert screen.focused is screen.gpu_list
        assert screen.task_select.has_class("-faulty")
        assert screen.task_select.is_blank()


@pytest.mark.parametrize("name", ["#task", "#mode"])
async def test_a_click_whose_press_and_release_come_at_once_opens_a_list(kernel: Path, name: str) -> None:
    async with app_on(FakeBoard(), kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        select = pilot.app.screen.query_one(name, Select)
        x, y = select.region.offset
        for kind in (events.MouseDown, events.MouseUp):
            pilot.app.post_message(kind(None, x, y, 0, 0, 1, shift=False, meta=False, ctrl=False))
        await settled(pilot)
        assert select.expanded


# Tasks that no GPU of the board may run


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_task_without_a_gpu_here_has_the_reason(kernel: Path, size: tuple[int, int]) -> None:
    kernel.write_text("#!POPCORN leaderboard heat\n")
    board = FakeBoard(tasks=[*TASKS, task("heat", gpus=("CPU",))], gpus=(H100, A100))
    reason = "heat has no GPU here: it may run on CPU."
    async with app_on(board, kernel).run_test(size=size) as pilot:
        await settled(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, SubmitScreen)
        assert f"{reason} This board has: H100, A100." in str(screen.status.content)
        assert f"GPUs    {reason}" in text_of(pilot.app)
        screen.task_select.value = "vectoradd"
        await settled(pilot)
        assert reason not in text_of(pilot.app)
        assert "[ ] A100" in text_of(pilot.app)


# Options of jobs


async def test_the_form_offers_only_the_options_that_a_gpu_of_the_task_has(kernel: Path) -> None:
    kernel.write_text("#!POPCORN leaderboard vectoradd\nimport torch\n")
    local = replace(L4, cluster=Cluster("here", "local"), partition="")
    for gpus, words in (((local,), "Permitted: time, retries"), ((H100, local), "Permitted: account, qos")):
        async with app_on(FakeBoard(gpus=gpus), kernel).run_test(size=(120, 40)) as pilot:
            await settled(pilot)
            shown = text_of(pilot.app)
            assert words in shown
            assert ("such as time=5" in shown) == (gpus == (local,))
            pilot.app.screen.query_one("#options").focus()
            await press(pilot, *"x=5")
            shown = " ".join(text_of(pilot.app).split())
            assert ('unknown job option "x=5". Permitted: time=…, retries=…' in shown) == (gpus == (local,))


async def test_the_options_field_completes_checks_and_sends_what_the_board_permits(kernel: Path) -> None:
    kernel.write_text("#!POPCORN leaderboard vectoradd\n#!POPCORN gpus H100\n#!HPCBOARD qos night\nimport torch\n")
    board = FakeBoard()
    board.rules = OptionRules(("qos", "time"))
    async with app_on(board, kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert "Set already: qos=night (the header)." in text_of(pilot.app)
        pilot.app.screen.query_one("#options").focus()
        await press(pilot, "t", "tab", *"10m")
        assert '--time: expected a time up to a year as "MM"' in text_of(pilot.app)
        await press(pilot, "ctrl+s")
        assert not board.sent
        await press(pilot, "backspace", "space", *"account=x")
        assert "the option --account in this field is not permitted" in text_of(pilot.app)
        await press(pilot, *["backspace"] * len(" account=x"), "ctrl+s")
        (draft,) = board.sent
        assert draft.options == JobOptions(qos="night", time="10")


@pytest.mark.parametrize(
    ("options", "words", "hint"),
    [
        ("time=abc", 'expected a time up to a year as "MM"', "Correct the value, or omit the option."),
        ("time=999", "--time 999 is longer than 0:", "Use a shorter time, or omit the option."),
    ],
)
async def test_the_fault_of_an_option_is_at_its_field_and_in_the_place_of_the_script(
    kernel: Path, options: str, words: str, hint: str
) -> None:
    async with app_on(FakeBoard(), kernel).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, SubmitScreen)
        screen.options_input.focus()
        await press(pilot, *options)
        await settled(pilot)
        note = str(screen.query_one("#options-note", Static).content)
        assert words in note
        assert note.endswith(hint)
        script = str(screen.query_one("#command", Static).content)
        assert words in script
        assert script.endswith(hint)
        assert not screen.error_box.display
        assert "  Correct the options." in text_of(pilot.app)
        await pilot.resize_terminal(60, 16)
        await settled(pilot)
        (status,) = [line for line in text_of(pilot.app).splitlines() if line.lstrip().startswith("Options: --time")]
        assert "…" in status
        await pilot.resize_terminal(120, 40)
        assert screen.query_one("#send", Button).disabled
        await press(pilot, "ctrl+s")
        assert screen.options_input.has_class("-faulty")
        await press(pilot, *["backspace"] * len(options))
        await settled(pilot)
        assert "Ready: vectoradd on H100" in text_of(pilot.app)


async def test_refresh_asks_again_about_refused_options(kernel: Path) -> None:
    board = FakeBoard(failures={"draft": Refused("--time 5 is longer than 0:20:00.")})
    async with app_on(board, kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        pilot.app.screen.query_one("#options").focus()
        await press(pilot, *"time=5")
        await settled(pilot)
        assert "--time 5 is longer than 0:20:00." in text_of(pilot.app)
        board.failures.clear()
        await press(pilot, "f5")
        assert "Ready: vectoradd on H100" in text_of(pilot.app)
        board.rules = OptionRules(("qos",))
        await press(pilot, "f5")
        assert "the option --time in this field is not permitted" in text_of(pilot.app)
        assert pilot.app.screen.query_one("#send", Button).disabled


@pytest.mark.parametrize(("name", "at_field"), [("--time", True), ("--timeout", False), ("--time-min", False)])
async def test_an_error_of_another_option_is_not_at_the_field(kernel: Path, name: str, at_field: bool) -> None:
    board = FakeBoard(failures={"draft": Refused(f"{name} 30 is refused.")})
    async with app_on(board, kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, SubmitScreen)
        screen.options_input.focus()
        await press(pilot, *"time=30")
        await settled(pilot)
        assert (f"{name} 30" in str(screen.query_one("#options-note", Static).content)) is at_field
        assert (f"{name} 30 is refused." in str(screen.status.content)) is not at_field
        assert screen.query_one("#send", Button).disabled


async def test_a_wide_form_has_the_description_of_the_task_until_it_has_a_file(kernel: Path) -> None:
    words = "Implement a kernel that computes"
    async with app_on(FakeBoard()).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "s")
        assert words in text_of(pilot.app)
        await press(pilot, "ctrl+g")
        assert "The batch script appears here once" in text_of(pilot.app)
        await press(pilot, "ctrl+g")
        assert words in text_of(pilot.app)
        pilot.app.screen.query_one("#file", PathInput).value = str(kernel)
        await until(pilot, lambda: "#SBATCH" in text_of(pilot.app))
        assert words not in text_of(pilot.app)


async def test_the_form_has_the_limit_of_the_job_and_the_times_to_beat_above_the_script(kernel: Path) -> None:
    async with app_on(FakeBoard(), kernel).run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "#SBATCH" in text_of(pilot.app))
        lines = [line[73:].strip(" │") for line in text_of(pilot.app).splitlines()]
        told = ["Time limit  20 min", "Deadline    9 d", "Your best   12.3 µs, #2 of 4", "Leader      11.0 µs by bob"]
        assert lines[4:8] == told
        assert lines.index("$ sbatch --parsable --job-name=hb-TOKEN") == 9


async def test_a_huge_form_says_how_the_file_differs_from_the_last_run_or_why_that_is_unknown(kernel: Path) -> None:
    _, last = FakeBoard().submissions.code(RUNS[0].id)
    failing = FakeBoard(failures={"code": InputError("the file is gone.")})
    for board, data, words in (
        (FakeBoard(), b"# new\n" + last, f"changes since run {RUNS[0].id}"),
        (FakeBoard(), last.replace(b"\n", b"\r\n"), "The files differ only in the ends of their lines."),
        (FakeBoard(), last, f"as in run {RUNS[0].id}"),
        (failing, last, "the file is gone."),
    ):
        kernel.write_bytes(data)
        async with app_on(board, kernel).run_test(size=(200, 60)) as pilot:
            await settled(pilot)
            pilot.app.screen.query_one("#task", TypedSelect).value = "vectoradd"
            await until(pilot, lambda words=words: words in text_of(pilot.app))  # type: ignore[misc]


async def test_a_huge_form_of_a_run_shows_the_changes_since_that_run(kernel: Path) -> None:
    memory, code = Memory(), b"import torch\n"
    remember_sent(memory, ADDRESS, (kernel, code))
    kernel.write_bytes(code + b"# new\n")
    digest = hashlib.sha256(code).hexdigest()
    runs = [replace(_TESTED, id=number, file_name=kernel.name, code_sha256=digest) for number in (9, 8)]
    app = BoardApp(lambda: FakeBoard(runs=runs), now=lambda: NOW, tick_seconds=3600, memory=memory)
    async with app.run_test(size=(200, 60)) as pilot:
        await settled(pilot)
        for keys, number in ((("r", "end", "s"), 8), (("T", "end", "s"), 9)):
            await press(pilot, *keys)
            await until(pilot, lambda words=f"changes since run {number}": words in text_of(app))  # type: ignore[misc]


async def test_a_huge_form_shows_the_code_of_the_run_that_it_offers_to_copy() -> None:
    async with app_on(FakeBoard()).run_test(size=(200, 60)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "end", "s")
        text = text_of(pilot.app)
        found = re.search(r"F4 edits a copy of run (\d+)", text)
        assert found is not None
        assert f"run {found[1]}, which F4 copies" in text
        assert "def custom_kernel" in text


async def test_a_form_says_that_it_loads_until_it_knows_what_is_missing(kernel: Path) -> None:
    board = FakeBoard(held=("draft",))
    async with app_on(board, kernel).run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "[x] A100" in text_of(pilot.app))
        assert "Loading …" in text_of(pilot.app)
        assert "appears here once" not in text_of(pilot.app)
        board.free()
        await settled(pilot)
        assert "Loading …" not in text_of(pilot.app)
        screen = pilot.app.screen
        assert isinstance(screen, SubmitScreen)
        screen.gpu_list.focus()
        await press(pilot, "space", "down", "space")
        assert "appears here once" in text_of(pilot.app)
