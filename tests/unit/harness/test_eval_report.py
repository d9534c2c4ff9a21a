"""The report of a task's own eval, in pieces of any size."""

import pytest

from hpc_board.harness.own_eval.report import REPORT_BYTES_MAX, Ended, Report, Stage, by_status, failure, reported
from hpc_board.model.result import Verdict

TOLD = b"check: fail\ntest.0.status: fail\ntest.0.error: first\nsecond: line\nlast: word"


def test_a_report_is_the_same_in_one_piece_and_byte_by_byte() -> None:
    whole, slow = Report(), Report()
    whole.add(TOLD)
    for byte in TOLD:
        slow.add(bytes([byte]))
    for report in (whole, slow):
        report.end()
        assert report.word("check") == "fail"
        assert report.failed == "test.0"
    assert whole.text("test.0.error") == slow.text("test.0.error")
    assert whole.text("test.0.error").startswith("first")


def test_a_long_line_that_comes_byte_by_byte_is_read_to_its_end() -> None:
    report = Report()
    for _ in range(REPORT_BYTES_MAX):
        report.add(b"x")
    assert not report.too_large
    report.add(b"x")
    assert report.too_large


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ("mean: 1e6", ""),
        ("mean: -3", "mean is -3"),
        ("mean: 0", "mean is 0"),
        ("mean: inf", "mean is inf"),
        ("mean: fast", "mean is 'fast'"),
        ("mean: 1e6|runs: 0", "runs is 0"),
        ("mean: 1e6|best: 2e6|worst: 3e6", "is not between"),
        ("mean: 1001|best: 9e8|worst: 9e8", "is not between"),
        ("mean: 9e299|runs: 1000000000", "mean is 9e+299"),
    ],
)
def test_times_that_are_none_are_a_violation(times: str, words: str) -> None:
    report = Report()
    report.add("".join(f"benchmark.0.{line}\n" for line in times.split("|")).encode())
    (case,) = reported(report, Stage("benchmark", "benchmark", ((0, {"size": 100}),), 1.0), 100.0)
    assert case.verdict is (Verdict.PROTOCOL_VIOLATION if words else Verdict.PASS)
    assert words in case.message


GOOD = "test.0.status: pass"


@pytest.mark.parametrize(
    ("lines", "verdict", "words"),
    [
        ([GOOD, "check: fail"], Verdict.WRONG_VALUE, "the task's check reports a wrong output"),
        (["test-count: 0", "check: pass"], Verdict.PROTOCOL_VIOLATION, "reported 0, and counted 0"),
        ([GOOD, "test.1.status: pass", "check: pass"], Verdict.PROTOCOL_VIOLATION, "reported 2"),
        ([GOOD, "check: fail", "check: pass"], Verdict.PROTOCOL_VIOLATION, "it reported check twice"),
        ([GOOD, GOOD, "check: pass"], Verdict.PROTOCOL_VIOLATION, "test.0.status twice"),
    ],
)
def test_a_report_that_is_not_whole_fails_its_stage(lines: list[str], verdict: Verdict, words: str) -> None:
    report = Report()
    report.add("".join(f"{line}\n" for line in lines).encode())
    stage = Stage("test", "test", ((0, {"size": 3}),), 1.0)
    failed = failure(report, stage, reported(report, stage, 100.0), Ended(0, 1.0))
    assert failed is not None
    assert (failed.verdict, words in failed.message) == (verdict, True), failed.message


@pytest.mark.parametrize("status", [2, 111, 113])
def test_an_eval_that_has_begun_to_report_blames_neither_task_nor_node_by_its_status(status: int) -> None:
    failed = by_status(Stage("test", "test", (), 1.0), Ended(status, 1.0), begun=True)
    assert (failed.verdict, f"(exit status {status}" in failed.message) == (Verdict.CRASH, True)
