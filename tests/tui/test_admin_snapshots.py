"""Snapshots of the Admin screen in its states."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from textual.pilot import Pilot

from hpc_board.domain.moderation import STOP, Decision
from hpc_board.domain.roles import Role
from hpc_board.errors import StorageError
from tests.tui.driving import SnapCompare, app_on, press, settled
from tests.tui.fake_admin import AdminBoard
from tests.tui.fake_board import NOW

SIZES = pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["80x24", "120x40"])

PAGES = {
    "boards": ("A", "down", "down", "down"),
    "people": ("A", "2", "down", "down", "down", "down"),
    "ranked_runs": ("A", "3", "end"),
    "log": ("A", "4", "down"),
}


def driven(*keys: str) -> Callable[[Pilot[Any]], Any]:
    async def drive(pilot: Pilot[Any]) -> None:
        await settled(pilot)
        await press(pilot, *keys)
        pilot.app.clear_notifications()
        await settled(pilot)

    return drive


@SIZES
@pytest.mark.parametrize("page", PAGES)
def test_a_page_looks_as_designed(snap_compare: SnapCompare, size: tuple[int, int], page: str) -> None:
    assert snap_compare(app_on(AdminBoard()), terminal_size=size, run_before=driven(*PAGES[page]))


@pytest.mark.parametrize("page", ["boards", "ranked_runs"])
def test_a_page_fits_a_small_terminal(snap_compare: SnapCompare, page: str) -> None:
    board = AdminBoard()
    board.stopped = Decision(STOP, "", "", "zoe", NOW - timedelta(hours=3), "the cluster is down until Monday")
    assert snap_compare(app_on(board), terminal_size=(60, 16), run_before=driven(*PAGES[page]))


@pytest.mark.parametrize("keys", [("2", "down", "B"), ("end", "D"), ("3", "X")], ids=["ban", "terms", "remove"])
def test_a_decision_is_asked_for(snap_compare: SnapCompare, keys: tuple[str, ...]) -> None:
    assert snap_compare(app_on(AdminBoard()), terminal_size=(80, 24), run_before=driven("A", *keys))


@pytest.mark.parametrize("page", ["2", "3"], ids=["people", "ranked_runs"])
def test_an_empty_page_says_so(snap_compare: SnapCompare, page: str) -> None:
    board = AdminBoard(states=(), persons=(), decided=(), runs=())
    assert snap_compare(app_on(board), terminal_size=(80, 24), run_before=driven("A", page))


def test_a_creator_has_their_own_boards(snap_compare: SnapCompare) -> None:
    assert snap_compare(app_on(AdminBoard(role=Role.CREATOR)), terminal_size=(80, 24), run_before=driven("A"))


def test_a_decision_that_failed_says_why(snap_compare: SnapCompare) -> None:
    error = StorageError("/shared/board/board.db: the disk is full", hint="Free some space.")
    board = AdminBoard(failures={"ban": error})
    keys = ("A", "2", "down", "B", "x", "enter", "enter")
    assert snap_compare(app_on(board), terminal_size=(80, 24), run_before=driven(*keys))


def test_the_pages_can_be_read_without_colours(snap_compare: SnapCompare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(app_on(AdminBoard()), terminal_size=(80, 24), run_before=driven(*PAGES["people"]))
