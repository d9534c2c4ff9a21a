"""A board beside the faults of a site's Slurm, nodes and disks: no run is lost or doubled, and each says why it ended.

docs/slurm.md has the users' view of each. With HPC_BOARD_FAULTS=newer they run on the Slurm that `make slurm-chroot`
brings.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpc_board import settings as config
from hpc_board.board import Board
from hpc_board.domain.run import MISSING_GRACE, RESULT_GRACE, UNREADABLE, Run, RunState
from hpc_board.domain.runner import Runner
from hpc_board.errors import SchedulerError, StorageError
from hpc_board.harness.progress import past
from hpc_board.model.result import RESULT_BYTES_MAX, Verdict
from hpc_board.runs import job_folder, launcher
from hpc_board.runs.launcher import ATTEMPTS_MAX
from hpc_board.schedulers.slurm.client import TIMEOUT_SECONDS, SlurmScheduler
from hpc_board.transport.this_host import ThisHost
from tests.conftest import short_folder, skip_without_slurm
from tests.e2e.boards import HANGING, RIGHT, BoardFiles, board_files, slurm_jobs
from tests.slurm import chroot
from tests.slurm.lab import SlurmLab, has_memory_groups
from tests.unit.runs.world import set_clock
from tests.values import replace, requested
from tests.waiting import awaited, pauses

pytestmark = pytest.mark.slurm

SETTLED = timedelta(seconds=2)
WAIT_SECONDS = 60.0
GIB = 1024**3

NEWER = os.environ.get("HPC_BOARD_FAULTS") == "newer"
"""True if the faults are those of the Slurm that `make slurm-chroot` brings."""

SITE = {
    "MessageTimeout": "3",
    "SlurmdTimeout": "8",
    "PreemptType": "preempt/partition_prio",
    "PreemptMode": "REQUEUE",
    "SelectTypeParameters": "CR_Core_Memory",
    "DefMemPerNode": "800",
    "JobAcctGatherType": "jobacct_gather/linux",
    "JobAcctGatherFrequency": "task=1",
    "JobAcctGatherParams": "OverMemoryKill",
    "PartitionName": "urgent Nodes=h100-1 PriorityTier=10 MaxTime=INFINITE State=UP",
}
"""slurm.conf of a cluster that preempts, kills what exceeds its memory, and gives nodes up after seconds."""

FORGETFUL = {"MinJobAge": "2", "FirstJobId": "100", "MaxJobId": "105", "MaxJobCount": "6"}
"""slurm.conf of a cluster that forgets ended jobs at once, has few ids, and room for as many jobs."""

CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t which, struct timespec *at) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(which, at);
    if (status == 0 && which == CLOCK_REALTIME) at->tv_sec += 3600;
    return status;
}
"""
"""A library that, loaded before others, puts the clock of a process an hour forward."""


def a_lab(folder: Path, **arguments: Any) -> SlurmLab:
    if NEWER and (hindrance := chroot.hindrance()):
        pytest.skip(hindrance)
    return SlurmLab(folder / "lab", root=chroot.folder() if NEWER else None, **arguments)


@pytest.fixture(scope="module")
def faulty_lab() -> Iterator[SlurmLab]:
    skip_without_slurm()
    with short_folder() as folder:
        prolog = folder / "prolog"
        prolog.write_text(f"#!/bin/sh\n! [ -e {folder}/lab/no-prolog ]\n")
        prolog.chmod(0o755)
        with a_lab(folder, configuration={**SITE, "Prolog": str(prolog)}) as lab:
            yield lab


@pytest.fixture(scope="module")
def reusing_lab() -> Iterator[SlurmLab]:
    skip_without_slurm()
    with short_folder() as folder, a_lab(folder, configuration=FORGETFUL) as lab:
        yield lab


@pytest.fixture(scope="module")
def limiting_lab() -> Iterator[SlurmLab]:
    """A Slurm whose accounting limits the submitted jobs of an account."""
    skip_without_slurm(accounting=True)
    limits = {"AccountingStorageEnforce": "limits,associations"}
    with short_folder() as folder, a_lab(folder, configuration=limits, accounting=True) as lab:
        yield lab


@pytest.fixture(scope="module")
def group_lab() -> Iterator[SlurmLab]:
    """A Slurm that limits the memory of jobs by control groups, without a kill by slurmd."""
    skip_without_slurm()
    if not has_memory_groups():
        pytest.skip("control groups of memory, version 1, are not this account's here")
    site = {"SelectTypeParameters": "CR_Core_Memory", "DefMemPerNode": "800"}
    with short_folder() as folder, a_lab(folder, configuration=site, control_groups=True) as lab:
        yield lab


@dataclass(frozen=True)
class Site:
    """A board on a lab's Slurm that is carried on when a test says so."""

    lab: SlurmLab
    files: BoardFiles
    patch: pytest.MonkeyPatch
    patience_seconds: float = TIMEOUT_SECONDS

    @property
    def board(self) -> Board:
        """The board, as a client sees it that starts now."""
        board = Board(config.load(self.files.settings, os.environ))
        board.context.clusters.__dict__["schedulers"] = {
            "lab": SlurmScheduler(board.settings.clusters[0], ThisHost(), timeout_seconds=self.patience_seconds)
        }
        impatient = {"lab": replace(board.settings.clusters[0], poll_seconds=0)}
        board.context.installation.__dict__["reconciler"] = replace(
            board.context.reconciler, lookup_delay=SETTLED, clusters=impatient
        )
        return board

    @property
    def hold(self) -> Path:
        """While this file is there, jobs on the GPUs HELD-... have begun and their harness has not."""
        return self.files.folder / "hold"

    def held(self) -> None:
        self.hold.touch()

    def released(self) -> None:
        self.hold.unlink(missing_ok=True)

    def submit(self, *gpus: str, kernel: str = RIGHT, task: str = "double") -> list[Run]:
        board = self.board
        file = self.files.kernel(kernel.replace("leaderboard double", f"leaderboard {task}"))
        return board.submissions.submit([requested(file, gpus=gpus, mode="test")])

    def now(self, run: Run) -> Run:
        return self.board.runs.get(run.id)

    def until(self, run: Run, *states: RunState, fits: Callable[[Run], bool] = lambda _: True) -> Run:
        """Return `run` once it is in one of the states and `fits`, advanced until then in spite of Slurm's faults."""
        deadline, pause = time.monotonic() + WAIT_SECONDS, pauses()
        board = self.board
        while True:
            with suppress(SchedulerError, StorageError):
                board.runs.advance()
            seen = board.runs.get(run.id)
            if (not states or seen.state in states) and fits(seen):
                return seen
            assert not seen.state.ended, f"{seen.state}: {seen.explanation}"
            assert time.monotonic() < deadline, f"{seen.state}: {seen.explanation}"
            next(pause)

    def over(self, run: Run) -> Run:
        """`run` once Slurm has said that its job is over, from which moment on its result is waited for.

        Before that Slurm may call the job completing, for as long as it likes.
        """
        return self.until(run, RunState.COLLECTING, fits=lambda run: run.status.ended_in_queue_at is not None)

    def finished(self, *runs: Run) -> None:
        """Every one of `runs` passes, from one job each."""
        for run in runs:
            seen = self.until(run, RunState.FINISHED)
            assert seen.verdict is Verdict.PASS, seen.message
            self.happened_once(seen)

    def happened_once(self, run: Run) -> None:
        """`run` was sent to Slurm once, ended once, and one job wrote into its folder."""
        history = self.board.runs.whole(run.id).history
        assert sum(status.state.ended for status in history) == 1
        sent = [status.state is RunState.SUBMITTING for status in history]
        assert sum(after and not before for before, after in pairwise(sent)) == 1
        assert {status.attempt for status in history if status.state is RunState.SUBMITTING} == {1}
        assert len([name for _, name, _ in slurm_jobs(self.files.environ) if name == run.token]) <= 1
        assert len(list(self.folder(run).glob("slurm-*.out"))) <= 1

    def folder(self, run: Run) -> Path:
        return job_folder.folder(self.board.settings.board, run.id)

    def job(self, run: Run) -> str:
        """Slurm's word for the state of the run's job, empty where it does not list it."""
        states = [state for _, name, state in slurm_jobs(self.files.environ) if name == run.token]
        return states[0] if states else ""

    def job_until(self, run: Run, *states: str) -> None:
        """Wait for Slurm alone; the board is not carried on."""
        awaited(lambda: self.job(run) in states)

    def later(self, delta: timedelta) -> None:
        """The board's clock from now on."""
        set_clock(self.patch, lambda: datetime.now(UTC) + delta)


@pytest.fixture
def site(faulty_lab: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    yield site_on(faulty_lab, tmp_path, monkeypatch)
    faulty_lab.cancel_jobs()


def site_on(lab: SlurmLab, folder: Path, patch: pytest.MonkeyPatch) -> Site:
    """A board whose GPUs are H100, A100 and CPU, each also as HELD-..., and a task whose calls may take minutes."""
    environ = {name: lab.environment[name] for name in ("SLURM_CONF", "PATH")}
    for name, value in environ.items():
        patch.setenv(name, value)
    files = board_files(folder, slurm=True, environ=environ)
    python = folder / "python"
    python.write_text(
        f'#!/bin/sh\nwhile [ -e {folder}/hold ]; do sleep 0.1; done\nexec {python_on(lab)} "$@"\n', encoding="utf-8"
    )
    python.chmod(0o755)
    gpus = {name: {**gpu, "python": python_on(lab)} for name, gpu in settings_of(files)["gpus"].items()}
    change_settings(files, **gpus)
    change_settings(
        files, **{f"HELD-{name}": {**gpus[name], "python": str(python)} for name in ("H100", "A100", "CPU")}
    )
    slow = folder / "tasks" / "slow"
    shutil.copytree(folder / "tasks" / "double", slow)
    document = yaml.safe_load((slow / "task.yml").read_text())
    document["hpc_board"]["limits"] |= {"call_seconds": 100, "first_call_seconds": 100, "test_call_seconds": 100}
    (slow / "task.yml").write_text(yaml.safe_dump(document, sort_keys=False))
    return Site(lab, files, patch)


def python_on(lab: SlurmLab) -> str:
    """The Python of the lab's nodes."""
    return sys.executable if lab.root is None else "/usr/bin/python3"


def settings_of(files: BoardFiles) -> dict[str, Any]:
    settings: dict[str, Any] = yaml.safe_load(files.settings.read_text())
    return settings


def change_settings(files: BoardFiles, **gpus: dict[str, Any]) -> None:
    settings = settings_of(files)
    settings["gpus"] |= gpus
    files.settings.write_text(yaml.safe_dump(settings, sort_keys=False))


@contextmanager
def killed(lab: SlurmLab, *daemons: str) -> Iterator[None]:
    """`daemons` are dead, and start again afterwards on the state that they left.

    The controller saves its state every few seconds, so it is told to end and does that first.
    """
    pids = {daemon: lab.pid(daemon) for daemon in daemons}
    for daemon, pid in pids.items():
        os.kill(pid, signal.SIGTERM if daemon == "slurmctld" else signal.SIGKILL)
    awaited(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids.values()))
    try:
        yield
    finally:
        for daemon in daemons:
            (lab.folder / f"{daemon}.pid").unlink(missing_ok=True)
            lab.start(daemon)
        awaited(lambda: all((lab.folder / f"{daemon}.pid").exists() for daemon in daemons))
        awaited(lambda: answers(lab))


def answers(lab: SlurmLab) -> bool:
    """Return whether the controller answers and has every node."""
    try:
        states = lab.run("sinfo", "--noheader", "--Node", "--format=%T").split()
    except subprocess.CalledProcessError:
        return False
    return bool(states) and all(state in ("idle", "mixed", "allocated", "completing") for state in states)


def kill_job(folder: Path, *, with_step: bool = False) -> None:
    """Kill all that runs in a job's folder; `with_step` also the process that would tell, as a machine's end does."""
    awaited(lambda: any(" supervise " in command for _, command in processes_in(folder).values()))
    found = processes_in(folder)
    doomed = [pid for pid, (_, command) in found.items() if not command.startswith("slurmstepd: ")]
    if with_step:
        # The parent of the job's shell, whose own folder says nothing of which job it is of: first, or it tells.
        doomed = [*{parent for parent, command in found.values() if "/slurm_script" in command}, *doomed]
    for pid in doomed:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def processes_in(folder: Path) -> dict[int, tuple[int, str]]:
    """The parent and the command of each process whose working folder this is, by its number."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # Not by its path, which is another one in the folder of a newer Slurm.
                if (entry / "cwd").samefile(folder):
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    found[int(entry.name)] = (
                        int((entry / "stat").read_text().rpartition(")")[2].split()[1]),
                        command,
                    )
    return found


# The controller


def test_a_controller_that_is_silent_while_a_job_is_sent(site: Site) -> None:
    with site.lab.stopped("slurmctld"):
        (run,) = site.submit("CPU")
        unclear = site.now(run)
        assert unclear.state is RunState.SUBMITTING
        assert unclear.status.unanswered
        assert unclear.status.reason == "the scheduler has not confirmed the job"
        assert "timed out" in unclear.status.source
    site.finished(run)
    # Its job is found by its name, unless it is so short that its result comes first.
    assert site.now(run).status.job_id
    site.happened_once(site.now(run))


def test_a_controller_that_is_silent_while_it_is_asked(site: Site) -> None:
    site.held()
    waiting, ending = (*site.submit("HELD-H100"), *site.submit("HELD-A100"))
    for run in (waiting, ending):
        site.until(run, RunState.RUNNING)
    before = site.board.runs.whole(waiting.id).history
    with site.lab.stopped("slurmctld"):
        with pytest.raises(SchedulerError, match="timed out"):
            site.board.runs.advance()
        assert site.board.runs.whole(waiting.id).history == before
        # A result in the job's folder needs no answer of the controller.
        site.released()
        awaited(lambda: _collected(site, ending))
    site.finished(waiting, ending)


def _collected(site: Site, run: Run) -> bool:
    return _carried_on(site) and site.now(run).state is RunState.FINISHED


def test_a_controller_that_is_silent_while_a_job_is_cancelled(site: Site) -> None:
    (run,) = site.submit("CPU", kernel=HANGING, task="slow")
    site.until(run, RunState.RUNNING)
    with site.lab.stopped("slurmctld"):
        (answer,) = site.board.runs.cancel_each([run.id])
        assert isinstance(answer.error, SchedulerError)
        assert "timed out" in answer.error.message
        wish = site.now(run)
        assert (wish.state, wish.status.cancel_requested) == (RunState.RUNNING, True)
        assert wish.status.reason.startswith("cancel requested by ")
    ended = site.until(run, RunState.CANCELLED)
    assert "squeue: CANCELLED" in ended.explanation
    site.happened_once(ended)


def test_a_controller_that_is_restarted(site: Site) -> None:
    site.held()
    running, waiting = (*site.submit("HELD-H100"), *site.submit("HELD-CPU"))
    site.until(running, RunState.RUNNING)
    with killed(site.lab, "slurmctld"), pytest.raises(SchedulerError, match="squeue failed: "):
        site.board.runs.advance()
    assert site.now(running).state is RunState.RUNNING
    site.released()
    site.finished(running, waiting)


# Nodes and partitions


def test_a_node_that_dies_under_a_job(site: Site) -> None:
    site.held()
    (run,) = site.submit("HELD-H100")
    site.until(run, RunState.RUNNING)
    with killed(site.lab, "slurmd.h100-1"):
        kill_job(site.folder(run), with_step=True)
        site.over(run)
        site.later(RESULT_GRACE)
        ended = site.until(run, RunState.NODE_FAIL)
    assert ended.status.source.startswith("squeue: NODE_FAIL (NodeDown); no result file after 1 min")
    site.happened_once(ended)


def test_a_node_whose_daemon_dies_and_whose_job_goes_on(site: Site) -> None:
    site.held()
    (run,) = site.submit("HELD-A100")
    site.until(run, RunState.RUNNING)
    with killed(site.lab, "slurmd.a100-1"):
        site.released()
        site.finished(run)


def test_a_node_that_is_drained(site: Site) -> None:
    site.held()
    (running,) = site.submit("HELD-A100")
    site.until(running, RunState.RUNNING)
    site.lab.run("scontrol", "update", "NodeName=a100-1", "State=drain", "Reason=a test")
    try:
        (waiting,) = site.submit("A100")
        queued = site.until(waiting, RunState.QUEUED, fits=lambda run: "drained" in run.status.reason)
        assert queued.status.reason.startswith("waiting for ")
        site.released()
        site.finished(running)
    finally:
        site.lab.run("scontrol", "update", "NodeName=a100-1", "State=resume")
    site.finished(waiting)


def test_a_partition_that_is_down(site: Site) -> None:
    site.lab.run("scontrol", "update", "PartitionName=cpu", "State=down")
    try:
        (run,) = site.submit("CPU")
        queued = site.until(run, RunState.QUEUED, fits=lambda run: "PartitionDown" in run.status.reason)
        assert queued.status.reason == "waiting for the partition, which is down (PartitionDown)"
    finally:
        site.lab.run("scontrol", "update", "PartitionName=cpu", "State=up")
    site.finished(run)


def test_a_job_that_will_never_start(site: Site) -> None:
    site.lab.run("scontrol", "update", "PartitionName=cpu", "MaxTime=1")
    try:
        (long,) = site.submit("CPU")
        queued = site.until(long, RunState.QUEUED, fits=lambda run: "PartitionTimeLimit" in run.status.reason)
        assert queued.status.reason == (
            "will never start: its time limit exceeds the partition's; cancel it, and correct `time` of this GPU in "
            "the settings (PartitionTimeLimit)"
        )
        site.lab.run("scontrol", "hold", queued.status.job_id)
        held = site.until(long, RunState.QUEUED, fits=lambda run: "JobHeld" in run.status.reason)
        assert held.status.reason.startswith("will never start while ")
        site.lab.run("scontrol", "release", queued.status.job_id)
    finally:
        site.lab.run("scontrol", "update", "PartitionName=cpu", "MaxTime=INFINITE")
    site.finished(long)


# Jobs that Slurm does not accept at the moment


@pytest.fixture
def limited(limiting_lab: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A board whose account may have two jobs, and whose held runs are tried again at once."""
    for words in ("add account board", "add user root account=board", "modify user root set maxsubmitjobs=2"):
        subprocess.run(["sacctmgr", "-i", *words.split()], env=limiting_lab.environment, check=False)
    monkeypatch.setattr(launcher, "HELD_SECONDS", 0.1)
    yield site_on(limiting_lab, tmp_path, monkeypatch)
    limiting_lab.cancel_jobs()


def test_a_run_over_a_submit_limit_waits_and_goes_when_there_is_room(limited: Site) -> None:
    limited.held()
    first, second, third = (run for _ in range(3) for run in limited.submit("HELD-CPU"))
    assert [limited.now(run).state for run in (first, second, third)] == [
        RunState.QUEUED,
        RunState.QUEUED,
        RunState.CREATED,
    ]
    reason = limited.now(third).status.reason
    assert reason.startswith("not accepted at the moment: no room: a limit on the submitted jobs")
    assert "AssocMaxSubmitJobLimit" in reason
    limited.released()
    limited.finished(first, second)
    assert limited.until(third, RunState.FINISHED).verdict is Verdict.PASS


def test_a_run_waits_for_a_cluster_that_is_full_and_goes_when_there_is_room(
    reusing_lab: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "HELD_SECONDS", 0.1)
    site = site_on(reusing_lab, tmp_path, monkeypatch)
    # An earlier job is forgotten after some seconds only.
    hold = ["sbatch", "--parsable", "--hold", "--output=/dev/null", "--wrap=true"]
    others_: list[str] = []
    with suppress(subprocess.TimeoutExpired):
        while len(others_) < 7:
            done = subprocess.run(
                hold, env=reusing_lab.environment, check=True, capture_output=True, text=True, timeout=5
            )
            others_.append(done.stdout.strip())
    try:
        (run,) = site.submit("CPU")
        waiting = site.now(run)
        assert (waiting.state, waiting.status.unanswered) == (RunState.SUBMITTING, True)
        assert waiting.status.reason.startswith(
            "not accepted at the moment: no room: the cluster does not accept jobs at the moment"
        )
        # More often than a run is sent that gets no answer at all.
        most = 2 * (ATTEMPTS_MAX + 1)
        site.until(run, fits=lambda run: len(site.board.runs.whole(run.id).history) > most)
    finally:
        reusing_lab.run("scancel", *others_)
    assert site.until(run, RunState.FINISHED).verdict is Verdict.PASS
    assert len(list(site.folder(run).glob("slurm-*.out"))) == 1


# Jobs that the cluster fails


@contextmanager
def failing_prolog(lab: SlurmLab, node: str) -> Iterator[None]:
    """Prologs fail, until the caller has seen what it does; then the node takes jobs again."""
    flag = lab.folder / "no-prolog"
    flag.touch()
    try:
        yield
    finally:
        flag.unlink(missing_ok=True)
        lab.run("scontrol", "update", f"NodeName={node}", "State=resume")


DRAINED = "cpu-1 is drained: Prolog error"


def test_a_job_whose_prolog_fails_is_of_a_failed_node_and_not_cancelled(site: Site) -> None:
    with failing_prolog(site.lab, "cpu-1"):
        (run,) = site.submit("CPU")
        seen = site.over(run)
        assert seen.status.source.startswith("squeue: CANCELLED")
        # The node may be drained before the job's output has the words.
        reasons = [f"the node's prolog failed ({words})" for words in ("Error running slurm prolog: 1", DRAINED)]
        assert seen.status.reason in reasons
        assert site.board.context.clusters.schedulers["lab"].prolog_failure("cpu-1") == (  # type: ignore[attr-defined]
            f"the node's prolog failed ({DRAINED})"
        )
        site.later(RESULT_GRACE)
        ended = site.until(run, RunState.NODE_FAIL)
    assert (ended.status.node, ended.status.reason in reasons) == ("cpu-1", True)
    site.happened_once(ended)


def test_runs_of_an_array_whose_prolog_fails_are_sent_again_as_other_jobs(site: Site) -> None:
    change_cpu(site, retries=1)
    with failing_prolog(site.lab, "cpu-1"):
        files = [site.files.kernel(RIGHT, f"k{number}.py") for number in range(3)]
        board = site.board
        runs = board.submissions.submit([requested(file, gpus=["CPU"], mode="test") for file in files])
        # Tasks whose turn comes after the drain wait for the node.
        failed = [site.over(run) for run in runs[:1]]
        site.later(RESULT_GRACE)
        again = [site.until(run, fits=lambda run: run.retry == 1) for run in failed]
    for first, second in zip(failed, again, strict=True):
        assert (second.state, second.status.source[:17]) == (RunState.CREATED, "squeue: CANCELLED")
        assert second.status.reason.startswith("retry 1 of 1 after node_fail on cpu-1: the node's prolog failed")
        assert second.token != first.token
        # A result of the first job that comes late is not that of the run.
        (board.settings.board / "runs" / first.token / job_folder.RESULT).write_text("{}")
    for run in runs:
        ended = site.until(run, RunState.FINISHED)
        assert ended.verdict is Verdict.PASS, ended.message
        history = site.board.runs.whole(run.id).history
        assert sum(status.state.ended for status in history) == 1
        jobs = {status.job_id for status in history if status.job_id}
        assert len(jobs) == 1 + ended.retry
        assert [name for _, name, _ in slurm_jobs(site.files.environ)].count(ended.array or ended.token) >= 1


def test_a_job_that_slurm_holds_after_a_failed_launch_is_cancelled_and_sent_again(site: Site) -> None:
    change_cpu(site, retries=1)
    site.lab.run("scontrol", "update", "PartitionName=cpu", "State=down")
    try:
        (run,) = site.submit("CPU")
        first = site.until(run, RunState.QUEUED)
        # hpc-board says --no-requeue; the cluster's admin may overrule that.
        site.lab.run("scontrol", "update", f"JobId={first.status.job_id}", "Requeue=1")
        with failing_prolog(site.lab, "cpu-1"):
            site.lab.run("scontrol", "update", "PartitionName=cpu", "State=up")
            held = site.until(run, RunState.QUEUED, fits=lambda run: "could not be launched" in run.status.reason)
            assert held.status.reason.startswith("will never start")
            site.over(run)
            site.later(RESULT_GRACE)
            again = site.until(run, fits=lambda run: run.retry == 1)
    finally:
        site.lab.run("scontrol", "update", "PartitionName=cpu", "State=up")
    assert again.status.reason.startswith("retry 1 of 1 after node_fail")
    assert site.job(first) == "CANCELLED"
    assert site.until(run, RunState.FINISHED).verdict is Verdict.PASS


def test_a_preempted_run_is_sent_again(site: Site) -> None:
    gpus = settings_of(site.files)["gpus"]
    change_settings(site.files, H100={**gpus["H100"], "retries": 2})
    (run,) = site.submit("H100", kernel=HANGING.replace("120", "2"), task="slow")
    first = site.until(run, RunState.RUNNING, fits=lambda run: (site.folder(run) / job_folder.PROGRESS).exists())
    urgent(site, "sleep 1")
    waiting = site.until(run, RunState.CREATED)
    assert waiting.status.reason == "retry 1 of 2 after preempted on h100-1"
    ended = site.until(run, RunState.FINISHED)
    assert ended.verdict is Verdict.PASS
    assert ended.status.job_id != first.status.job_id
    told = json.loads(site.files.run("run", str(run.id), "--json").stdout)
    assert (told["retries"], told["job"]["id"]) == (1, ended.status.job_id)
    assert [status["reason"] for status in told["history"] if status["state"] == "created"][1:] == [
        waiting.status.reason
    ]


# Ends of jobs that the board did not request


def test_a_job_that_is_preempted(site: Site) -> None:
    (run,) = site.submit("H100", kernel=HANGING, task="slow")
    site.until(run, RunState.RUNNING)
    urgent(site, "sleep 1")
    ended = site.until(run, RunState.PREEMPTED)
    assert ended.status.source.startswith("squeue: PREEMPTED")
    site.happened_once(ended)


def test_a_job_that_slurm_puts_back_counts_its_tries_and_ends_after_one_too_many(site: Site) -> None:
    gpus = settings_of(site.files)["gpus"]
    change_settings(site.files, H100={**gpus["H100"], "retries": 1, "sbatch": ["--requeue"]})
    short = HANGING.replace("120", "2")
    (right,) = site.submit("H100", kernel=short, task="slow")
    put_back(site, right)
    site.finished(right)
    assert (site.now(right).retry, site.board.runs.whole(right.id).result.restart_count) == (0, 1)  # type: ignore[union-attr]
    assert (site.folder(right) / "progress.0.jsonl").exists()

    (run,) = site.submit("H100", kernel=short, task="slow")
    put_back(site, run)
    site.until(run, RunState.RUNNING, fits=lambda run: '"test"' in progress(site, run))
    urgent(site, "sleep 1")
    over = site.until(run, fits=lambda run: run.status.reason.startswith("the scheduler requeued its job"))
    assert over.status.reason == "the scheduler requeued its job 2 times, but `retries` allows 1"
    site.over(run)
    site.later(RESULT_GRACE)
    assert site.until(run, RunState.PREEMPTED).status.reason == over.status.reason
    assert site.job(run) == "CANCELLED"


def put_back(site: Site, run: Run) -> None:
    """Have a job preempted once and its run seen to wait for the first of its tries."""
    running = site.until(run, RunState.RUNNING, fits=lambda run: '"test"' in progress(site, run))
    urgent(site, "sleep 1")
    back = site.until(run, RunState.QUEUED, fits=lambda run: "restart 1" in run.status.source)
    assert back.status.reason.startswith("retry 1 of 1 by the scheduler; waiting for ")
    site.lab.run("scontrol", "update", f"JobId={running.status.job_id}", "StartTime=now")


def urgent(site: Site, command: str) -> None:
    """Submit a job that takes the whole node h100-1 from the jobs there."""
    site.lab.run("sbatch", "--partition=urgent", "--exclusive", "--output=/dev/null", f"--wrap={command}")


# Runners


def a_run_in_hand(site: Site, calls_seconds: int) -> tuple[Runner, Run, Run]:
    """A runner on the H100, the run that it has in hand, whose calls take so long, and the run behind that."""
    runner = site.board.runners.hold("H100")
    (in_hand,) = site.submit("H100", kernel=HANGING.replace("120", str(calls_seconds)), task="slow")
    (behind,) = site.submit("H100")
    assert site.now(behind).status.runner == runner.id
    site.until(in_hand, RunState.RUNNING, fits=lambda run: '"test"' in progress(site, run))
    return site.board.context.store.runners.get(runner.id), in_hand, behind


def of_runner(site: Site, runner: Runner) -> RunState:
    return site.board.context.store.runners.get(runner.id).state


def test_a_runner_that_is_preempted_is_not_put_back(site: Site) -> None:
    gpus = settings_of(site.files)["gpus"]
    change_settings(site.files, H100={**gpus["H100"], "retries": 1, "sbatch": ["--requeue"]})
    runner, in_hand, behind = a_run_in_hand(site, 2)
    urgent(site, "sleep 1")
    for run in (in_hand, behind):
        ended = site.until(run, RunState.FINISHED)
        assert (ended.verdict, ended.status.runner) == (Verdict.PASS, None)
    assert of_runner(site, runner) is RunState.PREEMPTED
    reasons = [status.reason for status in site.board.runs.whole(in_hand.id).history]
    assert [each for each in reasons if each.startswith("retry")] == [
        "retry 1 of 1 after preempted on h100-1: its runner ended: its job was told to end"
    ]


def test_a_node_that_dies_under_a_runner(site: Site) -> None:
    runner, in_hand, behind = a_run_in_hand(site, 120)
    folder = site.folder(in_hand).with_name(runner.token)
    with killed(site.lab, "slurmd.h100-1"):
        kill_job(folder, with_step=True)
        sent = site.until(behind, RunState.QUEUED, fits=lambda run: run.status.runner is None)
        assert (sent.retry, of_runner(site, runner)) == (0, RunState.NODE_FAIL)
        site.later(RESULT_GRACE)
        assert site.until(in_hand, RunState.NODE_FAIL).status.runner == runner.id
    assert site.until(behind, RunState.FINISHED).verdict is Verdict.PASS


def test_a_runner_whose_submission_had_no_answer_is_found(site: Site) -> None:
    with site.lab.stopped("slurmctld"):
        runner = site.board.runners.hold("CPU")
    assert (runner.state, "timed out" in runner.status.source) == (RunState.SUBMITTING, True)
    awaited(lambda: _carried_on(site) and of_runner(site, runner) is RunState.RUNNING)
    (run,) = site.submit("CPU")
    assert site.until(run, RunState.FINISHED).status.runner == runner.id


def _carried_on(site: Site) -> bool:
    with suppress(SchedulerError):
        site.board.runs.advance()
    return True


def change_cpu(site: Site, **keys: Any) -> None:
    change_settings(site.files, CPU={**settings_of(site.files)["gpus"]["CPU"], **keys})


def test_a_job_that_exceeds_its_time(site: Site) -> None:
    (run,) = site.submit("CPU", kernel=HANGING, task="slow")
    running = site.until(run, RunState.RUNNING, fits=lambda run: (site.folder(run) / job_folder.PROGRESS).exists())
    site.lab.run("scontrol", "update", f"JobId={running.status.job_id}", "EndTime=now")
    ended = site.until(run, RunState.TIMEOUT)
    assert ended.status.source == "squeue: TIMEOUT (TimeLimit)"
    partial = site.board.runs.whole(run.id).result
    assert partial is not None
    assert partial.message.startswith("stopped by SIGTERM after ")
    site.happened_once(ended)


def test_a_job_that_is_suspended_and_resumed(site: Site) -> None:
    limits = site.files.folder / "tasks" / "slow" / "task.yml"
    limits.write_text(limits.read_text().replace("call_seconds: 100", "call_seconds: 4"))
    (run,) = site.submit("CPU", kernel=HANGING.replace("120", "1"), task="slow")
    running = site.until(run, RunState.RUNNING, fits=lambda run: '"test"' in progress(site, run))
    site.lab.run("scontrol", "suspend", running.status.job_id)
    seen = site.until(run, RunState.RUNNING, fits=lambda run: "SUSPENDED" in run.status.source)
    assert seen.status.source == "squeue: SUSPENDED"
    # Longer than a call may take: the clock runs on.
    time.sleep(6)
    site.lab.run("scontrol", "resume", running.status.job_id)
    site.finished(run)
    assert progress(site, run).count('"phase": "start"') == 2


def progress(site: Site, run: Run) -> str:
    path = site.folder(run) / job_folder.PROGRESS
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize("srun", [False, True], ids=["batch", "step"])
def test_a_job_that_exceeds_its_memory(site: Site, srun: bool) -> None:
    change_cpu(site, memory="150M", srun=srun)
    greedy = RIGHT.replace("    return", "    import time; x = b'x' * (300 << 20); time.sleep(60)\n    return")
    (run,) = site.submit("CPU", kernel=greedy, task="slow")
    if not srun:
        site.until(
            run,
            RunState.COLLECTING,
            RunState.OUT_OF_MEMORY,
            fits=lambda run: run.state.ended or run.status.ended_in_queue_at is not None,
        )
        site.later(RESULT_GRACE)
    ended = site.until(run, RunState.OUT_OF_MEMORY)
    assert re.fullmatch("it used [1-9][0-9]{2} MiB of memory, but its limit is 150 MiB", ended.status.reason)
    evidence = (
        "its output ends with"
        if srun
        else r"squeue: FAILED \((JobLaunchFailure|RaisedSignal:9\(Killed\))\); no result file after 1 min"
    )
    # Slurm 26.05 cancels the job at times, whose script then leaves a partial result.
    assert NEWER or re.match(evidence, ended.status.source)
    assert NEWER or srun or re.search("exceeded (job )?memory limit", ended.status.source, re.IGNORECASE)
    site.happened_once(ended)


def test_a_job_that_the_kernel_kills_for_its_memory(
    group_lab: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = site_on(group_lab, tmp_path, monkeypatch)
    change_cpu(site, memory="250M")
    greedy = RIGHT.replace("    return", "    x = b'x' * (600 << 20)\n    return")
    (run,) = site.submit("CPU", kernel=greedy)
    ended = site.until(run, RunState.FINISHED)
    assert ended.verdict is Verdict.OUT_OF_MEMORY, ended.message
    told = site.files.json("run", str(run.id))["usage"]
    assert told["memory_asked_bytes"] == 250 * 2**20
    assert 0.9 * 250 * 2**20 <= told["memory_peak_bytes"] <= 250 * 2**20
    assert told["advice"] == ["nearly used up; `memory:  2G` is safe"]
    site.job_until(run, "OUT_OF_MEMORY")
    site.happened_once(ended)


def test_a_job_that_is_cancelled_with_slurm_s_own_command(site: Site) -> None:
    (running,) = site.submit("CPU", kernel=HANGING, task="slow")
    site.until(running, RunState.RUNNING, fits=lambda run: (site.folder(run) / job_folder.PROGRESS).exists())
    site.lab.run("scontrol", "update", "PartitionName=a100", "State=down")
    try:
        (waiting,) = site.submit("A100")
        site.lab.run("scancel", site.now(running).status.job_id, site.now(waiting).status.job_id)
        ended = site.until(running, RunState.CANCELLED)
        assert ended.status.source == "squeue: CANCELLED"
        assert site.board.runs.whole(running.id).result is not None
        site.over(waiting)
        site.later(RESULT_GRACE)
        unsent = site.until(waiting, RunState.CANCELLED)
        assert unsent.status.source.startswith("squeue: CANCELLED (PartitionDown); no result file after 5 s")
        for run in (ended, unsent):
            site.happened_once(run)
    finally:
        site.lab.run("scontrol", "update", "PartitionName=a100", "State=up")


# Slurm's memory


def test_a_job_that_is_forgotten_before_it_is_first_asked_for(
    reusing_lab: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = site_on(reusing_lab, tmp_path, monkeypatch)
    site.held()
    (right,) = site.submit("CPU")
    (lost,) = site.submit("HELD-A100")
    site.job_until(lost, "RUNNING")
    kill_job(site.folder(lost))
    awaited(lambda: not site.job(right) and not site.job(lost))
    site.finished(right)
    missing = site.over(lost)
    assert missing.status.source == "squeue: not listed; sacct: accounting storage is disabled"
    site.later(MISSING_GRACE)
    ended = site.until(lost, RunState.LOST)
    said = re.fullmatch(
        r"squeue: not listed; sacct: accounting storage is disabled; no result file after 5 min, since \d\d:\d\d UTC.*",
        ended.status.source,
    )
    assert said, ended.status.source
    site.happened_once(ended)


def test_a_job_whose_id_is_another_s_by_now(
    reusing_lab: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = site_on(reusing_lab, tmp_path, monkeypatch)
    site.held()
    (run,) = site.submit("HELD-A100")
    site.job_until(run, "RUNNING")
    job_id = site.now(run).status.job_id
    kill_job(site.folder(run))
    awaited(lambda: not site.job(run))
    strangers = others(reusing_lab, job_id)
    try:
        missing = site.over(run)
        assert missing.status.source.startswith("squeue: not listed; ")
        site.board.runs.cancel_each([run.id])
        assert job_id in reusing_lab.run("squeue", "--noheader", "--states=RUNNING,PENDING", "--format=%i").split()
        site.later(MISSING_GRACE)
        ended = site.until(run, RunState.CANCELLED)
        site.happened_once(ended)
    finally:
        reusing_lab.run("scancel", *strangers)


def others(lab: SlurmLab, job_id: str) -> list[str]:
    """Submit jobs of another user, the last of which has the id `job_id`; all wait, held."""
    mine: list[str] = []
    while job_id not in mine:
        mine.append(lab.run("sbatch", "--parsable", "--hold", "--output=/dev/null", "--wrap=true").strip())
        assert len(mine) < 20
    return mine


def test_accounts_that_are_down(accounting_lab: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = replace(site_on(accounting_lab, tmp_path, monkeypatch), patience_seconds=4)
    site.held()
    (ended,) = site.submit("HELD-A100")
    site.until(ended, RunState.RUNNING)
    with accounting_lab.stopped("slurmdbd"):
        kill_job(site.folder(ended))
        (run,) = site.submit("CPU")
        site.finished(run)
        awaited(lambda: not site.job(ended))
        before = site.board.runs.whole(ended.id).history
        for _ in range(2):
            site.board.runs.advance()
        known, seen = before[-1], site.board.runs.whole(ended.id).history[-1]
        assert seen.source.startswith("squeue: not listed; sacct ")
        assert replace(seen, source=known.source) == known
        assert not site.now(ended).state.ended
    site.until(ended, RunState.COLLECTING, fits=lambda run: "sacct: " in run.status.source)
    site.later(RESULT_GRACE)
    told = site.until(ended, RunState.ERROR, RunState.NODE_FAIL)
    assert told.status.source.startswith("squeue: not listed; sacct: ")
    site.happened_once(told)


# Programs between the board and Slurm


def test_commands_that_print_banners(site: Site) -> None:
    wrappers = site.files.folder / "bin"
    wrappers.mkdir()
    banner = "printf 'Welcome to the cluster!\\n  12 jobs wait\\n*** 4711 ***\\n\\033[31m|a|b|c|\\n\\n'"
    for program in ("sbatch", "squeue", "scancel", "sacct"):
        real = shutil.which(program)
        (wrappers / program).write_text(
            f'#!/bin/sh\n{banner}\n{banner} >&2\n{real} "$@"\nstatus=$?\n{banner}\nexit $status\n'
        )
        (wrappers / program).chmod(0o755)
    site.patch.setenv("PATH", f"{wrappers}:{os.environ['PATH']}")
    right, hanging = (*site.submit("CPU"), *site.submit("H100", kernel=HANGING, task="slow"))
    site.finished(right)
    site.until(hanging, RunState.RUNNING)
    site.board.runs.cancel_each([hanging.id])
    site.happened_once(site.until(hanging, RunState.CANCELLED))


@pytest.mark.root
@pytest.mark.skipif(NEWER, reason="the folder of a newer Slurm does not see file systems that are mounted later")
def test_a_disk_that_is_full(site: Site) -> None:
    runs = site.board.settings.board / "runs"
    runs.mkdir(parents=True)
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(runs)], check=False, capture_output=True
        ).returncode
    ):
        pytest.skip("a small file system of its own can only be mounted by root, where the machine lets it")
    ballast = runs / "ballast"
    try:
        fill(ballast)
        with pytest.raises(StorageError, match="No space left on device"):
            site.submit("CPU")
        (unsent,) = site.board.runs.in_flight()
        assert unsent.state is RunState.CREATED
        ballast.unlink()
        site.finished(unsent)
    finally:
        site.lab.cancel_jobs()
        subprocess.run(["umount", "--lazy", str(runs)], check=True)


@pytest.mark.root
@pytest.mark.skipif(NEWER, reason="the folder of a newer Slurm does not see file systems that are mounted later")
def test_reads_on_a_disk_that_is_full(site: Site) -> None:
    board = site.board.settings.board
    board.mkdir(mode=0o700, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", str(board)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small file system of its own can only be mounted by root, where the machine lets it")
    try:
        site.held()
        (run,) = site.submit("HELD-CPU")
        site.until(run, RunState.RUNNING)
        ballast = board / "ballast"
        fill(ballast)
        for words in (("run", str(run.id)), ("status",), ("show", "double")):
            done = site.files.run(*words)
            assert done.returncode == 0, done.stderr

        def told() -> bool:
            """Return whether `runs` lists the run and says so; it writes nothing before Slurm may be asked again."""
            done = site.files.run("runs")
            assert (done.returncode, "running" in done.stdout) == (0, True), done.stderr
            return "No space left on device Showing the last known state." in " ".join(done.stderr.split())

        awaited(told)
        ballast.unlink()
        site.released()
        site.finished(run)
    finally:
        site.lab.cancel_jobs()
        subprocess.run(["umount", "--lazy", str(board)], check=True)


def fill(path: Path) -> None:
    with suppress(OSError), path.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_result_files_that_are_none(site: Site) -> None:
    names = ("truncated", "empty", "another's", "huge", "right")
    runs = dict(zip(names, (run for _ in names for run in site.submit("CPU")), strict=True))
    for run in runs.values():
        site.job_until(run, "COMPLETED")
    paths = {name: site.folder(run) / job_folder.RESULT for name, run in runs.items()}
    written = {name: path.read_bytes() for name, path in paths.items()}
    paths["truncated"].write_bytes(written["truncated"][:500])
    paths["empty"].write_bytes(b"")
    paths["another's"].write_bytes(written["right"])
    with paths["huge"].open("r+b") as file:
        file.truncate(GIB)

    for name, words in {
        "truncated": "result.json is not JSON",
        "another's": "it belongs to another run",
        "huge": f"result.json has more than {RESULT_BYTES_MAX} bytes",
    }.items():
        ended = site.until(runs[name], RunState.ERROR)
        assert ended.status.reason.startswith("the result is not accepted: ")
        assert words in ended.status.reason
        site.happened_once(ended)
    site.finished(runs["right"])
    waiting = site.over(runs["empty"])
    assert waiting.status.source == "squeue: COMPLETED; result.json is empty"
    site.later(RESULT_GRACE)
    ended = site.until(runs["empty"], RunState.ERROR)
    assert ended.status.source.startswith("squeue: COMPLETED; result.json is empty after 1 min")
    site.happened_once(ended)


@pytest.mark.root
def test_a_result_that_cannot_be_read_for_a_while(site: Site) -> None:
    site.held()
    (run,) = site.submit("HELD-CPU")
    site.until(run, RunState.RUNNING)
    site.released()
    site.job_until(run, "COMPLETED")
    result = site.folder(run) / job_folder.RESULT
    # Reading the first byte of a process's memory is an error of input and output.
    mount = ["mount", "--bind", f"/proc/{os.getpid()}/mem", str(result)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a file that cannot be read takes root, and a machine that lets it mount")
    try:
        words = "squeue: COMPLETED; result.json cannot be read at the moment: Input/output error"
        site.until(run, RunState.COLLECTING, fits=lambda run: run.status.source == words)
        for hours in range(1, 5):
            site.later(timedelta(hours=hours))
            assert not site.until(run, fits=lambda run: run.status.reason == UNREADABLE).state.ended
    finally:
        subprocess.run(["umount", "--lazy", str(result)], check=True)
    site.finished(run)


# Clients and clocks


def test_clients_that_carry_on_at_once(site: Site) -> None:
    runs = [run for _ in range(3) for run in site.submit("CPU", "H100")]
    ids = [str(run.id) for run in runs]
    others_ = [
        subprocess.Popen(
            site.files.command("watch", id_),
            env={**os.environ, **site.files.environ},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for id_ in (ids[0], ids[-1])
    ]
    later: Sequence[Run] = ()
    try:
        later = [run for _ in range(2) for run in site.submit("A100")]
        for run in (*runs, *later):
            site.until(run, RunState.FINISHED)
    finally:
        for other in others_:
            _, errors = other.communicate(timeout=WAIT_SECONDS)
            assert (other.returncode, errors) == (0, "")
    site.finished(*runs, *later)
    names = [name for _, name, _ in slurm_jobs(site.files.environ)]
    assert [names.count(run.token) for run in (*runs, *later)] == [1] * 8


def test_a_node_whose_clock_is_an_hour_off(site: Site) -> None:
    compiler, library = shutil.which("gcc"), site.files.folder / "clock.so"
    if compiler is None:
        pytest.skip("there is no gcc to make a library that moves the clock of a job")
    (site.files.folder / "clock.c").write_text(CLOCK)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(library), str(site.files.folder / "clock.c"), "-ldl"], check=True
    )
    change_settings(site.files, CPU={**settings_of(site.files)["gpus"]["CPU"], "env": {"LD_PRELOAD": str(library)}})
    (run,) = site.submit("CPU")
    site.finished(run)
    said = json.loads((site.folder(run) / job_folder.RESULT).read_text())["ended_at"]
    assert datetime.fromisoformat(said) > datetime.now(UTC) + timedelta(minutes=50)
    ended = site.now(run)
    assert ended.ended_at is None
    assert ended.status.at < datetime.now(UTC) + timedelta(minutes=1)


def test_a_client_whose_clock_is_an_hour_ahead(site: Site) -> None:
    ahead = timedelta(hours=1)
    site.later(ahead)
    site.patch.setattr("hpc_board.board.submissions.utc_now", lambda: datetime.now(UTC) + ahead)
    with site.lab.stopped("slurmctld"):
        (run,) = site.submit("CPU")
        assert site.now(run).state is RunState.SUBMITTING
    site.finished(run)


# Reads


def counting(site: Site) -> tuple[BoardFiles, Path]:
    """The site's files with Slurm's commands on PATH that note their calls in the file that is returned too."""
    calls = site.files.folder / "calls"
    commands = site.files.folder / "counted"
    commands.mkdir()
    for name in ("sbatch", "squeue", "sacct", "scancel"):
        real = shutil.which(name, path=site.lab.environment["PATH"])
        (commands / name).write_text(f'#!/bin/sh\necho {name} >> "{calls}"\nexec {real} "$@"\n')
        (commands / name).chmod(0o755)
    path = f"{commands}:{site.lab.environment['PATH']}"
    return replace(site.files, environ={**site.files.environ, "PATH": path}), calls


@contextmanager
def hung(lab: SlurmLab) -> Iterator[None]:
    """Have the controller accept questions and never answer, while commands wait for it as long as they do."""
    os.kill(lab.pid("slurmctld"), signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(lab.pid("slurmctld"), signal.SIGCONT)


def test_reads_do_not_wait_for_a_controller_that_hangs_and_send_runs_only_after_an_answer(site: Site) -> None:
    site.held()
    (run,) = site.submit("HELD-H100")
    site.until(run, RunState.RUNNING)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_folder.Folders, "write", _full)
        with suppress(StorageError):
            site.submit("CPU")
    waiting = site.board.runs.list()[0]
    assert site.now(waiting).state is RunState.CREATED
    client, calls = counting(site)
    (site.files.folder / "board" / "asked-lab").unlink(missing_ok=True)
    with hung(site.lab):
        began = time.monotonic()
        done = client.run("runs")
        assert time.monotonic() - began < 9  # squeue alone has 10 s elsewhere
        again = client.run("run", str(run.id))
        assert calls.read_text().splitlines() == ["squeue"]
        assert site.now(waiting).state is RunState.CREATED
    assert (done.returncode, again.returncode) == (0, 0)
    assert "squeue did not answer within 2 s" in done.stderr.replace("\n", " ")
    assert "Showing the last known state." in done.stderr
    assert ("running" in done.stdout, "running" in again.stdout) == (True, True)
    (site.files.folder / "board" / "asked-lab").unlink()
    client.run("runs")
    assert calls.read_text().splitlines() == ["squeue", "squeue", "sbatch"]
    assert site.now(waiting).state is RunState.QUEUED
    site.released()
    site.finished(run, waiting)


def _full(*_: object, **__: object) -> Path:
    raise StorageError("no room for a job folder")


# Steps


def test_a_judge_in_a_step_of_srun_has_the_job_s_cpus_and_gpus(site: Site) -> None:
    gpus = settings_of(site.files)["gpus"]
    change_settings(
        site.files,
        CPU={**gpus["CPU"], "srun": True, "cpus_per_task": 2},
        H100={**gpus["H100"], "gpu_freq": "high", "exclusive": True},
    )
    prints = RIGHT.replace("    return", "    import os; print('CPUs', len(os.sched_getaffinity(0)))\n    return", 1)
    runs = (*site.submit("CPU", kernel=prints), *site.submit("H100"))
    site.finished(*runs)
    script = (site.folder(runs[1]) / job_folder.SCRIPT).read_text()
    assert " --gpu-freq=high " in script
    assert "#SBATCH --gpu-freq=high" in script


def test_a_judge_in_a_step_that_is_killed_is_accounted_for(site: Site) -> None:
    change_cpu(site, srun=True)
    (run,) = site.submit("CPU", kernel=HANGING, task="slow")
    running = site.until(run, RunState.RUNNING, fits=lambda run: past(site.folder(run)).last is not None)
    steps = site.lab.run("scontrol", "show", "steps")
    assert f"StepId={running.status.job_id}.0 " in steps
    for pid, (_, command) in processes_in(site.folder(run)).items():
        if " supervise " in command and "srun" not in command:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    ended = site.until(run, RunState.FINISHED)
    assert ended.verdict is Verdict.CRASH
    assert ended.message.startswith("the supervisor was killed by signal 9 while test case 1 of ")
    awaited(lambda: not processes_in(site.folder(run)))


def test_a_run_in_a_step_is_cancelled_and_leaves_no_process(site: Site) -> None:
    change_cpu(site, srun=True)
    (run,) = site.submit("CPU", kernel=HANGING, task="slow")
    site.until(run, RunState.RUNNING, fits=lambda run: (site.folder(run) / job_folder.PROGRESS).exists())
    site.board.runs.cancel_each([run.id])
    ended = site.until(run, RunState.CANCELLED)
    partial = site.board.runs.whole(run.id).result
    assert partial is not None
    assert partial.message.startswith("stopped by SIGTERM after ")
    site.job_until(run, "CANCELLED")
    awaited(lambda: not processes_in(site.folder(run)))
    site.happened_once(ended)
