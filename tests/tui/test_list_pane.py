"""The one list of the app, in an app of its own: what it reads, what it says, and how far its keys lead."""

import re
import time
from collections.abc import Sequence
from typing import Any

import pytest
from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.pilot import Pilot
from textual.widgets import DataTable

from hpc_board.errors import BoardError, InputError, StorageError
from hpc_board.tui import themes
from hpc_board.tui.paging import Page, paged
from hpc_board.tui.widgets import list_pane
from hpc_board.tui.widgets.grid import Column
from hpc_board.tui.widgets.list_pane import Kind, ListPane
from tests.tui.driving import text_of, until


class Numbers(App[None]):
    """A list of the numbers from `length` down to 1; `counts` says that their number can be read."""

    CSS = """
        ListPane { Grid { height: 1fr; } .selected { height: 2; } FilterLine { height: 1; } .empty { display: none; } }
        ListPane.-empty .empty { display: block; }
    """

    def __init__(self, length: int, *, counts: bool = False) -> None:
        super().__init__()
        self.length = length
        self.asked: list[int] = []
        self.opened: list[int] = []
        self.drawn: list[int] = []
        self.error: BoardError | None = None
        self.words: dict[int, str] = {}
        self._counts = counts
        themes.register(self)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return themes.tone_variables(self.current_theme)

    def compose(self) -> ComposeResult:
        kind: Kind[int] = Kind(
            [Column("number", "Number", 8), Column("word", "Word", 8, grows=True)],
            key=str,
            cells=self.cells,
            details=lambda number: f"This is {number}.",
            filter_words="digits",
            nothing=lambda: "There are no numbers.",
            run=lambda number: number // 10,
            title="Numbers",
        )
        yield ListPane(kind, self.pages, id="numbers")

    def on_mount(self) -> None:
        self.read(anew=True)

    def cells(self, number: int) -> dict[str, Text]:
        self.drawn.append(number)
        return {"number": Text(str(number)), "word": Text(self.words.get(number, "odd" if number % 2 else ""))}

    def pages(self, words: str) -> Page[int]:
        numbers = [number for number in range(self.length, 0, -1) if words in str(number)]

        def read(offset: int, limit: int) -> Sequence[int]:
            self.asked.append(limit)
            return numbers[offset:][:limit]

        return paged(read, (lambda: len(numbers)) if self._counts else None)

    def read(self, *, anew: bool) -> None:
        """Read the list at once, as a screen does in a thread."""
        del anew
        question, then = self.pane.reading()
        if self.error is not None:
            self.pane.fail(self.error)
        else:
            then(question())

    @property
    def pane(self) -> ListPane[int]:
        return self.query_one(ListPane)

    @on(ListPane.Wanted)
    def _read_wanted(self, event: ListPane.Wanted) -> None:
        self.read(anew=event.anew)

    @on(ListPane.Chosen)
    def _open(self, event: ListPane.Chosen) -> None:
        self.opened.append(event.item)


def shown(pilot: Pilot[Any], words: str) -> bool:
    return words in text_of(pilot.app)


@pytest.mark.parametrize("counts", [False, True])
async def test_the_key_for_the_end_leads_to_the_last_item_of_all_and_back_up_from_there(counts: bool) -> None:
    app = Numbers(9000, counts=counts)
    async with app.run_test(size=(60, 24)) as pilot:
        await until(pilot, lambda: shown(pilot, "This is 9000."))
        await pilot.press("end")
        await until(pilot, lambda: shown(pilot, "This is 1."))
        assert app.pane.selected == 1
        assert len(app.pane.window.items) < 100 if counts else len(app.pane.window.items) == 9000
        for _ in range(6):
            await pilot.press("pageup")
            await pilot.pause()
        await until(pilot, lambda: (app.pane.selected or 0) > 100)
        found = app.pane.selected or 0
        assert list(app.pane.window.items)[-found:] == list(range(found, 0, -1))
        await pilot.press("home")
        await until(pilot, lambda: app.pane.selected == 9000)
        assert app.pane.window.items[0] == 9000


@pytest.mark.parametrize("key", ["ctrl+d", "ctrl+f"])
async def test_keys_go_by_half_and_whole_pages(key: str) -> None:
    app = Numbers(2000)
    async with app.run_test(size=(60, 24)) as pilot:
        await until(pilot, lambda: shown(pilot, "This is 2000."))
        rows = app.pane.grid.screenful
        await pilot.press(key)
        await until(pilot, lambda: app.pane.selected != 2000)
        moved = 2000 - (app.pane.selected or 0)
        assert moved <= rows
        assert moved == rows // 2 or key == "ctrl+f"
        assert moved > rows // 2 or key == "ctrl+d"
        await pilot.press({"ctrl+d": "ctrl+u", "ctrl+f": "ctrl+b"}[key])
        await until(pilot, lambda: (app.pane.selected or 0) > 2000 - moved)


async def test_the_cost_of_a_look_does_not_grow_with_the_list() -> None:
    app = Numbers(100_000)
    async with app.run_test(size=(60, 24)) as pilot:
        await until(pilot, lambda: shown(pilot, "This is 100000."))
        for _ in range(30):
            await pilot.press("pagedown")
            await pilot.pause()
        app.asked.clear()
        app.read(anew=False)
        assert 0 < sum(app.asked) <= 3 * app.pane.grid.screenful


async def test_it_counts_the_items_and_says_where_there_may_be_more() -> None:
    app = Numbers(500, counts=True)
    async with app.run_test(size=(60, 24)) as pilot:
        await until(pilot, lambda: app.pane.length == "42+")
        await pilot.press("end")
        await until(pilot, lambda: app.pane.selected == 1)
        assert app.pane.length == "500"
        known = app.pane.length
        app.pane.narrow("77")
        await until(pilot, lambda: app.pane.length == "5")
        assert app.pane.grid.border_title == f"Numbers 5 of {known} · filter: 77"
        app.pane.narrow("1")
        await until(pilot, lambda: app.pane.grid.border_title == f"Numbers {app.pane.length} of 500 · filter: 1")
        assert app.pane.length.endswith("+")
        app.pane.narrow("")
        await until(pilot, lambda: app.pane.grid.border_title == f"Numbers {app.pane.length}")


async def test_an_empty_list_and_one_that_nothing_fits_say_so() -> None:
    app = Numbers(0)
    async with app.run_test(size=(60, 24)) as pilot:
        await until(pilot, lambda: shown(pilot, "There are no numbers."))
        assert app.pane.length == "0"
        app.pane.narrow("5")
        await until(pilot, lambda: shown(pilot, "No row matches “5”."))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (StorageError("the disk is full"), r"No data yet\. Retrying automatically\."),
        (InputError('unknown GPU "A100"'), r"No data\.(?! Retrying)"),
    ],
)
async def test_a_list_that_could_not_be_read_says_so_until_it_can(error: BoardError, words: str) -> None:
    app = Numbers(30)
    app.error = error
    async with app.run_test(size=(60, 24)) as pilot:
        await until(pilot, lambda: re.search(words, text_of(app)) is not None)
        app.error = None
        app.read(anew=False)
        await until(pilot, lambda: shown(pilot, "This is 30."))
        app.error = error
        app.read(anew=False)
        await pilot.pause()
        assert shown(pilot, "This is 30.")


async def test_the_answer_to_words_that_have_changed_since_is_dropped() -> None:
    app = Numbers(30)
    async with app.run_test(size=(60, 24)) as pilot:
        await until(pilot, lambda: shown(pilot, "This is 30."))
        question, then = app.pane.reading()
        app.pane.narrow("2")
        then(question())
        await until(pilot, lambda: shown(pilot, "This is 29."))
        assert app.pane.window.items == (29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 12, 2)


async def test_the_selection_stays_as_items_come_in_above_it_and_is_opened() -> None:
    app = Numbers(30)
    async with app.run_test(size=(60, 24)) as pilot:
        await until(pilot, lambda: shown(pilot, "This is 30."))
        await pilot.press("down", "down")
        app.length = 33
        app.read(anew=False)
        await until(pilot, lambda: app.pane.window.items[0] == 33)
        assert app.pane.selected == 28
        await pilot.press("enter")
        await until(pilot, lambda: app.opened == [28])


async def test_a_list_whose_items_have_moved_is_read_again_around_the_selected_one() -> None:
    app = Numbers(300)
    async with app.run_test(size=(60, 24)) as pilot:
        await until(pilot, lambda: shown(pilot, "This is 300."))
        for _ in range(4):
            await pilot.press("pagedown")
            await pilot.pause()
        grid, selected = app.pane.grid, app.pane.selected
        line = grid.cursor_row - grid.first_in_sight
        assert selected is not None
        app.length = 303
        app.read(anew=False)
        await until(pilot, lambda: app.pane.window.offset + grid.cursor_row == 303 - selected)
        assert (app.pane.selected, grid.cursor_row - grid.first_in_sight) == (selected, line)
        for _ in range(12):
            await pilot.press("pageup")
            await pilot.pause()
        await until(pilot, lambda: app.pane.selected == 303)
        items = app.pane.window.items
        assert items == (*range(303, items[-1] - 1, -1),)


async def test_a_changed_row_is_drawn_without_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    app, drawn = Numbers(30), list[tuple[Region, ...]]()
    async with app.run_test(size=(60, 24)) as pilot:
        await until(pilot, lambda: shown(pilot, "This is 30."))
        monkeypatch.setattr(DataTable, "refresh", lambda _, *regions, **__: drawn.append(regions))
        app.read(anew=False)
        assert not drawn
        app.words[28] = "changed"
        app.read(anew=False)
        assert [[region.height for region in regions] for regions in drawn] == [[1]]


async def test_the_details_follow_once_the_cursor_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Numbers(30)
    async with app.run_test(size=(60, 24)) as pilot:
        await until(pilot, lambda: shown(pilot, "This is 30."))
        monkeypatch.setattr(list_pane, "_REST_SECONDS", 3600)
        await pilot.press("down")
        await until(pilot, lambda: app.pane.is_moving)
        assert (app.pane.selected, app.pane.grid.cursor_row) == (29, 1)
        app.read(anew=False)
        await pilot.pause()
        assert shown(pilot, "This is 30.")
        await pilot.press("up")
        await until(pilot, lambda: not app.pane.is_moving)
        await pilot.press("down")
        await until(pilot, lambda: app.pane.is_moving)
        monkeypatch.setattr(list_pane, "_REST_SECONDS", 0.001)
        await pilot.press("down")
        await until(pilot, lambda: shown(pilot, "This is 28."))
        assert not app.pane.is_moving


async def test_the_details_follow_on_a_machine_that_stalls(monkeypatch: pytest.MonkeyPatch) -> None:
    app, stalls, ahead = Numbers(30), iter([0.1] * 20), 0.0

    def get_time() -> float:
        nonlocal ahead
        ahead += next(stalls, 0.0)
        return time.monotonic() + ahead

    async with app.run_test(size=(60, 24)) as pilot:
        await until(pilot, lambda: shown(pilot, "This is 30."))
        monkeypatch.setattr("textual._time.get_time", get_time)
        await pilot.press("down")
        await until(pilot, lambda: shown(pilot, "This is 29."))
        assert next(stalls, None) is None
        assert not app.pane.is_moving


async def test_a_list_that_is_read_before_it_has_a_size_is_shown_once_it_has() -> None:
    class Hidden(Numbers):
        def on_mount(self) -> None:
            self.pane.display = False
            self.read(anew=False)
            self.pane.marked = 3

    app = Hidden(30)
    async with app.run_test(size=(60, 24)) as pilot:
        assert app.pane.grid.row_count == 0
        app.pane.display = True
        await until(pilot, lambda: text_of(app).splitlines()[1] == "*30")
        assert shown(pilot, "This is 30.")
