"""The board that most unit tests start from, and its scheduler."""

from pathlib import Path

import pytest
import yaml

from hpc_board import schedulers
from hpc_board.domain.run import JobState, JobStatus
from tests.at_once.kind import AtOnceKind
from tests.scripted import Scripted
from tests.unit.recorded import Recorded, recorded


@pytest.fixture
def board(tmp_path: Path) -> Recorded:
    """A board of its own for each test, with no run in it."""
    return recorded(tmp_path)


@pytest.fixture
def scheduler(board: Recorded, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """The only scheduler of the board, which has the GPUs CPU and H100."""
    scripted = Scripted(status=JobStatus(JobState.PENDING, reason="Priority"))
    monkeypatch.setitem(schedulers.KINDS, "at-once", "tests.at_once.kind:AT_ONCE")
    monkeypatch.setattr(AtOnceKind, "connect", lambda *_: scripted)
    document = yaml.safe_load(board.settings.read_text())
    gpu = {"cluster": "here", "lane": "slow", "device": "cpu"}
    document |= {"clusters": {"here": {"scheduler": "at-once"}}, "gpus": {"CPU": gpu, "H100": gpu}}
    board.settings.write_text(yaml.safe_dump(document))
    return scripted
