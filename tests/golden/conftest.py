import os
from pathlib import Path

import pytest

from tests.golden.board import GoldenBoard, golden_board
from tests.golden.files import UPDATE, Golden


@pytest.fixture(scope="session")
def golden() -> Golden:
    return Golden(os.environ.get(UPDATE) == "1")


@pytest.fixture(scope="session")
def made_board(tmp_path_factory: pytest.TempPathFactory) -> GoldenBoard:
    """Make the golden board, which no test may change."""
    return golden_board(tmp_path_factory.mktemp("golden") / "made")


@pytest.fixture
def board(made_board: GoldenBoard, tmp_path: Path) -> GoldenBoard:
    """Copy the golden board for this test alone."""
    return made_board.copy(tmp_path / "board")
