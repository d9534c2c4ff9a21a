#!POPCORN leaderboard spmv

import numpy as np
from task import matrix_t, output_t


def prepare(values: np.ndarray, places: np.ndarray, starts: np.ndarray) -> matrix_t:
    """Once in a process for each case, outside of the times: another form of the matrix may pay off."""
    return values, places, starts


def custom_kernel(data: tuple[np.ndarray], matrix: matrix_t) -> output_t:
    """Row by row."""
    (x,), (values, places, starts) = data, matrix
    y = np.zeros(len(starts) - 1, dtype=np.float32)
    for row in range(len(y)):
        begin, end = starts[row], starts[row + 1]
        y[row] = values[begin:end] @ x[places[begin:end]]
    return y
