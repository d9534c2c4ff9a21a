#!POPCORN leaderboard prefixsum_py

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    """The totals in steps: after each, an element holds the sum of twice as many elements as before."""
    total, reach = data.clone(), 1
    while reach < len(data):
        total = torch.cat([total[:reach], total[reach:] + total[:-reach]])
        reach *= 2
    return total
