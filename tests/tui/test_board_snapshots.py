"""What the boards, the feed and the comparison look like in their states."""

import dataclasses
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from textual.pilot import Pilot

from hpc_board.model.standings import Mark, MarkKind
from tests.tui.driving import app_on, press, settled
from tests.tui.fake_board import NOW, standing
from tests.tui.test_compare_screen import Timed
from tests.tui.test_feed_screen import entries

SIZES = pytest.mark.parametrize(
    "size", [(60, 16), (80, 24), (120, 40), (200, 60)], ids=lambda size: "x".join(map(str, size))
)
SnapCompare = Callable[..., bool]

SCREENS = {
    "standings_full": ("end", "b"),
    "standings_from_ones_own_row": ("end", "b", "o"),
    "feed": ("end", "b", "f", "f"),
    "trend": ("end", "b", "o", "t"),
    "code": ("end", "b", "o", "v"),
    "comparison_of_times": ("end", "b", "o", "m", "home", "m"),
    "comparison_of_files": ("end", "b", "o", "m", "home", "m", "2"),
}


def full() -> Timed:
    """A board of a hundred users with a milestone and a reference, where ada is the 61st."""
    board = Timed()
    reference = Mark(MarkKind.REFERENCE, "reference", 44e-6, 17, 34, NOW)
    milestone = Mark(MarkKind.MILESTONE, "float4", 11.9e-6, 5, 5, NOW - timedelta(days=3), "float4.py")
    board.marks = {"H100": (milestone, reference)}
    rows = [
        standing(
            place + 1, "ada" if place == 60 else f"user{place}", (11 + place * 0.3) * 1e-6, 1000 + place, 3 + place
        )
        for place in range(100)
    ]
    rows[0] = dataclasses.replace(rows[0], submission=17)
    rows[60] = dataclasses.replace(rows[60], submission=19)
    board.boards["H100"] = tuple(rows)
    board.entries = entries(40)
    times_us = (118, 96, 104, 61, 58.5, 66, 44.1, 40.2, 47, 33.3, 31.9, 29)
    board.histories["H100"] = tuple(
        standing(place, "ada", time_us * 1e-6, 1061 - place, 63 + 5 * place)
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
