"""Runners whose queues, folders, clients and clusters fail: no run is lost, and none is judged twice."""

import errno
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from hpc_board.domain.clock import utc_now
from hpc_board.domain.run import JobState, JobStatus, Run, RunState
from hpc_board.errors import InputError, StorageError
from hpc_board.model.runner import DONE, QUEUE, TAKEN, WITHDRAWN, Entry, modules_in
from hpc_board.model.task import Mode
from hpc_board.runs import job_folder
from hpc_board.schedulers.runner_queue import RunnerQueue
from hpc_board.schedulers.slurm.kind import SlurmKind
from tests.unit.runs.test_runners import Held
from tests.values import replace


class Killed(BaseException):
    """The end of a client that nothing can prepare for."""


@pytest.fixture
def held(tmp_path: Path) -> Held:
    """A runner whose job runs."""
    found = Held(tmp_path)
    found.start()
    return found


def killed_after_the_entry(held: Held, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run whose client dies once its entry is in the queue."""
    add = RunnerQueue.add

    def killed(queue: RunnerQueue, name: str, entry: Entry) -> None:
        add(queue, name, entry)
        raise Killed

    monkeypatch.setattr(RunnerQueue, "add", killed)
    with pytest.raises(Killed):
        held.submit(Mode.TEST)
    monkeypatch.undo()
    return held.world.store.runs.get(1)


def entries(held: Held, part: str = QUEUE) -> list[str]:
    return [path.name for path in (held.folder / part).glob("0*")]


def test_a_queue_that_cannot_be_read_sends_no_run_again(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    run = killed_after_the_entry(held, monkeypatch)

    def unreadable(*_: object) -> None:
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(RunnerQueue, "parts", unreadable)
    for _ in range(2):
        with pytest.raises(StorageError):
            held.world.advance()
    assert held.now(run).state is RunState.SUBMITTING
    assert held.world.scheduler.sent == [held.runner.token]
    monkeypatch.undo()
    held.world.advance()
    assert (held.now(run).state, held.now(run).status.runner) == (RunState.QUEUED, 1)
    assert entries(held) == [held.name(run)]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.ENOENT])
def test_a_run_that_a_queue_does_not_take_has_a_job_of_its_own_at_once(
    held: Held, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fails(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(RunnerQueue, "add", fails)
    run = held.world.run(Mode.TEST)
    assert held.world.advance.launch([run]) == []
    assert (held.now(run).status.job_id, held.now(run).status.runner) == ("102", None)
    reasons = [status.reason for status in held.world.store.runs.history(run.id)]
    assert f"runner 1 cannot take it: {os.strerror(number)}" in reasons


def test_a_run_that_may_be_in_a_queue_is_left_to_a_later_pass(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.ETIMEDOUT, "Connection timed out")

    monkeypatch.setattr(RunnerQueue, "add", fails)
    monkeypatch.setattr(RunnerQueue, "parts", fails)
    run = held.world.run(Mode.TEST)
    (error,) = held.world.advance.launch([run])
    assert error.message == "run 1 is not sent yet: runner 1 cannot take it: Connection timed out"
    assert held.now(run).state is RunState.SUBMITTING
    monkeypatch.undo()
    held.world.advance()
    assert (held.now(run).state, held.now(run).status.runner) == (RunState.QUEUED, 1)
    assert held.world.scheduler.sent == [held.runner.token]


def test_a_folder_of_another_machine_is_asked_again_before_a_run_is_given_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(tmp_path)
    folders = {"main": job_folder.Folders(tmp_path, setting="jobs.folder")}
    held.world.advance = replace(held.world.advance, folders=folders)
    held.start()

    def killed(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(RunnerQueue, "add", killed)
    with pytest.raises(Killed):
        held.submit(Mode.TEST)
    monkeypatch.undo()
    held.world.advance = replace(held.world.advance, lookup_delay=timedelta(hours=1))
    for path in tmp_path.glob("looked-*"):
        path.unlink()
    held.world.advance()
    assert held.world.store.runs.get(1).state is RunState.SUBMITTING
    held.world.advance = replace(held.world.advance, lookup_delay=timedelta(0))
    for path in tmp_path.glob("looked-*"):
        path.unlink()
    held.world.advance()
    assert held.world.store.runs.get(1).state is RunState.QUEUED


def test_runs_at_a_runner_whose_folder_is_gone_go_elsewhere_once_it_has_ended(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SlurmKind, "result_grace", timedelta(0))
    in_hand, behind = held.submit(Mode.TEST), held.submit(Mode.TEST)
    held.move(in_hand, QUEUE, TAKEN)
    held.world.advance()
    held.folder.rename(held.folder.with_name("gone"))
    held.world.advance()
    assert (held.now(in_hand).state, held.now(behind).state) == (RunState.RUNNING, RunState.QUEUED)
    held.world.scheduler.status = JobStatus(JobState.ENDED, "101", "NonZeroExitCode")
    held.world.advance()
    held.world.scheduler.status = None
    held.world.advance()
    again = held.now(behind)
    assert (again.status.runner, again.status.job_id, again.token != behind.token) == (None, "102", True)
    assert held.now(in_hand).status.runner == 1


@pytest.mark.parametrize("is_link", [False, True])
@pytest.mark.parametrize("part", [WITHDRAWN, QUEUE, DONE])
def test_a_part_of_the_folder_that_is_gone_keeps_no_run(
    held: Held, monkeypatch: pytest.MonkeyPatch, part: str, is_link: bool
) -> None:
    monkeypatch.setattr(SlurmKind, "result_grace", timedelta(0))
    run = held.submit(Mode.TEST)
    (held.folder / part).rename(held.folder / "gone")
    if is_link:
        (held.folder / part).symlink_to(held.folder / "gone")
    held.world.scheduler.status = JobStatus(JobState.ENDED, "101", "NonZeroExitCode")
    held.world.advance()
    held.world.scheduler.status = None
    held.world.advance()
    assert (held.now(run).status.runner, held.now(run).status.job_id) == (None, "102")


def test_the_folder_of_a_runner_stays_while_a_run_is_there(held: Held) -> None:
    run = held.submit(Mode.TEST)
    held.world.scheduler.status = JobStatus(JobState.NODE_FAIL, "101")
    held.world.advance()
    held.world.scheduler.status = None
    assert held.runner.state.ended
    held.world.advance.prune(utc_now() + timedelta(seconds=1))
    assert held.folder.exists()
    held.world.advance()
    assert held.now(run).status.job_id == "102"
    held.world.advance.prune(utc_now() + timedelta(seconds=1))
    assert not held.folder.exists()


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/etc/passwd")])
def test_an_end_that_is_no_file_holds_up_no_other_run(
    held: Held, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    monkeypatch.setattr(SlurmKind, "result_grace", timedelta(0))
    first, second = held.submit(Mode.TEST), held.submit(Mode.TEST)
    (held.folder / QUEUE / held.name(first)).unlink()
    make(held.folder / DONE / held.name(first))
    held.retire("its time is over")
    held.world.advance()
    assert held.now(first).state is RunState.ERROR
    assert held.now(second).status.job_id == "102"


def test_a_runner_that_retires_has_one_row_for_it(held: Held) -> None:
    held.retire("its time is over")
    held.world.advance()
    before = held.runner.status
    held.world.advance()
    held.world.advance()
    assert (held.runner.state, held.runner.status) == (RunState.COLLECTING, before)


def test_a_run_goes_to_no_runner_that_has_said_that_it_ends(held: Held) -> None:
    held.retire("it was idle for 300 s")
    assert held.submit(Mode.TEST).status.runner is None
    assert entries(held) == []


def test_a_runner_of_a_cluster_that_left_the_settings_is_released_with_an_error(tmp_path: Path) -> None:
    for state in (RunState.CREATED, RunState.SUBMITTING, RunState.QUEUED, RunState.RUNNING):
        held = Held(tmp_path / state.value)
        if state is not RunState.CREATED:
            held.world.store.runners.record(1, replace(held.runner.status, state=state, job_id="7"))
        held.world.advance = replace(held.world.advance, schedulers={}, clusters={}, gpus={})
        held.world.store.runners.request_end(1, "released by ada")
        (error,) = held.world.advance.advance_runners("main")
        assert isinstance(error, InputError)
        assert "cluster main, which is no longer in the settings" in error.message


def test_a_released_runner_whose_folder_is_gone_is_cancelled(held: Held) -> None:
    held.folder.rename(held.folder.with_name("gone"))
    held.world.store.runners.request_end(1, "released by ada")
    assert held.world.advance.advance_runners("main") == []
    assert held.world.scheduler.cancelled == ["101"]


def test_an_entry_that_was_withdrawn_and_added_again_counts_as_waiting(held: Held) -> None:
    run = held.submit(Mode.TEST)
    (held.folder / WITHDRAWN / held.name(run)).write_bytes(b"")
    held.world.advance()
    assert (held.now(run).state, held.now(run).status.runner) == (RunState.QUEUED, 1)
    held.move(run, QUEUE, TAKEN)
    held.world.advance()
    assert held.now(run).state is RunState.RUNNING


def test_a_clock_that_was_set_back_gives_a_runner_no_more_time(held: Held) -> None:
    assert held.runner.left_seconds(utc_now() - timedelta(hours=1)) == held.runner.seconds


def test_a_runner_that_will_never_start_keeps_no_run(tmp_path: Path) -> None:
    held = Held(tmp_path)
    assert held.world.advance.advance_runners("main") == []
    run = held.submit(Mode.TEST)
    assert held.now(run).status.runner == 1
    held.world.scheduler.status = JobStatus(JobState.PENDING, "101", "will never start: its time limit is too long")
    held.world.advance()
    held.world.scheduler.status = None
    held.world.advance()
    assert (held.now(run).status.runner, held.now(run).status.job_id) == (None, "102")
    reasons = [status.reason for status in held.world.store.runs.history(run.id)]
    assert "runner 1 waits in vain: will never start: its time limit is too long" in reasons
    assert held.submit(Mode.TEST).status.runner is None


def test_a_submission_of_empty_lines_holds_up_no_client() -> None:
    assert modules_in(["\n" * 1_000_000 + "import numpy"], "cpu") == ["numpy"]
