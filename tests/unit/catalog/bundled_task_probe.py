"""Gives right and wrong answers to tasks and writes, as JSON, the verdict of a task's check on each answer.

A program of its own: a line of standard input, [NAME, FOLDER, CASES, ATTACKED, SUBMISSIONS] as JSON, is a task. The
cases in ATTACKED get wrong answers, too. FOLDER holds the task's files under their names on the node, and gets
`lines.json`. Tasks have modules of the same names, so each task gets a fork of this process: PyTorch is imported once
for all of them. A line of standard output is the exit status of a fork. A submission in C++ is compiled by the
harness's own command.
"""

import copy
import hashlib
import importlib.util
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from types import ModuleType
from typing import Any

import torch

from hpc_board.harness.build import toolchain
from hpc_board.harness.wire import payload
from hpc_board.harness.worker import compiled
from hpc_board.model.task import Language


def module(path: Path) -> ModuleType:
    """The file at `path` as a module that is not entered in `sys.modules`."""
    spec = importlib.util.spec_from_file_location(f"probe_{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def kernel(path: Path) -> Callable[[Any, Any], Any]:
    """The function of a submission, of data and of the right answer, whose form the outputs of a compiled one have."""
    if path.suffix == ".py":
        function: Callable[[Any], Any] = module(path).custom_kernel
        return lambda data, _: function(data)
    folder = Path(mkdtemp())
    (folder / toolchain.HEADER).write_text(toolchain.header_text())
    (folder / path.name).write_bytes(path.read_bytes())
    tools = toolchain.toolchain(Language.CPP, "", os.environ)
    subprocess.run(toolchain.command(tools, (), path.name), cwd=folder, check=True)
    library = compiled.open_kernel(folder / toolchain.LIBRARY)

    def call(data: Any, right: Any) -> Any:
        memory = os.memfd_create("form")
        form = payload.write(right, memory, right.nbytes + 2**20)
        os.close(memory)
        output = payload.empty(form)
        library.prepared(data, output)()
        return output

    return call


def remembering(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function, which computes once for the same data, with other data between two calls."""
    kept: list[tuple[Any, Any]] = []

    def remembered(data: Any) -> Any:
        found = next((each for each in kept if each[0] is data), None) or (data, function(data))
        kept[:] = [found, *(each for each in kept if each is not found)][:2]
        return found[1]

    return remembered


def remembering_contents(function: Callable[[Any, int], Any]) -> Callable[[Any, int], Any]:
    """The function, which computes once for an array of the same contents and the same number."""
    kept: dict[tuple[bytes, str, int], Any] = {}

    def remembered(array: Any, number: int) -> Any:
        key = hashlib.sha1(array, usedforsecurity=False).digest(), str(array.dtype), number
        if key not in kept:
            kept[key] = function(array, number)
        return kept[key]

    return remembered


def remember_answers(reference: ModuleType) -> None:
    """Let the functions of `data` remember: a check computes the right answer for each of thirty answers to a case.

    The check of the task `heat` spreads two plates for it.
    """
    for name, function in list(vars(reference).items()):
        parameters = list(inspect.signature(function).parameters) if inspect.isfunction(function) else []
        if parameters == ["data"]:
            setattr(reference, name, remembering(function))
        elif parameters == ["plate", "steps"]:
            setattr(reference, name, remembering_contents(function))


class InTensors:
    """A task on NumPy arrays, whose inputs and answers are tensors here."""

    def __init__(self, reference: ModuleType) -> None:
        self._reference = reference
        self.arrays = remembering(arrays)
        self.ref_kernel = remembering(lambda data: torch.from_numpy(reference.ref_kernel(self.arrays(data))))

    def generate_input(self, **case: int) -> Any:
        data = self._reference.generate_input(**case)
        return tuple(item if isinstance(item, int) else torch.from_numpy(item) for item in data)

    def check_implementation(self, data: Any, output: Any) -> tuple[bool, str]:
        passed, message = self._reference.check_implementation(self.arrays(data), arrays(output))
        return passed, message


def arrays(value: Any) -> Any:
    """The value with an array for each tensor."""
    if isinstance(value, tuple):
        return tuple(map(arrays, value))
    return value.numpy() if isinstance(value, torch.Tensor) else value


def tensors(data: Any) -> tuple[Any, ...]:
    """The tensors of an input: itself, or all of a tuple."""
    values = data if isinstance(data, tuple) else (data,)
    return tuple(value for value in values if isinstance(value, torch.Tensor))


def rounded(data: Any, dtype: Any) -> Any:
    """The same data as if it had gone through a number format of fewer digits."""
    if isinstance(data, tuple):
        return tuple(rounded(item, dtype) for item in data)
    return data.to(dtype).to(data.dtype) if isinstance(data, torch.Tensor) and data.is_floating_point() else data


def tolerances(name: str, data: Any, right: Any) -> Any:
    """Return the tolerance of each element by the task's description; None where the answer must be exact."""
    if name == "softmax_py":
        return 5e-5 * right.double()
    if name == "reduction":
        return 2e-5 * data.double().norm(dim=1)
    if name.removesuffix("_py") == "matmul":
        a, b = (matrix.double() for matrix in data)
        return 1e-4 * torch.sqrt(torch.outer(a.square().mean(dim=1), b.square().sum(dim=0)))
    if name == "prefixsum_py":
        return 2e-5 * data.double().square().cumsum(dim=0).sqrt()
    if name == "grayscale_py":
        return 1e-6 * right.double()
    if name == "conv2d_py":
        return 5e-5 * torch.sqrt(windows_squared(*data)).reshape(right.shape)
    if name == "attention_py":
        return 5e-5 * torch.sqrt(attention(data).square() @ data[3].double().square())
    if name == "heat":
        return 2e-6 * torch.sqrt(spread(data[0].double().square(), data[1]))
    if name == "spmv":
        values, places, starts, x = data
        rows = torch.repeat_interleave(torch.arange(len(right)), starts.diff())
        return 1e-5 * torch.bincount(rows, (values.double() * x[places]).square(), len(right)).sqrt()
    return None


def spread(plate: Any, steps: int) -> Any:
    """The plate after some steps, by a convolution."""
    stencil = torch.tensor([[0.0, 0.2, 0.0], [0.2, 0.2, 0.2], [0.0, 0.2, 0.0]], dtype=plate.dtype)
    for _ in range(steps):
        inner = torch.nn.functional.conv2d(plate[None, None], stencil[None, None])[0, 0]
        plate = plate.clone()
        plate[1:-1, 1:-1] = inner
    return plate


def windows_squared(x: Any, w: Any) -> Any:
    """For each filter and place, the sum of the products of all squares: the windows laid out as columns."""
    columns = torch.nn.functional.unfold(x.double().square(), w.shape[-2:])
    return w.double().square().flatten(start_dim=1) @ columns


def attention(data: Any) -> Any:
    """The weights of each position, by the formula, without care for large exponents."""
    config, q, k, _ = data
    weights = torch.exp(config["scale"] * torch.einsum("bhid,bhjd->bhij", q.double(), k.double()))
    if config["causal"]:
        weights = weights.tril()
    return weights / weights.sum(dim=-1, keepdim=True)


def shifted(right: Any, tolerance: Any, steps: float) -> Any:
    """The right answer with its middle element `steps` tolerances off; one bit or one off without tolerances."""
    answer = right.clone().flatten()
    middle = answer.numel() // 2
    if tolerance is not None and tolerance.flatten()[middle] == 0:
        middle = int(tolerance.argmax())
    if not answer.is_floating_point():
        answer[middle] += 1
    elif tolerance is None:
        answer[middle] = torch.nextafter(answer[middle], torch.tensor(torch.inf))
    else:
        answer[middle] = (answer[middle].double() + steps * tolerance.flatten()[middle]).float()
    return answer.reshape(right.shape)


def holed(right: Any, value: float) -> Any:
    """The right answer with its last element replaced."""
    answer = right.clone()
    answer.view(-1)[-1] = value
    return answer


def wrong_answers(reference: ModuleType | InTensors, name: str, data: Any) -> Iterator[tuple[str, Any]]:
    """Answers that no check may accept, each with what it is."""
    right = reference.ref_kernel(data)
    yield "zeros", torch.zeros_like(right)
    if right.numel() > 1:
        yield "the mean everywhere", torch.full_like(right, float(right.double().mean()))
    if name != "identity_py":
        for position, tensor in enumerate(tensors(data)):
            yield f"input {position}", tensor
    yield from wrong_floats(reference, data, right) if right.is_floating_point() else wrong_counts(right)
    yield "one element off", shifted(right, tolerances(name, data, right), 1.5)
    yield "one row short", right[:-1]
    yield "one dimension more", right[None]
    yield "a list", right.tolist()
    yield "None", None


def wrong_floats(reference: ModuleType | InTensors, data: Any, right: Any) -> Iterator[tuple[str, Any]]:
    """Answers in floating point that are coarser or finer than they have to be, or no numbers."""
    for dtype in (torch.float16, torch.bfloat16):
        yield f"the inputs rounded to {dtype}", reference.ref_kernel(rounded(data, dtype))
        yield f"the output rounded to {dtype}", rounded(right, dtype)
    for value in (torch.nan, torch.inf, -torch.inf):
        yield f"{value} everywhere", torch.full_like(right, value)
        yield f"one {value}", holed(right, value)
    yield "float64", right.double()
    yield "float16", right.half()


def wrong_counts(right: Any) -> Iterator[tuple[str, Any]]:
    """Whole numbers that are not the right ones, and right ones of other types."""
    yield "ones", torch.ones_like(right)
    yield "negative", -right
    yield "one more everywhere", right + 1
    yield "its neighbour's", right.roll(1)
    yield "the last element off", torch.cat([right[:-1], right[-1:] - 1])
    for dtype in (torch.int32, torch.int16, torch.uint8, torch.float32, torch.float64):
        yield str(dtype), right.to(dtype)


def right_answers(reference: ModuleType | InTensors, name: str, data: Any) -> Iterator[tuple[str, Any]]:
    """Answers that every check has to accept, each with what it is."""
    right = reference.ref_kernel(data)
    yield "the reference", right
    if (tolerance := tolerances(name, data, right)) is not None:
        yield "one element slightly off", shifted(right, tolerance, 0.5)
    if name == "identity_py":
        yield "the input", data


def probe(
    name: str, folder: Path, cases: list[dict[str, int]], attacked: list[dict[str, int]], submissions: list[str]
) -> None:
    """Write all answers with the verdicts of the task's check into the folder."""
    torch.set_default_device("cpu")
    sys.path.insert(0, str(folder))
    own = module(folder / "reference.py")
    remember_answers(own)
    kernels = {Path(path).name: kernel(Path(path)) for path in submissions}
    reference = own if hasattr(own, "torch") else InTensors(own)
    lines = []

    def note(kind: str, answer: str, passed: bool, message: str) -> None:
        lines.append({"case": case, "kind": kind, "answer": answer, "passed": passed, "message": message})

    for case in cases:
        data = reference.generate_input(**case)
        for answer, output in right_answers(reference, name, data):
            note("right", answer, *reference.check_implementation(data, output))
        for answer, output in wrong_answers(reference, name, data) if case in attacked else ():
            note("wrong", answer, *reference.check_implementation(data, output))
        given = reference.arrays(data) if isinstance(reference, InTensors) else data
        for answer, custom_kernel in kernels.items():
            output = custom_kernel(copy.deepcopy(given), own.ref_kernel(given))
            note("submission", answer, *own.check_implementation(given, output))
    (folder / "lines.json").write_text(json.dumps(lines))


def main() -> None:
    """Probe each task in a fork, one after the other, until standard input ends."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            name, folder, cases, attacked, submissions = json.loads(line)
            probe(name, Path(folder), cases, attacked, submissions)
            return
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
