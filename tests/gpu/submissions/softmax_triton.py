#!POPCORN leaderboard softmax_py
"""Softmax in Triton: one program for each row, which goes over its row three times."""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    offsets = tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), float("-inf"), tl.float32)
    for start in range(0, columns, BLOCK):
        inside = start + offsets < columns
        largest = tl.maximum(largest, tl.load(x + row + start + offsets, mask=inside, other=float("-inf")))
    top = tl.max(largest, axis=0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        inside = start + offsets < columns
        total += tl.exp(tl.load(x + row + start + offsets, mask=inside, other=float("-inf")) - top)
    scale = 1.0 / tl.sum(total, axis=0)
    for start in range(0, columns, BLOCK):
        inside = start + offsets < columns
        value = tl.exp(tl.load(x + row + start + offsets, mask=inside, other=float("-inf")) - top) * scale
        tl.store(y + row + start + offsets, value, mask=inside)


def custom_kernel(data):
    rows, columns = data.shape
    output = torch.empty_like(data)
    softmax[(rows,)](data, output, columns, BLOCK=1024)
    return output
