#!POPCORN leaderboard matmul

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    """The product as a sum: each column of `a` times the row of `b` that belongs to it."""
    a, b = data
    product = torch.zeros(a.shape[0], b.shape[1], device=a.device)
    for column, row in zip(a.T, b, strict=True):
        product += torch.outer(column, row)
    return product
