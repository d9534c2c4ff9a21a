#!POPCORN leaderboard vectoradd_py
"""Vector addition in JAX, whose arrays share the tensors' memory."""

import os

os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
import jax


@jax.jit
def add(a, b):
    return a + b


def custom_kernel(data):
    return add(*map(jax.dlpack.from_dlpack, data))
