#!POPCORN leaderboard vectoradd

import cuda.tile as ct
import torch
from task import input_t, output_t

TILE = 1024


@ct.kernel
def add(a, b, c, tile: ct.Constant[int]):
    """One tile of the sum; elements behind the end are neither read nor written."""
    index = ct.bid(0)
    left = ct.load(a, index=(index,), shape=(tile,), padding_mode=ct.PaddingMode.ZERO)
    right = ct.load(b, index=(index,), shape=(tile,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(c, index=(index,), tile=left + right)


def custom_kernel(data: input_t) -> output_t:
    """The sum of the two vectors."""
    a, b = data
    c = torch.empty_like(a)
    ct.launch(torch.cuda.current_stream(), (ct.cdiv(a.numel(), TILE),), add, (a, b, c, TILE))
    return c
