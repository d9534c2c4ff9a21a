import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.golden.board import GoldenBoard, golden_board
from tests.golden.files import UPDATE, Golden
from tests.golden.internals import Served
from tests.values import replace


@pytest.fixture(scope="session")
def golden() -> Golden:
    return Golden(os.environ.get(UPDATE) == "1")


@pytest.fixture(scope="session")
def made_board(tmp_path_factory: pytest.TempPathFactory) -> GoldenBoard:
    """Make the golden board, which no test may change."""
    return golden_board(tmp_path_factory.mktemp("golden") / "made")


@pytest.fixture(params=["files", "service"])
def board(
    request: pytest.FixtureRequest, made_board: GoldenBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[GoldenBoard]:
    """Copy the golden board for this test alone, and open it by its files or behind a service."""
    copied = made_board.copy(tmp_path / "board")
    if request.param == "files":
        yield copied
        return
    case = getattr(request.node, "callspec", None) and request.node.callspec.params.get("case")
    if reason := getattr(case, "files_alone", ""):
        pytest.skip(reason)
    if os.environ.get(UPDATE) == "1":
        pytest.skip("the golden files are those of the board's files")
    served = Served(copied.folder, monkeypatch, advancing=getattr(case, "answering", False))
    yield replace(copied, served=served)
    served.close()
