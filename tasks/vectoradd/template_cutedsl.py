#!POPCORN leaderboard vectoradd

import cuda.bindings.driver as cuda
import torch
from cutlass import cute
from cutlass.cute.runtime import from_dlpack
from task import input_t, output_t

THREADS = 256


@cute.kernel
def add_elements(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    """One element in each thread."""
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * THREADS + thread
    if i < cute.size(c):
        c[i] = a[i] + b[i]


@cute.jit
def add(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, stream: cuda.CUstream):
    """The launch."""
    blocks = cute.ceil_div(cute.size(c), THREADS)
    add_elements(a, b, c).launch(grid=[blocks, 1, 1], block=[THREADS, 1, 1], stream=stream)


compiled = []


def custom_kernel(data: input_t) -> output_t:
    """The sum of the two vectors; the first call compiles it, for all sizes."""
    c = torch.empty_like(data[0])
    tensors = [from_dlpack(tensor).mark_layout_dynamic() for tensor in (*data, c)]
    stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
    if not compiled:
        compiled.append(cute.compile(add, *tensors, stream))
    compiled[0](*tensors, stream)
    return c
