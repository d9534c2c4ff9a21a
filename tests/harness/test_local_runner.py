"""Waiting runs on this machine: one runner judges those with one request, in the order and with the ends of jobs."""

import os
import secrets
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hpc_board import bundled
from hpc_board.domain.run import JobState, JobStatus
from hpc_board.harness.processes.tree import children_of, ended
from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.model.result import Verdict
from hpc_board.model.runner import FACTS, QUEUE, TAKEN, End
from hpc_board.model.task import Mode
from hpc_board.runs import job_folder
from hpc_board.schedulers import Job, JobKey
from hpc_board.schedulers.local import runner as local_runner
from hpc_board.schedulers.local.client import LocalScheduler
from hpc_board.schedulers.local.queue import Entry, Pool, Slot
from hpc_board.schedulers.local.runner import LocalRunner
from tests.harness.evaluations import RIGHT, a_task, await_step, make_job_folder, result_in
from tests.unit.schedulers.test_local_scheduler import BEGINNING, proc_file, working_folder
from tests.values import replace
from tests.waiting import awaited

HERE = Cluster("here", "local")
CPU = Gpu("CPU", HERE, Device.CPU, python=sys.executable)
HANGS = """
import time
def custom_kernel(data):
    time.sleep(100)
"""
PATIENT = a_task(limits={"first_call_seconds": 120, "test_call_seconds": 120, "call_seconds": 120})


class Board:
    """The job folders of a board, and its local scheduler; the first job keeps the others waiting until `begin`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scheduler = LocalScheduler(HERE, folder / "local" / "here")
        self.suffix = secrets.token_hex(4)
        self._number = 0
        self._gate = folder / "runs" / "gate"
        self._gate.mkdir(parents=True)
        (self._gate / "job.sh").write_text("until [ -e go ]; do sleep 0.02; done\n")
        self.submit(self._gate, CPU)

    def begin(self) -> None:
        (self._gate / "go").touch()

    def submit(self, folder: Path, gpu: Gpu, seconds: int = 120) -> JobKey:
        script = job_folder.Script((folder / job_folder.SCRIPT).read_text(), {}, seconds)
        request = job_folder.request(script, gpu)
        job = Job(f"{folder.name}-{self.suffix}", folder, job_folder.SCRIPT, gpu, {}, seconds, request=request)
        return JobKey(job.name, self.scheduler.submit(job), BEGINNING)

    def run(self, submission: str = RIGHT, gpu: Gpu = CPU, seconds: int = 120, **more: Any) -> tuple[Path, JobKey]:
        """Send a run, and return its folder and key."""
        self._number += 1
        task = more.pop("task", a_task())
        job = make_job_folder(self.folder, submission, task, Mode.TEST, gpu=gpu, number=self._number, **more)
        return job, self.submit(job, gpu, seconds)

    def status(self, key: JobKey) -> JobStatus:
        return self.scheduler.poll([key])[key.name]

    def end_of(self, key: JobKey) -> tuple[JobState, str]:
        """Wait for the end of a job, and return it with its reason."""
        awaited(lambda: self.status(key).state not in (JobState.PENDING, JobState.RUNNING))
        return self.status(key).state, self.status(key).reason

    def processes(self) -> list[int]:
        """The processes of the board's jobs and spoolers."""
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        words = os.fsencode(self.folder)
        return [
            pid
            for pid in pids
            if pid != os.getpid()
            and (words in proc_file(pid, "cmdline") or words in working_folder(pid))
            and not ended(pid)
        ]

    def spooler(self) -> int:
        (found,) = [pid for pid in self.processes() if b"local.spooler" in proc_file(pid, "cmdline")]
        return found


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    board = Board(tmp_path)
    try:
        yield board
        board.begin()
        awaited(lambda: not board.processes())
        assert not list((tmp_path / "runs").glob("*-runner"))
    finally:
        for pid in board.processes():
            os.kill(pid, signal.SIGKILL)


def place(folder: Path) -> tuple[object, object]:
    """The first run of the runner of a run, and the run's place there."""
    provenance = result_in(folder).provenance
    runner = provenance.get("runner")
    return runner and str(runner).partition("-")[0], provenance.get("runner_place")


def test_waiting_runs_are_judged_by_one_runner_as_jobs_of_their_own_ids(board: Board) -> None:
    runs = [board.run(), board.run("def custom_kernel(data):\n    return data\n"), board.run()]
    board.begin()
    assert [board.end_of(key) for _, key in runs] == [(JobState.ENDED, "exited with status 0")] * 3
    results = [result_in(folder) for folder, _ in runs]
    assert [result.verdict for result in results] == [Verdict.PASS, Verdict.WRONG_VALUE, Verdict.PASS]
    assert [result.job_id for result in results] == [key.job_id for _, key in runs]
    assert [place(folder) for folder, _ in runs] == [("1", 1), ("1", 2), ("1", 3)]
    assert all((folder / f"slurm-{key.job_id}.out").exists() for folder, key in runs)


def test_a_run_with_another_request_has_a_job_of_its_own_in_its_turn(board: Board) -> None:
    other = replace(CPU, env=(("GREETING", "hello"),))
    runs = [board.run(), board.run(), board.run(gpu=other), board.run(), board.run()]
    board.begin()
    for _, key in runs:
        board.end_of(key)
    assert [place(folder)[0] for folder, _ in runs] == ["1", "1", None, "4", "4"]
    ends = [result_in(folder).ended_at for folder, _ in runs]
    assert ends == sorted(ends)


def test_runs_of_a_site_s_own_template_have_jobs_of_their_own(board: Board) -> None:
    template = replace(CPU, template=str(bundled.folder("job_templates") / "job.sh.j2"))
    runs = [board.run(gpu=template), board.run(gpu=template)]
    board.begin()
    assert [board.end_of(key)[0] for _, key in runs] == [JobState.ENDED] * 2
    assert [place(folder) for folder, _ in runs] == [(None, None)] * 2


def test_a_run_at_a_runner_can_be_cancelled_and_so_can_one_behind_it(board: Board) -> None:
    runs = [board.run(HANGS, task=PATIENT), board.run(), board.run()]
    board.begin()
    await_step(runs[0][0], "test", 1)
    board.scheduler.cancel([runs[1][1], runs[0][1]])
    ends = [board.end_of(key) for _, key in runs]
    assert ends[0] == (JobState.CANCELLED, "cancelled while it ran")
    assert ends[1] == (JobState.CANCELLED, "cancelled while it waited")
    assert result_in(runs[0][0]).interrupted
    assert place(runs[2][0]) == ("1", 2)


def test_a_run_at_a_runner_ends_at_its_time_limit(board: Board) -> None:
    runs = [board.run(HANGS, task=PATIENT, seconds=2), board.run()]
    board.begin()
    assert board.end_of(runs[0][1]) == (JobState.TIMEOUT, "ran into its time limit of 2 s")
    assert board.end_of(runs[1][1])[0] is JobState.ENDED


def test_a_killed_spooler_loses_the_run_in_hand_and_no_other_and_leaves_no_process(board: Board) -> None:
    runs = [board.run(), board.run(HANGS, task=PATIENT), board.run()]
    board.begin()
    await_step(runs[1][0], "test", 1)
    before = board.processes()
    os.kill(board.spooler(), signal.SIGKILL)
    ends = [board.end_of(key) for _, key in runs]
    assert ends[1] == (JobState.NODE_FAIL, "its spooler was killed, or the machine restarted")
    assert [end[0] for end in ends] == [JobState.ENDED, JobState.NODE_FAIL, JobState.ENDED]
    awaited(lambda: all(map(ended, before)))
    assert (place(runs[0][0])[0], place(runs[2][0])[0]) == ("1", None)


def test_an_idle_runner_of_a_killed_spooler_ends_with_the_next_run(board: Board) -> None:
    runs = [board.run(), board.run("import time\ntime.sleep(1)\n" + RIGHT)]
    board.begin()
    awaited((runs[1][0] / job_folder.PROGRESS).exists)
    spooler = board.spooler()
    os.kill(spooler, signal.SIGSTOP)
    awaited((runs[1][0] / job_folder.RESULT).exists)
    os.kill(spooler, signal.SIGKILL)
    before = board.processes()
    assert board.end_of(board.run()[1])[0] is JobState.ENDED
    assert all(map(ended, before))


def test_a_killed_runner_loses_the_run_in_hand_and_the_next_runs_go_on(board: Board) -> None:
    runs = [board.run(HANGS, task=PATIENT), board.run(), board.run()]
    board.begin()
    await_step(runs[0][0], "test", 1)
    for pid in board.processes():
        if b"supervise" in proc_file(pid, "cmdline") and working_folder(pid).endswith(b"-runner"):
            os.kill(pid, signal.SIGKILL)
    ends = [board.end_of(key)[0] for _, key in runs]
    assert ends == [JobState.ENDED] * 3
    assert result_in(runs[0][0]).verdict is Verdict.CRASH
    assert [place(folder) for folder, _ in runs[1:]] == [("2", 1), ("2", 2)]


def test_runs_whose_runner_does_not_start_have_jobs_of_their_own(board: Board, tmp_path: Path) -> None:
    # It starts the judge of a run, and no runner.
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\ncase "$PWD" in *-runner) exit 3;; esac\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    runs = [board.run(gpu=replace(CPU, python=str(python))) for _ in range(3)]
    board.begin()
    assert [board.end_of(key)[0] for _, key in runs] == [JobState.ENDED] * 3
    assert [result_in(folder).verdict for folder, _ in runs] == [Verdict.PASS] * 3
    assert [place(folder) for folder, _ in runs] == [(None, None)] * 3


def test_a_run_that_its_runner_cannot_begin_has_a_job_of_its_own_and_those_behind_another_runner(board: Board) -> None:
    runs = [board.run("import time\ntime.sleep(3)\n" + RIGHT), *[board.run() for _ in range(3)]]
    board.begin()
    awaited((runs[0][0] / "progress.jsonl").exists)
    (running,) = [pid for pid in board.processes() if b"supervise" in proc_file(pid, "cmdline")]
    (zygote,) = [pid for pid in children_of(running) if working_folder(pid) == b"/"]
    os.kill(zygote, signal.SIGKILL)
    assert [board.end_of(key)[0] for _, key in runs] == [JobState.ENDED] * 4
    assert [result_in(folder).verdict for folder, _ in runs] == [Verdict.PASS] * 4
    assert [place(folder)[0] for folder, _ in runs] == ["1", None, "3", "3"]


def test_a_runner_that_cannot_be_made_leaves_no_folder(board: Board) -> None:
    runs = [board.run(), board.run()]
    (runs[0][0] / job_folder.HARNESS).unlink()
    board.begin()
    assert [board.end_of(key)[0] for _, key in runs] == [JobState.ENDED] * 2
    assert place(runs[1][0]) == (None, None)


@pytest.fixture
def hung(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalRunner]:
    """A runner that does nothing; jobs of the folder `1` have the same request."""
    monkeypatch.setattr(local_runner, "_PATIENCE_SECONDS", 0.2)
    folder = tmp_path / "1"
    folder.mkdir()
    (folder / job_folder.SCRIPT).write_text("exec sleep 1000\n")
    (folder / job_folder.HARNESS).touch()
    (folder / FACTS).write_text('{"device": "cpu"}')
    device = os.open(os.devnull, os.O_RDONLY)
    slot = Slot(Pool(tmp_path, "here", Device.CPU, tmp_path), "0")
    runner = LocalRunner(job_in(tmp_path), tmp_path / "hb-1-runner", slot, device)
    yield runner
    os.close(device)
    runner._process.kill()
    runner._process.wait()


def job_in(tmp_path: Path) -> Entry:
    path = f"PATH={os.environ['PATH']}"
    return Entry("hb-1", "1", str(tmp_path / "1"), job_folder.SCRIPT, 1, "like others", [path])


@pytest.mark.parametrize(("cancelled", "state"), [(True, "cancelled"), (False, "timeout")])
def test_a_runner_that_does_not_end_its_run_is_killed(
    hung: LocalRunner, tmp_path: Path, cancelled: bool, state: str
) -> None:
    (hung.queue.folder / TAKEN).mkdir()

    def unwanted() -> bool:
        for path in filter(Path.exists, [hung.queue.folder / QUEUE / "00000001.1"]):
            path.rename(hung.queue.folder / TAKEN / path.name)
        return cancelled

    assert hung.judge(job_in(tmp_path), unwanted) == End(state, "its runner exited with status -9")
    assert not hung.serves(job_in(tmp_path))


def test_a_run_is_not_given_to_a_runner_whose_queue_takes_no_file(hung: LocalRunner, tmp_path: Path) -> None:
    (hung.queue.folder / QUEUE).rmdir()
    assert hung.judge(job_in(tmp_path), lambda: False) is None
