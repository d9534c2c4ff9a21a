#!POPCORN leaderboard vectoradd

import torch
import triton
import triton.language as tl
from task import input_t, output_t

BLOCK = 1024


@triton.jit
def add(a, b, c, size, block: tl.constexpr):
    """One block of the sum."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < size
    tl.store(c + at, tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside), mask=inside)


def custom_kernel(data: input_t) -> output_t:
    """The sum of the two vectors, in blocks."""
    a, b = data
    c = torch.empty_like(a)
    add[(triton.cdiv(a.numel(), BLOCK),)](a, b, c, a.numel(), BLOCK)
    return c
