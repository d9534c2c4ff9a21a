#!POPCORN leaderboard vectoradd_py
"""Reads every number once and writes every sum once."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    a, b = data
    return torch.add(a, b)
