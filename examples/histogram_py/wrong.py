#!POPCORN leaderboard histogram_py
"""Wrong: marks the values that occur, and counts none of them twice."""

import torch
from task import input_t, output_t

VALUES = 256


def custom_kernel(data: input_t) -> output_t:
    counts = torch.zeros(VALUES, dtype=torch.int64, device=data.device)
    counts[data.long()] += 1
    return counts
