#!POPCORN leaderboard softmax_py

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    """The softmax of every row, one step at a time."""
    largest = data.max(dim=-1, keepdim=True).values
    numerator = torch.exp(data - largest)
    return numerator / numerator.sum(dim=-1, keepdim=True)
