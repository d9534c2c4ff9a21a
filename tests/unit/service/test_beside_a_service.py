"""Commands of a service's account on the board's own folder, while the service owns it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hpc_board.cli.main import cli
from hpc_board.domain.run import RunState
from hpc_board.files import locked
from hpc_board.store.folder import SERVE_LOCK
from tests.unit.recorded import Recorded, recorded, status_of


@pytest.fixture
def board(tmp_path: Path) -> Recorded:
    return recorded(tmp_path)


@contextmanager
def served(board: Recorded) -> Iterator[None]:
    """Hold the lock of a service, as another open file of this process."""
    with locked(board.board.settings.board / SERVE_LOCK) as mine:
        assert mine
        yield


def command(board: Recorded, *argv: str) -> Result:
    folder = board.board.settings.board
    file = folder.with_name("settings.yaml")
    file.write_text(f"board: {folder}\n")
    return CliRunner().invoke(cli, ["--config", str(file), *argv])


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("cancel", "1"), "and only the service cancels runs"),
        (("submit", "SUBMISSION", "--task", "vectoradd_py", "--gpu", "CPU"), "and only the service sends jobs"),
        (("admin", "restore", "BACKUP", "--yes"), "which has the database open"),
    ],
)
def test_the_service_alone_sends_and_cancels_and_keeps_its_database(
    board: Recorded, tmp_path: Path, argv: tuple[str, ...], words: str
) -> None:
    board.add(status_of(RunState.CREATED))
    submission, backup = tmp_path / "submission.py", tmp_path / "backup.db"
    submission.write_text("def custom_kernel(data):\n    return data\n")
    assert command(board, "admin", "backup", str(backup)).exit_code == 0
    argv = tuple({"SUBMISSION": str(submission), "BACKUP": str(backup)}.get(word, word) for word in argv)
    with served(board):
        done = command(board, *argv)
    told = " ".join(done.stderr.split())
    assert (done.exit_code, words in told) == (5, True), done.output
    assert "HPC_BOARD_SERVICE=" in told or "Stop the service first" in told
    assert [run.state for run in board.board.runs.list(everyone=True)] == [RunState.CREATED]


def test_a_command_that_reads_follows_no_job_of_a_served_board(board: Recorded) -> None:
    run = board.add(status_of(RunState.CREATED))
    with served(board):
        done = command(board, "runs", "--all", "--json")
    assert done.exit_code == 0, done.output
    assert [(each["id"], each["state"]) for each in json.loads(done.stdout)] == [(run.id, "created")]
