"""The board that most unit tests start from."""

from pathlib import Path

import pytest

from tests.unit.recorded import Recorded, recorded


@pytest.fixture
def board(tmp_path: Path) -> Recorded:
    """A board of its own for each test, with no run in it."""
    return recorded(tmp_path)
