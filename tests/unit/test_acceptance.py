"""What a job says of itself, and which of it is believed."""

from dataclasses import replace
from datetime import timedelta

import pytest

from hpc_board.model.acceptance import ended_at
from hpc_board.model.result import Verdict
from hpc_board.model.run import RunState
from tests.unit.recorded import AT, result_of
from tests.unit.test_report import run_of

COLLECTED_AT = AT + timedelta(minutes=30)


@pytest.mark.parametrize(
    "said",
    ["2026-05-01T12:10:00+00:00", "2026-05-01T12:10:00.250Z", "2026-05-01T14:10:00+02:00"],
)
def test_a_job_ended_when_it_says_so(said: str) -> None:
    result = replace(result_of(Verdict.PASS), ended_at=said)
    moment = ended_at(result, run_of(RunState.RUNNING), COLLECTED_AT)
    assert moment is not None
    assert moment.replace(microsecond=0) == AT + timedelta(minutes=10)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "soon",
        "2026-05-01T11:59:59Z",  # before it was submitted
        "2026-05-01T12:30:01Z",  # after its result was there
        "2026-05-01T12:10:00",  # in no zone
        "2026-05-01 12:10:00Z",
        "20260501T121000Z",
        "2026-13-01T12:10:00Z",
        "2026-05-01T12:10:00+99:00",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "2026-05-01T12:10:00Z\n",
        "\u0662026-05-01T12:10:00Z",
    ],
)
def test_an_end_that_cannot_be_the_jobs_is_not_believed(said: str) -> None:
    result = replace(result_of(Verdict.PASS), ended_at=said)
    assert ended_at(result, run_of(RunState.RUNNING), COLLECTED_AT) is None
