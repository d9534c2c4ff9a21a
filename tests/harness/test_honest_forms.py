"""Right answers of any form: made to have the task's form while the clock runs, and no fault of the harness."""

from pathlib import Path

import pytest

from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode, Task, Timeouts
from tests.harness.evaluations import QUICK, a_task, evaluate
from tests.harness.harness_file import Edit, edited

pytestmark = pytest.mark.torch

REFERENCE = """
import torch

def generate_input(size, form, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.rand(size, 4, 2, generator=g), torch.empty(size, 4, 2), form

def ref_kernel(data):
    x, out, form = data
    return ANSWERS[form](x, out)

def check_implementation(data, output):
    expected = ref_kernel(data)
    pairs = zip(output, expected) if isinstance(expected, tuple) else [(output, expected)]
    return all(torch.allclose(a.to(b.dtype).reshape(b.shape), b) for a, b in pairs), "wrong"
"""
SUBMISSION = """
import numpy
import torch

class Data(torch.Tensor):
    pass

def custom_kernel(data):
    x, out, form = data
    return globals()[f"answer_{form}"](x, out)
"""
FORMS = {
    "views with gaps": ("2 * x", "return torch.stack([2 * x, x], -1)[..., 0]"),
    "one element of any stride": ("2 * x[:1, 0, 0]", "return torch.stack([2 * x[:1, 0, 0], x[:1, 0, 0]], -1)[:, 0]"),
    "expanded": ("(0 * x[:, :1] + 1).expand(-1, 4, -1)", "return (0 * x[:, :1] + 1).expand(-1, 4, -1)"),
    "negative": ("torch.complex(x, x).conj().imag", "return torch.complex(x, x).conj().imag"),
    "conjugated": ("torch.complex(x, x).conj()", "return torch.complex(x, x).conj()"),
    "no elements": ("x[:0]", "return x[:0].clone()"),
    "no dimension": ("x.sum()", "return x.sum()"),
    "channels last": ("2 * x[None]", "return (2 * x[None]).to(memory_format=torch.channels_last)"),
    "transposed": ("(2 * x).transpose(0, 1)", "return (2 * x).transpose(0, 1)"),
    "transposed by the reference": ("(2 * x).transpose(0, 1)", "return (2 * x).transpose(0, 1).contiguous()"),
    "nested views": ("(2 * x, 3 * x)", "both = torch.stack([2 * x, 3 * x], 1); return both[:, 0], both[:, 1]"),
    "twice the same": ("(2 * x, 2 * x)", "y = 2 * x; return y, y"),
    "a named tuple": ("torch.max(x, 0)", "return torch.max(x, 0)"),
    "a tuple for a named one": ("torch.max(x, 0)", "return tuple(torch.max(x, 0))"),
    "a list": ("(2 * x, 3 * x)", "return [2 * x, 3 * x]"),
    "without gradients": ("2 * x", "\n    with torch.inference_mode():\n        return 2 * x"),
    "with gradients": ("2 * x", "return (2 * x).requires_grad_()"),
    "a parameter": ("2 * x", "return torch.nn.Parameter(2 * x)"),
    "a subclass": ("2 * x", "return (2 * x).as_subclass(Data)"),
    "more precise": ("2 * x", "return 2 * x.double()"),
    "another shape": ("2 * x", "return (2 * x).reshape(-1)"),
    "the memory for it": ("out.copy_(2 * x)", "return torch.mul(x, 2, out=out)"),
    "a view of the memory for it": ("out.copy_(2 * x)", "return torch.mul(x, 2, out=out)[:]"),
    "its input": ("2 * x", "return x.mul_(2)"),
    "a part of its input": ("2 * x[:1]", "return x.mul_(2)[:1]"),
    "a shape of its values": ("x[x > 0.5]", "return x[x > 0.5]"),
    "in shared memory": (
        "2 * x",
        "import mmap; y = torch.frombuffer(mmap.mmap(-1, x.nbytes), dtype=x.dtype); return y.view(x.shape).add_(2 * x)",
    ),
}


def task_of(*answers: str) -> Task:
    """A task whose reference returns these answers, one in each of its cases."""
    forms = range(len(answers))
    functions = ", ".join(f"lambda x, out: {answer}" for answer in answers)
    return a_task(
        f"{REFERENCE}\nANSWERS = [{functions}]\n",
        tests=tuple({"size": 3, "form": form, "seed": 1} for form in forms),
        benchmarks=tuple({"size": 100, "form": form, "seed": 2} for form in forms),
        limits=QUICK,
        timeouts=Timeouts(200, 200, 200),
    )


def submission_of(*answers: str) -> str:
    """A submission that returns these answers, one in each case."""
    functions = (f"def answer_{form}(x, out):\n    {answer}\n" for form, answer in enumerate(answers))
    return "\n".join([SUBMISSION, *functions])


def test_a_right_answer_passes_in_any_form(tmp_path: Path) -> None:
    references, answers = zip(*FORMS.values(), strict=True)
    result = evaluate(tmp_path, submission_of(*answers), task_of(*references), Mode.RANKED).result
    assert result.verdict is Verdict.PASS, f"{result.message} {dict(enumerate(FORMS))}"
    assert [case.verdict for case in result.cases] == [Verdict.PASS] * 2 * len(FORMS)


@pytest.mark.parametrize(
    ("answer", "verdict", "told"),
    [
        ("return (2 * x)[:1]", Verdict.WRONG_SHAPE, "the output has the shape (1, 4, 2), expected (100, 4, 2)"),
        ("return 2 * x, x", Verdict.WRONG_DTYPE, "the output is a tuple, expected a tensor"),
        ("return (2 * x).numpy()", Verdict.WRONG_DTYPE, "the output is an array, expected a tensor"),
        ("return float(x.sum())", Verdict.WRONG_DTYPE, "the output is a float, expected a tensor"),
        ("return (2 * x).to_sparse()", Verdict.WRONG_DTYPE, "layout torch.sparse_coo on cpu"),
        ("return torch.empty(x.shape, device='meta')", Verdict.WRONG_DTYPE, "layout torch.strided on meta"),
        ("return None", Verdict.WRONG_DTYPE, "is a `return` missing?"),
        (
            "return type('T', (tuple,), {'__iter__': None, '__len__': None})([x])",
            Verdict.WRONG_DTYPE,
            "is a tuple, expected",
        ),
    ],
)
def test_an_answer_that_cannot_have_the_form_says_why(tmp_path: Path, answer: str, verdict: Verdict, told: str) -> None:
    result = evaluate(tmp_path, submission_of(answer), task_of("2 * x"), Mode.BENCHMARK).result
    assert (result.verdict, told in result.message) == (verdict, True), result.message


RARELY_SHORTER = """
import torch

def generate_input(size, seed):
    x = torch.rand(size, generator=torch.Generator().manual_seed(seed))
    x[0] = 0 if seed % 50 == 7 else 1
    return x

def ref_kernel(x):
    return x[x > 0]

def check_implementation(data, output):
    return torch.equal(output, data[data > 0])
"""


def test_an_answer_whose_shape_depends_on_few_inputs_passes(tmp_path: Path) -> None:
    cases = ({"size": 64, "seed": 1},)
    task = a_task(RARELY_SHORTER, tests=cases, benchmarks=cases, limits={"rows": 3})
    result = evaluate(tmp_path, "def custom_kernel(data):\n    return data[data > 0]\n", task, Mode.BENCHMARK).result
    assert result.verdict is Verdict.PASS, result.message


ONLY_LATER = """
calls = []

def later(value, answer):
    calls.append(None)
    return answer if len(calls) > 1 else value
"""


@pytest.mark.parametrize(
    ("answer", "verdict", "told"),
    [
        ("return later(2 * x, (2 * x)[:1])", Verdict.WRONG_SHAPE, "the output has the shape (1, 4, 2)"),
        ("return later(2 * x, (2 * x).numpy())", Verdict.WRONG_DTYPE, "the output is a ndarray, expected a tensor"),
        ("return later(2 * x, [x])", Verdict.WRONG_DTYPE, "the output is a list, expected a tensor"),
        ("return later(2 * x, x.to_sparse())", Verdict.WRONG_DTYPE, "layout torch.sparse_coo, expected"),
        ("return later(2 * x, torch.empty(x.shape, device='meta'))", Verdict.WRONG_DTYPE, "cannot become one of type"),
    ],
)
def test_an_answer_that_has_another_form_in_a_row_says_so(
    tmp_path: Path, answer: str, verdict: Verdict, told: str
) -> None:
    source = submission_of(answer) + ONLY_LATER
    result = evaluate(tmp_path, source, task_of("2 * x"), Mode.BENCHMARK).result
    assert (result.verdict, told in result.message) == (verdict, True), result.message


@pytest.mark.parametrize(
    ("module", "line", "answer"),
    [
        (
            "wire/form.py",
            "        value = payload.plain(value)\n        if not isinstance(value, self.types",
            "return y.double()",
        ),
        ("wire/form.py", "        return value.reshape(self.shape)\n", "return y.double()"),
        ("wire/form.py", "        self.blocks += payload.copied(answer)", "return y, y"),
        (
            "wire/form.py",
            "        items = list(value if type(value) is list else tuple.__iter__(value))\n",
            "return y, y",
        ),
        ("wire/payload.py", "    try:\n        return torch.Tensor.detach(value)", "return y.as_subclass(Data)"),
    ],
    ids=["plain", "contiguous", "apart", "parts", "subclass"],
)
def test_an_error_of_the_harness_itself_is_never_the_submission_s(
    tmp_path: Path, module: str, line: str, answer: str
) -> None:
    indent = line[: len(line) - len(line.lstrip(" "))]
    failing = edited((Edit(module, line, f"{indent}raise RuntimeError('a double')\n{line}"),))
    reference = "(2 * x, 2 * x)" if "y, y" in answer else "2 * x"
    source = submission_of(f"y = 2 * x; {answer}")
    result = evaluate(tmp_path, source, task_of(reference), Mode.RANKED, harness=failing).result
    assert result.verdict is Verdict.INFRA_ERROR, result.message
    assert "this is not the submission's fault: RuntimeError: a double" in result.message
