#!POPCORN leaderboard conv2d_py

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    """The convolution as a sum: each place of the window adds a product of matrices to the whole result."""
    x, w = data
    batch, _, height, width = x.shape
    filters, _, window, _ = w.shape
    rows, columns = height - window + 1, width - window + 1
    y = torch.zeros(batch, filters, rows, columns, device=x.device)
    for a in range(window):
        for b in range(window):
            y += torch.einsum("oc,ncij->noij", w[:, :, a, b], x[:, :, a : a + rows, b : b + columns])
    return y
