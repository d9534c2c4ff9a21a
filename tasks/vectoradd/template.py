#!POPCORN leaderboard vectoradd

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    """The sum of the two vectors, in two steps where one would do."""
    a, b = data
    output = torch.zeros_like(a)
    output += a
    output += b
    return output
