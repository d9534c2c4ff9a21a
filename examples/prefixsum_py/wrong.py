#!POPCORN leaderboard prefixsum_py
"""Wrong: scans blocks by themselves, and adds to each only the total of the block before it."""

import torch
from task import input_t, output_t

BLOCK = 256


def custom_kernel(data: input_t) -> output_t:
    parts = [block.cumsum(dim=0) for block in data.split(BLOCK)]
    for index in range(len(parts) - 1, 0, -1):
        parts[index] = parts[index] + parts[index - 1][-1]
    return torch.cat(parts)
