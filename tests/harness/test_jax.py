"""Kernels in JAX, on CPU boards: compiled while nothing is timed, and computed before the clock stops."""

import importlib.util
from pathlib import Path

import pytest

from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode, Task
from tests.conftest import skip_without
from tests.harness.evaluations import QUICK, a_task, evaluate

# Not importorskip: a process that has imported JAX warns at each fork, and this one forks.
pytestmark = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs JAX")

WITH_NUMPY = """
import numpy as np

def generate_input(size, seed):
    return np.random.default_rng(seed).standard_normal(size, dtype=np.float32)

def ref_kernel(data):
    return data * data + 1

def check_implementation(data, output):
    return bool(np.allclose(output, ref_kernel(data)))
"""

WITH_TORCH = """
import torch

def generate_input(size, seed):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))

def ref_kernel(data):
    return data * data + 1

def check_implementation(data, output):
    return torch.allclose(output, ref_kernel(data))
"""

KERNEL = """
import os, time
import jax
import jax.numpy as jnp

cache = os.environ["JAX_COMPILATION_CACHE_DIR"]
print("compiled before:", any(name.endswith("-cache") for name in os.listdir(cache)) if os.path.isdir(cache) else False)
traced = []

@jax.jit
def square_plus_one(x):
    traced.append(x.shape)
    time.sleep(0.5)
    return x * x + 1

def custom_kernel(data):
    output = square_plus_one(TAKEN)
    assert len(set(traced)) == len(traced), "compiled twice"
    return RETURNED
"""


def kernel(taken: str, returned: str = "output", imports: str = "") -> str:
    return imports + KERNEL.replace("TAKEN", taken).replace("RETURNED", returned)


def jax_task(reference: str) -> Task:
    cases = {"tests": ({"size": 64, "seed": 1},), "benchmarks": ({"size": 4096, "seed": 2},)}
    limits = {**QUICK, "workers": 2, "call_seconds": 30, "first_call_seconds": 30}
    return a_task(reference, limits=limits, **cases)


@pytest.mark.parametrize(
    ("reference", "submission"),
    [
        pytest.param(WITH_NUMPY, kernel("data"), id="NumPy's arrays"),
        pytest.param(WITH_NUMPY, kernel("data", "np.asarray(output)", "import numpy as np\n"), id="NumPy's both ways"),
        pytest.param(WITH_TORCH, kernel("jnp.from_dlpack(data)"), marks=pytest.mark.torch, id="PyTorch's tensors"),
    ],
)
def test_a_kernel_in_jax_passes_and_is_compiled_in_none_of_the_timed_calls(
    tmp_path: Path, reference: str, submission: str
) -> None:
    skip_without("numpy")
    result = evaluate(tmp_path, submission, jax_task(reference), Mode.RANKED).result
    assert result.verdict is Verdict.PASS, result.message
    (timing,) = [case.timing for case in result.cases if case.timing]
    assert len(timing.worker_samples) == 2
    assert timing.worst_ns < 0.5e9, "tracing takes longer"
    # The tests' process comes first, and its caches are found by those that are timed.
    assert result.stdout.text.splitlines() == [f"compiled before: {found}" for found in (False, True, True)]
    assert result.stderr.text == ""


def test_what_jax_has_not_computed_yet_is_part_of_the_call(tmp_path: Path) -> None:
    slow = (
        "import time\nimport jax\nimport numpy as np\n"
        "def slowly(x):\n    time.sleep(0.2)\n    return np.asarray(x)\n"
        "@jax.jit\ndef later(x):\n"
        "    same = jax.pure_callback(slowly, jax.ShapeDtypeStruct(x.shape, x.dtype), x)\n    return same * same + 1\n"
        "def custom_kernel(data):\n    return later(data)\n"
    )
    result = evaluate(tmp_path, slow, jax_task(WITH_NUMPY), Mode.BENCHMARK).result
    assert result.verdict is Verdict.PASS, result.message
    (timing,) = [case.timing for case in result.cases if case.timing]
    assert timing.best_ns > 0.2e9
