#!POPCORN leaderboard prefixsum_py
"""Scans blocks side by side, then adds to each block the total of those before it: two passes in all."""

import torch
from task import input_t, output_t

BLOCK = 4096


def custom_kernel(data: input_t) -> output_t:
    whole = len(data) // BLOCK * BLOCK
    if whole == 0:
        return data.cumsum(dim=0)
    y = torch.empty_like(data)
    blocks = y[:whole].view(-1, BLOCK)
    torch.cumsum(data[:whole].view(-1, BLOCK), dim=1, out=blocks)
    before = blocks[:, -1].cumsum(dim=0)
    blocks[1:] += before[:-1, None]
    if whole < len(data):
        torch.cumsum(data[whole:], dim=0, out=y[whole:])
        y[whole:] += before[-1]
    return y
