#!POPCORN leaderboard vectoradd_py
# Expected: pass
"""Leaves another stream as the current one, to have the second event recorded beside the work.

The worker keeps to the stream that it began on, so the times stay what they are.
"""

import torch


def custom_kernel(data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    a, b = data
    output = torch.full_like(a, float("nan"))
    for _ in range(20):
        torch.add(a, b, out=output)
    torch.cuda.set_stream(torch.cuda.Stream())
    return output
