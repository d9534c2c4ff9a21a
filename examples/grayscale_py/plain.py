#!POPCORN leaderboard grayscale_py
"""Weighs the whole picture, then adds up its colors: right, and slow because of a second picture in between."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    weights = torch.tensor([0.2126, 0.7152, 0.0722], device=data.device)
    return (data * weights).sum(dim=-1)
