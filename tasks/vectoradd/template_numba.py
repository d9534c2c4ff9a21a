#!POPCORN leaderboard vectoradd

import torch
from numba import cuda
from task import input_t, output_t

THREADS = 256


@cuda.jit
def add(a, b, c):
    """One element in each thread."""
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + b[i]


def custom_kernel(data: input_t) -> output_t:
    """The sum of the two vectors, on PyTorch's stream."""
    a, b = data
    c = torch.empty_like(a)
    stream = cuda.external_stream(torch.cuda.current_stream().cuda_stream)
    arrays = [cuda.as_cuda_array(tensor, sync=False) for tensor in (a, b, c)]
    add[(c.numel() + THREADS - 1) // THREADS, THREADS, stream](*arrays)
    return c
