#!POPCORN leaderboard heat
"""Wrong: takes the opposite border for the neighbour of a border, and lets the border change."""

import numpy as np
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    now, steps = data
    for _ in range(steps):
        now = (now + sum(np.roll(now, way, axis) for axis in (0, 1) for way in (-1, 1))) * np.float32(0.2)
    return now
