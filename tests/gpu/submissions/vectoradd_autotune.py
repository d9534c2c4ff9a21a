#!POPCORN leaderboard vectoradd_py
"""Vector addition in Triton, which tries block sizes at its first call."""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((512, 4), (1024, 4), (2048, 8))],
    key=["size"],
)
@triton.jit
def add(a, b, c, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    tl.store(c + at, tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside), mask=inside)


def custom_kernel(data):
    a, b = data
    c = torch.empty_like(a)
    add[lambda chosen: (triton.cdiv(len(a), chosen["BLOCK"]),)](a, b, c, len(a))
    return c
