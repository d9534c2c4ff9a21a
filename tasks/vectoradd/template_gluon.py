#!POPCORN leaderboard vectoradd

import torch
import triton
from task import input_t, output_t
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

BLOCK = 1024
WARPS = 4
# Each thread holds four adjacent elements: 16 bytes, the widest load. AMD's CDNA has warps of 64 threads.
THREADS = 32 if torch.version.hip is None else 64
LAYOUT = gl.BlockedLayout(size_per_thread=[4], threads_per_warp=[THREADS], warps_per_cta=[WARPS], order=[0])


@gluon.jit
def add(a, b, c, size, block: gl.constexpr, layout: gl.constexpr):
    """One block of the sum."""
    at = gl.program_id(0) * block + gl.arange(0, block, layout=layout)
    inside = at < size
    gl.store(c + at, gl.load(a + at, mask=inside) + gl.load(b + at, mask=inside), mask=inside)


def custom_kernel(data: input_t) -> output_t:
    """The sum of the two vectors, in blocks with a layout of their own."""
    a, b = data
    c = torch.empty_like(a)
    add[(triton.cdiv(a.numel(), BLOCK),)](a, b, c, a.numel(), BLOCK, LAYOUT, num_warps=WARPS)
    return c
