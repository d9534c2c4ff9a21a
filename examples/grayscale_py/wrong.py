#!POPCORN leaderboard grayscale_py
"""Wrong: has the weights of the older standard, Rec. 601."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    weights = torch.tensor([0.299, 0.587, 0.114], device=data.device)
    return data @ weights
