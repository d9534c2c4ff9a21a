"""Code and logs: lines that are not wrapped, numbers, colours, search and copies."""

from typing import Any

import pytest
from textual import events
from textual.widgets import Static

from hpc_board.tui.widgets.text_pane import SourceView
from tests.tui.driving import app_on, press, settled, text_of
from tests.tui.fake_board import TASKS, FakeBoard
from tests.values import replace

LONG = "generator = torch.Generator(device='cuda'); magnitude = 100 ** (torch.rand(3) - 0.5)  # " + "far " * 30 + "END"
CODE = "\n".join(["import torch", LONG, *(f"value_{number} = {number}" for number in range(3, 120)), "last = None", ""])


class Publishing(FakeBoard):
    """Shows this code for each run."""

    def code(self, run: int) -> tuple[str, bytes]:
        del run
        return "kernel.py", CODE.encode()


async def read_code(pilot: Any) -> SourceView:
    """Open the code behind the first row of a board."""
    await settled(pilot)
    await press(pilot, "end", "b", "v")
    view = pilot.app.screen.query_one(SourceView)
    assert isinstance(view, SourceView)
    return view


async def test_code_is_not_wrapped_and_scrolls_sideways_beside_its_numbers() -> None:
    async with app_on(Publishing()).run_test(size=(80, 24)) as pilot:
        view = await read_code(pilot)
        lines = text_of(pilot.app).splitlines()
        second = next(index for index, line in enumerate(lines) if "generator =" in line)
        assert lines[second].split()[0] == "2"
        assert lines[second + 1].split() == ["3", "value_3", "=", "3"]
        assert "END" not in text_of(pilot.app)
        await press(pilot, *["l"] * 4, "right")
        shown = text_of(pilot.app).splitlines()[second]
        assert shown.split()[0] == "2"
        assert "generator" not in shown
        view.view.scroll_to(x=view.view.max_scroll_x, animate=False)
        await settled(pilot)
        assert "END" in text_of(pilot.app).splitlines()[second]
        view.view.scroll_to(x=2, animate=False)
        await press(pilot, "h")
        assert view.view.scroll_offset.x < 2
        await press(pilot, "h", "h", "h")
        assert view.view.scroll_offset.x == 0


@pytest.mark.parametrize(
    ("name", "header"),
    [("kernel.py", '#!POPCORN leaderboard a\n"""\n{}"""\n\n'), ("kernel.cu", "//!POPCORN leaderboard a\n{}\n")],
)
async def test_a_long_header_is_above_the_code_that_is_shown_first(name: str, header: str) -> None:
    class Headed(FakeBoard):
        def code(self, run: int) -> tuple[str, bytes]:
            del run
            told = "".join(f"// told {number}\n" for number in range(30))
            return name, (header.format(told) + CODE).encode()

    async with app_on(Headed()).run_test(size=(80, 24)) as pilot:
        view = await read_code(pilot)
        text = text_of(pilot.app)
        assert "import torch" in text
        assert "told 29" in text
        assert "told 20" not in text
        await press(pilot, "g")
        assert view.view.scroll_offset.y == 0


async def test_numbers_have_the_ground_of_the_code_and_none_is_beside_the_scrollbar() -> None:
    async with app_on(Publishing()).run_test(size=(80, 24)) as pilot:
        view = await read_code(pilot)
        (number, *_), height = view.numbers.render_line(0), view.numbers.size.height
        assert number.text.split() == ["1"]
        assert number.style is not None
        assert number.style.bgcolor == view.view.rich_style.bgcolor
        assert view.view.scrollable_content_region.height == height - 1
        assert view.numbers.render_line(height - 2).text.split() == [f"{height - 1}"]
        assert not view.numbers.render_line(height - 1).text.strip()


async def test_the_wheel_with_shift_scrolls_code_sideways() -> None:
    async with app_on(Publishing()).run_test(size=(80, 24)) as pilot:
        view = await read_code(pilot)
        wheel = events.MouseScrollDown(view.view, 5, 5, 0, 0, 0, shift=True, meta=False, ctrl=False)
        view.view.post_message(wheel)
        await settled(pilot)
        assert view.view.scroll_offset.x > 0


async def test_code_is_coloured() -> None:
    async with app_on(Publishing()).run_test(size=(80, 24)) as pilot:
        view = await read_code(pilot)
        strip = view.view.render_line(0)
        words = {segment.text.strip(): segment.style for segment in strip if segment.text.strip()}
        keyword, name = words["import"], words["torch"]
        assert keyword is not None
        assert name is not None
        assert keyword.color != name.color


@pytest.mark.parametrize(("key", "line"), [("G", "last = None"), ("ctrl+f", "value_20"), ("ctrl+d", "value_13")])
async def test_code_is_paged_by_keys(key: str, line: str) -> None:
    async with app_on(Publishing()).run_test(size=(80, 24)) as pilot:
        view = await read_code(pilot)
        assert line not in text_of(pilot.app) or key == "ctrl+d"
        await press(pilot, key)
        assert line in text_of(pilot.app)
        assert "import torch" not in text_of(pilot.app)
        await press(pilot, "g")
        assert view.view.scroll_offset.y == 0


async def test_the_reference_of_a_task_is_read_searched_and_left() -> None:
    task = TASKS[0]
    files = tuple(replace(file, text=CODE) if file.text is not None else file for file in task.files)
    async with app_on(FakeBoard(tasks=[replace(task, files=files)])).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "right_square_bracket", "enter", "slash", *"last", "enter")
        assert "/last: 1 of 1" in text_of(pilot.app)
        assert "last = None" in text_of(pilot.app)
        await press(pilot, "y")
        assert pilot.app.clipboard == CODE
        await press(pilot, "escape", "escape", "slash", *"vec")
        assert pilot.app.screen.focused is pilot.app.screen.query_one("#task-list-filter Input")


async def test_a_message_takes_the_place_of_code() -> None:
    class Empty(FakeBoard):
        def code(self, run: int) -> tuple[str, bytes]:
            del run
            return "kernel.py", b""

    async with app_on(Empty()).run_test(size=(80, 24)) as pilot:
        view = await read_code(pilot)
        assert str(view.query_one(".nothing", Static).content) == "The file is empty."
        assert not view.query_one(".code").display


async def test_a_view_that_becomes_lower_still_shows_the_code_below_its_header() -> None:
    class Starting(FakeBoard):
        def code(self, run: int) -> tuple[str, bytes]:
            del run
            lines = [*(f"# Rule {number}" for number in range(24)), "import torch", *["value = 1"] * 6]
            return "kernel.py", "\n".join(lines).encode()

    async with app_on(Starting()).run_test(size=(120, 60)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "end", "enter")
        assert "Rule 0" in text_of(pilot.app)
        await pilot.resize_terminal(120, 44)
        await settled(pilot)
        assert "import torch" in text_of(pilot.app)
        assert "Rule 0" not in text_of(pilot.app)
