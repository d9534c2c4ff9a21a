"""A tmux of its own for tests that look at a whole terminal."""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import pauses

_DEADLINE_SECONDS = 60.0

Tmux = Callable[..., str]
"""Calls tmux with these words: what it prints."""


@contextmanager
def tmux_server(folder: Path) -> Iterator[Tmux]:
    """A tmux server whose socket lies in `folder`, without a user's settings; all in it ends with it."""
    if shutil.which("tmux") is None:
        pytest.skip("needs tmux")
    socket = folder / "tmux"

    def call(*words: str, check: bool = True) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(socket), "-f", "/dev/null", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    try:
        yield call
    finally:
        call("kill-server", check=False)


def shown_in(tmux: Tmux, session: str, fits: Callable[[str], bool], seconds: float = _DEADLINE_SECONDS) -> str:
    """Return the text in the terminal of this session once it fits."""
    deadline, pause = time.monotonic() + seconds, pauses()
    while not fits(shown := tmux("capture-pane", "-p", "-t", session)):
        assert time.monotonic() < deadline, shown
        next(pause)
    return shown
