#!POPCORN leaderboard softmax_py
"""One operation after the other: right, and slow because each of them goes through the whole matrix."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    largest = data.max(dim=-1, keepdim=True).values
    shifted = data - largest
    numerator = torch.exp(shifted)
    denominator = numerator.sum(dim=-1, keepdim=True)
    return numerator / denominator
