"""Evals of KernelBot's first generation, which print a score."""

from pathlib import Path

import pytest

from hpc_board.harness.own_eval.report import Scores
from hpc_board.model.eval_program import eval_program
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from tests.harness.evaluations import RIGHT
from tests.harness.own_evals import judged, scoring_task


@pytest.mark.parametrize("mode", [Mode.TEST, Mode.BENCHMARK, Mode.RANKED])
def test_the_score_that_it_prints_is_the_time(tmp_path: Path, mode: Mode) -> None:
    result = judged(tmp_path, RIGHT, scoring_task(), mode).result
    assert (result.verdict, result.message) == (Verdict.PASS, "")
    assert [case.phase for case in result.cases] == {
        Mode.TEST: ["test"],
        Mode.BENCHMARK: ["benchmark"],
        Mode.RANKED: ["test", "benchmark"],
    }[mode]
    if mode is not Mode.TEST:
        assert result.score_s is not None
        assert f"score:{result.score_s:.9f}" in result.stdout.text


@pytest.mark.parametrize(
    ("submission", "verdict", "words"),
    [
        ("def custom_kernel(data):\n    return data\n", Verdict.WRONG_VALUE, "AssertionError: wrong"),
        (f"print('check_implementation failed')\n{RIGHT}", Verdict.WRONG_VALUE, "check reports a wrong output"),
        (f"print('score: 0.000001')\n{RIGHT}", Verdict.PROTOCOL_VIOLATION, "more than one line"),
        (f"import os\nos._exit(0)\n{RIGHT}", Verdict.CRASH, "it printed no line"),
        (f"import os\nprint('score: 99.5', flush=True)\nos._exit(0)\n{RIGHT}", Verdict.TIMING_INCONSISTENT, "99.5 s"),
        (f"import os\nprint('score: 0.0', flush=True)\nos._exit(0)\n{RIGHT}", Verdict.BELOW_FLOOR, "less than 100 ns"),
        (f"import os\nos.kill(os.getpid(), 9)\n{RIGHT}", Verdict.CRASH, "signal 9"),
        ("def custom_kernel(data):\n    raise ValueError('no')\n", Verdict.EXCEPTION, "ValueError: no"),
    ],
)
def test_a_run_without_one_score_has_not_passed(tmp_path: Path, submission: str, verdict: Verdict, words: str) -> None:
    result = judged(tmp_path, submission, scoring_task(), Mode.RANKED).result
    assert result.verdict is verdict
    assert words in result.message
    assert result.score_s is None


def test_it_has_no_profile(tmp_path: Path) -> None:
    assert judged(tmp_path, RIGHT, scoring_task(), Mode.PROFILE).result.verdict is Verdict.TASK_ERROR


def test_scores_are_found_wherever_the_stream_is_cut() -> None:
    for cut in range(30):
        text = b"warming up\nscore: 0.25\nscore: high\n" + b"x" * 30
        scores = Scores()
        scores.add(text[:cut])
        scores.add(text[cut:])
        scores.end()
        assert scores.seconds == [0.25]


def test_one_score_fits_one_benchmark() -> None:
    program, faults = eval_program(scoring_task(benchmarks=({}, {})))
    assert program.prints_score
    assert faults == [("benchmarks", "must have one entry for an eval that prints one score")]
