"""Questions to schedulers: their number, and the statuses that their answers give to runs."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from hpc_board.domain.run import RESULT_GRACE, JobState, JobStatus, RunState, Status
from hpc_board.runs.backoff import SharedPause
from hpc_board.runs.reconciler import Reconciler
from hpc_board.store.runs import RunGateway
from tests.scripted import Scripted
from tests.unit.runs.world import CLUSTER, World, asked_by, set_clock
from tests.values import replace


def test_a_turn_says_which_schedulers_it_asked(world: World) -> None:
    run = world.run()
    seldom = replace(world.advance, clusters={"main": replace(CLUSTER, poll_seconds=3600)})
    seldom.launch([run])
    asked = [turn.asked for turn in (seldom.run_pass(), seldom.run_pass()) if turn]
    assert asked == [{"main"}, set()]


def test_news_of_many_runs_that_go_on_are_stored_together(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [world.run() for _ in range(20)]
    world.advance.launch(runs)
    world.scheduler.status = JobStatus(JobState.PENDING, source="squeue: PENDING (Priority)", reason="Priority")
    stored: list[int] = []
    record_each = RunGateway.record_each

    def counted(runs: RunGateway, statuses: Mapping[int, Status]) -> set[int]:
        stored.append(len(statuses))
        return record_each(runs, statuses)

    monkeypatch.setattr(RunGateway, "record_each", counted)
    assert world.advance()
    assert stored == [20]
    assert {world.store.runs.get(run.id).status.source for run in runs} == {"squeue: PENDING (Priority)"}


def test_a_scheduler_with_nothing_new_is_asked_less_and_less_often(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [datetime(2026, 5, 1, tzinfo=UTC)]
    set_clock(monkeypatch, lambda: clock[0])
    run = world.run()
    patient = replace(world.advance, clusters={"main": replace(CLUSTER, scheduler="slurm", poll_seconds=10)})
    patient.launch([run])
    world.scheduler.status = JobStatus(JobState.PENDING)

    def asked(seconds: int) -> int:
        found = 0
        for _ in range(seconds):
            clock[0] += timedelta(seconds=1)
            turn = patient.run_pass()
            found += turn is not None and "main" in turn.asked
        return found

    assert 6 <= asked(200) <= 12, "pauses of 10 s that grow to 40 s"
    assert 4 <= asked(200) <= 7, "pauses of up to 40 s"
    world.scheduler.status = JobStatus(JobState.RUNNING)
    while world.state(run) is RunState.QUEUED:
        asked(1)
    assert asked(10) == 1, "a change makes the next pause short"


@pytest.mark.slow
def test_a_cluster_that_hangs_takes_one_time_out_from_the_others_and_is_then_left_alone(
    world: World, beside: tuple[Scripted, Reconciler, list[float]]
) -> None:
    hanging, advance, clock = beside
    queued = world.run(cluster="hangs")
    world.store.runs.record(queued.id, Status(RunState.QUEUED, queued.created_at, job_id="7"))
    unsent = [world.run(cluster="hangs") for _ in range(20)]
    near = world.run()
    world.scheduler.status = JobStatus(JobState.PENDING)
    advance.run_pass()
    assert world.state(near) is RunState.QUEUED
    assert (len(hanging.sent), len(hanging.polled)) == (1, 1)
    world.scheduler.status = JobStatus(JobState.RUNNING)
    while clock[0] < 120 + 4 * 60 - 2:
        advance.run_pass()
        clock[0] += 1
    assert world.state(near) is RunState.RUNNING
    assert (len(hanging.sent), len(hanging.polled)) == (1, 1)
    clock[0] += 2
    advance.run_pass()
    assert (len(hanging.sent), len(hanging.polled)) == (2, 2)
    assert [world.state(run) for run in unsent].count(RunState.CREATED) == 19


def test_whoever_may_ask_a_scheduler_asks_for_all_runs(world: World) -> None:
    runs = [world.run() for _ in range(2)]
    world.advance.launch(runs)
    world.scheduler.status = JobStatus(JobState.RUNNING)
    SharedPause(world.folder / "scanned-main", 60).begin(datetime.now(UTC), 600)
    assert asked_by(world.advance.run_pass([runs[0].id])) == {"main"}
    assert {world.state(run) for run in runs} == {RunState.RUNNING}


def test_a_job_that_ended_without_a_result_says_what_it_printed_last(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = world.run()
    world.advance.launch([run])
    world.leave(run, "slurm-101.out", b"starting\nmodule load failed: \x1b[31mcuda\n \n")
    world.scheduler.status = JobStatus(JobState.ENDED, source="squeue: FAILED (NonZeroExitCode)")
    world.advance()
    waiting = world.store.runs.get(run.id).status.source
    assert waiting == "squeue: FAILED (NonZeroExitCode)"
    set_clock(monkeypatch, lambda: datetime.now(UTC) + RESULT_GRACE)
    world.advance()
    ended = world.store.runs.get(run.id)
    assert ended.state is RunState.ERROR
    assert ended.status.source.startswith("squeue: FAILED (NonZeroExitCode); no result file after 1 min, since ")
    words = ended.status.source.partition("; its output ends with ")[2]
    assert "module load failed: " in words
    assert "\x1b" not in words


def test_a_state_keeps_the_time_of_its_beginning_when_its_reason_changes(world: World) -> None:
    run = world.run()
    world.advance.launch([run])
    since = world.store.runs.get(run.id).status.at
    world.scheduler.status = JobStatus(JobState.PENDING, reason="Priority")
    world.advance()
    status = world.store.runs.get(run.id).status
    assert (status.state, status.reason, status.at) == (RunState.QUEUED, "Priority", since)
