#!POPCORN leaderboard identity_py
"""Copies everything in one call."""

from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    return data.clone()
