"""The fate of a run without a result, by the scheduler's answer about its job."""

from datetime import UTC, datetime, timedelta

import pytest

from hpc_board.domain.run import (
    CANCELLED_GRACE,
    MISSING_GRACE,
    RESULT_GRACE,
    JobState,
    JobStatus,
    RunState,
    Status,
    next_status,
)
from tests.values import replace

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
QUEUED = Status(RunState.QUEUED, NOON, job_id="17")


@pytest.mark.parametrize(
    ("news", "state"),
    [
        (JobState.PENDING, RunState.QUEUED),
        (JobState.RUNNING, RunState.RUNNING),
        (JobState.COMPLETING, RunState.COLLECTING),
        (JobState.ENDED, RunState.COLLECTING),
        (JobState.TIMEOUT, RunState.COLLECTING),
        (JobState.MISSING, RunState.COLLECTING),
    ],
)
def test_a_job_s_state_shows_in_its_run(news: JobState, state: RunState) -> None:
    assert next_status(QUEUED, JobStatus(news), NOON).state is state


def test_news_that_nobody_understands_changes_nothing() -> None:
    assert next_status(QUEUED, JobStatus(JobState.UNKNOWN, reason="NEW_STATE"), NOON) == QUEUED


@pytest.mark.parametrize(
    ("news", "state"),
    [
        (JobState.ENDED, RunState.ERROR),
        (JobState.TIMEOUT, RunState.TIMEOUT),
        (JobState.OUT_OF_MEMORY, RunState.OUT_OF_MEMORY),
        (JobState.NODE_FAIL, RunState.NODE_FAIL),
        (JobState.PREEMPTED, RunState.PREEMPTED),
        (JobState.CANCELLED, RunState.CANCELLED),
    ],
)
def test_a_job_that_ended_without_a_result_ends_its_run_after_the_grace(news: JobState, state: RunState) -> None:
    first = next_status(QUEUED, JobStatus(news, source="sacct: X"), NOON)
    assert first.state is RunState.COLLECTING
    later = next_status(first, JobStatus(news, source="sacct: X"), NOON + RESULT_GRACE)
    assert later.state is state
    grace = "5 s" if news is JobState.CANCELLED else "1 min"
    assert later.source == f"sacct: X; no result file after {grace}, since 12:00 UTC"


@pytest.mark.parametrize("state", [JobState.ENDED, JobState.TIMEOUT, JobState.CANCELLED, JobState.MISSING])
def test_a_result_that_cannot_be_read_is_waited_for_and_has_its_grace_afterwards(state: JobState) -> None:
    news, words = JobStatus(state, source="squeue: X"), "result.json cannot be read at the moment: Input/output error"
    status = next_status(QUEUED, news, NOON)
    for hours in range(1, 30):
        status = next_status(status, news, NOON + timedelta(hours=hours), result_problem=words, unreadable=True)
        assert (status.state, status.source) == (RunState.COLLECTING, f"squeue: X; {words}")
        assert "cancel the run" in status.reason
    later = NOON + timedelta(hours=30)
    first = next_status(status, news, later)
    assert (first.state, first.reason) == (RunState.COLLECTING, "")
    assert next_status(first, news, later + MISSING_GRACE).state.ended


def test_a_result_that_cannot_be_read_is_given_up_when_the_run_is_cancelled() -> None:
    words = "result.json cannot be read at the moment: Input/output error"
    wanted = replace(QUEUED, cancel_requested=True)
    first = next_status(wanted, JobStatus(JobState.CANCELLED), NOON, result_problem=words, unreadable=True)
    last = next_status(
        first, JobStatus(JobState.CANCELLED), NOON + CANCELLED_GRACE, result_problem=words, unreadable=True
    )
    assert (last.state, last.source) == (RunState.CANCELLED, f"{words} after 5 s, since 12:00 UTC")


def test_a_job_that_is_missing_is_lost_only_after_five_minutes() -> None:
    first = next_status(QUEUED, JobStatus(JobState.MISSING, source="squeue: not listed"), NOON)
    almost = next_status(first, JobStatus(JobState.MISSING), NOON + MISSING_GRACE - timedelta(seconds=1))
    assert almost.state is RunState.COLLECTING
    assert next_status(almost, JobStatus(JobState.MISSING), NOON + MISSING_GRACE).state is RunState.LOST


def test_a_job_that_appears_again_is_no_longer_counted_as_missing() -> None:
    missing = next_status(QUEUED, JobStatus(JobState.MISSING), NOON)
    back = next_status(missing, JobStatus(JobState.RUNNING, node="n1"), NOON + timedelta(minutes=4))
    assert (back.state, back.node) == (RunState.RUNNING, "n1")
    again = next_status(back, JobStatus(JobState.MISSING), NOON + timedelta(minutes=6))
    assert again.state is RunState.COLLECTING


@pytest.mark.parametrize(
    ("known", "told", "shown"),
    [
        (None, 60, 60),
        (60, None, None),
        (60, 65, 60),
        (60, 55, 60),
        (60, 67, 67),
        (60, 53, 53),
        (2, 1.5, 2),
        (2, 0.5, 0.5),
        (-3, 1, 1),
    ],
)
def test_an_expected_start_changes_only_when_it_differs_by_more_than_a_little(
    known: float | None, told: float | None, shown: float | None
) -> None:
    def start(minutes: float | None) -> datetime | None:
        return None if minutes is None else NOON + timedelta(minutes=minutes)

    status = next_status(QUEUED, JobStatus(JobState.PENDING, expected_start=start(known)), NOON)
    assert next_status(status, JobStatus(JobState.PENDING, expected_start=start(told)), NOON).expected_start == start(
        shown
    )
