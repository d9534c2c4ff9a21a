#!POPCORN leaderboard vectoradd_py
"""Vector addition in Triton."""

import torch
import triton
import triton.language as tl


@triton.jit
def add(a, b, c, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    tl.store(c + at, tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside), mask=inside)


def custom_kernel(data):
    a, b = data
    c = torch.empty_like(a)
    add[(triton.cdiv(len(a), 1024),)](a, b, c, len(a), BLOCK=1024)
    return c
