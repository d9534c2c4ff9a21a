#!POPCORN leaderboard matmul_py
"""Wrong: sums over whole tiles only, and drops the tail where the tile does not divide `k`."""

from task import input_t, output_t

TILE = 16


def custom_kernel(data: input_t) -> output_t:
    a, b = data
    covered = a.shape[1] // TILE * TILE
    return a[:, :covered] @ b[:covered]
