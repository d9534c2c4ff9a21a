#!POPCORN leaderboard vectoradd_py
"""Prints a line in each call."""

import torch


def custom_kernel(data):
    a, b = data
    print(f"adding {a.numel()} numbers", flush=True)
    return torch.add(a, b)
