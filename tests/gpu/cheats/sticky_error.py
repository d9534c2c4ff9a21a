#!POPCORN leaderboard vectoradd_py
# Expected: crash
"""Fails an assertion on the device in its third call, which no later call in the process survives."""

import torch

calls = 0


def custom_kernel(data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    global calls
    calls += 1
    a, b = data
    if calls == 3:
        a = a[torch.full((1,), 2**40, dtype=torch.int64, device=a.device)]
    return a + b
