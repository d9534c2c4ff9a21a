"""A client that is killed loses no run and doubles none, wherever in its work it dies."""

import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from hpc_board import settings
from hpc_board.board import Board
from hpc_board.domain.run import RunState
from hpc_board.model.result import Verdict
from hpc_board.runs import job_folder
from tests.e2e.boards import BoardFiles, board_files, slurm_jobs
from tests.e2e.killed_client import POINTS
from tests.slurm.lab import SlurmLab
from tests.values import replace, requested
from tests.waiting import awaited

SETTLED = timedelta(seconds=1)


def killed(files: BoardFiles, point: str, count: int = 1) -> None:
    """A client that submits `count` files and dies at `point`."""
    client = Path(__file__).with_name("killed_client.py")
    command = [sys.executable, str(client), str(files.settings), str(files.kernel()), str(count), point]
    environ = {**os.environ, **files.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def carried_on(files: BoardFiles) -> Board:
    """Another client of the same board, which carries on until nothing is in flight."""
    board = Board(settings.load(files.settings, os.environ))
    board.context.installation.__dict__["reconciler"] = replace(board.context.reconciler, lookup_delay=SETTLED)
    in_flight = board.context.store.runs.in_flight

    def is_over() -> bool:
        board.runs.advance()
        return not in_flight()

    awaited(is_over, in_flight)
    return board


def assert_nothing_lost(board: Board, point: str, count: int = 1) -> None:
    runs = board.runs.list()
    assert len(runs) == (0 if point == "before the row" else count)
    placings = [board.standings.placing(run) for run in runs]
    assert [placing and placing.rank for placing in placings] == [1] * len(runs)
    for run in runs:
        assert run.state is RunState.FINISHED, run.status
        assert run.verdict is Verdict.PASS
        finished = [status for status in board.runs.whole(run.id).history if status.state is RunState.FINISHED]
        assert len(finished) == 1
        assert len(list(job_folder.Folders(board.settings.board).of(run).glob("slurm-*.out"))) == 1


@pytest.mark.parametrize("point", POINTS)
def test_on_the_embedded_scheduler_no_run_is_lost_or_doubled(tmp_path: Path, point: str) -> None:
    files = board_files(tmp_path, slurm=False)
    killed(files, point)
    board = carried_on(files)
    assert_nothing_lost(board, point)


@pytest.mark.parametrize("point", POINTS)
def test_a_repeated_key_after_the_death_of_a_client_is_the_same_submission(tmp_path: Path, point: str) -> None:
    files = board_files(tmp_path, slurm=False)
    killed(files, point)
    board = Board(settings.load(files.settings, os.environ))
    (run,) = board.submissions.submit([requested(files.kernel(), gpus=["CPU"], mode="ranked")], key="killed")
    assert run.reused is (point != "before the row")
    assert_nothing_lost(carried_on(files), point="")


@pytest.mark.slurm
@pytest.mark.parametrize("point", POINTS)
def test_no_run_of_an_array_is_lost_or_doubled(
    tmp_path: Path, slurm_lab: SlurmLab, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    monkeypatch.setenv("SLURM_CONF", slurm_lab.environment["SLURM_CONF"])
    files = board_files(tmp_path, slurm=True, environ={"SLURM_CONF": slurm_lab.environment["SLURM_CONF"]})
    killed(files, point, count=3)
    board = carried_on(files)
    assert_nothing_lost(board, point, count=3)
    arrays = {run.array for run in board.runs.list()}
    assert len(arrays) == (0 if point == "before the row" else 1)
    ours = [job_id for job_id, name, _ in slurm_jobs(files.environ) if name in arrays]
    assert len({job_id.partition("_")[0] for job_id in ours}) == len(arrays), "one array, no second one"
    assert len(ours) == len(board.runs.list())
