#!POPCORN leaderboard heat
"""Writes each step into a plate that is there already, block of rows by block, so that a block stays in a cache."""

import numpy as np
from task import input_t, output_t

ROWS = 64


def custom_kernel(data: input_t) -> output_t:
    plate, steps = data
    now, then = plate.copy(), plate.copy()
    fifth = np.float32(0.2)
    for _ in range(steps):
        for begin in range(1, len(plate) - 1, ROWS):
            end = min(begin + ROWS, len(plate) - 1)
            target = then[begin:end, 1:-1]
            np.add(now[begin - 1 : end - 1, 1:-1], now[begin + 1 : end + 1, 1:-1], out=target)
            target += now[begin:end, :-2]
            target += now[begin:end, 2:]
            target += now[begin:end, 1:-1]
            target *= fifth
        now, then = then, now
    return now
