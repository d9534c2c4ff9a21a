"""The linter: the real harness asks the real judge of broken tasks, and every fault is found and named."""

import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hpc_board import bundled
from hpc_board.catalog.folders import read_task
from hpc_board.domain.diagnostic import Severity
from hpc_board.errors import BoardError
from hpc_board.harness.lint.prober import coarse, filled, mapped, rounded, with_mean, with_wrong_end
from hpc_board.model.lint import PROBES
from hpc_board.model.task import Mode, Task
from hpc_board.runs import job_folder
from hpc_board.task_check.lint import Bounds, Checked, check
from tests.harness.evaluations import a_task, make_job_folder

SOUND = """
import random

def generate_input(size, seed):
    rng = random.Random(seed)
    return [rng.uniform(-2, 2) for _ in range(size)]

def ref_kernel(data):
    return [x * x + 1 for x in data]

def check_implementation(data, output):
    for index, (got, expected) in enumerate(zip(output, ref_kernel(data))):
        if not abs(got - expected) <= 1e-9 * expected:
            return False, f"at {index}: {got} instead of {expected}"
    return True, ""
"""

TENSORS = """
import torch

def generate_input(size, seed):
    generator = torch.Generator(device=torch.get_default_device()).manual_seed(seed)
    return torch.randn(size, generator=generator), torch.randn(size, generator=generator)

def ref_kernel(data):
    a, b = data
    return a + b

def check_implementation(data, output):
    if output.dtype != torch.float32 or output.shape != data[0].shape:
        return False, f"{output.dtype} of the shape {output.shape}"
    wrong = int((~((output - ref_kernel(data)).abs() <= 1e-6 * (data[0].abs() + data[1].abs()))).sum())
    return wrong == 0, f"{wrong} elements are wrong"
"""

ARRAYS = """
import numpy as np

def generate_input(size, seed):
    return tuple(np.random.default_rng(seed).standard_normal((2, size), dtype=np.float32))

def ref_kernel(data):
    a, b = data
    return a + b

def check_implementation(data, output):
    if output.dtype != np.float32 or output.shape != data[0].shape:
        return False, f"{output.dtype} of the shape {output.shape}"
    wrong = int((~(abs(output - ref_kernel(data)) <= 1e-6 * (abs(data[0]) + abs(data[1])))).sum())
    return wrong == 0, f"{wrong} elements are wrong"
"""

CHEAP = {
    "accepts_zeros",
    "accepts_mean",
    "accepts_one_element",
    "accepts_inputs_tf32",
    "accepts_inputs_float16",
}

FEW = {"tests": ({"size": 7, "seed": 1},), "benchmarks": ({"size": 100, "seed": 2},)}


def checked(reference: str, bounds: Bounds | None = None, **changes: Any) -> Checked:
    return check(a_task(reference, **{**FEW, **changes}), bounds or Bounds(seconds=60))


def changed(old: str, new: str, reference: str = SOUND) -> str:
    assert old in reference
    return reference.replace(old, new)


def errors(found: Checked) -> set[str]:
    return {finding.subject for finding in found.findings if finding.severity is Severity.ERROR}


def warnings(found: Checked) -> set[str]:
    return {finding.subject for finding in found.findings if finding.severity is Severity.WARNING}


def said(found: Checked, code: str) -> str:
    return next(finding.message for finding in found.findings if finding.subject == code)


def test_a_sound_task_is_asked_everything_and_nothing_is_found() -> None:
    found = checked(SOUND, tests=({"size": 7, "seed": 1}, {"size": 1, "seed": 3}))
    assert (found.findings, found.lint.message, found.lint.left_out) == ((), "", ())
    assert [case.name for case in found.lint.cases] == ["test 1", "test 2", "benchmark 1"]
    unlike = {"input_2", "input_3", "input_4"}
    assert {probed.probe for probed in found.lint.cases[0].probed} == set(PROBES) - unlike
    verdicts = {probed.probe: probed.verdict for probed in found.lint.cases[0].probed}
    assert (verdicts["zeros"], verdicts["nan"]) == ("wrong_value", "wrong_nonfinite")


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        ("<= 1e-9 * expected", "<= 1000", CHEAP),
        ("if not abs(got - expected) <= 1e-9 * expected", "if False", CHEAP | {"accepts_nan"}),
        ("if not abs(got - expected) <= 1e-9 * expected", "if abs(got - expected) > 1e-9", {"accepts_nan"}),
        ("<= 1e-9 * expected", "<= 1e-3 * expected", {"accepts_inputs_tf32", "accepts_inputs_float16"}),
        ("zip(output, ref_kernel(data))", "zip(output[:-1], ref_kernel(data))", {"accepts_one_element"}),
    ],
    ids=["huge tolerance", "anything", "NaN", "half precision", "not the last"],
)
def test_a_check_that_is_too_lenient_is_found(old: str, new: str, codes: set[str]) -> None:
    found = checked(changed(old, new))
    assert codes <= errors(found)
    assert not found.passed
    if codes == CHEAP:
        assert "accepts_nan" not in errors(found)


def test_a_check_that_takes_a_few_wrong_elements_has_to_say_so() -> None:
    lenient = """
def check_implementation(data, output):
    wrong = sum(not abs(got - right) <= 1e-9 * right for got, right in zip(output, ref_kernel(data)))
    return wrong <= 1, f"{wrong} are wrong"
"""
    found = checked(SOUND.partition("def check")[0] + lenient)
    assert errors(found) == {"accepts_one_element"}
    assert checked(SOUND.partition("def check")[0] + lenient, accepts=("one_element",)).passed


def test_an_answer_that_lies_in_the_inputs_is_found_unless_it_is_right() -> None:
    copying = changed("return [x * x + 1 for x in data]", "return list(data)")
    copying = changed("1e-9 * expected", "1e-9 * abs(expected)", copying)
    assert checked(copying).findings == ()
    close = changed("return list(data)", "return [x + 1e-10 for x in data]", copying)
    close = changed("1e-9 * abs(expected)", "1e-9", close)
    assert errors(checked(close)) == {"accepts_input_1"}
    assert checked(close, accepts=("input",)).passed


def test_a_check_that_refuses_the_reference_is_found_and_says_why() -> None:
    found = checked(changed("abs(got - expected)", "abs(got - expected - 1)"))
    assert errors(found) == {"refuses_reference"}
    assert "instead of" in said(found, "refuses_reference")
    assert [probed.probe for probed in found.lint.cases[0].probed] == ["reference"]


@pytest.mark.parametrize(
    ("reference", "code", "words"),
    [
        (changed("random.Random(seed)", "random.SystemRandom()"), "random_inputs", "test 1 (size: 7; seed: 1) and 1"),
        (changed("random.Random(seed)", "random.Random(5)"), "ignores_seed", "a different seed"),
        (changed("return False", "raise KeyError(index)\n            return False"), "raises", "on zeros and"),
        (changed("return True, ", "return None, None, "), "raises", "the reference's answer"),
        (changed("rng.uniform(-2, 2)", "rng.unifrom(-2, 2)"), "raises", "unifrom"),
        (
            changed("    for index", "    import time; time.sleep(99)\n    for index"),
            "lost",
            "did not check the output within 3 s",
        ),
        (changed("    rng =", "    import time; time.sleep(99)\n    rng ="), "lost", "did not generate the inputs"),
        (changed("    return [x", "    while True: pass\n    return [x"), "lost", "the reference's answer within"),
        (changed("    for index", "    import os; os._exit(3)\n    for index"), "lost", "exited with status 3"),
        (
            changed("    return [x", "    import os; assert 'prober' not in os.environ['HOME']\n    return [x"),
            "raises",
            "ref_kernel failed: AssertionError",
        ),
        ("import nothing_of_this_name\n" + SOUND, "unusable", "nothing_of_this_name"),
    ],
    ids=[
        "random inputs",
        "seed ignored",
        "check raises on what is wrong",
        "check answers nonsense",
        "generator raises",
        "check hangs",
        "generator hangs",
        "reference hangs",
        "check dies",
        "reference raises the second time",
        "import fails",
    ],
)
def test_what_is_broken_is_found_and_named(reference: str, code: str, words: str) -> None:
    found = checked(reference, limits={"judge_seconds": 3} if code == "lost" else {})
    assert code in errors(found)
    assert words in " ".join(finding.message for finding in found.findings if finding.subject == code)


@pytest.mark.parametrize("place", ["import random", "def generate_input(size, seed):"])
def test_a_library_that_is_missing_is_no_fault_of_the_task(place: str) -> None:
    indent = "    " if place.endswith(":") else ""
    with pytest.raises(BoardError) as caught:
        checked(changed(place, f"{place}\n{indent}import sys; sys.modules['numpy'] = None; import numpy"))
    assert caught.value.exit_code == 3
    assert "has no NumPy" in caught.value.message
    assert caught.value.message.endswith("with --python")


def test_what_comes_after_a_lost_judge_is_left_out_and_said_to_be() -> None:
    found = checked(
        changed("    for index", "    import time; time.sleep(99)\n    for index"), limits={"judge_seconds": 3}
    )
    assert [case.name for case in found.lint.cases] == ["test 1"]
    assert [(each.phase, each.index, each.left_out) for each in found.lint.left_out] == [
        ("benchmark", 0, "test 1 ended the judge")
    ]


def test_a_reference_that_is_not_the_same_twice_is_found() -> None:
    shaky = changed("x * x + 1 for x", "(x * x + 1) * (1 + 1e-12 * random.SystemRandom().random()) for x")
    assert warnings(checked(shaky)) == {"unsteady_reference"}


def test_without_a_reference_answer_only_the_inputs_are_looked_at() -> None:
    found = checked(changed("ref_kernel", "right"))
    assert (found.passed, warnings(found)) == (True, {"no_ref_kernel"})
    assert all(case.probed == () for case in found.lint.cases)


def test_as_many_cases_are_looked_at_as_are_asked_for_and_the_others_are_named() -> None:
    many = tuple({"size": size, "seed": size} for size in (3, 4, 5))
    found = checked(SOUND, Bounds(cases_max=3), tests=many, benchmarks=many)
    assert [case.name for case in found.lint.cases] == ["test 1", "test 2", "benchmark 1"]
    assert [(each.phase, each.index) for each in found.lint.left_out] == [
        ("test", 2),
        ("benchmark", 1),
        ("benchmark", 2),
    ]


def test_no_more_is_asked_when_the_time_is_over(tmp_path: Path) -> None:
    folder = make_job_folder(tmp_path, "", a_task(SOUND), Mode.TEST)
    command = [sys.executable, "-I", "-B", job_folder.HARNESS, "lint", job_folder.FACTS, "9", "0"]
    subprocess.run(command, cwd=folder, env={"PATH": os.environ["PATH"]}, timeout=60, check=True)
    found = json.loads((folder / "lint.json").read_text())
    assert found["cases"] == []
    assert {each["left_out"] for each in found["left_out"]} == {"the time limit was reached"}


@pytest.mark.torch
def test_a_task_with_tensors_is_asked_the_same() -> None:
    pytest.importorskip("torch")
    found = checked(TENSORS, const_inputs=True, fresh_output=True)
    assert found.findings == ()
    assert set(PROBES) - {"input_3", "input_4"} == {probed.probe for probed in found.lint.cases[0].probed}


@pytest.mark.torch
@pytest.mark.parametrize("name", sorted(path.parent.name for path in bundled.folder("tasks").glob("*/task.yml")))
def test_the_bundled_tasks_are_clean(name: str) -> None:
    pytest.importorskip("torch")
    task: Task = read_task(bundled.folder("tasks") / name)
    found = check(task, Bounds(cases_max=2))
    assert found.findings == ()
    assert [case.name for case in found.lint.cases] == ["test 1", "benchmark 1"]
    assert all(len(case.probed) >= len(PROBES) - 4 and not case.left_out for case in found.lint.cases)


# The numbers of probes


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("format_", ["tf32", "float16"])
def test_lists_arrays_and_tensors_are_rounded_alike(format_: str) -> None:
    torch, _ = pytest.importorskip("torch"), pytest.importorskip("numpy")
    rng = random.Random(1)
    numbers = [rng.uniform(-3, 3) for _ in range(500)] + [
        0.0,
        -0.0,
        1.0,
        6e4,
        7e4,
        1 + 2**-11,
        1 + 3 * 2**-11,
        math.inf,
    ]
    single = torch.tensor(numbers, dtype=torch.float32)
    expected = rounded(single, format_).tolist()
    assert rounded(single.tolist(), format_) == expected
    assert rounded(single.numpy(), format_).tolist() == expected
    assert rounded(single.double(), format_).tolist() == expected
    assert rounded(torch.complex(single, single).numpy(), format_).imag.tolist()[:504] == expected[:504]
    errors = [abs(new - old) / abs(old) for new, old in zip(expected, single.tolist(), strict=True) if 0 < abs(old) < 9]
    assert 2.0**-12 < max(errors) <= 2.0**-11


def test_numbers_that_are_parameters_are_not_rounded() -> None:
    inputs = ([1 + 2.0**-20, 2], 1 + 2.0**-20, {"alpha": 1 + 2.0**-20})
    assert rounded(inputs, "float16") == ([1.0, 2], 1 + 2.0**-20, {"alpha": 1 + 2.0**-20})


@pytest.mark.torch
def test_every_kind_of_number_can_be_probed() -> None:
    torch, numpy = pytest.importorskip("torch"), pytest.importorskip("numpy")
    kinds = ("float64", "float32", "float16", "int64", "int32", "uint8", "complex64", "bool")
    values: list[Any] = [torch.ones(2, 3, dtype=getattr(torch, kind)).T for kind in (*kinds, "bfloat16")]
    values += [numpy.ones((2, 3), dtype=kind).T for kind in kinds]
    values += [torch.ones(()), numpy.ones(()), [1.0, 2.0], (1, 2), [True, False], [1j], 2.5, 3]
    for value in values:
        for number in (0.0, math.nan):
            mapped(value, lambda leaf, number=number: filled(leaf, number))  # type: ignore[misc]
        mapped(value, lambda leaf: coarse(leaf, "float16"))
        mapped(value, lambda leaf: coarse(leaf, "tf32"))
        assert str(with_mean([value, value])) == str(with_mean([value])[:1] * 2)
        off = with_wrong_end([value, torch.ones(0)])[0]
        assert str(off) != str(value)


def test_the_mean_and_the_wrong_number_are_of_all_parts() -> None:
    assert with_mean(([1.0, 3.0], 8)) == ([4.0, 4.0], 4)
    assert with_wrong_end({"a": [3.0, 4.0], "b": [0.0]}) == {"a": [3.0, 4.0], "b": [math.sqrt(25 / 3)]}
    assert with_wrong_end([7, True]) == [7, False]
    assert with_wrong_end("no numbers") == "no numbers"
