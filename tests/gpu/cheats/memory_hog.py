#!POPCORN leaderboard vectoradd_py
# Expected: out_of_memory
"""Takes all memory of the device that is left and keeps it."""

import torch

HELD: list[torch.Tensor] = []


def custom_kernel(data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    a, b = data
    size = 2**40
    while size > 2**20:
        try:
            HELD.append(torch.empty(size, dtype=torch.uint8, device=a.device))
        except torch.OutOfMemoryError:
            size //= 2
    return a + b
