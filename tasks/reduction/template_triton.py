#!POPCORN leaderboard reduction

import torch
import triton
import triton.language as tl
from task import input_t, output_t

BLOCK = 1024


@triton.jit
def sum_rows(x, s, columns, block: tl.constexpr):
    """The sum of one row, as many columns at a time as the block has."""
    row = tl.program_id(0)
    total = tl.zeros((block,), dtype=tl.float32)
    for start in range(0, columns, block):
        at = start + tl.arange(0, block)
        total += tl.load(x + row * columns + at, mask=at < columns, other=0.0)
    tl.store(s + row, tl.sum(total))


def custom_kernel(data: input_t) -> output_t:
    """The sum of each row, one program for each."""
    rows, columns = data.shape
    s = torch.empty(rows, device=data.device)
    sum_rows[(rows,)](data, s, columns, BLOCK)
    return s
