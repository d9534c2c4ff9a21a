#!POPCORN leaderboard vectoradd

import torch
from task import input_t, output_t


@torch.compile(fullgraph=True, dynamic=True)
def add(a, b):
    """The sum; `dynamic` compiles it twice: for size 1, and for all others."""
    return a + b


def custom_kernel(data: input_t) -> output_t:
    """The sum of the two vectors, by TorchInductor."""
    return add(*data)
