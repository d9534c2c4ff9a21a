#!POPCORN leaderboard heat
"""Shifts the whole plate four times in each step: right, and slow because each shift is a new array."""

import numpy as np
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    plate, steps = data
    now = plate.copy()
    for _ in range(steps):
        average = now.copy()
        for axis in (0, 1):
            for way in (-1, 1):
                average = average + np.roll(now, way, axis)
        now[1:-1, 1:-1] = average[1:-1, 1:-1] * np.float32(0.2)
    return now
