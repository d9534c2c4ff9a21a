#!POPCORN leaderboard vectoradd

import cupy
import torch
from task import input_t, output_t

add = cupy.ElementwiseKernel("float32 a, float32 b", "float32 c", "c = a + b", "add")


def custom_kernel(data: input_t) -> output_t:
    """The sum of the two vectors, on PyTorch's stream and in memory of PyTorch."""
    c = torch.empty_like(data[0])
    with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
        add(*(cupy.from_dlpack(tensor) for tensor in (*data, c)))
    return c
