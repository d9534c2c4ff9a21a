#!POPCORN leaderboard histogram_py
"""Counts two bytes of many at a time: half as many additions, into a table of all pairs that is summed both ways."""

import torch
from task import input_t, output_t

VALUES = 256
MANY = 2**19
"""Clearing and summing the table takes longer than the additions that it saves for fewer values."""


def custom_kernel(data: input_t) -> output_t:
    if len(data) < MANY:
        return torch.bincount(data, minlength=VALUES)
    even = len(data) // 2 * 2
    pairs = data[:even].view(torch.int16).to(torch.int32) & 0xFFFF
    table = torch.bincount(pairs, minlength=VALUES * VALUES).view(VALUES, VALUES)
    counts = table.sum(dim=0) + table.sum(dim=1)
    return counts + torch.bincount(data[even:], minlength=VALUES)
