#!POPCORN leaderboard matmul_py
"""Times three variants in its first calls of a shape and keeps the fastest."""

import time

import torch


def _at_once(a, b):
    return a @ b


def _by_rows(a, b):
    return torch.cat([part @ b for part in a.split(128)])


def _by_columns(a, b):
    return torch.cat([a @ part for part in b.split(128, dim=1)], dim=1)


_VARIANTS = (_at_once, _by_rows, _by_columns)
_seconds = {}


def custom_kernel(data):
    a, b = data
    tried = _seconds.setdefault((a.shape, b.shape), [])
    if len(tried) == len(_VARIANTS):
        return _VARIANTS[tried.index(min(tried))](a, b)
    start = time.perf_counter()
    c = _VARIANTS[len(tried)](a, b)
    tried.append(time.perf_counter() - start)
    return c
