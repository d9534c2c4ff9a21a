#!POPCORN leaderboard spmv
"""Wrong: the sum of an empty row is the term at its start, which is another row's."""

import numpy as np
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    values, places, starts, x = data
    return np.add.reduceat(values * x[places], np.minimum(starts[:-1], len(values) - 1))
