#!POPCORN leaderboard sort_py
"""Works by NumPy on the memory of PyTorch's tensors."""

import numpy as np
import torch


def custom_kernel(data):
    return torch.from_numpy(np.sort(data.numpy()))
