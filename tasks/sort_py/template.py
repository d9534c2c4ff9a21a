#!POPCORN leaderboard sort_py

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    """Sorted by merging, from neighbours up: each element's place is its own rank and that in the other half."""
    size = 1 << (len(data) - 1).bit_length()
    x = torch.full((size,), torch.inf, device=data.device)
    x[: len(data)] = data
    width = 1
    while width < size:
        left, right = x.view(-1, 2, width).unbind(dim=1)
        left, right = left.contiguous(), right.contiguous()
        own = torch.arange(width, device=data.device)
        merged = torch.empty(len(left), 2 * width, device=data.device)
        merged.scatter_(1, own + torch.searchsorted(right, left), left)
        merged.scatter_(1, own + torch.searchsorted(left, right, right=True), right)
        x, width = merged.flatten(), 2 * width
    return x[: len(data)].clone()
