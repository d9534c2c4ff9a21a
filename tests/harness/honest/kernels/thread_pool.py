#!POPCORN leaderboard softmax_py
"""Hands parts of its rows to a pool of threads that lives as long as the process."""

from concurrent.futures import ThreadPoolExecutor

import torch

_THREADS = 2
_pool = ThreadPoolExecutor(_THREADS)


def _softmax(x, y):
    torch.softmax(x, dim=-1, out=y)


def custom_kernel(data):
    y = torch.empty_like(data)
    parts = [_pool.submit(_softmax, *each) for each in zip(data.chunk(_THREADS), y.chunk(_THREADS), strict=True)]
    for part in parts:
        part.result()
    return y
