#!POPCORN leaderboard softmax_py
"""Wrong: saves the pass for the maximum, and overflows."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    numerator = torch.exp(data)
    return numerator / numerator.sum(dim=-1, keepdim=True)
