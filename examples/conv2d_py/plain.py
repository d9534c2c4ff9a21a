#!POPCORN leaderboard conv2d_py
"""One channel after the other: right, and slow because each product goes through the whole result."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, w = data
    batch, channels, height, width = x.shape
    filters, _, window, _ = w.shape
    rows, columns = height - window + 1, width - window + 1
    y = torch.zeros(batch, filters, rows, columns, device=x.device)
    for c in range(channels):
        for a in range(window):
            for b in range(window):
                y += x[:, c, None, a : a + rows, b : b + columns] * w[None, :, c, a, b, None, None]
    return y
