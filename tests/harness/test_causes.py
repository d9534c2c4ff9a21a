"""The causes of wrong values by the real harness: kernels in C++ and with PyTorch, and errors of right ones."""

from pathlib import Path
from typing import Any

import pytest

from hpc_board import bundled
from hpc_board.model.mismatch import Cause
from hpc_board.model.result import Case, Verdict
from hpc_board.model.task import Mode, TaskFile
from tests.harness.compiling import ALL, kernel, needs_gcc
from tests.harness.evaluations import QUICK, a_task, evaluate

pytestmark = pytest.mark.torch

REFERENCE = """
import torch
from utils import make_match_reference

def generate_input(size, seed):
    data = torch.rand(size, generator=torch.Generator().manual_seed(seed)) * 900 + 300
    return data.to({given})

def ref_kernel(data):
    return (data * 100).to({right})

check_implementation = make_match_reference(ref_kernel, rtol=1e-5, atol=1e-6)
"""
SIZE = 3000
WHOLE = "const auto *x = (const float *)in[0].data; auto *y = (float *)out[0].data; int64_t n = in[0].shape[0];\n"


def a_case(
    folder: Path,
    source: str,
    file_name: str,
    *,
    given: str = "torch.float32",
    right: str = "torch.float32",
    mode: Mode = Mode.TEST,
) -> Case:
    """The first case of a submission that multiplies a vector by 100."""
    reference = REFERENCE.format(given=given, right=right)
    files = (
        TaskFile("submission.py", None),
        TaskFile("reference.py", reference),
        TaskFile("utils.py", (bundled.folder("task_starter") / "utils.py").read_text()),
        TaskFile("task.py", "X = 1\n"),
    )
    cases = ({"size": SIZE, "seed": 1},)
    task = a_task(reference, files=files, tests=cases, benchmarks=cases, languages=ALL, limits=QUICK)
    return evaluate(folder, source, task, mode, file_name=file_name).result.cases[0]


def of_cpp(body: str, last: str = "") -> str:
    return kernel(f"{WHOLE}for (int64_t i = 0; i < n{last}; ++i) {body}\nreturn 0;")


def of_torch(line: str) -> str:
    return f"import torch\ndef custom_kernel(data):\n    {line}\n    return out\n"


IN_SCRATCH = """
float *s = new float[n];
for (int64_t i = 0; i < n; ++i) { s[i] += x[i] * 100; y[i] = s[i]; }
delete[] s;
return 0;
"""
IN_WORKSPACE = """
float *s = (float *)ctx->workspace;
for (int64_t i = 0; i < n; ++i) { s[i] += x[i] * 100; y[i] = s[i]; }
return 0;
}
int64_t hpc_workspace_bytes(const hpc_tensor *in, int n_in, const hpc_tensor *out, int n_out, const int64_t *params,
                            int n_params, const hpc_context *ctx) {
return 4 * in[0].shape[0];
"""
NARROW = "((int64_t *)out[0].data)[i] = (int16_t)(((int32_t *)in[0].data)[i] * 100);"
UNWRITTEN = "out = torch.empty_like(data); out[:-37] = 100 * data[:-37]"
ADDED = "out = torch.empty_like(data); out += 100 * data"
INTEGERS = {"given": "torch.int32", "right": "torch.int32"}
WIDER = {"given": "torch.int32", "right": "torch.int64"}
DOUBLES = {"given": "torch.float64", "right": "torch.float64"}


@needs_gcc
@pytest.mark.parametrize(
    ("source", "changes", "cause", "caused"),
    [
        (of_cpp("y[i] = x[i] * 100;", " / 256 * 256"), {}, Cause.NEVER_WRITTEN, 184),
        (of_cpp("y[i] += x[i] * 100;"), {}, Cause.UNINITIALIZED_READ, SIZE),
        (kernel(WHOLE + IN_SCRATCH), {}, Cause.UNINITIALIZED_READ, SIZE),
        (kernel(WHOLE + IN_WORKSPACE), {}, Cause.UNINITIALIZED_READ, SIZE),
        (of_cpp(NARROW), WIDER, Cause.OVERFLOW, 2904),
        (of_cpp("y[i] = x[i] * 99;"), {}, None, 0),
    ],
    ids=["never written", "output read", "scratch read", "workspace read", "integer overflow", "another"],
)
def test_a_wrong_value_of_a_compiled_kernel_has_its_cause(
    tmp_path: Path, source: str, changes: dict[str, Any], cause: Cause | None, caused: int
) -> None:
    assert_cause(a_case(tmp_path, source, "k.cpp", **changes), cause, caused)


@pytest.mark.parametrize(
    ("line", "changes", "cause", "caused"),
    [
        (UNWRITTEN, {}, Cause.NEVER_WRITTEN, 37),
        (UNWRITTEN, INTEGERS, Cause.NEVER_WRITTEN, 37),
        (ADDED, {}, Cause.UNINITIALIZED_READ, SIZE),
        (ADDED, INTEGERS, Cause.UNINITIALIZED_READ, SIZE),
        (ADDED, DOUBLES, Cause.UNINITIALIZED_READ, SIZE),
        ("out = (100 * data.half()).float()", {}, Cause.OVERFLOW, 1797),
        ("out = (100 * data.to(torch.int16)).to(torch.int64)", WIDER, Cause.OVERFLOW, 2904),
        ("out = 100 * data; out[7] = 0", {}, None, 0),
    ],
)
def test_a_wrong_value_of_pytorch_has_its_cause(
    tmp_path: Path, line: str, changes: dict[str, Any], cause: Cause | None, caused: int
) -> None:
    assert_cause(a_case(tmp_path, of_torch(line), "k.py", **changes), cause, caused)


def assert_cause(case: Case, cause: Cause | None, caused: int) -> None:
    assert case.verdict in (Verdict.WRONG_VALUE, Verdict.WRONG_NONFINITE), case.message
    assert case.mismatch is not None
    assert (case.mismatch.cause, case.mismatch.caused, case.of_tolerance) == (cause, caused, None)


def test_a_right_output_has_its_margin_and_a_wrong_one_the_ratio(tmp_path: Path) -> None:
    case = a_case(tmp_path, of_torch("out = 100 * data * (1 + 3e-6)"), "k.py")
    assert case.of_tolerance == pytest.approx(0.3, abs=0.02)
    case = a_case(tmp_path / "wrong", of_torch("out = 100 * data; out[5] *= 1 + 4e-5"), "k.py")
    assert case.mismatch is not None
    assert case.mismatch.of_tolerance == pytest.approx(4, abs=0.1)


@pytest.mark.parametrize("line", ["out = 100 * data", UNWRITTEN])
def test_secret_inputs_have_neither_margin_nor_cause(tmp_path: Path, line: str) -> None:
    case = a_case(tmp_path, of_torch(line), "k.py", mode=Mode.BENCHMARK)
    mismatch = case.mismatch
    assert case.of_tolerance is None
    assert mismatch is None or (mismatch.cause, mismatch.caused, mismatch.of_tolerance) == (None, 0, None)
