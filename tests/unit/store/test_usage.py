"""The seconds of runs and runners, and the GPU-seconds of users, from events and from the clocks of jobs."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hpc_board.domain.moderation import GpuJobs, Rerun
from hpc_board.domain.run import Retry, Run, RunState, Status
from hpc_board.domain.runner import Runner
from hpc_board.model.result import Result, Verdict
from hpc_board.model.task import Language, Mode, Task, TaskFile
from hpc_board.store import Store, usage
from hpc_board.store.runners import NewRunner
from hpc_board.store.submissions import NewRun, NewSubmission
from tests.values import replace

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TASK = Task(
    name="vector_add",
    language=Language.PY,
    description="Add two vectors.",
    files=(TaskFile("reference.py", "def ref_kernel(data): ..."), TaskFile("submission.py", None)),
    benchmarks=({"size": 1024, "seed": 7},),
)


SEVERAL = replace(
    TASK,
    name="several",
    multi_gpu=True,
    benchmarks=({"size": 8, "world_size": 2}, {"size": 8, "world_size": 4}),
)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "board" / "board.db")


def sent(
    store: Store,
    gpu: str = "H100",
    *,
    user: str = "ada",
    emulated: bool = False,
    task: Task = TASK,
    limit_seconds: int = 600,
    **more: Any,
) -> Run:
    """Store a run that `user` sent at noon."""
    token = f"hb-{len(store.runs.list())}"
    script = json.dumps({"text": "", "options": {}, "time_limit_seconds": limit_seconds})
    new = NewRun(gpu, "main", "", token, "nonce", "self-run", emulated, "", script=script)
    submission = NewSubmission(task, user, "k.py", b"x", Mode.RANKED, "", NOON, [new], **more)
    ((_, (run,)),) = store.submissions.add_all([submission], sender=None)
    return run


def went(store: Store, run: Run, *states: tuple[str, float]) -> Run:
    """Store states of a run, each with its seconds after noon."""
    for state, seconds in states:
        store.runs.record(run.id, Status(RunState(state), after(seconds)))
    return run


def result_of(run: Run, started: str, ended: str) -> Result:
    """Return a result whose job's clock told these texts."""
    return Result(
        run=run.id,
        nonce=run.nonce,
        mode=run.mode.value,
        verdict=Verdict.PASS,
        message="",
        cases=(),
        started_at=started,
        ended_at=ended,
    )


def finished(store: Store, run: Run, started: float | str, ended: float | None, seen: float) -> Run:
    """Store the end of a run: its job's own clock told a start and an end, and the board saw it after `seen`."""
    told = started if isinstance(started, str) else after(started).isoformat()
    end = None if ended is None else after(ended)
    result = result_of(run, told, "" if end is None else end.isoformat())
    assert store.runs.finish(run.id, Status(RunState.FINISHED, after(seen)), result, 1e-6, end)
    return run


def entry(store: Store, run: Run) -> Mapping[str, Any]:
    with store.file.reading() as db:
        row = db.row("usage", "run = ?", [run.id])
        assert row is not None
        return row


def seconds(store: Store, run: Run) -> float:
    return float(entry(store, run)["seconds"])


def gpu_seconds(store: Store, user: str = "ada", since: float = 0) -> float:
    return store.moderation.gpu_seconds([user], after(since))[user]


def test_run_counts_with_the_seconds_of_its_job_and_not_with_those_of_the_polls(store: Store) -> None:
    seen_late = went(store, sent(store), ("running", 25))
    assert seconds(store, finished(store, seen_late, 10, 70, 85)) == 60
    assert seconds(store, finished(store, sent(store), 10, 12.5, 20)) == 2.5


def test_start_of_the_container_around_the_judge_counts(store: Store) -> None:
    pulled = went(store, sent(store), ("running", 5))
    assert seconds(store, finished(store, pulled, 40, 100, 101)) == 95


@pytest.mark.parametrize("told", ["", "2026-03-01T11:59:00+00:00", "2026-03-01T12:03:00+00:00", "yesterday"])
def test_start_that_is_not_plausible_does_not_count(store: Store, told: str) -> None:
    seen = went(store, sent(store), ("running", 25))
    assert seconds(store, finished(store, seen, told, 100, 101)) == 75
    assert seconds(store, finished(store, sent(store), told, 100, 101)) == 0


def test_end_without_a_moment_is_the_one_that_the_board_saw(store: Store) -> None:
    assert seconds(store, finished(store, went(store, sent(store), ("running", 5)), "", None, 65)) == 60


def test_stopped_run_counts_to_the_moment_at_which_it_was_last_seen(store: Store) -> None:
    run = went(store, sent(store), ("running", 5), ("collecting", 65), ("lost", 365))
    assert (seconds(store, run), entry(store, run)["ended_at"]) == (60, after(65).isoformat(timespec="microseconds"))


def test_run_that_was_cancelled_in_the_queue_took_nothing(store: Store) -> None:
    assert seconds(store, went(store, sent(store), ("queued", 5), ("cancelled", 500))) == 0


def test_run_whose_end_was_seen_the_next_day_counts_with_its_time_limit(store: Store) -> None:
    assert seconds(store, went(store, sent(store), ("running", 5), ("node_fail", 80_000))) == 600


def test_partial_result_tells_the_seconds_of_a_stopped_run(store: Store) -> None:
    run = went(store, sent(store), ("running", 25))
    told = result_of(run, after(5).isoformat(), after(305).isoformat())
    partial = replace(told, provenance={"interrupted": "SIGTERM"})
    assert store.runs.stop(run.id, Status(RunState.PREEMPTED, after(80_000)), partial)
    assert seconds(store, run) == 300


def test_only_the_last_job_of_a_run_counts(store: Store) -> None:
    retried = went(store, sent(store), ("running", 10))
    again = Status(RunState.CREATED, after(100))
    store.runs.retry_each({retried.id: Retry("hb-again", "nonce", again)})
    waiting = went(store, sent(store), ("running", 10))
    store.runs.retry_each({waiting.id: Retry("hb-again-2", "nonce", again)})
    assert seconds(store, went(store, retried, ("running", 200), ("cancelled", 230))) == 30
    assert seconds(store, went(store, waiting, ("cancelled", 230))) == 0


def test_time_in_the_queue_after_a_requeue_does_not_count(store: Store) -> None:
    assert (
        seconds(store, went(store, sent(store), ("running", 10), ("queued", 20), ("running", 500), ("timeout", 540)))
        == 40
    )


def test_each_gpu_of_a_run_counts_and_a_cpu_does_not(store: Store) -> None:
    runs = [sent(store, task=SEVERAL), sent(store), sent(store, "CPU"), sent(store, "cpu"), sent(store, emulated=True)]
    for run in runs:
        finished(store, run, 0, 10, 10)
    assert [(entry(store, run)["seconds"], entry(store, run)["gpu_seconds"]) for run in runs] == [
        (10, 40),
        (10, 10),
        (10, 0),
        (10, 0),
        (10, 0),
    ]
    assert gpu_seconds(store) == 50


def test_user_has_the_gpu_time_of_their_own_runs_that_ended_since(store: Store) -> None:
    for ended in (100, 200, 300):
        finished(store, sent(store), ended - 50, ended, ended)
    finished(store, sent(store, user="bob"), 0, 7, 7)
    finished(store, sent(store, milestone="fast"), 0, 1000, 1000)
    finished(store, sent(store, rerun=Rerun(1, "dean", NOON)), 0, 1000, 1000)
    sent(store)
    assert [gpu_seconds(store, since=since) for since in (0, 100, 299, 300)] == [150, 100, 50, 0]
    assert (gpu_seconds(store, "bob"), gpu_seconds(store, "eve")) == (7, 0)


def test_runs_in_flight_reserve_their_time_limits_on_each_gpu(store: Store) -> None:
    for run in (sent(store), sent(store, task=SEVERAL), sent(store, limit_seconds=60)):
        went(store, run, ("running", 5))
    ended = sent(store)
    sent(store, "CPU")
    sent(store, user="bob")
    went(store, ended, ("cancelled", 5))
    with store.file.reading() as db:
        found = usage.reserved(db, "ada")
    assert (found.runs, found.held) == ((GpuJobs("", 1, 4 * 600), GpuJobs("H100", 2, 600 + 60)), ())


def test_gpu_time_is_found_by_an_index_alone(store: Store) -> None:
    given = {"user": "ada", "since": "", "most": 1}
    with store.file.reading() as db:
        for statement in (usage._SPENT, usage._REACHED.format(spent=usage._SPENT)):
            steps = " ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", given))
            assert "usage USING COVERING INDEX usage_by_user (user=? AND limited=? AND ended_at>?)" in steps


# Runners


def held(store: Store, gpu: str = "H100", *, user: str = "ada", gpus: int = 1, seconds: int = 1800) -> Runner:
    """Store a runner of `user` that was asked for at noon, and whose job began ten seconds later."""
    new = NewRunner(user, "", gpu, "main", "", f"hb-{gpu}-{user}", "a" * 64, seconds, 300, gpus, "b" * 64, "{}", NOON)
    runner = store.runners.add(new)
    store.runners.record(runner.id, Status(RunState.RUNNING, after(10), runner=runner.id))
    return store.runners.get(runner.id)


def released(store: Store, runner: Runner, seconds: float) -> None:
    """Store the end of a runner."""
    assert store.runners.record(runner.id, Status(RunState.FINISHED, after(seconds), runner=runner.id))


def at_runner(store: Store, runner: Runner, *states: tuple[str, float], **more: Any) -> Run:
    """Store a run at a runner with these states."""
    run = sent(store, runner.gpu, user=runner.user or "bob", **more)
    for state, seconds in states:
        status = Status(RunState(state), after(seconds), job_id=f"7.{run.id}", runner=runner.id)
        store.runs.record(run.id, status)
    return run


def idle(store: Store, runner: Runner) -> tuple[str, float, float]:
    """Return the user, the seconds and the GPU-seconds of a runner's own row."""
    with store.file.reading() as db:
        row = db.row("usage", "runner = ? AND run IS NULL", [runner.id])
        assert row is not None
        return row["user"], row["seconds"], row["gpu_seconds"]


def test_holder_pays_for_the_time_that_no_run_used(store: Store) -> None:
    runner = held(store)
    run = at_runner(store, runner, ("running", 20), ("cancelled", 80))
    at_runner(store, runner, ("running", 100), ("timeout", 140))
    # It had jobs of its own before and after.
    finished(store, went(store, sent(store), ("running", 200)), 200, 230, 230)
    assert (seconds(store, run), gpu_seconds(store)) == (60, 130)
    released(store, runner, 610)
    assert idle(store, runner) == ("ada", 500, 500)
    assert [gpu_seconds(store, since=since) for since in (0, 609, 610)] == [630, 500, 0]
    assert gpu_seconds(store, "bob") == 0


def test_run_in_hand_that_ends_after_its_runner_is_not_counted_twice(store: Store) -> None:
    runner = held(store)
    run = at_runner(store, runner, ("running", 510))
    released(store, runner, 610)
    assert idle(store, runner) == ("ada", 600, 600)
    result = result_of(run, after(510).isoformat(), after(600).isoformat())
    partial = replace(result, provenance={"interrupted": "SIGTERM"})
    store.runs.stop(run.id, Status(RunState.CANCELLED, after(700), runner=runner.id), partial)
    assert (seconds(store, run), idle(store, runner)) == (90, ("ada", 510, 510))
    assert gpu_seconds(store) == 600


def test_time_at_a_runner_from_which_a_run_came_back_is_the_holders(store: Store) -> None:
    runner = held(store)
    run = at_runner(store, runner, ("running", 10))
    store.runs.retry_each({run.id: Retry("hb-again", "nonce", Status(RunState.CREATED, after(110)))})
    released(store, runner, 120)
    went(store, run, ("running", 200), ("cancelled", 230))
    assert (idle(store, runner)[1], seconds(store, run)) == (110, 30)


def test_runner_whose_end_was_seen_the_next_day_counts_with_its_time_limit(store: Store) -> None:
    runner = held(store)
    released(store, runner, 80_000)
    assert idle(store, runner) == ("ada", 1800, 1800)
    assert [gpu_seconds(store, since=since) for since in (1809, 1810)] == [1800, 0]


def test_runner_that_never_began_took_nothing(store: Store) -> None:
    new = NewRunner("ada", "", "H100", "main", "", "hb-1", "a" * 64, 1800, 300, 1, "b" * 64, "{}", NOON)
    runner = store.runners.add(new)
    assert store.runners.record(runner.id, Status(RunState.CANCELLED, after(500), runner=runner.id))
    assert idle(store, runner) == ("ada", 0, 0)


def test_held_cpu_takes_no_gpu_time_and_the_boards_own_runner_takes_that_of_nobody(store: Store) -> None:
    cpu, own = held(store, "CPU", gpus=0), held(store, user="")
    run = at_runner(store, own, ("running", 20), ("cancelled", 80))
    for runner in (cpu, own):
        released(store, runner, 110)
    assert (idle(store, cpu), idle(store, own), seconds(store, run)) == (("ada", 100, 0), ("", 40, 40), 60)
    assert (gpu_seconds(store), gpu_seconds(store, "bob"), gpu_seconds(store, "")) == (0, 60, 0)


def test_held_gpu_reserves_the_time_that_is_left_of_it(store: Store) -> None:
    runner = held(store)
    at_runner(store, runner, ("running", 20), ("cancelled", 80))
    held(store, "CPU", gpus=0)
    held(store, user="bob")
    with store.file.reading() as db:
        found = usage.reserved(db, "ada")
    assert (found.runs, found.held, gpu_seconds(store)) == ((), (GpuJobs("H100", 1, 1740),), 60)


def test_runs_that_may_go_to_a_held_gpu_are_told_from_those_with_jobs_of_their_own(store: Store) -> None:
    runner, own = held(store), held(store, user="")
    at_runner(store, runner, ("running", 20), limit_seconds=1)
    sent(store, limit_seconds=10)
    for job in (Status(RunState.QUEUED, NOON, job_id="8"), Status(RunState.QUEUED, NOON, job_id="9.1", runner=own.id)):
        store.runs.record(sent(store, limit_seconds=100).id, job)
    with store.file.reading() as db:
        assert usage.reserved(db, "ada").runs == (GpuJobs("", 2, 200), GpuJobs("H100", 2, 11))


def test_time_of_a_runner_is_found_by_an_index(store: Store) -> None:
    with store.file.reading() as db:
        for statement in (usage._IDLE, usage._HELD):
            plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", {"runner": 1, "user": "ada"})]
            assert any("usage USING INDEX usage_by_runner (runner=?" in step for step in plan), plan
            assert not any(step.startswith("SCAN usage") for step in plan), plan
