#!POPCORN leaderboard reduction

import torch
from task import input_t, output_t

BLOCK = 64


def custom_kernel(data: input_t) -> output_t:
    """The sum of each row, a block of columns at a time."""
    total = torch.zeros(data.shape[0], device=data.device)
    for block in data.split(BLOCK, dim=1):
        total += block.sum(dim=1)
    return total
