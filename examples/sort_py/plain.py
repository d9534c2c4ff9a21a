#!POPCORN leaderboard sort_py
"""Sorts by digits of four bits, the lowest first: right, and slow because every digit moves the whole vector."""

import torch
from task import input_t, output_t

DIGIT_BITS = 4


def custom_kernel(data: input_t) -> output_t:
    bits = data.view(torch.int32).long() & 0xFFFFFFFF
    keys = torch.where(data.signbit(), bits ^ 0xFFFFFFFF, bits | 0x80000000)
    order = torch.arange(len(data), device=data.device)
    for shift in range(0, 32, DIGIT_BITS):
        digits = (keys[order] >> shift) & (2**DIGIT_BITS - 1)
        order = torch.cat([order[digits == digit] for digit in range(2**DIGIT_BITS)])
    return data[order]
