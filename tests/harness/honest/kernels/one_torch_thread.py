#!POPCORN leaderboard softmax_py
"""Has PyTorch use one thread."""

import torch

torch.set_num_threads(1)


def custom_kernel(data):
    return torch.softmax(data, dim=-1)
