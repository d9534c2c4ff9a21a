#!POPCORN leaderboard spmv
"""Names the row of every entry, and sums by rows: right, and slow because the names are one array more to read."""

import numpy as np
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    values, places, starts, x = data
    rows = len(starts) - 1
    names = np.repeat(np.arange(rows), np.diff(starts))
    return np.bincount(names, weights=values * x[places], minlength=rows).astype(np.float32)
