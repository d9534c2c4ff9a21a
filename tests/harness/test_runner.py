"""The runner: runs of a queue, judged one after another in one job, each as in a job of its own."""

import hashlib
import os
import re
import signal
import tempfile
from pathlib import Path

import pytest

from hpc_board.harness.confine.sandbox import landlock_abi
from hpc_board.harness.processes.tree import children_of, descendants_of, ended
from hpc_board.model.gpu import Device
from hpc_board.model.result import Verdict
from hpc_board.model.runner import QUEUE, RELEASE, STATE, STOP, TAKEN, WITHDRAWN, End, Entry, decoded, encoded
from hpc_board.model.task import Mode
from tests.conftest import skip_without
from tests.harness.evaluations import QUICK, RIGHT, a_task, await_step, judged_in, make_job_folder, result_in
from tests.harness.harness_file import Edit, edited
from tests.harness.runners import ON_SLURM, RunnerFolder
from tests.waiting import awaited

HANGS = """
import time
def custom_kernel(data):
    time.sleep(100)
"""
PATIENT = {"first_call_seconds": 120, "test_call_seconds": 120, "call_seconds": 120}
SHOWS_ITS_PLACE = """
import os, resource, sys
print(sorted(os.environ.items()))
print(sys.flags, sys.argv, os.getcwd() == os.environ["HOME"], resource.getrlimit(resource.RLIMIT_NOFILE))
print(sorted(name for name in sys.modules if name.partition(".")[0] in ("numpy", "torch", "hpc_board")) != [])
print(len(os.listdir("/proc/self/fd")), sorted(os.listdir(".")))
def custom_kernel(data):
    return [2 * x for x in data]
"""


@pytest.fixture
def runner(tmp_path: Path) -> RunnerFolder:
    return RunnerFolder(tmp_path)


def test_runs_are_judged_in_turn_and_each_result_has_its_place(runner: RunnerFolder) -> None:
    right, wrong, last = runner.add(), runner.add("def custom_kernel(data):\n    return data\n"), runner.add()
    state = runner.run()
    results = [result_in(job) for job in (right, wrong, last)]
    assert [result.verdict for result in results] == [Verdict.PASS, Verdict.WRONG_VALUE, Verdict.PASS]
    assert [result.job_id for result in results] == ["42.1", "42.2", "42.3"]
    assert [result.provenance["runner_place"] for result in results] == [1, 2, 3]
    assert {result.provenance["runner"] for result in results} == {"hb-runner"}
    hashes = [""]
    for job in (right, wrong):
        hashes.append(hashlib.sha256(hashes[-1].encode() + (job / "result.json").read_bytes()).hexdigest())
    assert [result.provenance["runner_before_sha256"] for result in results] == hashes
    assert [runner.end_of(job) for job in (right, wrong, last)] == [End("ended", "exited with status 0")] * 3
    assert (state.place, state.retired) == (3, "it was idle for 0 s")
    assert [path.name for path in runner.board.iterdir()] == ["harness", "runs"]


def test_a_submission_finds_the_same_in_a_run_of_a_runner_as_in_a_job_of_its_own(runner: RunnerFolder) -> None:
    folder = make_job_folder(runner.board, SHOWS_ITS_PLACE, a_task(), Mode.TEST, gpu=ON_SLURM, number=100)
    alone = judged_in(folder, TMPDIR=str(runner.board), SLURM_JOB_ID="42")
    first, second = runner.add(SHOWS_ITS_PLACE), runner.add(SHOWS_ITS_PLACE)
    runner.run()
    for job in (first, second):
        result = result_in(job)
        assert _without_paths(result.stdout.text) == _without_paths(alone.stdout.text)
        assert result.provenance["isolation"] == alone.provenance["isolation"]


def _without_paths(text: str) -> str:
    """Return the text without the folders that are others in each job."""
    return re.sub(r"(?:hpc-board-\w+/)+", "SCRATCH/", re.sub(r"runs/[\w-]+/", "runs/JOB/", text))


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_runs_that_import_the_same_modules_have_them_from_one_process(runner: RunnerFolder, library: str) -> None:
    skip_without(library)
    source = f"import {library}\nprint(id({library}))\n{RIGHT}"
    jobs = [runner.add(source), runner.add(), runner.add(source)]
    runner.run()
    results = [result_in(job) for job in jobs]
    assert [result.verdict for result in results] == [Verdict.PASS] * 3
    assert results[0].stdout.text == results[2].stdout.text != ""


def test_a_withdrawn_run_is_not_judged_and_a_second_runner_judges_the_others_only(runner: RunnerFolder) -> None:
    kept, withdrawn = runner.add(), runner.add()
    (runner.folder / WITHDRAWN).mkdir()
    name = runner.name_of(withdrawn)
    (runner.folder / QUEUE / name).rename(runner.folder / WITHDRAWN / name)
    runner.run()
    again = runner.add()
    runner.run()
    assert [(job / "result.json").exists() for job in (kept, withdrawn, again)] == [True, False, True]
    assert [result_in(job).provenance["runner_place"] for job in (kept, again)] == [1, 2]


def test_a_call_that_spins_ends_early_where_runs_have_passed_and_a_waiting_or_usual_one_does_not(
    runner: RunnerFolder,
) -> None:
    limits = {**QUICK, "test_call_seconds": 1, "first_call_seconds": 2}
    spins, waits = "def custom_kernel(data):\n    while True: pass\n", HANGS
    task = a_task(limits=limits)
    before, *passed = [runner.add(source, task) for source in (spins, RIGHT, RIGHT, RIGHT)]
    spinning, waiting, other = runner.add(spins, task), runner.add(waits, task), runner.add(spins, a_task(limits=QUICK))
    runner.run()
    assert [result_in(job).verdict for job in passed] == [Verdict.PASS] * 3
    assert all(0 < result_in(job).provenance["longest_call_seconds"] < 0.3 for job in passed)
    whole = "within 1 s, the limit in mode test: 100 times the reference's time"
    for job, words in (
        (before, whole),
        (spinning, "within 0.3 s of processor time, the limit in mode test at this runner: 20 times the longest call"),
        (waiting, whole),
        (other, "within"),
    ):
        result = result_in(job)
        assert (result.verdict, words in result.cases[0].message) == (Verdict.TIMEOUT, True), result.cases
    assert "at this runner" not in result_in(other).cases[0].message


def test_a_stopped_run_ends_as_a_job_that_is_told_to_end_and_the_next_is_judged(runner: RunnerFolder) -> None:
    hanging, behind = runner.add(HANGS, a_task(limits=PATIENT)), runner.add()
    with runner.running() as shell:
        await_step(hanging, "test", 1)
        (runner.folder / QUEUE / f"{runner.name_of(hanging)}{STOP}").touch()
        shell.wait(timeout=60)
    result = result_in(hanging)
    assert (result.verdict, result.interrupted) == (Verdict.INFRA_ERROR, True)
    assert runner.end_of(hanging) == End("cancelled", "cancelled while it ran")
    assert result_in(behind).verdict is Verdict.PASS
    assert sorted(path.name for path in (runner.folder / QUEUE).iterdir()) == ["state.json"]


def test_a_stop_that_comes_after_the_end_of_its_run_changes_nothing(tmp_path: Path) -> None:
    runner = RunnerFolder(tmp_path, idle_seconds=60)
    first = runner.add()
    with runner.running():
        runner.await_end_of(first)
        (runner.folder / QUEUE / f"{runner.name_of(first)}{STOP}").touch()
        second = runner.add()
        assert runner.await_end_of(second).state == "ended"
    assert result_in(second).provenance["runner_place"] == 2


def test_an_idle_runner_changes_the_folder_of_its_queue_also_between_its_descriptions(tmp_path: Path) -> None:
    runner = RunnerFolder(tmp_path, idle_seconds=60)
    seen: list[tuple[int, int]] = []

    def is_changed_without_a_description() -> bool:
        folder, described = ((runner.folder / name).stat() for name in (QUEUE, f"{QUEUE}/{STATE}"))
        seen.append((folder.st_mtime_ns, described.st_ino))
        before, now = seen[-2:] if len(seen) > 1 else seen * 2
        return now[0] != before[0] and now[1] == before[1]

    run = runner.add()
    with runner.running():
        runner.await_end_of(run)
        awaited(is_changed_without_a_description)


def test_a_run_ends_at_its_own_time_limit(runner: RunnerFolder) -> None:
    hanging, behind = runner.add(HANGS, a_task(limits=PATIENT), seconds=2), runner.add()
    runner.run()
    assert runner.end_of(hanging) == End("timeout", "ran into its time limit of 2 s")
    assert result_in(hanging).interrupted
    assert result_in(behind).verdict is Verdict.PASS


def test_a_run_for_which_too_little_time_is_left_is_set_aside_and_the_next_is_judged(tmp_path: Path) -> None:
    runner = RunnerFolder(tmp_path, time_limit_seconds=60)
    short, long, behind = runner.add(seconds=20), runner.add(seconds=90), runner.add(seconds=20)
    state = runner.run()
    assert [(job / "result.json").exists() for job in (short, long, behind)] == [True, False, True]
    assert result_in(behind).provenance["runner_place"] == 2
    assert (state.place, state.retired) == (2, "it was idle for 0 s")
    assert [path.name for path in (runner.folder / WITHDRAWN).iterdir()] == [runner.name_of(long)]
    assert [path.name for path in (runner.folder / QUEUE).iterdir()] == ["state.json"]


def test_a_run_that_is_longer_than_the_time_left_ends_with_its_runner(tmp_path: Path) -> None:
    runner = RunnerFolder(tmp_path, time_limit_seconds=25)
    hanging, behind = (
        runner.add(HANGS, a_task(limits=PATIENT), seconds=90, least_seconds=5),
        runner.add(least_seconds=5),
    )
    state = runner.run()
    assert runner.end_of(hanging) == End("time_over", "the time of its runner was over")
    assert result_in(hanging).interrupted
    assert state.retired == "its time is over"
    assert (runner.folder / QUEUE / runner.name_of(behind)).exists()


def test_a_runner_whose_time_is_over_by_slurm_takes_no_run_and_sets_none_aside(tmp_path: Path) -> None:
    runner = RunnerFolder(tmp_path)
    job = runner.add(seconds=30)
    state = runner.run(SLURM_JOB_END_TIME="1000000000")
    assert (state.place, state.retired) == (0, "its time is over")
    assert (runner.folder / QUEUE / runner.name_of(job)).exists()


def test_a_released_runner_ends_the_run_in_hand_and_takes_no_other(runner: RunnerFolder) -> None:
    first, second = runner.add("import time\ntime.sleep(1)\n" + RIGHT), runner.add()
    with runner.running() as shell:
        runner.await_taken(first)
        (runner.folder / QUEUE / RELEASE).touch()
        shell.wait(timeout=60)
    assert result_in(first).verdict is Verdict.PASS
    assert not (second / "result.json").exists()
    assert runner.state().retired == "it was released"


def test_a_runner_whose_job_is_told_to_end_leaves_a_partial_result_and_no_process(runner: RunnerFolder) -> None:
    hanging, behind = runner.add(HANGS, a_task(limits=PATIENT)), runner.add()
    with runner.running() as shell:
        await_step(hanging, "test", 1)
        below = descendants_of(shell.pid)
        shell.send_signal(signal.SIGTERM)
        assert shell.wait(timeout=60) == 128 + signal.SIGTERM
    assert result_in(hanging).interrupted
    assert runner.end_of(hanging) == End("runner_ended", "the job of its runner was told to end")
    assert not (behind / "result.json").exists()
    assert all(map(ended, below))


def test_a_killed_runner_leaves_a_result_and_no_process_and_a_restarted_one_names_the_run_that_it_had(
    runner: RunnerFolder,
) -> None:
    hanging, behind = runner.add(HANGS, a_task(limits=PATIENT)), runner.add()
    with runner.running() as shell:
        await_step(hanging, "test", 1)
        below = descendants_of(shell.pid)
        (supervising,) = children_of(shell.pid)
        os.kill(supervising, signal.SIGKILL)
        shell.wait(timeout=60)
    awaited(lambda: all(map(ended, below)))
    assert runner.end_of(hanging) is None
    result = result_in(hanging)
    assert (result.verdict, result.job_id) == (Verdict.CRASH, "42.1")
    assert "killed by signal 9" in result.message
    assert sorted(path.name for path in runner.board.iterdir()) == ["harness", "runs"]
    runner.run(SLURM_RESTART_COUNT="1")
    assert runner.end_of(hanging) == End("node_fail", "the scheduler has restarted its runner")
    assert result_in(behind).verdict is Verdict.PASS
    assert (result_in(behind).restart_count, result_in(behind).provenance["runner_place"]) == (0, 2)


def test_a_restarted_runner_keeps_the_end_that_it_had_recorded_before_it_was_killed(runner: RunnerFolder) -> None:
    done, behind = runner.add(), runner.add()
    runner.run()
    name = runner.name_of(done)
    (runner.folder / TAKEN / name).write_bytes(b"{}")
    runner.run(SLURM_RESTART_COUNT="1")
    assert runner.end_of(done) == End("ended", "exited with status 0")
    assert list((runner.folder / TAKEN).iterdir()) == []
    assert runner.end_of(behind) == End("ended", "exited with status 0")


def test_a_restarted_runner_names_a_run_that_was_told_to_end_with_it(runner: RunnerFolder) -> None:
    hanging, behind = runner.add(HANGS, a_task(limits=PATIENT)), runner.add()
    with runner.running() as shell:
        await_step(hanging, "test", 1)
        shell.send_signal(signal.SIGTERM)
        shell.wait(timeout=60)
    end = runner.end_of(hanging)
    assert end is not None
    assert end.state == "runner_ended"
    runner.run(SLURM_RESTART_COUNT="1")
    assert runner.end_of(hanging) == End("node_fail", "the scheduler has restarted its runner")
    assert [result_in(job).provenance["runner_place"] for job in (hanging, behind)] == [1, 2]


def test_a_runner_whose_batch_script_is_killed_ends_with_its_run(tmp_path: Path) -> None:
    runner = RunnerFolder(tmp_path, idle_seconds=60)
    hanging, behind = runner.add(HANGS, a_task(limits=PATIENT)), runner.add()
    with runner.running() as shell:
        await_step(hanging, "test", 1)
        below = descendants_of(shell.pid)
        shell.kill()
        shell.wait(timeout=60)
        awaited(lambda: all(map(ended, below)))
    assert runner.await_end_of(hanging).state == "runner_ended"
    assert result_in(hanging).interrupted
    assert (runner.folder / QUEUE / runner.name_of(behind)).exists()


def test_an_entry_that_is_damaged_is_set_aside(runner: RunnerFolder) -> None:
    damaged, behind = runner.add(), runner.add()
    name = runner.name_of(damaged)
    (runner.folder / WITHDRAWN).mkdir(exist_ok=True)
    (runner.folder / QUEUE / name).write_bytes(b'{"job": "')
    state = runner.run()
    assert (runner.folder / WITHDRAWN / name).exists()
    assert result_in(behind).verdict is Verdict.PASS
    assert state.retired == "it was idle for 0 s"


def test_a_runner_that_can_take_no_run_retires(tmp_path: Path) -> None:
    runner = RunnerFolder(tmp_path, idle_seconds=60)
    first = runner.add()
    with runner.running() as shell:
        runner.await_end_of(first)
        (runner.folder / TAKEN).rmdir()
        second = runner.add()
        shell.wait(timeout=60)
    assert runner.state().retired == "the run cannot be taken: No such file or directory"
    assert (runner.folder / QUEUE / runner.name_of(second)).exists()


def test_a_killed_supervisor_leaves_a_result_and_its_runner_retires(runner: RunnerFolder) -> None:
    hanging, behind = runner.add(HANGS, a_task(limits=PATIENT)), runner.add()
    with runner.running() as shell:
        await_step(hanging, "test", 1)
        (running,) = children_of(shell.pid)
        zygote, supervisor = sorted(children_of(running))
        assert ended(zygote) is False
        os.kill(supervisor, signal.SIGKILL)
        shell.wait(timeout=60)
    result = result_in(hanging)
    assert (result.verdict, result.provenance["runner_place"]) == (Verdict.CRASH, 1)
    assert "killed by signal 9" in result.message
    assert runner.state().retired == "the run has ended its supervisor by signal 9"
    assert not (behind / "result.json").exists()


def test_a_run_that_cannot_begin_stays_in_the_queue_and_its_runner_retires(tmp_path: Path) -> None:
    runner = RunnerFolder(tmp_path, idle_seconds=60)
    first = runner.add()
    with runner.running() as shell:
        runner.await_end_of(first)
        ((zygote,),) = map(children_of, children_of(shell.pid))
        os.kill(zygote, signal.SIGKILL)
        second = runner.add()
        shell.wait(timeout=60)
    assert runner.state().retired.startswith("the run cannot begin: the process that starts the workers is gone")
    assert (runner.folder / QUEUE / runner.name_of(second)).exists()
    assert (runner.end_of(second), (second / "result.json").exists()) == (None, False)


LEAVES_AN_OBJECT = """
open("/dev/shm/{name}", "w").close()
def custom_kernel(data):
    return [2 * x for x in data]
"""
WITHOUT_LANDLOCK = Edit("confine/sandbox.py", 'platform.machine() not in ("x86_64", "aarch64")', "True")


def test_a_run_that_leaves_an_object_in_shared_memory_retires_its_runner(runner: RunnerFolder) -> None:
    path = Path("/dev/shm", f"hpc-board-test-{os.getpid()}")
    harness = edited((WITHOUT_LANDLOCK,))
    first = runner.add(LEAVES_AN_OBJECT.format(name=path.name), harness=harness)
    behind = runner.add(harness=harness)
    try:
        state = runner.run()
    finally:
        path.unlink()
    assert result_in(first).verdict is Verdict.PASS
    assert state.retired.startswith("the run has left /dev/shm/"), "another test may have made an object meanwhile"
    assert not (behind / "result.json").exists()


KILLS_ITS_RUNNER = """
import os, signal
from pathlib import Path
def custom_kernel(data):
    supervisor = os.getppid()
    runner = int(Path(f"/proc/{supervisor}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(runner, signal.SIGKILL)
    return [2 * x for x in data]
"""


def test_a_submission_that_kills_its_runner_is_blamed_as_for_the_supervisor_of_a_job(runner: RunnerFolder) -> None:
    harness = edited((WITHOUT_LANDLOCK,))
    first, behind = runner.add(KILLS_ITS_RUNNER, harness=harness), runner.add(harness=harness)
    with runner.running() as shell:
        assert shell.wait(timeout=60) == 128 + signal.SIGKILL
    result = result_in(first)
    assert (result.verdict, result.cases[0].verdict) == (Verdict.CRASH, Verdict.CRASH)
    assert (runner.folder / QUEUE / runner.name_of(behind)).exists()


def test_a_run_that_changes_the_harness_retires_its_runner_before_another_process_reads_it(
    runner: RunnerFolder,
) -> None:
    skip_without("numpy")
    harness = edited((WITHOUT_LANDLOCK,))
    first = runner.add(f'open("{runner.folder}/harness.pyz", "w").close()\n{RIGHT}', harness=harness)
    behind = runner.add(f"import numpy\n{RIGHT}", harness=harness)
    state = runner.run()
    assert result_in(first).verdict is Verdict.PASS
    assert state.retired == "the run has changed the harness"
    assert not (behind / "result.json").exists()
    assert (runner.folder / QUEUE / runner.name_of(behind)).exists()


@pytest.mark.skipif(landlock_abi() < 1, reason="this kernel has no Landlock")
def test_an_object_of_another_process_retires_no_runner_whose_runs_cannot_make_one(runner: RunnerFolder) -> None:
    first, behind = runner.add("import time\ntime.sleep(1)\n" + RIGHT), runner.add()
    with runner.running() as shell:
        awaited((first / "progress.jsonl").exists)
        with tempfile.NamedTemporaryFile(dir="/dev/shm"):
            shell.wait(timeout=60)
    assert [result_in(job).verdict for job in (first, behind)] == [Verdict.PASS] * 2


NVIDIA_SMI = """#!/bin/sh
case "$1" in
    --query-gpu=uuid) echo GPU-01234567-89ab-cdef-0123-456789abcdef ;;
    *) echo "Default, Enabled, $(cat {folder}/power), 1980, 2619, Disabled, $(cat {folder}/memory), 0x0" ;;
esac
"""


@pytest.mark.parametrize(
    ("file", "value", "reason"),
    [
        ("power", "350.00", "power_limit of the GPU has changed from 700.00 to 350.00"),
        ("memory", "900", "the run has left 897 MiB in use on the GPU"),
        ("memory", "40", "it was idle for 0 s"),
    ],
)
def test_a_run_that_leaves_the_gpu_changed_retires_its_runner(
    tmp_path: Path, file: str, value: str, reason: str
) -> None:
    programs, state = tmp_path / "programs", tmp_path / "state"
    for folder in (programs, state):
        folder.mkdir()
    (programs / "nvidia-smi").write_text(NVIDIA_SMI.format(folder=state))
    (programs / "nvidia-smi").chmod(0o755)
    (state / "power").write_text("700.00")
    (state / "memory").write_text("3")
    runner = RunnerFolder(tmp_path / "board", Device.CUDA)
    first = runner.add("import time\ntime.sleep(1)\n" + RIGHT)
    with runner.running(PATH=f"{programs}:{os.environ['PATH']}") as shell:
        awaited((first / "progress.jsonl").exists)
        (state / file).write_text(value)
        shell.wait(timeout=60)
    assert result_in(first).verdict is Verdict.PASS
    assert runner.state().retired == reason


def test_the_file_of_an_entry_is_read_without_trust() -> None:
    entry = Entry("hb-1", "42.1", 60, 60, ["torch"])
    assert decoded(encoded(entry), Entry) == entry
    for data in (
        b"",
        b"[]",
        b"{}",
        encoded(entry).replace(b"60", b'"60"'),
        encoded(entry).replace(b'"torch"', b"1"),
        b"[" * 100_000,
    ):
        with pytest.raises(ValueError, match=r"not the file of a runner|Expecting value"):
            decoded(data, Entry)
