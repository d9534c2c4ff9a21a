#!POPCORN leaderboard vectoradd_py
# Expected: timeout
"""Starts a kernel that spins for hours."""

import torch


def custom_kernel(data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    torch.cuda._sleep(2**50)
    return data[0] + data[1]
