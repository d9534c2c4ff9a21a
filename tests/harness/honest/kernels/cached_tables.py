#!POPCORN leaderboard prefixsum_py
"""Keeps tables that depend only on the shape of its input."""

from functools import cache

import torch

_WIDTH = 64


@cache
def _triangle(width):
    return torch.ones(width, width, dtype=torch.float64).triu()


def custom_kernel(data):
    rows = -(-data.numel() // _WIDTH)
    padded = torch.zeros(rows * _WIDTH, dtype=torch.float64)
    padded[: data.numel()] = data
    totals = padded.view(rows, _WIDTH) @ _triangle(_WIDTH)
    totals[1:] += totals[:-1, -1].cumsum(dim=0)[:, None]
    return totals.view(-1)[: data.numel()].float()
