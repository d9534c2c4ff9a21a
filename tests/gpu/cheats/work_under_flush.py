#!POPCORN leaderboard vectoradd_py
# Expected: wrong_value, wrong_nonfinite, timing_inconsistent
"""Computes on a stream of its own while the caches are still being emptied, and has the current one wait for it."""

import torch

STREAMS: list[torch.cuda.Stream] = []


def custom_kernel(data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    if not STREAMS:
        STREAMS.append(torch.cuda.Stream())
    with torch.cuda.stream(STREAMS[0]):
        output = data[0] + data[1]
    torch.cuda.current_stream().wait_stream(STREAMS[0])
    return output
