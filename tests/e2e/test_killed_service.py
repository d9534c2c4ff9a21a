"""A service and its clients that are killed at random moments, under load, lose no submission and double none."""

import itertools
import os
import random
import subprocess
import sys
import threading
import time
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
"""The number of random moments at which the service is killed; more take longer, a second each."""

IN_FLIGHT_MAX = 6


class Client(threading.Thread):
    """A client that submits one file after the other, each with its key until the service has acknowledged it."""

    def __init__(self, name: str, socket: Path, kernel: Path, over: threading.Event) -> None:
        super().__init__(name=name)
        self.board = RemoteBoard(socket)
        self.kernel, self.over = kernel, over
        self.acknowledged: list[str] = []
        self.unexpected: list[object] = []

    def run(self) -> None:
        with self.board.session():
            for number in itertools.count():
                note = f"{self.name}-{number}"
                while not self.submitted(note):
                    time.sleep(0.05)
                self.acknowledged.append(note)
                while not self.over.is_set() and not self.has_room():
                    time.sleep(0.05)
                if self.over.is_set():
                    return

    def has_room(self) -> bool:
        try:
            return len(self.board.runs.in_flight()) < IN_FLIGHT_MAX
        except BoardError:
            return False

    def submitted(self, note: str) -> bool:
        """Submit a file, and return whether the service has acknowledged it."""
        try:
            self.board.submissions.submit([requested(self.kernel, task="double", note=note)], key=note)
        except BoardError as error:
            if error.title != "The service did not answer":
                self.unexpected.append(error)
            return False
        return True


class KilledClient(Client):
    """A client whose commands are killed at random moments until one is left for its time."""

    def __init__(self, name: str, socket: Path, kernel: Path, over: threading.Event) -> None:
        super().__init__(name, socket, kernel, over)
        self.environ = {**os.environ, "HPC_BOARD_SERVICE": str(socket), "PYTHONPATH": str(REPOSITORY)}
        self.moments = random.Random(name)
        self.kills = 0

    def submitted(self, note: str) -> bool:
        words = ["submit", str(self.kernel), "--task", "double", "--note", note, "--key", note]
        process = subprocess.Popen(
            [sys.executable, "-m", "hpc_board", *words],
            env=self.environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            _, told = process.communicate(timeout=None if self.over.is_set() else self.moments.uniform(0, 2.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.kills += 1
            return False
        if process.returncode not in (0, 3):
            self.unexpected.append(told)
        return process.returncode == 0


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
def test_a_killed_service_and_killed_clients_lose_no_submission_and_double_none() -> None:
    moments = random.Random(KILLS)
    with short_folder() as folder:
        files = board_files(folder / "site", slurm=False)
        socket, over = folder / "board.sock", threading.Event()
        kernel = files.kernel()
        killed = KilledClient("killed", socket, kernel, over)
        clients = [killed, *(Client(f"client{number}", socket, kernel, over) for number in range(2))]
        process = started(files, socket)
        for client in clients:
            client.start()
        try:
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
        assert killed.kills > KILLS // 4
        runs = board.runs.list(limit=1_000_000)
        acknowledged = [note for client in clients for note in client.acknowledged]
        assert sorted(run.note for run in runs) == sorted(acknowledged), "each submission is stored once"
        for run in runs:
            assert (run.state, run.verdict) == (RunState.FINISHED, Verdict.PASS), run.status
            outputs = list(job_folder.Folders(board.settings.board).of(run).glob("slurm-*.out"))
            assert len(outputs) == 1, "every run has one job, no more"
