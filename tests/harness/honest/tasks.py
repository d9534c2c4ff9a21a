"""The small tasks of honest kernels that no bundled one suits: each is there for one duration, or needs no library."""

from typing import Any

from hpc_board.model.task import Task, Timeouts
from tests.harness.evaluations import REFERENCE, a_task

_SUM_OF_FOUR = """
import random

def generate_input(seed):
    rng = random.Random(seed)
    return tuple(rng.randrange(2**40) for _ in range(4))

def ref_kernel(data):
    return sum(data)

def check_implementation(data, output):
    return output == sum(data), "not the sum"
"""
"""So little that whatever is done beside it takes longer."""

_REPEATED_SQUARES = """
import random

ONE, OTHER = 2**521 - 1, 2**607 - 1

def generate_input(squarings, seed):
    return f"{random.Random(seed).randrange(2, ONE * OTHER):x}", f"{ONE * OTHER:x}", squarings

def ref_kernel(data):
    number, modulus, squarings = data
    exponent = pow(2, squarings, (ONE - 1) * (OTHER - 1))
    return f"{pow(int(number, 16), exponent, ONE * OTHER):x}"

def check_implementation(data, output):
    return output == ref_kernel(data), "not the power"
"""
"""A chain of squarings: the reference knows the factors of the modulus, and so has the last one without the others."""

_USUAL: dict[str, Any] = {"limits": {}, "timeouts": Timeouts(120, 120, 180)}

TASKS: dict[str, Task] = {
    "doubled_numbers": a_task(REFERENCE, benchmarks=({"size": 100, "seed": 4},), **_USUAL),
    "sum_of_four": a_task(_SUM_OF_FOUR, tests=({"seed": 1},), benchmarks=({"seed": 2},), **_USUAL),
    "repeated_squares": a_task(
        _REPEATED_SQUARES,
        tests=({"squarings": 1000, "seed": 1},),
        benchmarks=({"squarings": 600_000, "seed": 2},),
        **_USUAL,
    ),
}
