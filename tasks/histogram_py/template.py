#!POPCORN leaderboard histogram_py

import torch
from task import input_t, output_t

VALUES = 256


def custom_kernel(data: input_t) -> output_t:
    """Adds one to the count of each element, all of them at once."""
    counts = torch.zeros(VALUES, dtype=torch.int64, device=data.device)
    return counts.scatter_add_(0, data.long(), torch.ones(len(data), dtype=torch.int64, device=data.device))
