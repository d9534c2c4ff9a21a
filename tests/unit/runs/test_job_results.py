"""Results from job folders: collected, checked against the run and its task, scored and stored."""

import json
import os
import shutil
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hpc_board import scripting
from hpc_board.domain.job_options import JobOptions
from hpc_board.domain.run import RESULT_GRACE, UNREADABLE, JobState, JobStatus, RunState
from hpc_board.model.result import Result, Verdict
from hpc_board.model.task import Mode
from hpc_board.report.plain import plain
from hpc_board.report.run_table import runs_table
from hpc_board.report.runs import run_outcome
from hpc_board.report.views.runs import RunView
from hpc_board.runs import job_folder
from hpc_board.transport.local_files import LocalFiles
from tests.conftest import short_folder
from tests.harness.evaluations import QUICK, a_task
from tests.unit.runs.world import (
    CLUSTER,
    World,
    last_case,
    right_result,
    set_clock,
    timing,
    with_times,
    world_in,
)
from tests.values import replace


class Counting(LocalFiles):
    """Files of this machine that count the looks at them."""

    def __init__(self) -> None:
        self.looks = 0

    def read(self, path: Path, limit: int, *, start: int = 0, end: bool = False) -> bytes:
        self.looks += 1
        return super().read(path, limit, start=start, end=end)


@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_folder_on_another_machine_is_looked_into_less_and_less_often(
    world: World, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    clock = [datetime(2026, 5, 1, tzinfo=UTC)]
    set_clock(monkeypatch, lambda: clock[0])
    run, task, files = world.run(), a_task(), Counting()
    folders = job_folder.Folders(world.folder, files, "board_folder" if elsewhere else "board")
    clusters = {"main": replace(CLUSTER, poll_seconds=3600)}
    advances = [replace(world.advance, folders={"main": folders}, clusters=clusters) for _ in range(3)]
    advances[0].launch([run])

    def looks(seconds: float) -> int:
        before, until = files.looks, clock[0] + timedelta(seconds=seconds)
        while clock[0] < until:
            for advance in advances:
                advance.run_pass()
            clock[0] += timedelta(seconds=0.5)
        return files.looks - before

    if elsewhere:
        assert 2 <= looks(5) <= 5
        looks(30)
        assert 8 <= looks(40) <= 11
    else:
        assert looks(5) >= 30
    (folders.of(run) / job_folder.PROGRESS).write_bytes(b"{}\n")
    looks(5.5)
    assert world.state(run) is RunState.RUNNING
    (folders.of(run) / job_folder.RESULT).write_bytes(right_result(run, task).to_json().encode())
    looks(5.5)
    assert world.state(run) is RunState.FINISHED


def test_a_crash_on_a_cluster_that_left_the_settings_is_taken_and_hinders_no_other(world: World) -> None:
    task = a_task()
    run, other = world.run(task=task), world.run(task=task)
    world.advance.launch([run])
    crash = replace(right_result(run, task), verdict=Verdict.CRASH, message="killed", score_s=None, cases=())
    world.leave(run, job_folder.RESULT, crash.to_json().encode())
    gone = replace(world.advance, schedulers={}, clusters={})
    assert gone()
    assert (world.state(run), world.state(other)) == (RunState.FINISHED, RunState.ERROR)


def test_a_right_result_is_taken_scored_and_ranked(world: World) -> None:
    run, task = world.run(), a_task()
    world.advance.launch([run])
    world.leave(run, job_folder.RESULT, right_result(run, task).to_json().encode())
    world.advance()
    ended = world.store.runs.get(run.id)
    assert (ended.state, ended.verdict, ended.status.node) == (RunState.FINISHED, Verdict.PASS, "n1")
    assert ended.score_s == pytest.approx(2e-6)
    placing = world.store.standings.placing(ended)
    assert placing is not None
    assert placing.rank == 1


def test_a_passing_benchmark_has_the_same_score_in_json_python_and_text_and_no_rank(world: World) -> None:
    run, task = world.run(mode=Mode.BENCHMARK), a_task()
    world.advance.launch([run])
    right = right_result(run, task)
    one_process = replace(timing(1990.0, 2000.0, 2010.0), worker_samples=(3,))
    timed = tuple(replace(case, timing=one_process) for case in right.cases if case.phase == "benchmark")
    told = replace(right, mode="benchmark", cases=timed, score_s=1.0)
    world.leave(run, job_folder.RESULT, told.to_json().encode())
    world.advance()
    whole = world.store.runs.whole(run.id)
    value, listed = scripting._run(whole), RunView.of(whole.run, whole.placing, [])
    assert value.score_s == listed.score_s == pytest.approx(2e-6)
    assert (value.rank, listed.rank) == (None, None)
    assert "Score 2.00 µs." in plain(run_outcome(whole.run, whole.result), None)
    assert "2.00 µs" in plain([runs_table([whole.run], now=None)], None)
    assert world.store.standings.list(run.task, run.task_version, run.gpu) == ()


def test_a_score_is_stored_with_its_interval(world: World) -> None:
    run, task = world.run(), a_task()
    world.advance.launch([run])
    result = right_result(run, task)
    rows = timing(*(1990.0, 2000.0, 2010.0) * 3)
    told = replace(rows, time_ns=1990.0, worker_samples=(3, 3, 3), low_ns=1990.0, high_ns=2010.0, slack_ns=None)
    cases = tuple(replace(case, timing=case.timing and told) for case in result.cases)
    world.leave(run, job_folder.RESULT, replace(result, cases=cases).to_json().encode())
    world.advance()
    ended = world.store.runs.get(run.id)
    assert ended.message == ""
    assert ended.score_s == pytest.approx(1.99e-6)
    assert ended.interval is not None
    assert (ended.interval.low_s, ended.interval.high_s) == pytest.approx((1.99e-6, 2.01e-6))


@pytest.mark.parametrize(("time_ns", "accepted"), [(2000.0, True), (2500.0, False), (1900.0, False), (1990.0, False)])
def test_of_two_clocks_the_claims_count_and_no_less_than_the_windows_allow(
    world: World, time_ns: float, accepted: bool
) -> None:
    run, task = world.run(), a_task()
    world.advance.launch([run])
    calls = timing(*(1990.0, 2000.0, 2010.0) * 3)
    told = replace(
        calls, time_ns=time_ns, worker_samples=(3, 3, 3), low_ns=1990.0, high_ns=2010.0, bound_ns=1950.0, slack_ns=50.0
    )
    result = right_result(run, task)
    cases = tuple(replace(case, timing=case.timing and told) for case in result.cases)
    world.leave(run, job_folder.RESULT, replace(result, cases=cases).to_json().encode())
    world.advance()
    assert (world.store.runs.get(run.id).state is RunState.FINISHED) is accepted


def first_case(result: Result, **changes: Any) -> Result:
    return replace(result, cases=(replace(result.cases[0], **changes), *result.cases[1:]))


@pytest.mark.parametrize("said", ["now", "2020-01-01T00:00:00Z"])
def test_the_end_of_the_job_is_settled_when_its_result_is_collected(world: World, said: str) -> None:
    run, task = world.run(), a_task()
    world.advance.launch([run])
    end = datetime.now(UTC).isoformat() if said == "now" else said
    world.leave(run, job_folder.RESULT, replace(right_result(run, task), ended_at=end).to_json().encode())
    world.advance()
    (listed,) = world.store.runs.list()
    assert listed.state is RunState.FINISHED
    assert listed.ended_at == (datetime.fromisoformat(end) if said == "now" else None)


def with_fact(result: Result, name: str, value: str) -> Result:
    return replace(result, provenance={**result.provenance, name: value})


@pytest.mark.parametrize(
    ("forged", "words"),
    [
        (lambda result: first_case(result, verdict=Verdict.WRONG_VALUE), "test case 1 did not pass"),
        (lambda result: replace(result, cases=result.cases[:-1]), "benchmark cases differ from those that were sent"),
        (lambda result: replace(result, cases=result.cases[1:]), "test cases differ from those that were sent"),
        (lambda result: first_case(result, spec="size: 1; seed: 1"), "test cases differ from those that were sent"),
        (lambda result: last_case(result, timing=None), "invalid times"),
        (
            lambda result: last_case(result, timing=replace(timing(1000.0, 2000.0, 3000.0), time_ns=1)),
            "invalid times",
        ),
        (lambda result: last_case(result, timing=replace(timing(1000.0), samples=100)), "invalid times"),
        (lambda result: last_case(result, timing=replace(timing(2000.0), low_ns=None)), "invalid times"),
        (lambda result: with_times(result, 2000.0), "has fewer than 1 calls from each of 3 processes"),
        (lambda result: with_times(result, 990.0, 990.0, 990.0), "takes 990 ns, less than the minimum of 1000 ns"),
        (lambda result: replace(result, job_id="999"), "it comes from job 999"),
        (lambda result: replace(result, nonce="other"), "belongs to another run"),
        (lambda result: replace(result, run=99), "belongs to another run"),
        (lambda result: with_fact(result, "gpu_name", "Tesla T4"), "its GPU was Tesla T4"),
        (lambda result: with_fact(result, "submission_sha256", "0"), "a different submission"),
        (lambda result: with_fact(result, "harness_sha256", "0"), "a different harness"),
    ],
)
def test_a_result_that_contradicts_itself_or_what_was_sent_is_not_accepted(
    world: World, forged: Callable[[Result], Result], words: str
) -> None:
    run, task = world.run(), a_task()
    world.advance.launch([run])
    world.leave(run, job_folder.RESULT, forged(right_result(run, task)).to_json().encode())
    world.advance()
    ended = world.store.runs.get(run.id)
    assert ended.state is RunState.ERROR
    assert words in ended.status.reason
    assert world.store.standings.placing(ended) is None


def test_a_benchmark_run_is_measured_by_one_process(world: World) -> None:
    run, task = world.run(Mode.BENCHMARK), a_task()
    world.advance.launch([run])
    result = right_result(run, task)
    one = replace(timing(2000.0, 2000.0, 2000.0), worker_samples=(3,))
    cases = tuple(replace(case, timing=one) for case in result.cases if case.phase == "benchmark")
    world.leave(run, job_folder.RESULT, replace(result, mode="benchmark", cases=cases).to_json().encode())
    world.advance()
    assert world.state(run) is RunState.FINISHED, world.store.runs.get(run.id).status.reason


def test_too_few_calls_are_no_measurement(world: World) -> None:
    task = a_task(limits={"timed_calls_min": 4})
    run = world.run(task=task)
    world.advance.launch([run])
    world.leave(run, job_folder.RESULT, right_result(run, task).to_json().encode())
    world.advance()
    assert "has fewer than 2 calls from each of 3 processes" in world.store.runs.get(run.id).status.reason


@pytest.mark.parametrize("data", [b"{", b"[" * 100_000, b'{"run": 1}', b"\xff", b"null"])
def test_what_is_no_result_ends_the_run_and_nothing_else(world: World, data: bytes) -> None:
    run, other = world.run(), world.run()
    world.advance.launch([run, other])
    world.leave(run, job_folder.RESULT, data)
    world.advance()
    assert world.state(run) is RunState.ERROR
    assert world.state(other) is RunState.QUEUED


def test_a_result_that_is_too_large_to_store_ends_its_run_and_nothing_else(world: World) -> None:
    huge = a_task(tests=tuple({"size": 3, "seed": seed} for seed in range(22)))
    run, other = world.run(task=huge), world.run()
    world.advance.launch([run, other])
    result = right_result(run, huge)
    cases = tuple(replace(case, message="é" * (256 * 1024)) for case in result.cases)
    text_ = json.dumps(json.loads(replace(result, cases=cases).to_json()), ensure_ascii=False)
    world.leave(run, job_folder.RESULT, text_.encode())
    world.advance()
    assert world.state(run) is RunState.ERROR
    assert world.state(other) is RunState.QUEUED


def test_an_empty_result_is_one_that_is_not_visible_yet(world: World) -> None:
    run = world.run()
    world.advance.launch([run])
    world.leave(run, job_folder.RESULT, b"")
    world.advance()
    assert world.state(run) is RunState.QUEUED


@pytest.mark.parametrize("in_settings", [True, False])
def test_a_result_that_cannot_be_read_adds_one_row_and_not_one_in_every_turn(world: World, in_settings: bool) -> None:
    run = world.run()
    world.advance.launch([run])
    folder = job_folder.folder(world.folder, run.id)
    shutil.rmtree(folder)
    folder.write_text("a file in the place of the job's folder")
    world.scheduler.status = JobStatus(JobState.RUNNING, source="squeue: RUNNING")
    advance = world.advance if in_settings else replace(world.advance, schedulers={})
    advance()
    before = world.store.runs.history(run.id)
    assert before[-1].source.endswith("result.json cannot be read at the moment: Not a directory")
    for _ in range(3):
        advance()
    assert world.store.runs.history(run.id) == before


def test_a_run_whose_folder_cannot_be_read_for_hours_ends_with_its_result(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [datetime.now(UTC)]
    set_clock(monkeypatch, lambda: clock[0])
    run, task = world.run(), a_task()
    world.advance.launch([run])
    world.leave(run, job_folder.RESULT, right_result(run, task).to_json().encode())
    folder = job_folder.folder(world.folder, run.id)
    folder.rename(folder.with_name("away"))
    folder.write_text("a file in the place of the job's folder")
    world.scheduler.status = JobStatus(JobState.ENDED, source="squeue: COMPLETED")
    for _ in range(5):
        world.advance()
        clock[0] += timedelta(hours=1)
        assert world.state(run) is RunState.COLLECTING
    assert world.store.runs.get(run.id).status.reason == UNREADABLE
    folder.unlink()
    folder.with_name("away").rename(folder)
    world.advance()
    assert world.state(run) is RunState.FINISHED


def test_a_result_that_comes_while_the_scheduler_is_asked_is_not_taken_for_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [datetime.now(UTC)]
    set_clock(monkeypatch, lambda: clock[0])
    run, task = world.run(), a_task()
    world.advance.launch([run])
    world.scheduler.status = JobStatus(JobState.ENDED)
    world.advance()
    clock[0] += RESULT_GRACE

    def leave_result(_: object) -> None:
        world.leave(run, job_folder.RESULT, right_result(run, task).to_json().encode())

    world.scheduler.on_poll = leave_result
    world.advance()
    world.advance()
    assert world.state(run) is RunState.FINISHED


def test_a_folder_is_no_progress_and_progress_puts_a_run_forward_once(world: World) -> None:
    folder_, file_ = world.run(), world.run()
    world.advance.launch([folder_, file_])
    (job_folder.folder(world.folder, folder_.id) / job_folder.PROGRESS).mkdir()
    world.leave(file_, job_folder.PROGRESS, b"{}\n")
    world.advance()
    assert [world.state(run) for run in (folder_, file_)] == [RunState.QUEUED, RunState.RUNNING]
    world.scheduler.status = JobStatus(JobState.PENDING, source="squeue: PENDING")
    world.advance()
    before = [world.store.runs.history(run.id) for run in (folder_, file_)]
    for _ in range(3):
        world.advance()
    assert [world.store.runs.history(run.id) for run in (folder_, file_)] == before


def test_files_that_are_none_and_a_changed_job_file_neither_block_nor_crash(world: World) -> None:
    runs = [world.run() for _ in range(3)]
    world.advance.launch(runs)
    folders = [job_folder.folder(world.folder, run.id) for run in runs]
    os.mkfifo(folders[0] / job_folder.RESULT)
    (folders[1] / job_folder.RESULT).symlink_to("/etc/passwd")
    (folders[2] / job_folder.FACTS).unlink()
    os.mkfifo(folders[2] / job_folder.FACTS)
    world.leave(runs[2], job_folder.RESULT, json.dumps([]).encode())
    turning = threading.Thread(target=world.advance, daemon=True)
    turning.start()
    turning.join(20)
    assert not turning.is_alive()
    assert [world.state(run) for run in runs] == [RunState.ERROR] * 3


@pytest.mark.root
def test_a_job_folder_that_its_job_has_closed_hinders_no_other_run() -> None:
    if os.geteuid() != 0:
        pytest.skip("to become another user takes root")
    with short_folder() as folder:
        os.chown(folder, 65534, 65534)
        child = os.fork()
        if child == 0:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            os._exit(0 if _carries_on_beside_a_closed_folder(folder) else 1)
        assert os.waitpid(child, 0)[1] == 0


def _carries_on_beside_a_closed_folder(folder: Path) -> bool:
    world = world_in(folder)
    closed, other = world.run(), world.run()
    world.advance.launch([closed, other])
    path = job_folder.folder(folder, closed.id)
    path.chmod(0)
    world.scheduler.status = JobStatus(JobState.ENDED)
    carried = world.advance()
    path.chmod(0o700)
    told = " ".join(status.source for status in world.store.runs.history(closed.id))
    return carried and "cannot be read at the moment" in told and world.state(other) is RunState.COLLECTING


@pytest.mark.parametrize(("few_ns", "fault"), [(201e6, ""), (199e6, "has fewer than 7 calls from each of 3 processes")])
def test_each_process_has_as_many_calls_as_its_own_times_ask_for(world: World, few_ns: float, fault: str) -> None:
    # 20 calls in all, 5 of those that take over 200 ms.
    task = a_task(limits={**QUICK, "timed_calls_min": 20})
    run = world.run(task=task)
    world.advance.launch([run])
    samples = (*(few_ns,) * 2, *(199e6,) * 14)
    rows = replace(timing(*samples), time_ns=199e6, worker_samples=(2, 7, 7), low_ns=199e6, high_ns=199e6, bound_ns=0.0)
    result = right_result(run, task)
    cases = tuple(replace(case, timing=case.timing and rows) for case in result.cases)
    world.leave(run, job_folder.RESULT, replace(result, cases=cases).to_json().encode())
    world.advance()
    ended = world.store.runs.get(run.id)
    assert fault in ended.status.reason
    assert ended.state is (RunState.ERROR if fault else RunState.FINISHED)


def test_a_part_of_a_benchmark_has_no_score(world: World) -> None:
    task = a_task()
    run = world.run(Mode.BENCHMARK, task, options=JobOptions(case="1"))
    world.advance.launch([run])
    result = right_result(run, task)
    first = next(case for case in result.cases if case.phase == "benchmark")
    alone = replace(first, timing=replace(timing(1990.0, 2000.0, 2010.0), worker_samples=(3,)))
    world.leave(run, job_folder.RESULT, replace(result, mode="benchmark", cases=(alone,)).to_json().encode())
    world.advance()
    ended = world.store.runs.get(run.id)
    assert (ended.state, ended.score_s, ended.interval) == (RunState.FINISHED, None, None)
