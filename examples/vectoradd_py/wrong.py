#!POPCORN leaderboard vectoradd_py
"""Wrong: adds whole blocks only, and forgets what is left over at the end."""

import torch
from task import input_t, output_t

BLOCK = 1024


def custom_kernel(data: input_t) -> output_t:
    a, b = data
    covered = len(a) // BLOCK * BLOCK
    output = torch.zeros_like(a)
    output[:covered] = a[:covered] + b[:covered]
    return output
