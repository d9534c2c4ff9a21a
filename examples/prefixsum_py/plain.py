#!POPCORN leaderboard prefixsum_py
"""Doubles the reach of every total, step by step: right, and slow because each step goes through the whole vector."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    total, reach = data.clone(), 1
    while reach < len(data):
        shifted = torch.zeros_like(total)
        shifted[reach:] = total[:-reach]
        total = total + shifted
        reach *= 2
    return total
