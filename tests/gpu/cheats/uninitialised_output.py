#!POPCORN leaderboard vectoradd_py
# Expected: wrong_value, wrong_nonfinite
"""Returns memory as it finds it, in the hope that a right answer was there."""

import torch


def custom_kernel(data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return torch.empty_like(data[0])
