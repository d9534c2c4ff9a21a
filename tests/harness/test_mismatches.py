"""The details of wrong values: by the comparison of the task's check, of tensors and arrays, by the real harness."""

import importlib
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hpc_board import bundled
from hpc_board.harness.judge import mismatches
from hpc_board.harness.judge.comparisons import Comparison, Comparisons
from hpc_board.harness.judge.mismatches import mismatch, parts_of
from hpc_board.model.mismatch import Mismatch
from hpc_board.model.result import PUBLIC_PASSED, Verdict
from hpc_board.model.task import Mode, Task, TaskFile
from tests.harness.evaluations import a_task, evaluate

torch: Any = None
numpy: Any = None
pytestmark = pytest.mark.torch

FOREVER = float("inf")

MATRIX = """
import torch
from utils import {imports}

def generate_input(rows, columns, seed):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))

def ref_kernel(data):
    return 2 * data + 1

{check}
"""
CHECK = "def check_implementation(data, output):\n    return {answer}\n"


@pytest.fixture(scope="module", autouse=True)
def libraries() -> None:
    """Import the libraries for the tests alone: every worker collects this file, and PyTorch takes a second."""
    globals().update(torch=importlib.import_module("torch"), numpy=importlib.import_module("numpy"))


def test_errors_beyond_the_range_of_a_float_are_left_out() -> None:
    got, expected = torch.full((3,), 1.7e308, dtype=torch.float64), torch.full((3,), 0.5, dtype=torch.float64)
    found = mismatch(Comparison(got, expected), "", shown=True, deadline=FOREVER)
    assert found is not None
    assert (found.largest_absolute, found.largest_relative) == (1.7e308, None)


def starter_utils() -> str:
    return (bundled.folder("task_starter") / "utils.py").read_text()


def matrix_task(check: str, imports: str = "verbose_allclose") -> Task:
    """A task on a matrix of 50 x 40, with the starter's `utils.py`."""
    reference = MATRIX.format(imports=imports, check=check)
    files = {"reference.py": reference, "utils.py": starter_utils(), "task.py": "X = 1\n"}
    return a_task(
        reference,
        files=(TaskFile("submission.py", None), *(TaskFile(*each) for each in files.items())),
        tests=({"rows": 50, "columns": 40, "seed": 1},),
        benchmarks=({"rows": 50, "columns": 40, "seed": 2},),
    )


def kernel(change: str) -> str:
    return f"import torch\ndef custom_kernel(data):\n    out = 2 * data + 1\n    {change}\n    return out\n"


OWN_CHECK = CHECK.format(answer="bool(((output - (2 * data + 1)).abs() < 1e-3).all())")
CLOSE = CHECK.format(answer="(lambda told: (told[0], str(told[1])))(verbose_allclose(output, ref_kernel(data)))")


@pytest.mark.parametrize(
    ("check", "imports"),
    [
        (CLOSE, "verbose_allclose"),
        (CHECK.format(answer="close(output, 2 * data.double() + 1, 1e-3 + 1e-4 * data.double().abs())"), "close"),
        ("check_implementation = make_match_reference(ref_kernel, rtol=1e-4, atol=1e-4)", "make_match_reference"),
        (CHECK.format(answer="torch.allclose(output, ref_kernel(data), rtol=1e-4)"), "misfit"),
        (CHECK.format(answer="torch.equal(ref_kernel(data), output)"), "misfit"),
    ],
)
def test_a_wrong_output_has_its_share_its_errors_and_its_places(tmp_path: Path, check: str, imports: str) -> None:
    done = evaluate(tmp_path, kernel("out[-37:] += 5"), matrix_task(check, imports))
    (case,) = done.result.cases
    found = case.mismatch
    assert case.verdict is Verdict.WRONG_VALUE
    assert found is not None
    assert (found.shape, found.elements, found.wrong, found.part) == ((50, 40), 2000, 1480, "")
    assert found.pattern == "the last 37 rows"
    assert found.largest_absolute == pytest.approx(5, rel=1e-4)
    assert [place.index for place in found.places] == [(13, column) for column in range(10)]
    assert all(float(each.got) - float(each.expected) == pytest.approx(5, rel=1e-4) for each in found.places)


def test_a_check_of_its_own_has_the_largest_errors_and_no_share(tmp_path: Path) -> None:
    done = evaluate(tmp_path, kernel("out[3, 5] += 2; out[7, 1] += 3"), matrix_task(OWN_CHECK))
    found = done.result.cases[0].mismatch
    assert found is not None
    assert (found.wrong, found.pattern) == (None, "")
    assert [place.index for place in found.places][:2] == [(7, 1), (3, 5)]
    assert found.largest_absolute == pytest.approx(3, rel=1e-4)


ONLY_PUBLIC = (
    "seen = torch.randn(50, 40, generator=torch.Generator().manual_seed(1))\n"
    "    out[-37:] += 0 if torch.equal(data, seen) else 5"
)


@pytest.mark.parametrize(
    ("check", "change", "mode", "told"),
    [
        (CLOSE, ONLY_PUBLIC, Mode.RANKED, Mismatch((50, 40), 2000, 1480, "the last 37 rows")),
        (CLOSE, "out[:, ::2] += 5", Mode.BENCHMARK, Mismatch((50, 40), 2000, 1000, "every 2nd column from 0 to 38")),
        (OWN_CHECK, "out += 5", Mode.BENCHMARK, None),
    ],
    ids=["a secret seed", "a benchmark", "a check of its own"],
)
def test_a_failure_on_secret_inputs_tells_share_and_pattern_at_most_and_no_value(
    tmp_path: Path, check: str, change: str, mode: Mode, told: Mismatch | None
) -> None:
    case = evaluate(tmp_path, kernel(change), matrix_task(check), mode).result.cases[0]
    assert (case.verdict, case.mismatch) == (Verdict.WRONG_VALUE, told)
    assert case.message.startswith(PUBLIC_PASSED) is (mode is Mode.RANKED)


def test_a_slow_reference_is_not_asked_again(tmp_path: Path) -> None:
    slow = "import time\nfast = ref_kernel\ndef ref_kernel(data):\n    time.sleep(1)\n    return fast(data)\n"
    task = matrix_task(slow + CHECK.format(answer="False"))
    done = evaluate(tmp_path, kernel("out += 5"), replace(task, limits={**task.limits, "judge_seconds": 3}))
    assert (done.result.cases[0].verdict, done.result.cases[0].mismatch) == (Verdict.WRONG_VALUE, None)


# Comparisons of a check


def comparisons(tmp_path: Path, source: str, output: Any) -> Comparison | None:
    """The comparison that failed in `check(output)` of a reference."""
    path = tmp_path / "reference.py"
    path.write_text(source)
    reference = ModuleType("reference")
    exec(compile(source, str(path), "exec"), vars(reference))  # noqa: S102 - a task's reference
    found = Comparisons(reference, str(tmp_path))
    with found.of(parts_of(output)):
        vars(reference)["check"](output)
    assert vars(torch)["allclose"].__name__ == "allclose"
    return found.failed


def test_the_part_of_a_tuple_that_is_wrong_is_named() -> None:
    output = (torch.zeros(4), torch.ones(4))
    assert mismatches.part_name(output, output[1]) == "output[1]"
    assert mismatches.part_name(output[0], output[0]) == ""


def test_functions_of_a_library_with_known_names_are_not_taken_for_checks(tmp_path: Path) -> None:
    source = "from operator import eq as equal\ndef check(output):\n    return equal(1, 2)\n"
    assert comparisons(tmp_path, source, torch.ones(2)) is None


def test_a_decorated_function_of_a_check_is_known(tmp_path: Path) -> None:
    source = (
        "import torch\n@torch.no_grad()\ndef verbose_allclose(received, expected, rtol=1e-5, atol=1e-8, max_print=5):\n"
        "    return [] if bool((received == expected).all()) else ['ERROR']\n"
        "def check(output):\n    return verbose_allclose(output, torch.zeros(2), rtol=1e-3, atol=1e-2)\n"
    )
    output = torch.ones(2)
    found = comparisons(tmp_path, source, output)
    assert found is not None
    assert (found.got is output, found.rtol, found.atol, found.nans) == (True, 1e-3, 1e-2, True)


def test_a_comparison_of_other_tensors_is_not_taken_for_that_of_the_output(tmp_path: Path) -> None:
    source = "import torch\ndef check(output):\n    return torch.allclose(torch.ones(2), torch.zeros(2))\n"
    assert comparisons(tmp_path, source, torch.ones(2)) is None


@pytest.mark.parametrize(
    ("close", "check"),
    [
        ("def close(a, b): return (a - b).abs() < 1e-3", "close(output, ref_kernel(data)).all()"),
        ("def close(a, b): return bool(((a - b).abs() < 1e-3).all())", "close(output, ref_kernel(data))"),
        ("def close(a): return ()", "close(output) == () and torch.equal(output, ref_kernel(data))"),
    ],
)
def test_a_function_of_a_known_name_that_compares_in_its_own_way_breaks_no_check(
    tmp_path: Path, close: str, check: str
) -> None:
    task = matrix_task(f"{close}\n{CHECK.format(answer=f'bool({check})')}")
    assert evaluate(tmp_path / "right", kernel("pass"), task).result.verdict is Verdict.PASS
    result = evaluate(tmp_path / "wrong", kernel("out += 5"), task).result
    assert result.verdict is Verdict.WRONG_VALUE, result.message
    assert result.cases[0].mismatch is not None


def test_the_first_failing_comparison_counts(tmp_path: Path) -> None:
    source = (
        "import torch\ndef equal(output, expected):\n    return torch.equal(output, expected), 'x'\n"
        "def check(output):\n    return all([equal(output, output)[0], equal(output, output + 1)[0]])\n"
    )
    output = torch.ones(2)
    found = comparisons(tmp_path, source, output)
    assert found is not None
    assert (found.got is output, found.exact) == (True, True)


# The details of a comparison


def both(values: Callable[[Any], tuple[Any, Any]], **how: Any) -> list[Mismatch | None]:
    """The details of a comparison of tensors, and of arrays."""
    found = []
    for library in (torch, numpy):
        got, expected = values(library)
        found.append(mismatch(Comparison(got, expected, **how), "", shown=True, deadline=FOREVER))
    return found


def test_tensors_and_arrays_have_the_same_details(monkeypatch: pytest.MonkeyPatch) -> None:
    def values(library: Any) -> tuple[Any, Any]:
        numbers = numpy.arange(24, dtype=numpy.float32).reshape(4, 6)
        wrong = numbers.copy()
        wrong[:, 3] = numpy.nan
        wrong[2, 3] = 0
        make = torch.from_numpy if library is torch else numpy.asarray
        return make(wrong), make(numbers)

    monkeypatch.setattr(mismatches, "_PIECE", 5)
    one, other = both(values, atol=1e-3)
    assert one == other
    assert one is not None
    assert (one.wrong, one.pattern, one.largest_absolute, one.largest_relative) == (4, "one column, 3", 15.0, 1.0)
    assert [(each.index, each.got, each.expected) for each in one.places] == [
        ((0, 3), "nan", "3"),
        ((1, 3), "nan", "9"),
        ((2, 3), "0", "15"),
        ((3, 3), "nan", "21"),
    ]


@pytest.mark.parametrize(
    ("got", "expected", "how", "wrong"),
    [
        ([float("inf"), 1.0], [float("inf"), 2.0], {"atol": 0.1}, 1),
        ([float("nan"), 1.0], [float("nan"), 2.0], {"atol": 0.1}, 2),
        ([float("nan"), 1.0], [float("nan"), 2.0], {"atol": 0.1, "nans": True}, 1),
        ([1.0, 1.0], [float("inf"), 2.0], {"rtol": 0.1}, 2),
        ([1, 2**60 + 1], [1, 2**60], {"exact": True}, 1),
        ([True, False], [True, True], {"exact": True}, 1),
        ([1 + 1j, 1j], [1 + 1j, 2j], {"atol": 0.1}, 1),
    ],
)
def test_an_element_is_wrong_by_the_rule_of_the_check(got: Any, expected: Any, how: Any, wrong: int) -> None:
    for found in both(lambda library: (library.asarray(got), library.asarray(expected)), **how):
        assert found is not None
        assert found.wrong == wrong


def test_a_tolerance_of_each_element_counts() -> None:
    got, expected = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.5, 2.5, 3.5], dtype=torch.float64)
    for tolerance, wrong in ((torch.tensor([1.0, 0.1, 0.1]), 2), (torch.tensor(0.1), 3), (0.1, 3)):
        found = mismatch(Comparison(got, expected, tolerance=tolerance), "", shown=True, deadline=FOREVER)
        assert found is not None
        assert found.wrong == wrong


def test_what_cannot_be_compared_has_no_details() -> None:
    for got, expected in (
        ([1.0], [2.0]),
        (torch.ones(2), torch.ones(3)),
        (torch.ones(0), torch.ones(0)),
        (torch.ones(2), numpy.ones(2)),
        (numpy.array(["a", "b"]), numpy.array(["a", "c"])),
        (torch.ones(3), torch.ones(3)),
    ):
        assert mismatch(Comparison(got, expected, atol=0.1), "", shown=True, deadline=FOREVER) is None


def test_details_that_take_too_long_are_left_out() -> None:
    late = Comparison(torch.zeros(10), torch.ones(10), exact=True)
    assert mismatch(late, "", shown=True, deadline=time.monotonic() - 1) is None


def test_a_search_for_a_pattern_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count()
    monkeypatch.setattr(mismatches, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    scattered = torch.zeros(2**16)
    scattered[torch.randperm(2**16, generator=torch.Generator().manual_seed(1))[:1000]] = 1
    found = mismatch(Comparison(scattered, torch.zeros(2**16), exact=True), "", shown=True, deadline=20)
    assert found is not None
    assert (found.wrong, found.pattern, len(found.places)) == (1000, "", 10)
    assert next(clock) == 22


def test_a_large_output_has_no_mask_and_no_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mismatches, "_MASKED_MAX", 9)
    found = mismatch(Comparison(torch.zeros(10), torch.ones(10), exact=True), "", shown=True, deadline=FOREVER)
    assert found is not None
    assert (found.wrong, found.pattern, found.places[9].index) == (10, "", (9,))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "uint16", "int8"])
def test_every_usual_type_of_numbers_has_details(dtype: str) -> None:
    got = torch.tensor([1, 2, 3]).to(getattr(torch, dtype))
    expected = torch.tensor([1, 2, 1]).to(getattr(torch, dtype))
    found = mismatch(Comparison(got, expected, atol=0.1), "", shown=True, deadline=FOREVER)
    assert found is not None
    assert (found.wrong, found.largest_absolute, found.places[0].index) == (1, 2.0, (2,))


def test_the_utilities_of_bundled_tasks_have_a_known_form() -> None:
    sys.path.insert(0, str(bundled.folder("tasks")))
    try:
        import utils  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
        sys.modules.pop("utils", None)
    reference = ModuleType("reference")
    vars(reference).update(vars(utils))
    found = Comparisons(reference, str(bundled.folder("tasks")))
    with found.of([]):
        vars(reference)["close"](torch.ones(3), torch.zeros(3), torch.full((3,), 0.5))
    assert found.failed is not None
    assert found.failed.tolerance is not None
