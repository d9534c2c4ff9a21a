"""Lies about the answers of a row, each around an honest kernel: they work as they are meant to, and gain nothing.

`make bench-lies` measures their times.
"""

from pathlib import Path

import pytest

from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from tests.harness.adversarial.shapes import SHAPES
from tests.harness.adversarial.wrappers import wrapped
from tests.harness.evaluations import evaluate


@pytest.mark.torch
@pytest.mark.parametrize(
    ("lie", "verdict", "told"),
    [
        ("skips the harness around its calls", Verdict.PASS, ""),
        ("answers a row by a message of its own", Verdict.PASS, ""),
        ("names its inputs as its answers", Verdict.PROTOCOL_VIOLATION, "is in the memory of an input"),
        ("names parts of its inputs as parts of its answers", Verdict.PROTOCOL_VIOLATION, "number of outputs differs"),
        ("names a second mapping of its inputs", Verdict.PROTOCOL_VIOLATION, "is in the memory of an input"),
        ("names one answer for all calls", Verdict.PASS, "returns the same memory each time"),
        ("names fewer answers than calls", Verdict.PROTOCOL_VIOLATION, "number of outputs differs"),
        (
            "writes answers with a gap in place of a row's blocks",
            Verdict.PROTOCOL_VIOLATION,
            "number of outputs differs",
        ),
        ("returns its answers in a file", Verdict.PASS, ""),
        ("answers with more and more bytes", Verdict.WRONG_SHAPE, "the output has the shape"),
    ],
)
def test_a_lie_about_the_answers_of_a_row_is_a_violation_or_passes(
    tmp_path: Path, lie: str, verdict: Verdict, told: str
) -> None:
    task, kernel = SHAPES["gather"]
    result = evaluate(tmp_path, wrapped(kernel, lie), task, Mode.BENCHMARK).result
    assert result.verdict is verdict, result.message
    assert told in "".join([result.message, *(case.message for case in result.cases)])
