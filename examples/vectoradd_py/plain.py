#!POPCORN leaderboard vectoradd_py
"""Puts the vectors side by side and sums the pairs: right, and slow because every number is moved twice."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    return torch.stack(data).sum(dim=0)
