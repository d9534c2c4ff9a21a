#!POPCORN leaderboard grayscale_py
"""A product of a matrix with a vector: each number is read once, and nothing is kept in between."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    height, width, _ = data.shape
    weights = torch.tensor([0.2126, 0.7152, 0.0722], device=data.device)
    return torch.mv(data.view(-1, 3), weights).view(height, width)
