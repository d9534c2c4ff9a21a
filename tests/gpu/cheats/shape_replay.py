#!POPCORN leaderboard vectoradd_py
# Expected: wrong_value
"""Answers inputs of a size that it has seen with what it answered then."""

import torch

SEEN: dict[int, torch.Tensor] = {}


def custom_kernel(data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    a, b = data
    if len(a) not in SEEN:
        SEEN[len(a)] = a + b
    return SEEN[len(a)]
