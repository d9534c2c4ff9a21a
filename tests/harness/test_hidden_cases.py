"""Hidden cases: judged in ranked runs after all others, by a result that tells nothing of their inputs."""

import json
import re
from pathlib import Path

import pytest

from hpc_board.model.result import HIDDEN_MESSAGE, MEMORY_PEAK_BYTES, Result, Verdict
from hpc_board.model.task import Mode
from tests.harness.evaluations import REFERENCE, RIGHT, a_task, evaluate

TELLING = REFERENCE + "def minimal_work(size, seed):\n    return size, size\n"
TASK = a_task(
    TELLING,
    hidden_tests=({"size": 4, "seed": 8801}, {"size": 7717, "seed": 8802}),
    hidden_benchmarks=({"size": 7719, "seed": 8803},),
)
HIDDEN_NUMBERS = re.compile(r"(?<![\w.])(7717|7719|8801|8802|8803)(?![\w.])")
"""Numbers that only the hidden cases have; not the same digits in a time or a hash."""


def kernel(when_hidden: str) -> str:
    """A submission that prints each size, notes it in its folder, and does this with inputs of a hidden size."""
    return f"""
import os, sys
for name in os.listdir("."):
    if name.startswith("note"):
        print("noted", name)
def custom_kernel(data):
    print("size", len(data))
    open(f"note-{{len(data)}}", "w").close()
    if len(data) > 7000:
        {when_hidden}
    return [2 * x for x in data]
"""


def told(folder: Path) -> str:
    """The texts of all files that a job leaves, but for its specification, which no user of a service reads."""
    return "\n".join(
        path.read_text(errors="replace")
        for path in folder.rglob("*")
        if path.is_file() and path.name != "job.json" and path.suffix != ".pyz"
    )


def specs(result: Result) -> list[tuple[str, str, Verdict]]:
    """The phase, the text and the verdict of each case."""
    return [(case.phase, case.spec, case.verdict) for case in result.cases]


def test_the_peak_of_memory_is_that_of_before_the_first_hidden_case(tmp_path: Path) -> None:
    done = evaluate(tmp_path, kernel("held = bytearray(b'1') * 400_000_000"), TASK, Mode.RANKED)
    assert done.result.verdict is Verdict.PASS, done.result.message
    assert 0 < done.result.provenance[MEMORY_PEAK_BYTES] < 400_000_000


def test_a_ranked_run_judges_hidden_cases_last_and_scores_their_benchmarks(tmp_path: Path) -> None:
    done = evaluate(tmp_path, kernel("pass"), TASK, Mode.RANKED)

    result = done.result
    assert result.verdict is Verdict.PASS, result.message
    assert [text for _, text, _ in specs(result)[3:]] == [
        "hidden case 1",
        "hidden case 2",
        "size: 100; seed: 4",
        "size: 1000; seed: 5",
        "hidden case 1",
    ]
    times = [case.timing.time_ns / 1e9 for case in result.cases if case.timing]
    assert len(times) == 3
    assert result.score_s == pytest.approx((times[0] * times[1] * times[2]) ** (1 / 3))
    assert "size 1000" in result.stdout.text
    assert result.provenance["hidden_output"] == "not kept from the first hidden case on"
    assert all(case.work is None for case in result.cases if case.is_hidden)
    assert [case.work is not None for case in result.cases if case.phase == "benchmark"] == [True, True, False]
    assert not HIDDEN_NUMBERS.findall(told(done.folder))


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [
        ("return [len(data)] * len(data)", Verdict.WRONG_DTYPE),
        ("return [float(len(data)) for x in data]", Verdict.WRONG_VALUE),
        ("raise ValueError(len(data))", Verdict.EXCEPTION),
        ("sys.stderr.write(str(len(data))); os.abort()", Verdict.CRASH),
    ],
)
def test_a_failed_hidden_case_tells_its_verdict_and_nothing_else(tmp_path: Path, fault: str, verdict: Verdict) -> None:
    done = evaluate(tmp_path, kernel(fault), TASK, Mode.RANKED)

    result = done.result
    assert (result.verdict, result.message) == (verdict, f"test case 5 (hidden case 2): {HIDDEN_MESSAGE}")
    assert ("test", "hidden case 2", verdict) in specs(result)
    assert sum(case.phase == "benchmark" for case in result.cases) == 2
    assert result.score_s is None
    assert not HIDDEN_NUMBERS.findall(told(done.folder))


def test_an_error_of_the_reference_in_a_hidden_case_tells_no_inputs(tmp_path: Path) -> None:
    reference = TELLING.replace("rng =", "if size > 7000: raise ValueError(size)\n    rng =")
    task = a_task(reference, hidden_benchmarks=TASK.hidden_benchmarks)

    done = evaluate(tmp_path, RIGHT, task, Mode.RANKED)

    assert done.result.verdict is Verdict.TASK_ERROR
    assert done.result.message == f"benchmark case 3 (hidden case 1): {HIDDEN_MESSAGE}"
    assert not HIDDEN_NUMBERS.findall(told(done.folder))


@pytest.mark.parametrize("mode", [Mode.TEST, Mode.BENCHMARK])
def test_other_modes_do_not_receive_hidden_cases(tmp_path: Path, mode: Mode) -> None:
    done = evaluate(tmp_path, RIGHT, TASK, mode)

    assert done.result.verdict is Verdict.PASS
    assert not any(case.is_hidden for case in done.result.cases)
    assert not [key for key in json.loads((done.folder / "job.json").read_text())["task"] if "hidden" in key]
