"""The pictures in the documentation are what the app really shows."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SNAPSHOTS = ROOT / "tests/tui/__snapshots__/test_snapshots"
PICTURES = {"standings.svg": "test_a_screen_looks_as_designed[standings-80x24].svg"}


@pytest.mark.parametrize("picture", sorted(path.name for path in (ROOT / "docs/pictures").iterdir()))
def test_a_picture_is_a_snapshot_that_the_app_is_tested_against(picture: str) -> None:
    shown = (ROOT / "docs/pictures" / picture).read_bytes()
    assert shown == (SNAPSHOTS / PICTURES[picture]).read_bytes(), f"copy {PICTURES[picture]} to docs/pictures/{picture}"
