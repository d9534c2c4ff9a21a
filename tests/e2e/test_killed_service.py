"""A service that is killed at random moments, under load, loses no submission and doubles none."""

import os
import random
import subprocess
import sys
import threading
import time
from itertools import count
from pathlib import Path

import pytest

from hpc_board import settings
from hpc_board.board import Board
from hpc_board.domain.run import RunState
from hpc_board.errors import BoardError
from hpc_board.model.result import Verdict
from hpc_board.runs import job_folder
from hpc_board.service.client import RemoteBoard
from tests.conftest import short_folder
from tests.e2e.boards import BoardFiles, board_files
from tests.unit.recorded import REPOSITORY
from tests.values import requested
from tests.waiting import awaited

KILLS = int(os.environ.get("HPC_BOARD_KILLS", "12"))
"""The number of random moments; more take longer, a second each."""

CLIENTS = 3
IN_FLIGHT_MAX = 6


class Client(threading.Thread):
    """A client that submits one file after the other, and remembers which submissions the service has acknowledged."""

    def __init__(self, name: str, socket: Path, kernel: Path, over: threading.Event) -> None:
        super().__init__(name=name)
        self._socket, self._kernel, self._over = socket, kernel, over
        self.acknowledged: list[str] = []
        self.unclear: list[str] = []
        self.unexpected: list[BoardError] = []

    def run(self) -> None:
        board = RemoteBoard(self._socket)
        with board.session():
            for number in count():
                if self._over.is_set():
                    return
                note = f"{self.name} {number}"
                try:
                    if len(board.runs.in_flight()) >= IN_FLIGHT_MAX:
                        time.sleep(0.05)
                        continue
                    board.submissions.submit([requested(self._kernel, task="double", note=note)])
                except BoardError as error:
                    self.unclear.append(note)
                    if error.title != "The service did not answer":
                        self.unexpected.append(error)
                    time.sleep(0.05)
                else:
                    self.acknowledged.append(note)


def started(files: BoardFiles, socket: Path) -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-m", "tests.e2e.killed_service", str(files.settings), str(socket)]
    log = files.folder / "serve.log"
    with log.open("w") as sink:
        process = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, stderr=sink)
    awaited(lambda: '"serving"' in log.read_text() or process.poll() is not None)
    assert process.poll() is None, log.read_text()
    return process


def is_used(folder: Path) -> bool:
    """Return whether a process works in this folder: a spooler notes the end of its last job after the run."""
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in each.read_bytes():
                return True
        except OSError:
            continue
    return False


@pytest.mark.timeout(300 + 5 * KILLS)
def test_a_service_that_is_killed_loses_no_submission_and_doubles_none() -> None:
    moments = random.Random(KILLS)
    with short_folder() as folder:
        files = board_files(folder / "site", slurm=False)
        socket, over = folder / "board.sock", threading.Event()
        clients = [Client(f"client {number}", socket, files.kernel(), over) for number in range(CLIENTS)]
        process = started(files, socket)
        for client in clients:
            client.start()
        try:
            # On a busy machine, a service may be killed each time before it has answered.
            awaited(lambda: all(client.acknowledged for client in clients))
            for _ in range(KILLS):
                time.sleep(moments.uniform(0, 2.0))
                process.kill()
                process.wait()
                process = started(files, socket)
        finally:
            over.set()
            for client in clients:
                client.join()
        board = Board(settings.load(files.settings, os.environ))
        try:
            awaited(lambda: not board.context.store.runs.in_flight())
        finally:
            process.kill()
            process.wait()
        awaited(lambda: not is_used(folder))
        assert [error for client in clients for error in client.unexpected] == []
        runs = board.runs.list(limit=1_000_000)
        notes = [run.note for run in runs]
        acknowledged = [note for client in clients for note in client.acknowledged]
        unclear = {note for client in clients for note in client.unclear}
        assert len(notes) == len(set(notes)), "no submission is stored twice"
        assert set(acknowledged) <= set(notes), "no submission is lost that was acknowledged"
        assert set(notes) <= {*acknowledged, *unclear}
        assert acknowledged
        for run in runs:
            assert (run.state, run.verdict) == (RunState.FINISHED, Verdict.PASS), run.status
            outputs = list(job_folder.Folders(board.settings.board).of(run).glob("slurm-*.out"))
            assert len(outputs) == 1, "every run has one job, no more"
