"""The screen of one run: its pages, its log, and what to do about a run that did not pass."""

import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from textual import events

from hpc_board.domain.run import Progress, RunState, TimeSoFar
from hpc_board.model.loops import Remark
from hpc_board.model.mismatch import Mismatch, Place
from hpc_board.model.result import Case, Log, Result, Verdict
from hpc_board.report.histograms import calls_in_order, histogram
from hpc_board.schedulers.slurm import with_options
from hpc_board.tui import editor
from hpc_board.tui.app import BoardApp
from hpc_board.tui.screens.report import ReportScreen
from hpc_board.tui.screens.runs import RunsScreen
from hpc_board.tui.widgets.bars import PageTabs
from hpc_board.tui.widgets.text_pane import LogView, TextPane
from tests.tui.driving import app_on, footer_keys, press, settled, text_of, toasts, until
from tests.tui.fake_board import RUNS, FakeBoard, result, run, timing
from tests.values import replace

HOSTILE = "[bold red]loud[/] \x1b]0;title\x07\x1b[31mred \x9b2J \u202eright"


class Telling(FakeBoard):
    """Has one run with this result."""

    def __init__(self, told: Result, **changes: object) -> None:
        super().__init__(runs=[replace(RUNS[3], **changes)])
        self.told = told

    def result(self, run: int) -> Result | None:
        del run
        return self.told


def page(app: object) -> str:
    """Return the text below the names of the pages."""
    return "\n".join(text_of(app).splitlines()[3:-1])


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40), (200, 60)])
async def test_every_page_can_be_opened_by_its_digit(size: tuple[int, int]) -> None:
    async with app_on(FakeBoard()).run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "enter")
        seen = {}
        for digit in "12345678":
            await press(pilot, digit)
            seen[digit] = page(pilot.app)
            assert pilot.app.screen.focused is not None
            assert max(key.region.right for key in footer_keys(pilot.app)) <= size[0]
        assert "Passed: 3 tests and 3 benchmarks." in seen["1"]
        assert "Note: float4 loads" in seen["1"]
        assert "self-run" not in seen["1"]
        assert "benchmark 1: pass  size: 1024" in seen["2"], "the first one with a time is selected"
        assert ("rank 1: bob, run 34" in seen["2"]) == (size[0] >= 120), "bars of the benchmark"
        assert "hello from the kernel" in seen["3"]
        assert "# run 39" in seen["4"]
        assert "queued" in seen["5"]
        assert seen["6"] == seen["7"] == seen["8"] == seen["5"]
        assert [told.partition(":")[0] for told in toasts(pilot.app)] == ["No profile", "No build log", "No roofs"]
        assert text_of(pilot.app).splitlines()[2].split() == [
            "1",
            "Overview",
            "2",
            "Cases",
            "3",
            "Log",
            "4",
            "Code",
            "5",
            "Evidence",
        ]
        await press(pilot, "1")
        assert "Passed" in page(pilot.app)
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, RunsScreen)


@pytest.mark.parametrize(("width", "last"), [(60, "7Build 8Roof"), (66, "7Build 8Roof"), (68, "7 Build 8 Roof")])
async def test_the_names_of_eight_pages_fit_into_a_narrow_line(width: int, last: str) -> None:
    async with app_on(FakeBoard()).run_test(size=(width, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "enter")
        screen = pilot.app.screen
        assert isinstance(screen, ReportScreen)
        screen.page_tabs.show_page("overview")
        await settled(pilot)
        assert text_of(pilot.app).splitlines()[2].endswith(last)


async def test_the_pages_are_turned_and_chosen_with_the_mouse() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "enter", "right_square_bracket")
        assert "Median" in page(pilot.app)
        await press(pilot, "left_square_bracket", "left_square_bracket")
        assert "Source" in page(pilot.app)
        await press(pilot, "left_square_bracket")
        assert "# run 39" in page(pilot.app)
        place = text_of(pilot.app).splitlines()[2].index("Cases")
        await pilot.click(PageTabs, offset=(place, 0))
        await settled(pilot)
        assert "Median" in page(pilot.app)


async def test_a_narrow_list_of_cases_has_the_room_that_its_rows_need() -> None:
    cases = tuple(Case("test", index, f"size: {1000 + index}", Verdict.PASS) for index in range(8))
    async with app_on(Telling(replace(result(RUNS[3]), cases=cases))).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "enter", "2")
        assert "1000" in page(pilot.app)
        assert "1007" in page(pilot.app)


async def test_the_cases_of_a_waiting_run_are_said_to_appear_as_the_job_starts_them() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "enter", "2")
        assert "No cases yet; each appears when the job starts it." in page(pilot.app)


async def test_a_running_run_has_the_cases_that_it_has_begun_and_then_those_of_its_result() -> None:
    board = FakeBoard()
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "enter", "2")
        rows = [line.split() for line in page(pilot.app).splitlines()]
        assert ["4", "test", "pass", "130"] in rows
        assert ["2", "benchmark", "running", "2048"] in rows
        assert "Cases 2" in text_of(pilot.app)
        failed = replace(RUNS[1], status=RUNS[3].status, verdict=Verdict.WRONG_VALUE, message="bad")
        board.replace_run(failed)
        screen = pilot.app.screen
        assert isinstance(screen, ReportScreen)
        screen.look_again()
        await settled(pilot)
        assert "17 of 16129 values differ, the first at [0, 126]" in page(pilot.app)


class Measuring(FakeBoard):
    """A silent run is measured in the second of five rounds."""

    def __init__(self) -> None:
        super().__init__()
        self.logs = {}

    def progress(self, run: int) -> list[Progress]:
        del run
        second = Progress("x", "benchmark", 1, 2, "size: 2048; seed: 1 (process 2 of 5)", TimeSoFar(2, 3e6, 1e6))
        return [
            Progress("x", "benchmark", 1, 2, "size: 1024; seed: 1 (process 1 of 5)"),
            Progress("x", "benchmark", 2, 2, "size: 2048; seed: 1 (process 1 of 5)", TimeSoFar(1, 901e3, 1.8e6)),
            second,
        ]


class Going(FakeBoard):
    """A run is judged case by case."""

    def __init__(self) -> None:
        super().__init__()
        self.case = 1

    def progress(self, run: int) -> list[Progress]:
        del run
        return [Progress("x", "test", case, 9, f"size: {case}") for case in range(1, self.case + 1)]


async def test_the_selection_follows_the_running_case_until_the_user_moves_it() -> None:
    board = Going()
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "enter", "2")
        screen = pilot.app.screen
        assert isinstance(screen, ReportScreen)
        for case, key, selected in ((1, "", 0), (2, "", 1), (4, "up", 2), (5, "", 2)):
            board.case = case
            screen.look_again()
            await settled(pilot)
            if key:
                await press(pilot, key)
            assert screen.cases_pane.selected is not None
            assert screen.cases_pane.selected.index == selected


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_running_run_has_its_times_so_far(size: tuple[int, int]) -> None:
    board = Measuring()
    async with app_on(board).run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "enter")
        overview = page(pilot.app)
        assert re.search(r"So far +Reference +Speedup", overview)
        assert re.search(r"901 µs +1.80 ms +2.00x +12.0 µs +1024", overview)
        assert ("█" in overview) == (size[0] > 100)
        await press(pilot, "2")
        assert re.search(r"1 +benchmark +running +901 µs +(1.80 ms +)?2.00x +(12.0 µs +)?1024", page(pilot.app))
        assert re.search(r"2 +benchmark +done +3.00 ms +(1.00 ms +)?0.33x +(24.0 µs +)?2048", page(pilot.app))
        assert "901 µs so far, round 2 of 5" in page(pilot.app)
        screen = pilot.app.screen
        assert isinstance(screen, ReportScreen)
        board.replace_run(replace(RUNS[1], status=RUNS[2].status, verdict=Verdict.PASS, score_s=1e-3))
        screen.look_again()
        await settled(pilot)
        case = screen.cases_pane.selected
        assert case is not None
        assert (case.phase, case.index) == ("benchmark", 0)


async def test_a_cancelled_run_is_cancelling_and_then_says_who_cancelled_it_and_the_next_key() -> None:
    board = Measuring()
    running = RUNS[1]
    board.replace_run(replace(running, status=replace(running.status, cancel_requested=True)))
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "enter")
        assert "cancelling" in text_of(pilot.app)
        assert "round 2" not in text_of(pilot.app)
        reason = "cancel requested by ada at 12:00:00 UTC"
        board.replace_run(replace(running, status=replace(running.status, state=RunState.CANCELLED, reason=reason)))
        screen = pilot.app.screen
        assert isinstance(screen, ReportScreen)
        screen.look_again()
        await settled(pilot)
        assert "Cancelled by you after" in page(pilot.app)
        assert "Next: R reruns it." in page(pilot.app)
        assert "The run was cancelled" not in page(pilot.app)


async def test_a_case_with_wrong_values_shows_their_pattern_and_the_first_places() -> None:
    found = Mismatch((50, 40), 2000, 1480, "the last 37 rows", 5.0, 12.1, (Place((13, 0), "nan", "1.5"),))
    cases = (Case("test", 0, "size: 9", Verdict.WRONG_NONFINITE, "wrong", mismatch=found),)
    async with app_on(Telling(replace(result(RUNS[3]), cases=cases))).run_test(size=(80, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "down", "enter", "2")
        text = page(pilot.app)
        assert "1,480 of 2,000 elements (74 %): the last 37 rows" in text
        assert re.search(r"\[13, 0\] +nan +1.5", text)
        assert "wrong (NaN or inf)" in text
        await press(pilot, "1")
        assert "Next: e edits the file, s submits it again." in page(pilot.app)
        await pilot.resize_terminal(200, 60)
        await settled(pilot)
        assert text_of(pilot.app).count("the last 37 rows") == 1


async def test_a_case_that_passed_shows_its_margin() -> None:
    cases = (Case("test", 0, "size: 9", Verdict.PASS, of_tolerance=0.31),)
    async with app_on(Telling(replace(result(RUNS[3]), cases=cases))).run_test(size=(80, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "down", "enter", "2")
        assert "Largest error is 31 % of the tolerance" in page(pilot.app)


@pytest.mark.parametrize(("size", "shown"), [((200, 60), True), ((200, 30), False), ((120, 40), False)])
async def test_a_huge_terminal_has_the_cases_beside_the_overview(size: tuple[int, int], shown: bool) -> None:
    async with app_on(FakeBoard()).run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "enter")
        screen = pilot.app.screen
        assert isinstance(screen, ReportScreen)
        panes = (screen.blocks, screen.cases_pane, screen.printed)
        assert [pane.display for pane in panes] == [True, shown, True]
        # The errors are in one table; that of the selected case is below it, too.
        assert text_of(pilot.app).count("± 0.02") == (4 if shown else 3)
        if shown:
            assert screen.cases_pane.region.y == screen.blocks.region.y
            assert screen.printed.region.y == screen.submitted.region.y > screen.blocks.region.y


@pytest.mark.parametrize(("width", "bars"), [(66, 14 * 4), (150, 16 * 6), (31, 21)])
def test_a_histogram_has_equal_bars_within_its_width(width: int, bars: int) -> None:
    drawn = histogram([10.0] * 50 + [11.0] * 25 + [12.0], 10.0, width, 3, "sample")
    assert drawn.title == "Times of 76 samples; ┴ lower quartile 10.0 ns"
    lines = drawn.text.splitlines()
    assert [line[7:11] for line in lines[:3]] == ["0 │█", "  │█", "  │█"]
    assert len(lines[3]) == 10 + bars
    assert lines[2].endswith("▁")
    assert lines[4].split() == ["10.0", "ns", "12.0", "ns"]
    slower = histogram([10.0] * 50 + [11.0] * 25 + [12.0], 11.0, width, 3, "sample")
    assert slower.text.splitlines()[4].split()[::2] == (["10.0", "11.0", "12.0"] if width > 31 else ["10.0", "12.0"])


@pytest.mark.parametrize("samples", [[5.0, 5.0], [0.0, 0.0], [1.0, 1e300], [1e-9] * 99 + [1e9]])
def test_a_histogram_of_odd_samples_fits_its_width(samples: list[float]) -> None:
    timed = replace(timing(5.0), time_ns=5.0, samples=len(samples), samples_ns=tuple(samples), worker_samples=())
    for drawn in (histogram(samples, 5.0, 30, 5), calls_in_order(timed, 30, 5)):
        assert all(len(line) <= 30 for line in drawn.text.splitlines()[:5])


def test_calls_in_their_order_show_a_drift_an_outlier_and_the_processes() -> None:
    drifting = [10.0 + index / 40 for index in range(40)]
    samples = (*drifting, 99.0, *drifting[1:])
    timed = replace(timing(10.5), time_ns=10.5, samples=80, samples_ns=samples, worker_samples=(40, 40))
    drawn = calls_in_order(timed, 50, 6, "sample")
    assert drawn.title == "Samples in order: ▲ slower   ⠂⠂ lower quartile   ⡇ process"
    lines = [line[10:] for line in drawn.text.splitlines()]
    half = lines[0].index("▲")
    assert [lines[row][0] for row in (0, 5)] == [" ", "⡠"]
    assert lines[0][half - 1] != " "
    assert (lines[3][half], lines[5][half]) == (" ", "⡧")
    few = replace(timed, samples=4, samples_ns=(10.0, 11.0, 10.5, 10.7), worker_samples=(2, 2))
    assert calls_in_order(few, 50, 6).text.count("•") == 4
    assert [line.split()[0] for line in (drawn.text.splitlines()[0], drawn.text.splitlines()[5])] == ["11.0", "10.0"]


@pytest.mark.parametrize(
    ("user", "size", "keys"),
    [("ada", (80, 24), ("enter",)), ("ada", (200, 60), ()), ("bob", (80, 24), ("enter",))],
    ids=["own", "own beside the list", "another's"],
)
async def test_a_slower_run_is_compared_with_your_best_if_it_is_your_own(
    user: str, size: tuple[int, int], keys: tuple[str, ...]
) -> None:
    slower = run(45, RunState.FINISHED, user=user, verdict=Verdict.PASS, score_s=61.7e-6)
    async with app_on(FakeBoard(runs=[slower])).run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "r", *(() if user == "ada" else ("a",)), *keys)
        whose = "your" if user == "ada" else "the user's"
        text = " ".join(text_of(pilot.app).split())
        assert f"slower than {whose} best" in text
        assert ("H100, ranked by bob: pass" in text) == (user == "bob")


@pytest.mark.parametrize("users", [1, 2])
async def test_the_headline_has_a_first_place_among_others(users: int) -> None:
    board = FakeBoard()
    first, *others = board.boards["H100"]
    board.boards["H100"] = (replace(first, run=39, user="ada"), *others)[:users]
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "enter")
        assert ("ranked: pass first place" in text_of(pilot.app)) == (users > 1)


async def test_a_run_that_printed_nothing_leaves_the_whole_width_to_its_times() -> None:
    board = Telling(replace(result(RUNS[3]), stdout=Log(""), stderr=Log("")))
    board.known_runs = [RUNS[3]]
    board.logs = {}
    async with app_on(board).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "enter")
        assert isinstance(pilot.app.screen, ReportScreen)
        assert not pilot.app.screen.printed.display
        await press(pilot, "3", "1")
        assert not pilot.app.screen.printed.display
    board.logs = {RUNS[3].id: "hello\n"}
    async with app_on(board).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "enter")
        assert isinstance(pilot.app.screen, ReportScreen)
        assert pilot.app.screen.printed.display
        assert pilot.app.screen.printed.size.width > 110
        assert "hello" in text_of(pilot.app)


async def test_what_the_compiler_and_the_profiler_said_have_pages() -> None:
    profile = Log(f"sm__throughput 83 %\n{HOSTILE}\n{'occupancy is low; ' * 8}end")
    remark = Remark(14, is_vectorized=False, text="not vectorized: control flow in loop")
    told = replace(result(RUNS[3]), build=Log("nvcc: warning one\n"), profile=profile, remarks=(remark,))
    async with app_on(Telling(told)).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "enter", "7")
        assert "nvcc: warning one" in page(pilot.app)
        await press(pilot, "6")
        assert "submission.py:14: not vectorized: control flow in loop" in page(pilot.app)
        assert "sm__throughput 83 %" in page(pilot.app)
        assert "[bold red]loud[/]" in page(pilot.app)
        assert "occupancy is low; end" in " ".join(page(pilot.app).split())
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(text_of(pilot.app))


async def test_a_long_log_is_searched_and_its_matches_are_gone_through() -> None:
    board = FakeBoard()
    board.logs[39] = "".join(f"line {number}{' ERROR here' if number % 30 == 7 else ''}\n" for number in range(100))
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "enter", "slash")
        assert "/ Search" not in text_of(pilot.app)
        assert not pilot.app.screen.query("FilterLine Input")
        await press(pilot, "3", "slash", *"error", "enter")
        view = pilot.app.screen.query_one("#log", LogView)
        assert [match.line - 1 for match in view.matches] == [7, 37, 67, 97]
        assert "/error: 1 of 4" in text_of(pilot.app)
        reversed_texts = [
            segment.text
            for y in range(view.size.height)
            for segment in view.render_line(y)
            if segment.style is not None and segment.style.reverse
        ]
        assert reversed_texts == ["ERROR"]
        await press(pilot, "n")
        assert "line 37 ERROR here" in page(pilot.app)
        assert "/error: 2 of 4" in text_of(pilot.app)
        await press(pilot, "N", "N")
        assert "/error: 4 of 4" in text_of(pilot.app)
        assert "line 97 ERROR here" in page(pilot.app)
        await press(pilot, "slash", *"zzz")
        assert "/zzz: not found" in text_of(pilot.app)
        await press(pilot, "escape")
        assert "not found" not in text_of(pilot.app)
        await press(pilot, "slash", *"zzz", "enter", "escape")
        assert "not found" not in text_of(pilot.app)
        assert "line 97 ERROR here" in page(pilot.app)
        assert isinstance(pilot.app.screen, ReportScreen)


async def test_the_log_beside_the_overview_is_searched_and_one_without_text_is_not() -> None:
    board = FakeBoard()
    board.logs[39] = "one\ntwo\n"
    async with app_on(board).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "enter", "slash", *"two", "enter")
        assert "/two: 1 of 1" in text_of(pilot.app)
        assert pilot.app.screen.query_one("#overview").display
        await press(pilot, "escape", "escape", "end", "enter", "3")
        assert "/ Search" not in text_of(pilot.app)


async def test_keys_that_follow_at_once_are_not_typed_into_a_field_that_was_left() -> None:
    board = FakeBoard()
    board.logs[39] = "one\none\n"
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "enter", "3", "slash")
        for key in (*"one", "enter", "n"):
            pilot.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await settled(pilot)
        assert "/one: 2 of 2" in text_of(pilot.app)


async def test_a_log_says_whether_it_is_followed_and_what_came_meanwhile() -> None:
    board = FakeBoard()
    board.logs[40] = "".join(f"line {number}\n" for number in range(100))
    async with app_on(board, tick_seconds=0.05).run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "running" in text_of(pilot.app))
        await pilot.press("down", "enter", "3")
        await until(pilot, lambda: "line 99" in text_of(pilot.app) and "following" in text_of(pilot.app))
        await pilot.press("home")
        await until(pilot, lambda: "paused: End resumes" in text_of(pilot.app))
        board.logs[40] += "line 100\nline 101\n"
        await until(pilot, lambda: "paused, 2 new lines below: End resumes" in text_of(pilot.app))
        await pilot.press("end")
        await until(pilot, lambda: "line 101" in text_of(pilot.app) and "following" in text_of(pilot.app))
        board.logs[40] += "line 102\n"
        await until(pilot, lambda: "line 102" in text_of(pilot.app))


async def test_what_the_user_does_last_decides_whether_a_log_is_followed() -> None:
    board = FakeBoard()
    board.logs[40] = text = "".join(f"line {number}{' wide' * 20}\n" for number in range(100))
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "enter", "3")
        pane, view = pilot.app.screen.query_one("#printed", TextPane), pilot.app.screen.query_one("#log", LogView)

        def grow() -> None:
            nonlocal text
            text += "more\n"
            pane.show(text, nothing="", growing=True)

        def is_at_end() -> bool:
            return view.scroll_offset.y == view.max_scroll_y

        assert is_at_end()
        # Textual scrolls home in steps, and new lines may arrive between them.
        ways: list[tuple[list[Callable[[], None]], bool]] = [
            ([grow, view.action_scroll_home], False),
            ([view.action_scroll_home, grow], False),
            ([view.action_scroll_end, grow], True),
            ([view.action_scroll_down, grow], True),
            ([grow, view.action_page_up, grow], False),
            ([view.action_scroll_end, view.action_page_down, view.action_scroll_right, grow], True),
        ]
        for acts, followed in ways:
            for act in acts:
                act()
            await pilot.wait_for_scheduled_animations()
            await settled(pilot)
            assert is_at_end() is followed, acts
            assert ("following" if followed else "End resumes") in page(pilot.app), acts
        grow()
        await settled(pilot)
        await pilot.resize_terminal(80, 18)
        await settled(pilot)
        assert is_at_end()


class WithCode(FakeBoard):
    """Has the same code for all runs."""

    def code(self, run: int) -> tuple[str, bytes]:
        del run
        return "kernel.py", b"import torch"

    def result(self, run: int) -> Result | None:
        told = super().result(run)
        return told and replace(told, build=Log("submission.py:25:5: error: x\n"))


async def test_one_key_leads_from_a_failed_case_to_the_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edited: list[tuple[str, bytes, str]] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VISUAL", "true")
    monkeypatch.setattr(editor, "edit", lambda file, _, line: edited.append((file.name, file.read_bytes(), line)))
    monkeypatch.setattr(BoardApp, "suspend", nullcontext)
    async with app_on(WithCode()).run_test(size=(80, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "down", "enter")
        text = " ".join(page(pilot.app).replace("│", " ").split())
        assert "`hpc-board task test vectoradd --submission run38.py --device cuda` judge it on your machine." in text
        await press(pilot, "e")
        assert edited == [("kernel-run38.py", b"import torch", "25")]


async def test_no_copy_of_a_file_is_written_without_an_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "/no/such/editor")
    async with app_on(WithCode()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "e")
        assert [toast.title for toast in pilot.app._notifications] == ["Warning"]
        assert not list(tmp_path.glob("*.py"))


@pytest.mark.parametrize(
    "keys",
    [("enter", "2"), ("enter", "3"), ("enter", "5"), ("p",), ("slash", *"red")],
    ids="".join,
)
async def test_hostile_text_is_shown_as_text(keys: tuple[str, ...]) -> None:
    failed = replace(
        run(40, RunState.FINISHED, verdict=Verdict.WRONG_VALUE, message=HOSTILE, node=HOSTILE, source=HOSTILE),
        file_name=HOSTILE,
        token=HOSTILE,
        cluster=HOSTILE,
        note=HOSTILE,
    )
    queued = replace(run(41, RunState.QUEUED, reason=HOSTILE, note="red"), user=HOSTILE)
    case = Case("test", 0, HOSTILE, Verdict.WRONG_VALUE, HOSTILE)
    board = Telling(replace(result(failed), cases=(case,), message=HOSTILE, stdout=Log(HOSTILE)))
    board.known_runs = [failed, queued]
    board.known_gpus = (with_options(replace(board.known_gpus[0], partition=HOSTILE), account=HOSTILE),)
    async with app_on(board).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "r", *keys)
        text = text_of(pilot.app)
        assert "loud" in text
        assert "[bold" in text
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(text)
