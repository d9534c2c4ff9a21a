#!POPCORN leaderboard vectoradd

import helion
import helion.language as hl
import torch
from task import input_t, output_t


# The config switches the autotuner off; its search would take minutes of the first call.
@helion.kernel(config=helion.Config(block_sizes=[1024], num_warps=4), static_shapes=False)
def add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The sum, tile by tile."""
    c = torch.empty_like(a)
    for tile in hl.tile(a.size(0)):
        c[tile] = a[tile] + b[tile]
    return c


def custom_kernel(data: input_t) -> output_t:
    """The sum of the two vectors."""
    return add(*data)
