"""A served board: its files, a folder for its socket, and the socket."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service import serving
from tests.unit.recorded import (
    SETTINGS,
    Recorded,
    recorded,
)
from tests.unit.service.clients import REFERENCE


@pytest.fixture
def board(tmp_path: Path) -> Recorded:
    """A board with a task that has a secret, and an admin who is not its owner."""
    made = recorded(tmp_path)
    made.settings.write_text(SETTINGS + "roles: {admins: [games], creators: [bin], participants: [daemon, nobody]}\n")
    reference = made.folder / "tasks" / "narrow" / "reference.py"
    reference.write_text(f"# {REFERENCE}\n{reference.read_text()}")
    return made


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every account can enter, with a path that is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="hb-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def door(board: Recorded, folder: Path) -> Iterator[Path]:
    """The socket of a service of the board."""
    with serving(board.board.settings, folder / "board.sock"):
        yield folder / "board.sock"
