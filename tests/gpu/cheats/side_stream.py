#!POPCORN leaderboard vectoradd_py
# Expected: wrong_value, wrong_nonfinite, timing_inconsistent
"""Computes on a stream of its own that nothing waits for: the current stream's events see no work."""

import torch

STREAMS: list[torch.cuda.Stream] = []


def custom_kernel(data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    if not STREAMS:
        STREAMS.append(torch.cuda.Stream())
    a, b = data
    output = torch.full_like(a, float("nan"))
    with torch.cuda.stream(STREAMS[0]):
        torch.add(a, b, out=output)
    return output
