"""The small tasks that the adversarial submissions attack: each is there for one kind of value, rule or duration."""

from typing import Any

from hpc_board.model.task import Language, Task
from tests.harness.evaluations import QUICK, REFERENCE, a_task

_ARRAYS = """
import numpy as np

def generate_input(size, seed):
    return np.random.default_rng(seed).uniform(1, 2, size)

def ref_kernel(data):
    return 2 * data

def check_implementation(data, output):
    return bool(np.allclose(output, 2 * data, rtol=1e-12)), "not twice the input"
"""

_TENSORS = """
import torch

def generate_input(size, seed):
    return torch.rand(size, generator=torch.Generator().manual_seed(seed)) + 1

def ref_kernel(data):
    return 2 * data

def check_implementation(data, output):
    return torch.allclose(output, 2 * data), "not twice the input"
"""

_DIGEST = """
import hashlib, time
import numpy as np

def generate_input(rounds, seed):
    return np.random.default_rng(seed).integers(0, 256, 64, dtype=np.uint8), rounds

def ref_kernel(data):
    block, rounds = data
    return np.frombuffer(hashlib.pbkdf2_hmac("sha256", block.tobytes(), b"salt", rounds), dtype=np.uint8)

def check_implementation(data, output):
    expected = ref_kernel(data)
    time.sleep({check_seconds})
    return bool(np.array_equal(output, expected)), "not the digest"
"""
"""A chain of hashes: nothing computes it but so many rounds, and it leaves the other threads of a process running."""

_LARGE = (
    _DIGEST.replace("def ref_kernel(data):", "def digest(data):")
    + """
def ref_kernel(data):
    output = np.zeros(2**27, dtype=np.uint8)
    output[-32:] = digest(data)
    return output
"""
)
"""The digest at the end of an output that takes tens of milliseconds to copy."""

_SLOW_REFERENCE = """def ref_kernel(data):
    time.sleep(0.3)
    return digest(data)

def digest(data):"""
"""A reference so slow that no two of its calls fit into the time of a row."""

_LONG_ROUNDS, _SHORT_ROUNDS, _LITTLE_ROUNDS = 60_000, 9_000, 1_500

_TIMED = {**QUICK, "rows": 4, "row_seconds": 0.01, "row_calls": 100, "call_seconds": 10, "first_call_seconds": 10}

_SIZES: dict[str, Any] = {
    "limits": {**QUICK, "row_calls": 2},
    "tests": ({"size": 300, "seed": 1}, {"size": 1000, "seed": 2}, {"size": 100, "seed": 3}),
    "benchmarks": ({"size": 1000, "seed": 4},),
}


def _rounds(rounds: int) -> dict[str, Any]:
    return {
        "tests": ({"rounds": rounds, "seed": 1},),
        "benchmarks": ({"rounds": rounds, "seed": 2},),
    }


def _digest(check_seconds: float = 0.0) -> str:
    return _DIGEST.format(check_seconds=check_seconds)


TASKS: dict[str, Task] = {
    "double": a_task(REFERENCE, **_SIZES),
    "arrays": a_task(_ARRAYS, **_SIZES),
    "arrays, large": a_task(_ARRAYS, **{**_SIZES, "benchmarks": ({"size": 2**20, "seed": 4},), "limits": _TIMED}),
    "arrays, asleep": a_task(
        _ARRAYS.replace("    return 2 * data", "    time.sleep(0.02)\n    return 2 * data").replace(
            "import", "import time, ", 1
        ),
        **{**_SIZES, "limits": _TIMED},
    ),
    "arrays, inputs constant": a_task(_ARRAYS, **_SIZES, const_inputs=True),
    "arrays, outputs fresh": a_task(_ARRAYS.replace("2 * data", "data.copy()"), **_SIZES, fresh_output=True),
    "arrays, outputs anywhere": a_task(_ARRAYS.replace("2 * data", "data.copy()"), **_SIZES),
    "sums": a_task(_ARRAYS.replace("2 * data", "data.sum(keepdims=True)"), **_SIZES),
    "arrays, compiled": a_task(_ARRAYS, **_SIZES, languages=(Language.PY, Language.CPP)),
    "tensors": a_task(_TENSORS, **_SIZES),
    "digest": a_task(_digest(), **_rounds(_LONG_ROUNDS), limits=_TIMED),
    "digest, many calls": a_task(_digest(), **_rounds(_LONG_ROUNDS // 4), limits=_TIMED),
    "digest, slow reference": a_task(
        _digest().replace("def ref_kernel(data):", _SLOW_REFERENCE).replace("= ref_kernel(", "= digest("),
        **_rounds(_LITTLE_ROUNDS),
        limits=_TIMED,
    ),
    "digest, slow check": a_task(_digest(0.3), **_rounds(_SHORT_ROUNDS), limits=_TIMED),
    "digest, short": a_task(_digest(), **_rounds(_SHORT_ROUNDS), limits=_TIMED),
    "digest, little": a_task(_digest(), **_rounds(_LITTLE_ROUNDS), limits=_TIMED),
    "digest, least": a_task(_digest(), **_rounds(_LITTLE_ROUNDS // 3), limits=_TIMED),
    "digest, large output": a_task(_LARGE.format(check_seconds=0), **_rounds(4000), limits=_TIMED),
    "digest, in a block": a_task(
        _LARGE.replace("2**27", "2**20").format(check_seconds=0),
        **_rounds(_LONG_ROUNDS),
        limits=_TIMED,
    ),
    "copies, memory-bound": a_task(
        _ARRAYS.replace("2 * data", "data.copy()"),
        tests=({"size": 1000, "seed": 1},),
        benchmarks=({"size": 2**20, "seed": 4},),
        limits=_TIMED,
    ),
    "double, little disk": a_task(REFERENCE, **{**_SIZES, "limits": {**QUICK, "value_bytes": 2**20}}),
}
