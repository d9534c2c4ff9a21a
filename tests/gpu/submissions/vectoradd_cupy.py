#!POPCORN leaderboard vectoradd_py
"""Vector addition in CuPy, whose arrays share the tensors' memory."""

import cupy
import torch


def custom_kernel(data):
    with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
        a, b = map(cupy.from_dlpack, data)
        return a + b
