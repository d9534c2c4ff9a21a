#!POPCORN leaderboard matmul_py
"""One call to the library, which keeps its tiles of the result in registers."""

from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    a, b = data
    return a @ b
