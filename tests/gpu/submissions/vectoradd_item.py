#!POPCORN leaderboard vectoradd_py
"""Vector addition that reads a number of its result on the host, which waits for the GPU."""


def custom_kernel(data):
    a, b = data
    c = a + b
    return c if c[0].item() == c[0].item() else c.clone()
