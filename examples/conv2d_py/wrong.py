#!POPCORN leaderboard conv2d_py
"""Wrong: turns the filters round, as a convolution of signals does."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, w = data
    return torch.nn.functional.conv2d(x, w.flip(2, 3))
