"""The same clock, colours and folder for every test of the app."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """A submission whose header names a task and two GPUs, by a path below the present folder."""
    (tmp_path / "kernel.py").write_text("#!POPCORN leaderboard vectoradd\n#!POPCORN gpus h100 A100\nimport torch\n")
    return Path("kernel.py")
