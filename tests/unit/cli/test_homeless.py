"""An account without a home folder and without an entry in any list of users, as containers and services have."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.accounts import command_as, needs_accounts
from tests.unit.recorded import REPOSITORY

UID = 54_321
pytestmark = [needs_accounts, pytest.mark.slow]


def hpc_board(*argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """`hpc-board` by an account that nothing is known of."""
    command = [sys.executable, "-m", "hpc_board", *argv]
    return subprocess.run(
        command_as(UID, 0o022, (), command),
        cwd=REPOSITORY,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1", **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    "argv", [["--version"], ["--help"], ["submit", "--help"], ["help", "runs"], ["completion", "bash"]]
)
def test_what_needs_no_board_needs_no_home(argv: list[str]) -> None:
    done = hpc_board(*argv)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("argv", [["list"], ["runs"], ["submit", "kernel.py"], ["admin", "doctor"], ["admin", "init"]])
def test_what_needs_a_home_says_so(argv: list[str]) -> None:
    done = hpc_board(*argv)
    assert done.returncode in (2, 3), done.stderr
    assert "Traceback" not in done.stderr
    assert "home folder" in done.stdout + done.stderr


def test_a_home_folder_is_enough(tmp_path: Path) -> None:
    done = hpc_board("list", HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "vectoradd_py" in done.stdout
