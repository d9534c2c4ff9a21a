#!POPCORN leaderboard heat

import numpy as np
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    """Step by step, each into a new plate."""
    plate, steps = data
    for _ in range(steps):
        after = plate.copy()
        around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
        after[1:-1, 1:-1] = (plate[1:-1, 1:-1] + around) * np.float32(0.2)
        plate = after
    return plate
