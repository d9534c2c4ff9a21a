#!POPCORN leaderboard histogram_py
"""Sorts the vector, and finds where each value ends: right, and slow because the order is not needed."""

import torch
from task import input_t, output_t

VALUES = 256


def custom_kernel(data: input_t) -> output_t:
    ends = torch.searchsorted(
        data.sort().values, torch.arange(VALUES, dtype=torch.uint8, device=data.device), right=True
    )
    return ends.diff(prepend=ends.new_zeros(1))
