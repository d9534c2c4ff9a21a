#!POPCORN leaderboard spmv
"""Sums the terms from the start of each row to the next. Empty rows are left out: `reduceat` gives them a term."""

import numpy as np
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    values, places, starts, x = data
    y = np.zeros(len(starts) - 1, dtype=np.float32)
    filled = starts[:-1] < starts[1:]
    terms = x.take(places)
    terms *= values
    y[filled] = np.add.reduceat(terms, starts[:-1][filled])
    return y
