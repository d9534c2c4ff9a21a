#!POPCORN leaderboard identity_py
"""Copies one block after the other: right, and slow because every block is a call of its own."""

import torch
from task import input_t, output_t

BLOCK = 4096


def custom_kernel(data: input_t) -> output_t:
    output = torch.empty_like(data)
    for start in range(0, len(data), BLOCK):
        output[start : start + BLOCK] = data[start : start + BLOCK]
    return output
