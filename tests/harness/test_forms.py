"""The form of an output: another nesting is refused, the type and the shape of numbers are the task's to judge."""

from pathlib import Path

import pytest

from hpc_board.harness.judge.judge import layout_difference
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from tests.harness.evaluations import QUICK, a_task, evaluate

pytest.importorskip("numpy")

TOTALS = """
import numpy as np

def generate_input(size, seed):
    return np.random.default_rng(seed).uniform(1, 2, size).astype(np.float32)

def ref_kernel(data):
    return np.cumsum(data.astype(np.float64))

def check_implementation(data, output):
    expected = ref_kernel(data)
    if output.shape != expected.shape:
        raise ValueError(f"cannot compare with {output.shape}")
    return bool(np.allclose(output, expected, rtol=1e-4)), "not the running totals"
"""
"""A reference that returns float64, for answers that are float32."""

LENIENT = TOTALS.replace("if output.shape != expected.shape", "if False")


def kernel(expression: str) -> str:
    return f"import numpy as np\ndef custom_kernel(data):\n    return {expression}\n"


def test_an_answer_of_a_type_that_the_check_takes_is_ranked(tmp_path: Path) -> None:
    result = evaluate(tmp_path, kernel("np.cumsum(data)"), a_task(TOTALS, limits=QUICK), Mode.RANKED).result
    assert result.verdict is Verdict.PASS, result.message


@pytest.mark.parametrize(
    ("reference", "expression", "verdict", "words"),
    [
        (TOTALS, "data", Verdict.WRONG_DTYPE, "has the type float32, expected float64; not the running totals"),
        (
            TOTALS,
            "np.cumsum(data)[None]",
            Verdict.WRONG_SHAPE,
            "has the shape (1, 3), expected (3,); the check fails on it: ValueError: cannot compare with (1, 3)",
        ),
        (TOTALS, "np.cumsum(data).tolist()", Verdict.WRONG_DTYPE, "is a list, expected an array"),
        (LENIENT, "np.cumsum(data)[None]", Verdict.PASS, ""),
        (LENIENT, "np.cumsum(data)[:1]", Verdict.WRONG_SHAPE, "has the shape (1,), expected (3,)"),
        (LENIENT, "np.cumsum(data)[:, None]", Verdict.WRONG_SHAPE, "has the shape (3, 1), expected (3,)"),
    ],
    ids=["wrong", "the check fails", "nesting", "another shape", "fewer numbers", "broadcasts to more"],
)
def test_what_the_check_does_not_take_is_named_by_its_form(
    tmp_path: Path, reference: str, expression: str, verdict: Verdict, words: str
) -> None:
    task = a_task(reference, tests=({"size": 3, "seed": 1},))
    result = evaluate(tmp_path, kernel(expression), task).result
    assert result.verdict is verdict, result.message
    assert words in result.message


def test_a_check_that_fails_on_an_output_of_the_right_form_is_the_task_s_fault(tmp_path: Path) -> None:
    broken = TOTALS.replace("if output.shape != expected.shape", "if True")
    result = evaluate(tmp_path, kernel("np.cumsum(data.astype('f8'))"), a_task(broken)).result
    assert result.verdict is Verdict.TASK_ERROR


@pytest.mark.parametrize(
    ("got", "expected", "final"),
    [
        ((0,), (), True),
        ((0,), (1,), True),
        ((1,), (2, 3), True),
        ((3, 1), (2, 3), True),
        ((6, 1), (6,), True),
        ((6,), (6, 1), True),
        ((1,), (), False),
        ((6,), (1, 6), False),
        ((6,), (2, 3), False),
        ((3, 2), (2, 3), False),
        ((2, 6), (6,), False),
        ((8,), (6,), False),
        ((0, 5), (0,), False),
    ],
)
def test_a_shape_is_final_where_a_check_would_compare_what_is_not_there(
    got: tuple[int, ...], expected: tuple[int, ...], final: bool
) -> None:
    shapes = ({"k": "tensor", "dtype": "float32", "shape": list(shape)} for shape in (expected, got))
    difference = layout_difference(*shapes)
    assert difference is not None
    assert (difference.verdict, difference.final) == (Verdict.WRONG_SHAPE, final)
