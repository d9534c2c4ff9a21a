"""The commands that tests run without the time of the imports do as the commands that users run."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import run_hpc_board
from tests.unit.recorded import recorded


@pytest.mark.parametrize(
    ("words", "status"),
    [(["list"], 0), (["runs", "--json"], 0), (["no-such"], 2), (["run", "7"], 2), (["list", "\udcff"], 2)],
    ids=str,
)
def test_a_command_prints_and_ends_as_one_that_a_user_starts(tmp_path: Path, words: list[str], status: int) -> None:
    board = recorded(tmp_path)
    started = subprocess.run(
        [sys.executable, "-m", "hpc_board", *words],
        cwd=tmp_path,
        env=board.environ(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    asked = run_hpc_board(words, environ=board.environ(), folder=tmp_path)
    assert (asked.returncode, asked.stdout, asked.stderr) == (started.returncode, started.stdout, started.stderr)
    assert asked.returncode == status


def test_a_command_has_the_umask_that_it_is_given(tmp_path: Path) -> None:
    board = recorded(tmp_path)
    for umask, mode in ((0o022, 0o644), (0o077, 0o600)):
        written = tmp_path / f"{umask}.py"
        done = run_hpc_board(
            ["template", "vectoradd_py", "-o", written], environ=board.environ(), folder=tmp_path, umask=umask
        )
        assert (done.returncode, written.stat().st_mode & 0o777) == (0, mode), done.stderr
