"""Tasks whose answers are mostly their inputs, in another place or order: made for lies about where an answer lies."""

from typing import Any

from hpc_board.model.task import Task
from tests.harness.evaluations import a_task

_REFERENCE = """
import torch

def generate_input(size, seed):
    g = torch.Generator().manual_seed(seed)
    table = torch.rand(size, 1024, generator=g)
    return {data}

def ref_kernel(data):
    {answer}

def check_implementation(data, output):
    expected = ref_kernel(data)
    return output.shape == expected.shape and torch.allclose(output, expected), "not the reference's answer"
"""
_KERNEL = """
import torch

def custom_kernel(data):
    {answer}
"""
_SHAPES = {
    "gather": (
        "table, torch.randint(size, (size // 2,), generator=g)",
        "table, index = data; return table[index]",
        "table, index = data; return table.index_select(0, index)",
    ),
    "transposition": ("table", "return data.t().contiguous()", "return data.t().contiguous()"),
    "identity": ("table", "return data.clone()", "return torch.empty_like(data).copy_(data)"),
    "concatenation": (
        "table, torch.rand(size, 1024, generator=g)",
        "return torch.cat(data)",
        "a, b = data; out = torch.empty(2 * len(a), 1024); out[:len(a)] = a; out[len(a):] = b; return out",
    ),
    "reduction": ("table", "return data.double().sum().float()", "return data.sum()"),
}
_CASES: dict[str, Any] = {
    "tests": ({"size": 16, "seed": 1},),
    "benchmarks": ({"size": 128, "seed": 2}, {"size": 2048, "seed": 3}),
    "limits": {},
}

SHAPES: dict[str, tuple[Task, str]] = {
    name: (
        a_task(_REFERENCE.format(data=data, answer=reference), name=name, **_CASES),
        _KERNEL.format(answer=kernel),
    )
    for name, (data, reference, kernel) in _SHAPES.items()
}
"""Each task with an honest kernel."""
