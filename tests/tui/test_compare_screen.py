"""Two runs beside each other: how they are chosen, and their times."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.app import App
from textual.color import Color
from textual.theme import BUILTIN_THEMES

from hpc_board.domain.comparison import CaseDifference, Compared, Comparison, Difference, compared
from hpc_board.domain.reference import Reference
from hpc_board.domain.run import RunState
from hpc_board.errors import InputError, NoTimes, Refused
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode, Ranking
from hpc_board.tui import targets
from hpc_board.tui.messages import SideChosen
from hpc_board.tui.screens.compare import CompareScreen
from hpc_board.tui.screens.runs import RunsScreen
from hpc_board.tui.themes import DARK, LIGHT, contrast
from hpc_board.tui.widgets.text_pane import SourceView
from tests.tui.driving import app_on, footer_keys, press, settled, text_of, until
from tests.tui.fake_board import NOW, FakeBoard, result, run
from tests.unit.recorded import recorded, result_of, timed_case
from tests.values import replace

SOURCES = {
    39: b"import torch\n\n\ndef custom_kernel(data):\n    a, b = data\n    return a + b\n",
    34: b"import torch\n\n\ndef custom_kernel(data):\n    a, b = data\n    return torch.add(a, b)  # [bold]fast[/bold] "
    b"\x1b[31m\n",
}


class Timed(FakeBoard):
    """Has times and files of two runs."""

    def compare(self, one: int, other: int, gpus: Sequence[str] = ()) -> list[Compared]:
        del gpus
        self._enter("compare")
        if {one, other} != set(SOURCES):
            raise InputError(f"runs {one} and {other} are for different versions of vectoradd", hint="Choose others.")
        runs = {
            39: run(39, RunState.FINISHED, verdict=Verdict.PASS, score_s=12.34e-6),
            34: run(34, RunState.FINISHED, user="bob", verdict=Verdict.PASS, score_s=11.02e-6),
        }
        runs = {number: replace(each, file_name=f"kernel{number}.py") for number, each in runs.items()}
        results = {number: result(each) for number, each in runs.items()}
        faster = [
            replace(
                case,
                timing=replace(
                    case.timing,
                    time_ns=case.timing.time_ns * 0.8,
                    samples_ns=tuple(sample * 0.8 for sample in case.timing.samples_ns),
                ),
            )
            if case.timing
            else case
            for case in results[34].cases
        ]
        results[34] = replace(results[34], cases=tuple(faster))
        first, second = results[one], results[other]
        difference = compared(first.cases, second.cases, Ranking.GEOM)
        return [Compared((runs[one], runs[other]), (first, second), difference)]

    def code(self, run: int) -> tuple[str, bytes]:
        self._enter("code")
        return f"kernel{run}.py", SOURCES.get(run, b"pass\n")


def told(app: App[None], words: str) -> bool:
    return any(words in each.message for each in app._notifications)


async def test_a_mark_is_on_one_row_beside_the_reference_of_its_run() -> None:
    board = Timed()
    board.references = {"H100": Reference(44e-6, 12)}
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "home", "m")
        rows = text_of(pilot.app).splitlines()
        assert [row.split()[2] for row in rows if row.strip().startswith("*")] == ["bob"]
        assert any("[reference]" in row for row in rows)


async def test_a_comparison_in_a_small_terminal_leaves_a_column_out_and_cuts_none() -> None:
    async with app_on(Timed()).run_test(size=(60, 16)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "u", "m", "home", "m")
        pilot.app.clear_notifications()
        await settled(pilot)
        text = text_of(pilot.app)
        (head,) = [line for line in text.splitlines() if "Change" in line]
        assert head.split() == ["Case", "kernel34.py", "→", "kernel39.py", "Change"]
        assert re.search(r"1024 +9.60 µs +12.0 µs +1.25x", text)
        await press(pilot, "tab")
        assert "--- run-34/kernel34.py" in text_of(pilot.app)


@pytest.mark.parametrize("keys", [("u", "m", "home", "m"), ("home", "m", "u", "m")])
async def test_the_older_run_is_on_the_left_whatever_the_order_of_the_marks(keys: tuple[str, ...]) -> None:
    async with app_on(Timed()).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", *keys)
        text = text_of(pilot.app)
        assert "Compare / run 34 with 39" in text
        assert "1.25x slower (±" in text
        lines = [line.strip() for line in text.splitlines()]
        assert lines.index("+++ run-39/kernel39.py") == lines.index("--- run-34/kernel34.py") + 1
        assert lines[lines.index("+++ run-39/kernel39.py") + 1].split(maxsplit=1) == ["1", "import torch"]
        assert "6 +    return a + b" in lines


class Reworded(Timed):
    """Has files that differ in one number."""

    def code(self, run: int) -> tuple[str, bytes]:
        return f"kernel{run}.py", f"def custom_kernel(data):\n    return (data[0] + {run}) * 2\n".encode()


async def test_changed_lines_have_grounds_with_other_ones_below_changed_words() -> None:
    async with app_on(Reworded()).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "u", "m", "home", "m")
        view = pilot.app.screen.query_one(SourceView)
        styles = {
            (line[:1], segment.text.strip()): segment.style
            for row, line in enumerate(view.view.lines)
            for segment in view.view.render_line(row)
            if segment.style is not None
        }
        same = styles["-", "return"], styles["+", "return"], styles[" ", "def"]
        assert len({style.bgcolor for style in (*same, styles["-", "34"], styles["+", "39"])}) == 5


async def test_code_and_comments_can_be_read_on_each_ground_of_a_diff_in_all_themes() -> None:
    class Commented(Timed):
        def code(self, run: int) -> tuple[str, bytes]:
            return f"kernel{run}.py", f'# equal\ndef kernel(data):\n    return data[0] + {run}  # "{run}"\n'.encode()

    async with app_on(Commented()).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "u", "m", "home", "m")
        view = pilot.app.screen.query_one(SourceView).view
        faint = {}
        for theme in (DARK, LIGHT, *(each for each in BUILTIN_THEMES.values() if not each.ansi)):
            pilot.app.theme = theme.name
            await settled(pilot)
            for row, line in enumerate(view.lines):
                for text, style, _ in view.render_line(row):
                    if line[:2] not in ("--", "++") and text.strip() and style and style.color and style.bgcolor:
                        colours = (Color.from_rich_color(each) for each in (style.color, style.bgcolor))
                        faint[theme.name, line, text] = contrast(*colours)
        assert len(faint) > 21 * 20
        assert {place: found for place, found in faint.items() if found < 4.5} == {}


async def test_a_diff_is_coloured_searched_and_copied_without_its_control_characters() -> None:
    async with app_on(Timed()).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "u", "m", "home", "m")
        assert "-    return torch.add(a, b)  # [bold]fast[/bold]\n" in text_of(pilot.app)
        view = pilot.app.screen.query_one(SourceView)
        colours = {
            segment.text[0]: segment.style.color
            for row in range(view.view.line_count)
            for segment in view.view.render_line(row)
            if segment.text.strip() and segment.style is not None
        }
        assert colours["+"] != colours["-"]
        await press(pilot, "slash", *"torch.add", "enter")
        assert "/torch.add: 1 of 1" in text_of(pilot.app)
        await press(pilot, "y")
        assert pilot.app.clipboard.startswith("--- run-34/kernel34.py\n+++ run-39/kernel39.py\n@@ ")


async def test_the_keys_of_a_run_act_on_the_newer_one() -> None:
    async with app_on(Timed()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "u", "m", "home", "m")
        assert {"s Submit", "e Edit", "b Board"} <= {
            f"{key.key_display} {key.description}" for key in footer_keys(pilot.app)
        }
        await press(pilot, "v")
        assert "File of run 39" in text_of(pilot.app)


class Headed(Timed):
    """Has files with a long header."""

    def code(self, run: int) -> tuple[str, bytes]:
        name, data = super().code(run)
        return name, b"".join(b"# told %d\n" % number for number in range(20)) + data


async def test_long_equal_parts_are_folded_but_for_those_that_a_huge_screen_has_room_for() -> None:
    async with app_on(Headed()).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "u", "m", "home", "m")
        lines = [line.strip() for line in text_of(pilot.app).splitlines()]
        fold = lines.index("… 22 equal lines")
        assert lines[fold + 1].split() == ["23"]
        assert "26 +    return a + b" in lines
        await pilot.resize_terminal(200, 60)
        await settled(pilot)
        text = text_of(pilot.app)
        assert "1.25x slower (± 0.03x)  ████████████████░░░░" in text
        assert "equal lines" not in text
        assert " # told 0" in text


class Wordy(Timed):
    """Has files of which one has a line for more than half a screen, with wide letters, and one line more."""

    def code(self, run: int) -> tuple[str, bytes]:
        comment = f"# {'長い ' * 24}end" if run == 34 else "# short\n"
        return f"kernel{run}.py", f"import torch\n{comment}\nx = {run}\n".encode()


async def test_a_wide_screen_has_both_files_side_by_side_with_long_lines_wrapped() -> None:
    async with app_on(Wordy()).run_test(size=(200, 60)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "u", "m", "home", "m")
        view = pilot.app.screen.query_one(SourceView)
        lines = [*view.view.lines]
        assert [line.count(" │ ") for line in lines] == [1] * len(lines)
        assert len({cell_len(line.partition(" │ ")[0]) for line in lines}) == 1
        sides = [tuple(side.split() for side in line.split(" │ ")) for line in lines]
        assert sides[:2] == [
            (["---", "run-34/kernel34.py"], ["+++", "run-39/kernel39.py"]),
            (["1", "import", "torch"], ["1", "import", "torch"]),
        ]
        assert [left[:2] for left, _ in sides[2:]] == [["2", "-#"], ["長い", "長い"], ["3", "-x"], []]
        assert [right[:2] for _, right in sides[2:]] == [["2", "+#"], [], ["3", "+"], ["4", "+x"]]
        assert sides[3][0][-1] == "end"
        segments = [segment for row in (1, 4, 5) for segment in view.view.render_line(row)]
        grounds = {segment.text.strip(): segment.style.bgcolor for segment in segments if segment.style is not None}
        assert len({grounds[word] for word in ("import", "34", "39")}) == 3
        await press(pilot, "y")
        assert view.copied.startswith("--- run-34/kernel34.py\n+++ run-39/kernel39.py\n@@")
        await pilot.resize_terminal(120, 40)
        await settled(pilot)
        assert not any(" │ " in line for line in view.view.lines)
        assert view.numbers.display


class Disturbed(Timed):
    """Has runs beside other work, at different conditions, with enough cases for more than half a screen."""

    def compare(self, one: int, other: int, gpus: Sequence[str] = ()) -> list[Compared]:
        (found,) = super().compare(one, other, gpus)
        steady = Difference(12.3e3, 9.84e3, 1.02, repeated=True)
        cases = tuple(CaseDifference(index, f"size: {1024 + index}", steady) for index in range(8))
        busy = [
            replace(case, timing=replace(case.timing, busy_processors=4.2)) if case.timing else case
            for case in found.results[1].cases
        ]
        results = found.results[0], replace(found.results[1], cases=tuple(busy))
        return [replace(found, results=results, comparison=Comparison(cases, steady, 2.1))]


async def test_the_caveats_are_below_the_changes_and_the_times_take_the_lines_that_a_short_diff_leaves() -> None:
    async with app_on(Disturbed()).run_test(size=(120, 34)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "u", "m", "home", "m")
        lines = [line.strip() for line in text_of(pilot.app).splitlines()]
        changes = [number for number, line in enumerate(lines) if "1.25x faster" in line]
        (busy,) = (number for number, line in enumerate(lines) if line.startswith("Busy machine: other work used 4.2"))
        assert len(changes) == 9
        assert busy == changes[-1] + 2
        assert any(line.startswith("Conditions differed") for line in lines)
        screen = pilot.app.screen
        times, diff = screen.query_one("#times"), screen.query_one(SourceView)
        assert times.size.height > diff.size.height == len(diff.text.splitlines())
        await pilot.resize_terminal(120, 30)
        await settled(pilot)
        assert diff.size.height == len(diff.text.splitlines())


async def test_times_are_shown_without_files_that_the_user_may_not_read() -> None:
    board = Timed(failures={"code": Refused("the owner is bob, not ada.", hint="")})
    async with app_on(board).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "u", "m", "home", "m")
        text = text_of(pilot.app)
        assert "1.25x slower (±" in text
        assert "You may not read both files: the owner is bob, not ada." in text


async def test_a_marked_run_that_is_gone_is_an_error(tmp_path: Path) -> None:
    place = recorded(tmp_path)
    place.add(result=result_of(Verdict.PASS, timed_case()), score_s=12e-6)
    async with app_on(place.board).run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "identity_py" in text_of(pilot.app))
        pilot.app.post_message(SideChosen(99, "vectoradd_py"))
        await press(pilot, "r", "m")
        text = text_of(pilot.app)
        assert "there is no run 99" in text
        assert "The times are not shown." in text
        assert "The files are not shown." in text


async def test_runs_are_marked_too_and_the_same_one_twice_is_none() -> None:
    async with app_on(Timed()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "m", "m")
        await until(pilot, lambda: told(pilot.app, "is no longer marked"))
        assert getattr(pilot.app, "marked", 0) is None


async def test_two_runs_without_times_show_the_diff_and_the_reason() -> None:
    class Untimed(Timed):
        def compare(self, one: int, other: int, gpus: Sequence[str] = ()) -> list[Compared]:
            del one, gpus
            raise NoTimes(f"the file of run {other} has no times on H100", hint="Choose another.")

    runs = [run(number, RunState.FINISHED, mode=Mode.TEST, verdict=Verdict.PASS) for number in SOURCES]
    async with app_on(Untimed(runs=runs)).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "m", "down", "m")
        text = text_of(pilot.app)
        assert "The file of run 39 has no times on H100. Choose another." in text
        assert "--- run-34/kernel34.py" in text
        await press(pilot, "v")
        assert "File of run 39" in text_of(pilot.app)


async def test_a_run_in_flight_offers_no_mark() -> None:
    async with app_on(Timed()).run_test(size=(120, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "a")
        assert "mark" not in [key.action for key in footer_keys(pilot.app)]
        await press(pilot, "m")
        assert not signed(text_of(pilot.app))


async def test_a_mark_for_another_task_takes_the_place_of_the_first() -> None:
    async with app_on(Timed()).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "m")
        pilot.app.post_message(SideChosen(7, "matmul"))
        await until(pilot, lambda: told(pilot.app, "Run 7 is marked in place of run 39, which is for vectoradd."))
        assert isinstance(pilot.app.screen, RunsScreen)
        assert (getattr(pilot.app, "marked", 0), signed(text_of(pilot.app))) == (7, [])


async def test_a_comparison_that_the_board_refuses_says_why() -> None:
    async with app_on(Timed()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        for number in (39, 20):
            pilot.app.post_message(SideChosen(number, "vectoradd"))
        await settled(pilot)
        assert isinstance(pilot.app.screen, CompareScreen)
        assert "are for different versions" in text_of(pilot.app)
        assert "Choose others." in text_of(pilot.app)
        assert "The times are not shown." in text_of(pilot.app)


def signed(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.startswith(" *")]


async def test_the_chosen_run_has_a_sign_until_it_is_taken_back_or_compared() -> None:
    async with app_on(Timed()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "m")
        assert [line.split()[1] for line in signed(text_of(pilot.app))] == ["39"]
        assert "m on another run compares both" in text_of(pilot.app)
        await press(pilot, "m")
        assert not signed(text_of(pilot.app))
        await press(pilot, "m", "down", "down", "m")
        assert isinstance(pilot.app.screen, CompareScreen)
        await press(pilot, "escape")
        await until(pilot, lambda: not signed(text_of(pilot.app)))


async def test_the_chosen_row_of_a_board_has_a_sign() -> None:
    async with app_on(Timed()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "u", "m")
        assert len(signed(text_of(pilot.app))) == 1
        await press(pilot, "escape", "r")
        assert signed(text_of(pilot.app))
        await press(pilot, "escape", "end", "b", "u", "m")
        assert not signed(text_of(pilot.app))


async def test_a_real_board_leads_from_the_feed_to_the_comparison(tmp_path: Path) -> None:
    place = recorded(tmp_path)
    for user, time_ns in (("eve", 12_340.0), (None, 24_680.0), (None, 6_170.0)):
        place.add(
            user=user,
            code=f"name = '{user or 'mine'}, {time_ns:.0f} ns'\n".encode(),
            result=result_of(Verdict.PASS, timed_case(time_ns=time_ns)),
            score_s=time_ns / 1e9,
        )
    board = place.board
    async with app_on(board).run_test(size=(100, 30)) as pilot:
        app = pilot.app
        await until(pilot, lambda: "identity_py" in text_of(app))
        await press(pilot, "slash", *"vectoradd_py", "enter", "b")
        await until(pilot, lambda: "You are 1 of 2 on CPU" in text_of(app))
        await press(pilot, "f")
        assert "took first place on vectoradd_py, CPU: 6.17" in text_of(app)
        assert "(was eve, 12.3" in text_of(app)
        await press(pilot, "escape", "t")
        assert "Score: " in text_of(app)
        await press(pilot, "escape", "a")
        assert "in standings" in text_of(app)
        await press(pilot, "home", "v")
        assert "mine, 6170 ns" in text_of(app)
        await press(pilot, "escape", "end", "m", "home", "m")
        assert "4.00x" in text_of(app)


class Scattered(Timed):
    """Has files whose cases have long names and too much scatter."""

    def compare(self, one: int, other: int, gpus: Sequence[str] = ()) -> list[Compared]:
        (found,) = super().compare(one, other, gpus)
        wide = Difference(12.3e3, 9.84e3, 9, repeated=True)
        cases = tuple(
            CaseDifference(index, f"rows: {8192 + index}; columns: 257; steps: 16; seed: 3", wide) for index in range(2)
        )
        return [replace(found, comparison=Comparison(cases, wide, None))]


@pytest.mark.parametrize("width", [80, 60])
async def test_a_narrow_comparison_keeps_both_times_and_the_change(width: int) -> None:
    board = Scattered()
    async with app_on(board).run_test(size=(width, 24)) as pilot:
        await settled(pilot)
        await pilot.app.push_screen(CompareScreen(board, lambda: NOW, targets.Compare(39, 34)))
        await settled(pilot)
        lines = text_of(pilot.app).splitlines()
    head = next(line for line in lines if "Change" in line)
    assert head.split() == ["Case", "kernel34.py", "→", "kernel39.py", "Change"]
    row = next(line for line in lines if "8192 x" in line)
    assert "12.3 µs" in row
    assert "9.84 µs" in row
    assert any("within noise" in line for line in lines)
    assert any("(case: rows x columns x" in line for line in lines)
