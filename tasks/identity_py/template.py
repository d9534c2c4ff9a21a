#!POPCORN leaderboard identity_py

from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    """A vector that is equal to `data`."""
    return data.clone()
