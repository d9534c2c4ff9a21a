#!POPCORN leaderboard identity_py
"""A copy in Triton."""

import torch
import triton
import triton.language as tl


@triton.jit
def copy(source, target, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    tl.store(target + at, tl.load(source + at, mask=inside), mask=inside)


def custom_kernel(data):
    output = torch.empty_like(data)
    copy[(triton.cdiv(len(data), 1024),)](data, output, len(data), BLOCK=1024)
    return output
