#!POPCORN leaderboard identity_py
"""Wrong: moves half the bytes by way of half precision, and loses the lower digits."""

from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    return data.half().float()
