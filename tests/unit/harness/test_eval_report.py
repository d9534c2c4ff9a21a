"""The report of a task's own eval, in pieces of any size."""

from hpc_board.harness.own_eval.report import REPORT_BYTES_MAX, Report

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
