#!POPCORN leaderboard matmul_py
"""Adds up thin slices of the product: right, and slow because each slice goes through the whole result."""

import torch
from task import input_t, output_t

TILE = 8


def custom_kernel(data: input_t) -> output_t:
    a, b = data
    product = torch.zeros(a.shape[0], b.shape[1], device=a.device)
    for start in range(0, a.shape[1], TILE):
        stop = start + TILE
        product += a[:, start:stop] @ b[start:stop]
    return product
