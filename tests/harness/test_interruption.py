"""Jobs that are told to end: by Ctrl-C, a scheduler or `kill`. They say how far they came, and leave no process."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hpc_board.domain.result_json import decode_result
from hpc_board.harness.confine import sandbox
from hpc_board.harness.processes.tree import children_of, descendants_of, signal_all
from hpc_board.harness.result_file import judged_before
from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.model.result import Result, Verdict
from hpc_board.model.task import Mode
from hpc_board.runs import job_folder
from hpc_board.schedulers.slurm.kind import SLURM
from tests.conftest import skip_without
from tests.harness.evaluations import (
    ARRAYS,
    RIGHT,
    a_task,
    await_step,
    judged_in,
    make_job_folder,
    progress,
    result_in,
    running_script,
)

ON_SLURM = Gpu("CPU", Cluster("main", "slurm", allow_root=True), Device.CPU, python=sys.executable)
HANGS_AT_10 = """
import time
def custom_kernel(data):
    if len(data) == 10:
        time.sleep(100)
    return [2 * x for x in data]
"""


@contextmanager
def job(
    where: Path, source: str = HANGS_AT_10, mode: Mode = Mode.TEST
) -> "Iterator[tuple[subprocess.Popen[bytes], Path]]":
    """A running job, as a terminal starts it: a process group of its own; and its folder."""
    folder = make_job_folder(
        where, source, a_task(limits={"first_call_seconds": 120, "test_call_seconds": 120, "call_seconds": 120}), mode
    )
    with running(where, folder) as shell:
        yield shell, folder


@contextmanager
def running(where: Path, folder: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """The running job of a folder."""
    with running_script(folder, TMPDIR=str(where)) as shell:
        yield shell


def test_a_job_that_is_told_to_end_says_where_it_stood_and_leaves_no_process(tmp_path: Path) -> None:
    with job(tmp_path) as (shell, folder):
        await_step(folder, "test", 2)
        (supervisor,) = children_of(shell.pid)
        workers = children_of(supervisor)
        assert len(workers) >= 2
        os.kill(supervisor, signal.SIGTERM)
        assert shell.wait(30) == 128 + signal.SIGTERM
    result = result_in(folder)
    assert result.interrupted
    assert result.provenance["interrupted"] == "SIGTERM"
    assert result.verdict is Verdict.INFRA_ERROR
    assert result.score_s is None
    assert "stopped by SIGTERM after " in result.message
    assert "while test case 2 of 3 ran (size: 10; seed: 2) for " in result.message
    assert "tests passed: 1 of 3" in result.message
    assert [(case.phase, case.index, case.verdict) for case in result.cases] == [("test", 0, Verdict.PASS)]
    assert progress(folder)[-1]["phase"] == "test", "it was not judged, so no line says so"
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert not list(tmp_path.glob("hpc-board-*"))


@pytest.mark.parametrize(
    ("tell", "number"), [(os.kill, signal.SIGTERM), (os.kill, signal.SIGINT), (os.killpg, signal.SIGINT)]
)
def test_a_signal_for_the_shell_alone_is_passed_on_and_ctrl_c_is_heeded_once(
    tmp_path: Path, tell: Callable[[int, int], None], number: signal.Signals
) -> None:
    with job(tmp_path) as (shell, folder):
        await_step(folder, "test", 2)
        tell(shell.pid, number)
        assert shell.wait(30) == 128 + number
    result = result_in(folder)
    assert result.provenance["interrupted"] == number.name
    assert f"stopped by {number.name}" in result.message


def test_a_supervisor_that_is_killed_leaves_a_result_that_names_the_case(tmp_path: Path) -> None:
    with job(tmp_path) as (shell, folder):
        await_step(folder, "test", 2)
        (supervisor,) = children_of(shell.pid)
        os.kill(supervisor, signal.SIGKILL)
        shell.wait(30)
    result = result_in(folder)
    assert result.verdict is Verdict.CRASH
    assert "killed by signal 9 while test case 2 of 3" in result.message
    assert result.provenance["isolation"] in sandbox.LEVELS


def test_a_scheduler_that_signals_every_process_makes_no_kernel_a_crash(tmp_path: Path) -> None:
    with job(tmp_path) as (shell, folder):
        await_step(folder, "test", 2)
        (supervisor,) = children_of(shell.pid)
        for pid in children_of(supervisor):
            os.kill(pid, signal.SIGTERM)
        # Long enough for the supervisor to notice the deaths before it is told itself.
        time.sleep(0.1)
        os.kill(supervisor, signal.SIGTERM)
        assert shell.wait(30) == 128 + signal.SIGTERM
    result = result_in(folder)
    assert result.interrupted
    assert {case.verdict for case in result.cases} == {Verdict.PASS}


def test_a_scheduler_that_continues_every_process_before_it_ends_them_makes_no_kernel_a_cheat(tmp_path: Path) -> None:
    skip_without("numpy")
    large = a_task(ARRAYS, tests=tuple({"size": 2**23, "seed": seed} for seed in range(1, 9)))
    folder = make_job_folder(tmp_path, "def custom_kernel(data):\n    return 2 * data\n", large, Mode.TEST)
    with running(tmp_path, folder) as shell:
        await_step(folder, "test", 1)
        (supervisor,) = children_of(shell.pid)
        stopped = awaited_stop(supervisor)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        # Long enough for the supervisor to notice that they ran.
        time.sleep(0.3)
        os.kill(supervisor, signal.SIGTERM)
        assert shell.wait(30) == 128 + signal.SIGTERM
    result = result_in(folder)
    assert result.interrupted, result.message
    assert {case.verdict for case in result.cases} <= {Verdict.PASS}


def test_a_job_that_is_suspended_and_resumed_is_judged_again_and_makes_no_kernel_a_cheat(tmp_path: Path) -> None:
    skip_without("numpy")
    large = a_task(ARRAYS, tests=tuple({"size": 2**23, "seed": seed} for seed in range(1, 17)))
    folder = make_job_folder(tmp_path, "def custom_kernel(data):\n    return 2 * data\n", large, Mode.TEST)
    with running(tmp_path, folder) as shell:
        await_step(folder, "test", 1)
        (supervisor,) = children_of(shell.pid)
        while evaluations(folder) < 2:
            # The judge may have continued the worker before it is suspended itself.
            awaited_stop(supervisor)
            said = len(progress(folder))
            suspend_and_resume(supervisor)
            while len(progress(folder)) == said or progress(folder)[-1]["phase"] == "end":
                assert shell.poll() is None
                time.sleep(0.02)
        assert shell.wait(60) == 0
    result = result_in(folder)
    assert result.verdict is Verdict.PASS, result.message
    assert evaluations(folder) == 2
    assert not list(tmp_path.glob("hpc-board-*"))


def test_a_time_that_passed_while_the_job_was_suspended_is_no_timeout_of_the_kernel(tmp_path: Path) -> None:
    sleeps = RIGHT.replace("    return", "    import time; time.sleep(0.5)\n    return")
    task = a_task(limits={"first_call_seconds": 2, "call_seconds": 2})
    folder = make_job_folder(tmp_path, sleeps, task, Mode.TEST)
    with running(tmp_path, folder) as shell:
        await_step(folder, "test", 1)
        (supervisor,) = children_of(shell.pid)
        suspend_and_resume(supervisor, seconds=3)
        assert shell.wait(60) == 0
    assert result_in(folder).verdict is Verdict.PASS, result_in(folder).message


def test_a_job_that_is_suspended_in_each_evaluation_blames_no_kernel(tmp_path: Path) -> None:
    late = RIGHT.replace("    return", "    import time; time.sleep(2)\n    return")
    task = a_task(limits={"first_call_seconds": 1, "call_seconds": 1})
    folder = make_job_folder(tmp_path, late, task, Mode.TEST)
    with running(tmp_path, folder) as shell:
        for evaluation in range(1, 4):
            while [(line["phase"], line["case"]) for line in progress(folder)].count(("test", 1)) < evaluation:
                assert shell.poll() is None
                time.sleep(0.02)
            suspend_and_resume(*children_of(shell.pid))
        assert shell.wait(60) == 0
    result = result_in(folder)
    assert result.verdict is Verdict.INFRA_ERROR
    assert result.message.startswith("the job was suspended in each of 3 evaluations")
    assert "timeout: test case 1" in result.message


def evaluations(folder: Path) -> int:
    """The number of evaluations that have begun."""
    return sum(line["phase"] == "start" for line in progress(folder))


def suspend_and_resume(supervisor: int, seconds: float = 0.2) -> None:
    """Stop and continue every process of a job as Slurm does: the supervisor last."""
    pids = [*descendants_of(supervisor), supervisor]
    signal_all(pids, signal.SIGSTOP)
    time.sleep(seconds)
    signal_all(pids, signal.SIGCONT)


def awaited_stop(supervisor: int) -> list[int]:
    """Return the descendants of the supervisor that it has stopped, as soon as there are any."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        stopped = [pid for pid in descendants_of(supervisor) if state_of(pid) == "T"]
        if stopped:
            return stopped
    raise AssertionError("the supervisor stopped no process")


def state_of(pid: int) -> str:
    """Return the letter of a process's state; "" if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return ""


def test_a_benchmark_that_is_stopped_keeps_the_tests_and_the_cases_that_were_timed(tmp_path: Path) -> None:
    source = HANGS_AT_10.replace("== 10:", "== 1000:")
    with job(tmp_path, source, Mode.RANKED) as (shell, folder):
        await_step(folder, "benchmark", 2)
        os.kill(shell.pid, signal.SIGTERM)
        assert shell.wait(30) == 128 + signal.SIGTERM
    result = result_in(folder)
    assert "while benchmark case 2 of 2 ran (size: 1000; seed: 5 (process 1 of 3))" in result.message
    assert "tests passed: 3 of 3; benchmarks passed: 1 of 2" in result.message
    assert [(case.phase, case.index) for case in result.cases] == [
        *(("test", index) for index in range(3)),
        ("benchmark", 0),
    ]
    assert result.cases[-1].timing is not None
    assert result.score_s is None


def test_a_supervisor_that_ends_before_it_heeds_signals_is_accounted_for(tmp_path: Path) -> None:
    folder = make_job_folder(tmp_path, HANGS_AT_10, a_task(), Mode.TEST)
    script = (folder / job_folder.SCRIPT).read_text()
    stopped = script.replace("-I -B harness.py supervise", "-c 'import os; os.kill(os.getpid(), 15)'")
    assert stopped != script
    (folder / job_folder.SCRIPT).write_text(stopped)
    done = subprocess.run(
        ["bash", job_folder.SCRIPT], cwd=folder, env={"PATH": os.environ["PATH"]}, timeout=60, check=False
    )
    assert done.returncode == 128 + signal.SIGTERM
    result = result_in(folder)
    assert result.provenance["interrupted"] == "SIGTERM"
    assert result.message == "stopped by SIGTERM before the first case"


def test_a_job_that_is_begun_again_is_judged_again_unless_it_was_judged(tmp_path: Path) -> None:
    folder = make_job_folder(tmp_path, RIGHT, a_task(), Mode.TEST, gpu=ON_SLURM)
    first = judged_in(folder, SLURM_JOB_ID="7")
    assert judged_in(folder, SLURM_JOB_ID="7", SLURM_RESTART_COUNT="1") == first
    stopped = replace(first, provenance={**first.provenance, "interrupted": "SIGTERM"})
    (folder / job_folder.RESULT).write_text(stopped.to_json())
    second = judged_in(folder, SLURM_JOB_ID="7", SLURM_RESTART_COUNT="2")
    assert (second.verdict, second.restart_count) == (Verdict.PASS, 2)
    assert decode_result((folder / "result.1.json").read_bytes()) == stopped


def test_a_task_of_a_job_array_is_called_as_slurm_s_commands_call_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_job_folder(tmp_path, RIGHT, a_task(), Mode.TEST, gpu=ON_SLURM)
    array = {"SLURM_JOB_ID": "130", "SLURM_ARRAY_JOB_ID": "123", "SLURM_ARRAY_TASK_ID": "0"}
    assert judged_in(folder, **array).job_id == "123_0"
    for name, value in {**array, "SLURM_RESTART_COUNT": "1"}.items():
        monkeypatch.setenv(name, value)
    assert judged_before(folder, SLURM.job_environment)
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "1")
    assert not judged_before(folder, SLURM.job_environment)


@pytest.mark.parametrize(
    ("environ", "facts", "text", "judged", "left"),
    [
        ({"SLURM_RESTART_COUNT": "1"}, {}, None, True, ["progress.jsonl", "result.json"]),
        ({"SLURM_RESTART_COUNT": "1"}, {"interrupted": "SIGTERM"}, None, False, ["progress.0.jsonl", "result.0.json"]),
        ({"SLURM_RESTART_COUNT": "1"}, {}, "{", False, ["progress.0.jsonl", "result.0.json"]),
        ({"SLURM_RESTART_COUNT": "1", "SLURM_JOB_ID": "8"}, {}, None, False, ["progress.0.jsonl", "result.0.json"]),
        ({}, {}, None, False, ["progress.jsonl", "result.json"]),
    ],
    ids=["whole", "interrupted", "unreadable", "another job", "first attempt"],
)
def test_what_an_earlier_attempt_left_is_the_result_or_set_aside(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str],
    facts: dict[str, str],
    text: str | None,
    judged: bool,
    left: list[str],
) -> None:
    result = Result(1, "n", "test", Verdict.INFRA_ERROR, "", (), job_id="7", provenance=facts)
    (tmp_path / "result.json").write_text(result.to_json() if text is None else text)
    (tmp_path / "progress.jsonl").write_text("{}\n")
    for name, value in {"SLURM_JOB_ID": "7", **environ}.items():
        monkeypatch.setenv(name, value)
    assert judged_before(tmp_path, SLURM.job_environment) is judged
    assert sorted(path.name for path in tmp_path.iterdir()) == left
