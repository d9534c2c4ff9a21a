"""Honest kernels pass, whatever their style: nothing that a correct kernel may do is taken for a cheat."""

from dataclasses import replace
from pathlib import Path

import pytest

from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from tests.harness.evaluations import QUICK, evaluate
from tests.harness.honest.suite import HONEST, Honest

# A call of seconds may take ten times as long beside other tests.
_LIMITS = {**QUICK, "call_seconds": 60, "first_call_seconds": 60}
_BENCHMARKS = 2


@pytest.mark.parametrize("kernel", HONEST, ids=lambda kernel: kernel.name)
def test_an_honest_kernel_passes_whatever_its_style(kernel: Honest, tmp_path: Path) -> None:
    if reason := kernel.reason_to_leave_out():
        pytest.skip(reason)
    limits = {**kernel.task.limits, **_LIMITS}
    task = replace(kernel.task, benchmarks=kernel.task.benchmarks[:_BENCHMARKS], limits=limits)
    result = evaluate(tmp_path, kernel.source, task, Mode.BENCHMARK).result
    assert result.verdict is Verdict.PASS, result.message
    timings = [case.timing for case in result.cases if case.phase == "benchmark"]
    assert len(timings) == len(task.benchmarks)
    assert all(timing is not None and timing.time_ns > 0 for timing in timings)


def test_each_kernel_says_its_style_in_one_sentence_of_its_own() -> None:
    styles = [kernel.style for kernel in HONEST]
    assert all("\n" not in style and style.endswith(".") for style in styles)
    assert len(set(styles)) == len(styles) == 20
