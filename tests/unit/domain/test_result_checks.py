"""The statements of a job about itself, and those that are believed."""

from datetime import timedelta
from pathlib import Path

import pytest

from hpc_board.domain.result_checks import ended_at, is_model
from hpc_board.domain.run import RunState
from hpc_board.model.result import Verdict
from hpc_board.runs import job_folder
from tests.harness.evaluations import a_task
from tests.unit.recorded import AT, result_of
from tests.unit.report.test_report import run_of
from tests.unit.runs.world import right_result, with_times, world_in
from tests.values import replace

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


@pytest.mark.parametrize(
    ("updated", "medians_ns", "reason"),
    [
        (False, [990.0, 990.0, 990.0], "takes 990 ns, less than the minimum of 1000 ns"),
        (False, [2000.0], "has fewer than 1 calls from each of 3 processes"),
        (True, [990.0, 990.0, 990.0], ""),
        (True, [2000.0], ""),
        (True, [0.0, 0.0, 0.0], "invalid times"),
    ],
)
def test_a_run_that_was_sent_before_an_update_is_not_held_to_the_limits_of_the_new_version(
    tmp_path: Path, updated: bool, medians_ns: list[float], reason: str
) -> None:
    world, task = world_in(tmp_path), a_task()
    run = world.run()
    world.advance.launch([run])
    world.leave(run, job_folder.RESULT, with_times(right_result(run, task), *medians_ns).to_json().encode())
    advance = replace(world.advance, harness=lambda: b"a newer harness") if updated else world.advance
    advance()
    ended = world.store.runs.get(run.id)
    assert ended.state is (RunState.ERROR if reason else RunState.FINISHED), ended.status.reason
    assert reason in ended.status.reason


@pytest.mark.parametrize(
    ("gpu", "device", "fits"),
    [
        ("H100", "NVIDIA H100 80GB HBM3", True),
        ("h100-pcie", "NVIDIA H100 PCIe", True),
        ("A100-40", "NVIDIA A100-SXM4-40GB", True),
        ("A100", "Tesla T4", False),
        ("H100", "NVIDIA H200", False),
        ("L40", "NVIDIA L4", False),
        ("GH200", "NVIDIA GH200 480GB", True),
        ("MI300X", "AMD Instinct MI300X", True),
        ("gpu-big", "NVIDIA H100 80GB HBM3", True),
    ],
)
def test_a_device_is_compared_with_the_name_of_its_board(gpu: str, device: str, fits: bool) -> None:
    assert is_model(gpu, device) is fits
