"""The boards of a task: pages of them, one's own row, what stands between the ranks, and the ways on from there."""

import re
import threading
from collections import Counter

import pytest
from textual.app import App
from textual.widget import Widget

from hpc_board.domain.moderation import Remarks, Removal
from hpc_board.domain.reference import Reference
from hpc_board.domain.run import RunState
from hpc_board.domain.score_interval import Interval
from hpc_board.domain.standing import Mark, MarkKind, Standing, with_marks
from hpc_board.errors import Refused, StorageError
from hpc_board.model.result import Verdict
from hpc_board.report.histories import plot_lines
from hpc_board.tui import targets
from hpc_board.tui.messages import Open
from hpc_board.tui.screens.code import CodeScreen
from hpc_board.tui.screens.report import ReportScreen
from hpc_board.tui.screens.standings import StandingsScreen
from hpc_board.tui.screens.tasks import TasksScreen
from hpc_board.tui.widgets.board_pane import BoardPane
from hpc_board.tui.widgets.histories import RUNS_MAX
from tests.tui.driving import app_on, footer_keys, press, settled, text_of, toasts, until
from tests.tui.fake_board import NOW, FakeBoard, run, standing
from tests.values import replace

REFERENCE = Mark(MarkKind.REFERENCE, "reference", 44e-6, 17, 34, NOW)


def long_board(rows: int = 1000, own: int = 700) -> FakeBoard:
    board = FakeBoard()
    board.boards["H100"] = tuple(
        standing(place + 1, "ada" if place == own else f"user{place}", (11 + place / 10) * 1e-6, 1000 + place, place)
        for place in range(rows)
    )
    return board


def line(app: object, words: str) -> str:
    return next(each for each in text_of(app).splitlines() if words in each)


def pane(screen: object) -> BoardPane:
    assert isinstance(screen, StandingsScreen)
    found = screen._active
    assert found is not None
    return found


def rows(first: int, count: int) -> list[Standing]:
    """Rows of a board whose times are their ranks."""
    return [standing(place + 1, f"u{place}", place + 1.0, place, 1) for place in range(first, first + count)]


def test_marks_stand_where_their_times_belong() -> None:
    marks = tuple(replace(REFERENCE, name=str(at), score_s=at) for at in (0.5, 2.0, 2.5, 11.0, 200.0))
    middle = with_marks(rows(0, 10), marks, above=False, below=True)
    names = [each.name if isinstance(each, Mark) else each.run for _, each in middle]
    assert names == ["0.5", 0, 1, "2.0", "2.5", *range(2, 10)]
    end = with_marks(rows(90, 10), marks, above=True, below=False)
    assert [each.name if isinstance(each, Mark) else each.run for _, each in end] == [*range(90, 100), "200.0"]


async def test_a_long_board_is_read_as_far_as_it_is_seen() -> None:
    board = long_board()
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b")
        assert "You are 701 of 1,000 on H100" in text_of(pilot.app)
        height = pane(pilot.app.screen).grid.size.height - 1
        assert pane(pilot.app.screen).grid.row_count <= 40
        await press(pilot, *["pagedown"] * 4)
        assert max(board.read_rows) <= 3 * height
        assert "user70 " in text_of(pilot.app)
        await press(pilot, "home")
        assert line(pilot.app, "user0 ").split()[:2] == ["1", "user0"]


@pytest.mark.parametrize("method", ["allowed_gpus", "pages"])
async def test_a_board_that_is_read_slowly_says_so_in_the_place_of_its_rows(method: str) -> None:
    board = FakeBoard()
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end")
        board.held[method] = threading.Event()
        await pilot.press("b")
        await until(pilot, lambda: "Loading …" in text_of(pilot.app))
        board.free()
        await settled(pilot)
        assert "Loading …" not in text_of(pilot.app)


async def test_a_board_without_rows_has_no_use_for_their_keys() -> None:
    board = FakeBoard()

    def disabled() -> set[str]:
        return {key.key_display for key in footer_keys(pilot.app) if key.has_class("-disabled")}

    async with app_on(board).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "b")
        assert disabled() == {"a", "m", "v", "t", "U", "w", "R"}
        await press(pilot, "escape", "end", "b")
        assert disabled() == set()
        # Of one's own runs, of which there are none, `a` leads back.
        board.user = "eve"
        await press(pilot, "a")
        assert "You have no results on H100 yet." in text_of(pilot.app)
        assert disabled() == {"m", "v", "t", "U", "w"}
        await press(pilot, "a")
        assert disabled() == set()


async def test_a_board_on_a_gpu_that_has_left_the_settings_says_which_one_it_is_instead() -> None:
    async with app_on(
        FakeBoard(runs=[run(7, RunState.FINISHED, gpu="V100", verdict=Verdict.PASS)])
    ).run_test() as pilot:
        await settled(pilot)
        await press(pilot, "r", "b")
        assert toasts(pilot.app) == ["The settings have no V100 for this task; this is its board on H100."]


async def test_ones_own_row_is_found_and_left_for_the_first() -> None:
    board = long_board()
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "u")
        assert line(pilot.app, "ada (you)").split()[0] == "701"
        assert pane(pilot.app.screen).grid.current == "1700"
        assert max(board.read_rows) < 80
        await pilot.press(*["up"] * 21)
        await settled(pilot)
        assert line(pilot.app, "user679 ").split()[0] == "680"
        assert max(board.read_rows) < 80
        assert len(board.read_rows) < 14
        await press(pilot, "u", "u")
        assert line(pilot.app, "user0 ").split()[0] == "1"
        assert pane(pilot.app.screen).grid.current == "1000"


async def test_a_board_begins_at_the_gpu_of_the_best_rank_among_several_users_or_of_the_first_results() -> None:
    board = FakeBoard()
    board.boards["A100"] = tuple(
        standing(place, user, place * 1e-6, place, 1) for place, user in ((1, "ada"), (2, "x"))
    )
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b")
        assert pane(pilot.app.screen).gpu == "A100"
        board.boards["A100"] = board.boards["A100"][:1]
        await press(pilot, "escape")
        assert line(pilot.app, "vectoradd").split()[-4:-2] == ["µs", "#2"]
        await press(pilot, "b")
        assert pane(pilot.app.screen).gpu == "H100"
        board.user = "eve"
        board.boards["H100"] = ()
        await press(pilot, "escape", "b")
        assert pane(pilot.app.screen).gpu == "A100"


@pytest.mark.parametrize("rows", [(), (standing(1, "carol", 21.4e-6, 22, 99),)], ids=["empty", "others"])
async def test_a_board_without_ones_own_row_leads_to_that_on_another_gpu(rows: tuple[Standing, ...]) -> None:
    board = FakeBoard()
    board.boards["A100"] = rows
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "right", "u")
        assert toasts(pilot.app) == ["You have no result on A100. This is your rank on H100: 2."]
        assert (pane(pilot.app.screen).gpu, pane(pilot.app.screen).grid.current) == ("H100", "39")
        board.user = "eve"
        await press(pilot, "escape", "b", "u")
        assert toasts(pilot.app)[-1:] == ["You have no passing ranked run for vectoradd. Press s to submit a file."]


async def test_the_cursor_begins_at_the_first_user_below_the_marks_that_are_faster() -> None:
    board = FakeBoard()
    board.milestones["H100"] = (replace(REFERENCE, kind=MarkKind.MILESTONE, name="float4", score_s=1e-6),)
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b")
        assert pane(pilot.app.screen).grid.current == "34"
        await press(pilot, "u", "u")
        assert pane(pilot.app.screen).grid.current == "34"


async def test_a_filter_finds_rows_beyond_those_read_and_esc_leaves_the_selected_one_in_its_place() -> None:
    board = long_board()
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "slash", *"USER")
        assert "H100 999 of 1,000 · filter: USER" in text_of(pilot.app)
        assert pane(pilot.app.screen).grid.row_count <= 80
        await press(pilot, "enter", "end")
        assert line(pilot.app, "user999 ").split()[0] == "1000"
        await press(pilot, "slash", *"USER99")
        assert "H100 11 of 1,000 · filter: USER99" in text_of(pilot.app)
        assert "You are 701 of 1,000 on H100" in text_of(pilot.app)
        await press(pilot, "enter", "down", "down")
        assert line(pilot.app, "user991 ").split()[0] == "992"
        await press(pilot, "escape")
        assert pane(pilot.app.screen).grid.current == "1991"
        assert line(pilot.app, "user989 ").split()[0] == "990"


async def test_a_filter_reads_files_too_stays_for_ones_own_runs_and_is_left_for_ones_own_row() -> None:
    board = long_board(30, own=20)
    board.boards["H100"] = tuple(
        replace(row, file_name="float4.py") if row.run == 1007 else row for row in board.boards["H100"]
    )
    async with app_on(board).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "slash", *"float4")
        assert (pane(pilot.app.screen).grid.row_count, pane(pilot.app.screen).grid.current) == (1, "1007")
        await press(pilot, "x", "enter")
        assert "No row matches “float4x”" in text_of(pilot.app)
        await press(pilot, "escape", "slash", *"ada", "enter", "a")
        assert "User" not in line(pilot.app, "Rank"), "the rows are the user's own"
        assert "H100 1 of 1 · filter: ada" in text_of(pilot.app)
        await press(pilot, "a", "u")
        assert "filter: ada" not in text_of(pilot.app)
        assert pane(pilot.app.screen).grid.row_count > 1
        assert pane(pilot.app.screen).grid.current == "1020"


async def test_runs_that_were_removed_stand_below_with_the_reason() -> None:
    board = FakeBoard()
    removed = run(31, RunState.FINISHED, verdict=Verdict.PASS, score_s=1e-6)
    removal = Removal("root", NOW, "hard-coded [bold]answer[/bold]")
    board.uncounted_runs = (replace(removed, remarks=Remarks(removal=removal)),)
    board.known_runs.append(removed)
    async with app_on(board).run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b")
        assert "1 removed." in text_of(pilot.app)
        assert "removed" in line(pilot.app, "1.00 µs")
        await press(pilot, "end", "enter")
        assert isinstance(pilot.app.screen, ReportScreen)
        assert pilot.app.screen.run_id == 31


async def test_wide_terminals_have_boards_beside_each_other() -> None:
    async with app_on(FakeBoard()).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b")
        assert "H100 4" in text_of(pilot.app)
        assert "bob" in text_of(pilot.app)
        assert "1 user on A100." in text_of(pilot.app)
        await press(pilot, "right")
        assert "A100 1" in text_of(pilot.app)
        assert pane(pilot.app.screen).grid.has_focus
        await press(pilot, "right")
        assert "emulated" in line(pilot.app, "3.10 ms")
        await press(pilot, "shift+tab")
        assert pane(pilot.app.screen).gpu == "A100"
        await pilot.resize_terminal(200, 40)
        await settled(pilot)
        assert all(words in text_of(pilot.app) for words in ("bob", "1 user on A100.", "You are 1 of 1 on L4"))


@pytest.mark.parametrize(("size", "per_row"), [((80, 50), [1, 1]), ((120, 50), [2, 1]), ((120, 49), [2])])
async def test_high_terminals_have_two_rows_of_boards(size: tuple[int, int], per_row: list[int]) -> None:
    async with app_on(FakeBoard()).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b")
        await pilot.resize_terminal(*size)
        await settled(pilot)
        shown = [each for each in pilot.app.screen.query(BoardPane) if each.display]
        assert list(Counter(each.region.y for each in shown).values()) == per_row
        assert all(each.page is not None for each in shown)
        await press(pilot, "right", "right")
        assert pane(pilot.app.screen).gpu == "L4"
        assert pane(pilot.app.screen).grid.has_focus


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_a_filter_is_that_of_all_gpus_and_one_without_a_match_names_those_with_any(size: tuple[int, int]) -> None:
    board = FakeBoard()
    carol, barbara = standing(1, "carol", 21.4e-6, 98, 21), standing(2, "barbara", 31.4e-6, 99, 22)
    board.boards["A100"] = (carol, barbara)
    board.boards["L4"] = (replace(barbara, rank=1, run=101),)
    async with app_on(board).run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "slash", *"barb", "enter")
        assert "“barb” is on A100 and L4." in text_of(pilot.app)
        await press(pilot, "a")
        assert "“barb” is on" not in text_of(pilot.app)
        await press(pilot, "a")
        assert "“barb” is on A100 and L4." in text_of(pilot.app)
        await press(pilot, "right")
        assert "A100 1 of 2 · filter: barb" in text_of(pilot.app)
        assert pane(pilot.app.screen).gpu == "A100"
        assert pane(pilot.app.screen).grid.has_focus
        assert pane(pilot.app.screen).grid.current == "99"
        await press(pilot, "escape")
        assert "barb " not in text_of(pilot.app).replace("barbara", "")
        assert pane(pilot.app.screen).grid.row_count == 2
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, TasksScreen)


async def test_a_board_of_one_gpu_offers_no_other_gpu_and_a_filter_is_cleared_before_the_screen_is_left() -> None:
    board = FakeBoard()
    board.known_gpus = board.known_gpus[:1]
    async with app_on(board).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b")
        assert "GPU" not in text_of(pilot.app).splitlines()[-1]
        await press(pilot, "slash", *"bob", "enter")
        assert "Clear" in text_of(pilot.app).splitlines()[-1]
        assert "filter: bob" in text_of(pilot.app)
        await press(pilot, "escape")
        assert "filter: bob" not in text_of(pilot.app)
        assert isinstance(pilot.app.screen, StandingsScreen)


def headed(app: object) -> list[str]:
    """The heads of the columns of the first board."""
    return line(app, "Rank").replace("│", " ").split()


async def test_columns_that_say_the_same_in_all_rows_leave_their_room_to_bars() -> None:
    board = long_board(rows=5, own=2)
    board.boards["H100"] = tuple(replace(row, file_name="kernel.py") for row in board.boards["H100"])
    async with app_on(board).run_test(size=(100, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b")
        assert headed(pilot.app) == ["Rank", "User", "Score", "Age", "Run", "Speed"]
        assert "100 %" in line(pilot.app, "user0 ")
        assert " 96 %" in line(pilot.app, "user4 ")
        assert re.search(r"█{15,}[▏▎▍▌▋▊▉]", line(pilot.app, "user4 ")), "a bar ends within a cell"
        await pilot.resize_terminal(60, 24)
        await settled(pilot)
        assert "Speed" in headed(pilot.app)
        await pilot.resize_terminal(99, 24)
        first, *others = board.boards["H100"]
        board.boards["H100"] = (replace(first, file_name="fast.py", trust="verified"), *others)
        pilot.app.screen.query_one(BoardPane).forget()
        await press(pilot, "a", "a")
        assert {"File", "Remark"} <= set(headed(pilot.app))


async def test_a_narrow_board_keeps_speedups_then_intervals() -> None:
    board = long_board(rows=5, own=2)
    board.boards["H100"] = tuple(
        replace(row, interval=Interval(row.score_s * 0.8, row.score_s * 1.3)) for row in board.boards["H100"]
    )
    board.references["H100"] = Reference(44e-6, 17)
    async with app_on(board).run_test(size=(60, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b")
        assert headed(pilot.app) == ["Rank", "User", "Score", "80", "%", "CI", "Speedup"]
        board.boards["H100"] = tuple(replace(row, emulated=True) for row in board.boards["H100"])
        await press(pilot, "a", "a")
        assert headed(pilot.app) == ["Rank", "User", "Score", "Speedup", "Age", "Remark"]


async def test_a_caution_is_shown_though_it_is_in_all_rows() -> None:
    board = long_board(rows=5, own=2)
    board.boards["H100"] = tuple(replace(row, emulated=True) for row in board.boards["H100"])
    async with app_on(board).run_test(size=(100, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b")
        assert "emulated" in line(pilot.app, "user0 ")


def drawn(app: App[None]) -> list[Widget]:
    """The plots of records that are seen."""
    return [plot for plot in app.screen.query(".records") if plot.display]


@pytest.mark.parametrize("size", [(120, 40), (200, 60)])
async def test_a_board_of_few_rows_has_the_plot_of_its_records_below(size: tuple[int, int]) -> None:
    board = long_board(rows=5, own=2)
    async with app_on(board).run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b")
        plot, *_ = drawn(pilot.app)
        assert plot.region.bottom > size[1] - 4
        assert plot.size.height + 2 == plot_lines(len(board.records("vectoradd", "H100")), size[1])
        assert "Best time" in text_of(pilot.app)
        assert "●" in text_of(pilot.app)
        await pilot.resize_terminal(size[0], 20)
        await settled(pilot)
        assert drawn(pilot.app) == []
    async with app_on(long_board()).run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b")
        assert not pilot.app.screen.query_one("#board-0 .records").display, "the rows have the room"


async def test_code_is_shown_where_allowed_and_refused_in_words_elsewhere() -> None:
    class WithCode(FakeBoard):
        def code(self, run: int) -> tuple[str, bytes]:
            if run != 39:
                raise Refused(f"run {run} is not yours", hint="Ask its author.")
            return "ada.py", b"import torch\n\x1b[31mred\xff = 1\n"

    async with app_on(WithCode()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "v")
        assert isinstance(pilot.app.screen, CodeScreen)
        assert "run 34 is not yours" in text_of(pilot.app)
        await press(pilot, "escape", "u", "v")
        assert "import torch" in text_of(pilot.app)
        assert "\x1b" not in text_of(pilot.app)


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (200, 60)])
async def test_the_trend_has_the_newest_run_first_and_opens_each(size: tuple[int, int]) -> None:
    board = FakeBoard()
    times_us = (30, 20, 25, 10, 15)
    board.histories["H100"] = tuple(
        standing(1, "ada", time_us * 1e-6, 39 - hours, hours) for hours, time_us in enumerate(reversed(times_us))
    )
    async with app_on(board).run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "u", "t")
        text = text_of(pilot.app)
        assert "Score: ● fastest yet   ○ slower" in text
        assert "vectoradd on H100: ada 5" in text
        assert line(pilot.app, " 39 ada.py").split()[2:8] == ["15.0", "µs", "1.50x", "slower", "39", "ada.py"]
        assert line(pilot.app, " 38 ada.py").split()[2:9] == ["10.0", "µs", "●", "2.00x", "faster", "38", "ada.py"]
        await press(pilot, "down", "enter")
        assert isinstance(pilot.app.screen, ReportScreen)
        assert pilot.app.screen.run_id == 38
        await press(pilot, "escape")
        assert "vectoradd on H100: ada 5" in text_of(pilot.app)


async def test_the_trend_of_a_user_without_runs_says_so_and_of_one_run_has_its_score() -> None:
    found = FakeBoard(runs=(run(22, RunState.FINISHED, ago_minutes=99 * 60, user="carol", gpu="A100"),))
    async with app_on(found).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "right", "t")
        assert "vectoradd on A100: carol 1" in text_of(pilot.app)
        assert "One run: " in text_of(pilot.app)
        assert "●" not in text_of(pilot.app).split("carol 1")[0]
        pilot.app.post_message(Open(targets.Trend("vectoradd", "A100", "eve")))
        await settled(pilot)
        assert "No passing ranked runs yet." in text_of(pilot.app)
        assert not pilot.app.screen.query_one("#plot").display


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_board_that_cannot_be_read_stays_as_it_was(size: tuple[int, int]) -> None:
    board = FakeBoard()
    async with app_on(board, tick_seconds=0.05).run_test(size=size) as pilot:
        await until(pilot, lambda: "vectoradd" in text_of(pilot.app))
        await pilot.press("end", "b")
        await until(pilot, lambda: "dmitri" in text_of(pilot.app))
        board.failures["pages"] = StorageError("the disk is full", hint="Free some space.")
        await until(pilot, lambda: "the disk is full" in text_of(pilot.app))
        assert "dmitri" in text_of(pilot.app)
        board.failures.clear()
        await until(pilot, lambda: "the disk is full" not in text_of(pilot.app))


async def test_the_trend_reads_a_page_of_runs_and_says_how_many_it_leaves_out() -> None:
    board = FakeBoard()
    board.boards["H100"] = tuple(standing(1, "ada", 1e-6 * (900 - hour), 2000 - hour, hour) for hour in range(500))
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b")
        board.read_rows.clear()
        await press(pilot, "t")
        assert max(board.read_rows) == RUNS_MAX
        assert "The newest 200 of 500 runs; 300 older ones left out" in text_of(pilot.app)
