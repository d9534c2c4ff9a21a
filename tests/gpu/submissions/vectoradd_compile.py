#!POPCORN leaderboard vectoradd_py
"""Vector addition by torch.compile."""

import torch


@torch.compile(dynamic=True)
def add(a, b):
    return a + b


def custom_kernel(data):
    return add(*data)
