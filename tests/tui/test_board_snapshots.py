"""Snapshots of the boards, the feed and the comparison in their states."""

from datetime import timedelta
from typing import Any

import pytest
from textual.pilot import Pilot

from hpc_board.domain.reference import Reference
from hpc_board.domain.score_interval import Interval
from hpc_board.domain.standing import Mark, MarkKind
from tests.tui.driving import SnapCompare, app_on, press, settled
from tests.tui.fake_board import NOW, FakeBoard, standing
from tests.tui.test_compare_screen import Timed
from tests.tui.test_feed_screen import entries
from tests.values import replace

SIZES = pytest.mark.parametrize(
    "size", [(60, 16), (80, 24), (120, 40), (200, 60)], ids=lambda size: "x".join(map(str, size))
)

SCREENS = {
    "standings_full": ("end", "b"),
    "standings_from_ones_own_row": ("end", "b", "u"),
    "feed": ("end", "b", "f", "a"),
    "trend": ("end", "b", "u", "t"),
    "code": ("end", "b", "u", "v"),
    "user": ("end", "b", "u", "U"),
    "comparison_of_times": ("end", "b", "u", "m", "home", "m"),
}


def full() -> Timed:
    """A board of a hundred users with a milestone and a reference, where ada is the 61st."""
    board = Timed()
    milestone = Mark(MarkKind.MILESTONE, "float4", 11.9e-6, 5, 5, NOW - timedelta(days=3), "float4.py")
    board.milestones, board.references = {"H100": (milestone,)}, {"H100": Reference(44e-6, 12)}
    rows = [
        standing(
            place + 1, "ada" if place == 60 else f"user{place}", (11 + place * 0.3) * 1e-6, 1000 + place, 3 + place
        )
        for place in range(100)
    ]
    rows[0] = replace(rows[0], run=34)
    rows[60] = replace(rows[60], run=39)
    board.boards["H100"] = tuple(rows)
    board.entries = entries(40)
    times_us = (118, 96, 104, 61, 58.5, 66, 44.1, 40.2, 47, 33.3, 31.9, 29)
    board.histories["H100"] = tuple(
        replace(
            standing(place, "ada", time_us * 1e-6, 1061 - place, 63 + 5 * place),
            interval=Interval(0.93 * time_us * 1e-6, 1.08 * time_us * 1e-6),
        )
        for place, time_us in enumerate(reversed(times_us), start=1)
    )
    return board


@SIZES
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_looks_as_designed(snap_compare: SnapCompare, size: tuple[int, int], name: str) -> None:
    async def drive(pilot: Pilot[Any]) -> None:
        await settled(pilot)
        await press(pilot, *SCREENS[name])
        pilot.app.clear_notifications()
        await settled(pilot)

    assert snap_compare(app_on(full()), terminal_size=size, run_before=drive)


def close() -> FakeBoard:
    """A board on a CPU whose times are uncertain, so that some rows tie with the one above."""
    board = FakeBoard()
    board.references = {"H100": Reference(7.1e-3, 12)}
    times_ms = ((1.9, 2.1, 2.4), (2.2, 2.3, 2.6), (2.99, 3.0, 3.01), (0.99, 12.3, 14.1), (100, 123, 456))
    users = ("bob", "ada", "carol", "dmitri-with-a-long-name", "eve")
    rows = [
        replace(
            standing(place, user, middle / 1e3, 1000 + place, 3 * place),
            interval=Interval(low / 1e3, high / 1e3),
            overlaps_above=user in ("ada", "dmitri-with-a-long-name"),
        )
        for place, (user, (low, middle, high)) in enumerate(zip(users, times_ms, strict=True), start=1)
    ]
    board.boards["H100"] = tuple(rows)
    return board


@SIZES
def test_times_that_cannot_be_told_apart_look_as_designed(snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    async def drive(pilot: Pilot[Any]) -> None:
        await settled(pilot)
        await press(pilot, "end", "b")
        pilot.app.clear_notifications()
        await settled(pilot)

    assert snap_compare(app_on(close()), terminal_size=size, run_before=drive)
