#!POPCORN leaderboard vectoradd_py
# Expected: wrong_value, wrong_nonfinite, timing_inconsistent
"""Leaves another stream as the current one, so that the second event is recorded beside the work."""

import torch


def custom_kernel(data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    a, b = data
    output = torch.full_like(a, float("nan"))
    for _ in range(20):
        torch.add(a, b, out=output)
    torch.cuda.set_stream(torch.cuda.Stream())
    return output
