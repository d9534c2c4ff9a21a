"""The memory and the processors that a run used, and the advice on the amounts to ask for."""

from typing import Any

import pytest

from hpc_board.domain.usage import Usage, usage_of
from hpc_board.model.result import Verdict
from tests.unit.recorded import result_of
from tests.values import replace

GIB = 2**30


def advice(**amounts: Any) -> list[str]:
    usage = Usage(**amounts)
    return [advice for advice in (usage.memory_advice, usage.cpu_advice) if advice]


def test_a_job_that_used_a_small_part_of_its_memory_is_told_an_amount_that_suffices() -> None:
    assert advice(memory_peak_bytes=int(1.2 * GIB), memory_asked_bytes=16 * GIB) == ["`memory: 2G` is enough"]
    assert advice(memory_peak_bytes=int(6.5 * GIB), memory_asked_bytes=32 * GIB) == ["`memory: 9G` is enough"]


def test_no_advice_is_below_the_needs_of_the_bundled_tasks_on_a_gpu() -> None:
    assert advice(memory_peak_bytes=GIB, memory_asked_bytes=16 * GIB, on_gpu=True) == ["`memory: 4G` is enough"]


def test_a_fitting_request_gets_no_advice() -> None:
    assert advice(memory_peak_bytes=3 * GIB, memory_asked_bytes=6 * GIB, cpu_seconds=9.0, elapsed_seconds=5.0) == []


def test_a_job_that_nearly_used_up_its_memory_is_told_to_ask_for_more() -> None:
    (said,) = advice(memory_peak_bytes=int(3.9 * GIB), memory_asked_bytes=4 * GIB)
    assert said == "nearly used up; `memory:  5G` is safe"


def test_idle_cpus_are_told_where_they_do_not_set_the_times() -> None:
    used = {"cpu_seconds": 11.0, "elapsed_seconds": 10.0, "cpus_asked": 16}
    assert advice(**used, on_gpu=True) == ["`cpus_per_task: 3` is enough"]
    assert advice(**used) == []


@pytest.mark.parametrize("told", ["1 GB", True, -1, 2**60, float("inf"), None, 0])
def test_an_amount_that_a_job_cannot_have_used_is_unknown(told: Any) -> None:
    result = replace(result_of(Verdict.PASS), provenance={"memory_peak_bytes": told, "cpu_seconds": told or -1})
    assert usage_of(result) is None or told is True
    assert usage_of(replace(result, provenance={})) is None
