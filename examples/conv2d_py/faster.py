#!POPCORN leaderboard conv2d_py
"""The library's convolution in full float32: it chooses a way by the sizes."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    with torch.backends.cudnn.flags(allow_tf32=False):
        return torch.nn.functional.conv2d(*data)
