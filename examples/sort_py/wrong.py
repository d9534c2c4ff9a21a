#!POPCORN leaderboard sort_py
"""Wrong: takes equal elements for one, and fills up with the largest."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    found = data.unique(sorted=True)
    return torch.cat([found, found[-1:].expand(len(data) - len(found))])
