#!POPCORN leaderboard vectoradd

import jax
from task import input_t, output_t


@jax.jit
def add(a, b):
    """The sum, compiled by XLA for each size."""
    return a + b


def custom_kernel(data: input_t) -> output_t:
    """The sum of the two vectors, which JAX reads where PyTorch has them."""
    a, b = (jax.numpy.from_dlpack(tensor) for tensor in data)
    return add(a, b)
