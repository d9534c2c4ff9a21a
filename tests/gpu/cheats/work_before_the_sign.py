#!POPCORN leaderboard vectoradd_py
# Expected: pass
# Honest: workspace
"""Clears its workspace of 128 MiB on a stream that does not wait for the sign: before the window.

It is right. `vectoradd_workspace.py` is the same kernel without the second stream.
"""

import torch

STREAMS: list[torch.cuda.Stream] = []


def custom_kernel(data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    a, b = data
    if not STREAMS:
        STREAMS.append(torch.cuda.Stream())
    with torch.cuda.stream(STREAMS[0]):
        workspace = torch.zeros(2**25, dtype=torch.float32, device=a.device)
    torch.cuda.current_stream().wait_stream(STREAMS[0])
    return a + b + workspace[: len(a)]
