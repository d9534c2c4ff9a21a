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
from hpc_board.harness.lint.prober import (
    coarse,
    filled,
    is_selection,
    mapped,
    moved,
    rounded,
    stretched,
    with_mean,
    with_wrong_end,
)
from hpc_board.model.lint import INPUTS_ULP, MARGIN_MAX, PROBES, SECRET_SEEDS
from hpc_board.model.task import Language, MeansRule, Milestone, Mode, Task
from hpc_board.runs import job_folder
from hpc_board.task_check.lint import Bounds, Checked, check
from tests.conftest import skip_without
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

FEW = {"tests": ({"size": 7, "seed": 1},), "benchmarks": ({"size": 101, "seed": 2},)}


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


def test_a_check_that_fails_on_the_right_answer_is_told_once() -> None:
    found = checked(changed("return True, ", "return None, None, "), templates={"Python": EXACT})
    (told,) = [each.hint for each in found.findings if each.severity is Severity.ERROR]
    assert "this answer is right" in told
    assert found.submissions == ()


@pytest.mark.parametrize("place", ["import random", "def generate_input(size, seed):"])
def test_a_library_that_is_missing_is_no_fault_of_the_task(place: str) -> None:
    indent = "    " if place.endswith(":") else ""
    with pytest.raises(BoardError) as caught:
        checked(changed(place, f"{place}\n{indent}import sys; sys.modules['numpy'] = None; import numpy"))
    assert caught.value.exit_code == 3
    assert "has no NumPy" in caught.value.message
    assert caught.value.message.endswith("with --python")


@pytest.mark.parametrize("where", ["    rng =", "    return [x"])
def test_a_task_that_needs_a_gpu_is_not_blamed_on_a_cpu(where: str) -> None:
    words = "Cannot get CUDA generator without ATen_cuda library. PyTorch splits its backend into two libraries"
    with pytest.raises(BoardError) as caught:
        checked(changed(where, f"    raise RuntimeError({words!r})\n{where}"))
    step = "the task cannot generate the inputs: generate_input fails"
    if "return" in where:
        step = "the task's reference fails on the task's own inputs: ref_kernel fails"
    assert caught.value.message == (
        f"the task was not checked: this job has no GPU, and the task asks for one: {step}: "
        "Cannot get CUDA generator without ATen_cuda library"
    )
    assert "--device" in caught.value.hint


def test_a_module_that_this_python_lacks_is_named_with_the_line_of_its_import() -> None:
    (found,) = (each for each in checked("import rocm_of_nobody\n" + SOUND).findings if each.subject == "unusable")
    assert "line 1, in <module>\n    import rocm_of_nobody" in found.message
    assert "judge.py" not in found.message
    assert found.hint.startswith("Install the module in this Python")


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


# The task's own submissions, and the answer to inputs that are moved

ROUNDED = """
import struct

def custom_kernel(data):
    return [struct.unpack("f", struct.pack("f", x * x + 1))[0] for x in data]
"""
EXACT = "def custom_kernel(data):\n    return [x * x + 1 for x in data]\n"
FORGETFUL = """
first = []

def custom_kernel(data):
    first[:] = first or [x * x + 1 for x in data]
    return first[:len(data)] + [0.0] * (len(data) - len(first))
"""
FLOAT32 = changed("1e-9 * expected", "4e-7 * expected")


def tried(template: str, reference: str = FLOAT32, **changes: Any) -> Checked:
    return checked(reference, templates={"Python": template}, **changes)


def test_a_template_is_called_with_several_seeds_and_has_a_margin() -> None:
    found = tried(ROUNDED)
    (template,) = found.submissions
    answers = [case.probed[0] for case in template.lint.cases]
    assert [(each.verdict, each.seeds) for each in answers] == [("pass", 1 + SECRET_SEEDS)] * 2
    assert all(each.margin in (4, 8) for each in answers)
    assert "submission" not in " ".join(errors(found) | warnings(found))


WEIGHED = FLOAT32.replace("for _ in range(size)]", "for _ in range(size)], rng.uniform(1, 2)").replace(
    "x * x + 1 for x in data]", "data[1] * x * x + 1 for x in data[0]]"
)
PREPARED = """
import struct

def prepare(weight):
    return weight

def custom_kernel(data, weight):
    return [struct.unpack("f", struct.pack("f", weight * x * x + 1))[0] for x in data[0]]
"""


def test_a_template_that_prepares_fixed_inputs_is_called_with_several_seeds() -> None:
    found = tried(PREPARED, WEIGHED, prepare=(1,), hidden_tests=({"size": 29, "seed": 2**40},))
    (template,) = found.submissions
    answers = [case.probed[0] for case in template.lint.cases]
    assert [(each.verdict, each.seeds) for each in answers] == [("pass", 1 + SECRET_SEEDS)] * 3
    assert all(each.margin in (2, 4, 8) for each in answers)
    assert [case.name for case in found.lint.cases] == ["test 1", "hidden test 1", "benchmark 1"]
    assert not errors(found)


def test_fixed_inputs_that_a_task_does_not_make_are_an_error() -> None:
    named = changed("return [rng", "return {'weight': 1.0, 'x': [rng").replace("(size)]", "(size)]}", 1)
    found = checked(named, prepare=("wieght",))
    assert 'Did you mean "weight"?' in found.findings[0].message
    found = checked(SOUND, prepare=("weight",))
    assert "hpc_board.prepare names 'weight', but the inputs have the parts [0, 1" in found.findings[0].message
    assert "Traceback" not in found.findings[0].message


def test_fixed_inputs_whose_shapes_depend_on_the_seed_are_an_error() -> None:
    skip_without("numpy")
    reference = """
import numpy as np

def generate_input(size, seed):
    return np.random.default_rng(seed).random(size), np.ones(1 + seed % 7)

def ref_kernel(data):
    return data[0] * data[1].mean()

def check_implementation(data, output):
    return bool(np.allclose(output, ref_kernel(data), rtol=1e-12, atol=0)), "wrong"
"""
    found = checked(reference, prepare=(1,))
    assert "hpc_board.prepare names inputs whose shapes depend on the seed" in said(found, "raises")


def test_minimal_work_with_other_arguments_is_an_error_without_lines_of_the_judge() -> None:
    found = checked(SOUND + "\ndef minimal_work(rows):\n    return 8, 8\n")
    message = said(found, "raises")
    assert "the task's minimal_work fails: TypeError: minimal_work() got an unexpected keyword argument" in message
    assert "Traceback" not in message


def test_a_template_with_the_bits_of_the_reference_has_no_margin() -> None:
    (template,) = tried(EXACT).submissions
    assert [(case.probed[0].same, case.probed[0].margin) for case in template.lint.cases] == [(True, None)] * 2


def test_a_tolerance_that_rejects_an_honest_template_is_found() -> None:
    found = tried(ROUNDED, SOUND)
    assert "refuses_submission" in errors(found)
    assert "template Python is rejected on test 1" in said(found, "refuses_submission")


def test_a_template_that_passes_with_little_room_is_a_warning() -> None:
    found = tried(ROUNDED, changed("1e-9 * expected", "6e-8 * expected"))
    assert "narrow_margin" in warnings(found)


def test_a_milestone_that_remembers_its_first_answer_fails_with_a_secret_seed() -> None:
    found = checked(SOUND, milestones=(Milestone("remembers", "kernel.py", FORGETFUL),))
    assert "milestone remembers is rejected" in said(found, "refuses_submission")
    assert "with the seed" in said(found, "refuses_submission")


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("def custom_kernel(data):\n    raise NotImplementedError\n", "fails on test 1"),
        ("def kernel(data):\n    pass\n", "was not called: load_error"),
        ("import os\ndef custom_kernel(data):\n    os._exit(3)\n", "fails on test 1 (size: 7; seed: 1): crash"),
    ],
)
def test_a_template_that_is_no_submission_yet_is_a_warning(template: str, words: str) -> None:
    found = tried(template)
    assert found.passed
    assert words in said(found, "submission_fails")


def test_the_files_of_a_task_that_break_its_own_rule_on_means_are_errors() -> None:
    skip_without("numpy")
    added = "def custom_kernel(data):\n    return data[0] + data[1]\n"
    multiplied = "import numpy as np\none = np.ones((9, 9)) @ np.ones((9, 9)) / 9\n" + added
    found = checked(
        ARRAYS,
        templates={"Python": added, "Triton": "import numba\n" + added},
        milestones=(Milestone("fast", "fast.py", multiplied),),
        means=MeansRule(forbid=("numba", "openblas")),
    )
    assert [(each.message, each.severity) for each in found.findings if each.subject == "breaks_means"] == [
        ("template Triton: submission.py, line 1 imports numba, but double forbids numba.", Severity.ERROR),
        ("milestone fast: fast.py: the task forbids openblas: its processes used the library", Severity.ERROR),
    ]


def test_a_template_for_a_gpu_is_left_out_on_a_cpu() -> None:
    (found,) = checked(SOUND, templates={"Triton": EXACT}).submissions
    assert found.left_out == "Triton does not run on this machine's CPU"


def test_a_template_in_another_language_is_compiled_and_called() -> None:
    skip_without("numpy")
    scaled = """
#include "hpc_board.h"
int custom_kernel(const hpc_tensor *in, int, hpc_tensor *out, int, const int64_t *, int, const hpc_context *) {
    const float *a = static_cast<const float *>(in[0].data), *b = static_cast<const float *>(in[1].data);
    for (int64_t i = 0; i < in[0].shape[0]; ++i) static_cast<float *>(out[0].data)[i] = a[i] + b[i];
    return 0;
}
"""
    languages = (Language.PY, Language.CPP)
    found = checked(ARRAYS, templates={"C++": scaled}, languages=languages)
    assert [case.probed[0].verdict for case in found.submissions[0].lint.cases] == ["pass", "pass"]
    broken = checked(ARRAYS, templates={"C++": scaled.replace("return 0;", "return 0")}, languages=languages)
    assert "compile_error" in said(broken, "submission_fails")


def test_a_check_that_rejects_inputs_one_unit_off_is_found_unless_answers_are_exact() -> None:
    strict = changed("not abs(got - expected) <= 1e-9 * expected", "got != expected")
    assert errors(checked(strict)) == {"refuses_inputs_ulp"}
    assert checked(strict, accepts=("exact",)).passed
    copies = changed("[x * x + 1 for x in data]", "sorted(data)", strict)
    assert checked(copies).findings == ()


def test_an_ill_conditioned_task_whose_template_passes_is_a_warning() -> None:
    steep = changed("x * x + 1 for", "((x * 1e7) % 1 + 1) / 3 for", FLOAT32)
    template = ROUNDED.replace("x * x + 1", "((x * 1e7) % 1 + 1) / 3")
    assert "refuses_inputs_ulp" in errors(checked(steep.replace("4e-7", "1e-12")))
    assert "refuses_inputs_ulp" in warnings(
        tried(template, steep.replace("rng.uniform(-2, 2)", "rng.uniform(-2e6, 2e6)"))
    )


def test_the_margin_is_the_least_of_all_seeds() -> None:
    found = checked(SOUND)
    moved = [probed for case in found.lint.cases for probed in case.probed if probed.probe == INPUTS_ULP]
    assert [(each.seeds, each.margin) for each in moved] == [(1 + SECRET_SEEDS, MARGIN_MAX)] * 2


def test_shapes_that_depend_on_the_seed_are_a_warning_on_benchmarks() -> None:
    growing = changed("range(size)]", "range(size + seed % 1000)]")
    assert warnings(checked(growing)) == {"shapes_by_seed"}
    assert checked(growing, benchmarks=()).lint.cases[0].steady is False
    assert "shapes_by_seed" not in warnings(checked(growing, benchmarks=()))


@pytest.mark.torch
@pytest.mark.parametrize("buffer", ["torch.empty(size, requires_grad=True).detach()", "torch.Tensor(size)"])
def test_an_uninitialized_buffer_for_the_output_among_the_inputs_is_no_randomness(buffer: str) -> None:
    pytest.importorskip("torch")
    buffered = changed("generator=generator)\n", f"generator=generator), {buffer}\n", TENSORS)
    buffered = buffered.replace("a, b = data", "a, b, _ = data")
    assert checked(buffered, templates={"Python": "def custom_kernel(data):\n    return data[0] + data[1]\n"}).passed
    read = changed("return a + b", "return a + b + data[2]", buffered)
    assert not checked(read).passed


def test_answers_whose_form_depends_on_the_seed_are_an_error_for_compiled_languages() -> None:
    skip_without("numpy")
    growing = changed("(2, size)", "(2, size + seed % 5)", ARRAYS)
    languages = (Language.PY, Language.CPP)
    found = checked(growing, languages=languages, templates={"C++": "int custom_kernel();"})
    assert errors(found) == {"form_by_seed"}
    assert found.submissions == ()
    assert checked(growing).passed
    total = changed("return a + b", "return np.array([a.sum(), b.max()])", growing)
    total = changed("output.shape != data[0].shape", "output.shape != (2,)", total)
    assert "form_by_seed" not in errors(checked(total, languages=languages))


@pytest.mark.parametrize("fault", ["raise MemoryError", "import os; os.kill(os.getpid(), 9)"])
def test_a_reference_without_memory_says_so(fault: str) -> None:
    found = checked(changed("    return [x * x", f"    {fault}\n    return [x * x"), templates={"Python": EXACT})
    assert "out_of_memory" in errors(found)
    assert ("out of memory" in said(found, "out_of_memory")) == ("Error" in fault)
    assert found.submissions == ()


def test_each_step_is_told() -> None:
    steps: list[str] = []
    check(a_task(SOUND, templates={"Python": EXACT}, **FEW), Bounds(seconds=60), steps.append)
    assert "judge: test 1 (size: 7; seed: 1), 1 of 2" in steps
    assert "template Python: benchmark 1 (size: 101; seed: 2), 2 of 2" in steps


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


@pytest.mark.torch
def test_numbers_move_by_one_unit_unless_they_are_exact() -> None:
    torch, numpy = pytest.importorskip("torch"), pytest.importorskip("numpy")
    single = torch.tensor([0.1, -0.2, 0.0, math.inf, math.nan, 3.4028234e38])
    near = moved(single)
    assert near[2:5].isnan().tolist() == [False, False, True]
    assert near[2:4].tolist() == [0.0, math.inf]
    assert (near[:2] != single[:2]).all()
    assert ((near[:2] - single[:2]).abs() < 2e-8).all()
    assert near[5].isfinite()
    assert moved(single.numpy()).tolist()[:4] == near.tolist()[:4]
    whole = torch.tensor([1.0, 2.0])
    assert moved(whole) is whole
    half = torch.tensor([0.1], dtype=torch.bfloat16)
    assert moved(half) is half
    assert moved(half, ("bfloat16",)).item() != half.item()
    assert moved(numpy.array([0.1 + 0.2j])).imag != 0.2
    assert moved(0.1) > 0.1


@pytest.mark.torch
def test_bfloat16_is_not_exact_beyond_the_range_of_float16() -> None:
    torch = pytest.importorskip("torch")
    numbers = torch.tensor([1e30, 0.1, 1e-7], dtype=torch.bfloat16)
    assert coarse(numbers, "float16").tolist() == [math.inf, *numbers[1:].tolist()]
    assert coarse(numbers, "tf32") is numbers


@pytest.mark.torch
def test_a_selection_is_known_by_its_numbers() -> None:
    torch, numpy = pytest.importorskip("torch"), pytest.importorskip("numpy")
    data = torch.linspace(-1, 1, 10_001)
    assert is_selection(data.relu(), (data,))
    assert is_selection((data.abs().sort().values, data.argsort()), data)
    assert is_selection(numpy.sort(data.numpy()), [data.numpy()])
    assert is_selection([0.5, 0.0], [0.5, 0.25])
    assert not is_selection(data + 1e-3, data)
    assert not is_selection(data.double(), data)


@pytest.mark.torch
def test_differences_are_multiplied() -> None:
    torch, numpy = pytest.importorskip("torch"), pytest.importorskip("numpy")
    assert stretched([1.5, 2.0], [1.0, 2.0], 4) == [3.0, 2.0]
    right = torch.tensor([1.0, math.inf, 4.0])
    assert stretched({"y": right + 0.5}, {"y": right}, 2)["y"].tolist() == [2.0, math.inf, 5.0]
    assert stretched(numpy.array([3], dtype="int32"), numpy.array([2]), 8).tolist() == [10]
