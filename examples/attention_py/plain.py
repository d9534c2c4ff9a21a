#!POPCORN leaderboard attention_py
"""One position after the other: right, and slow because the products of matrices become products with vectors."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    config, q, k, v = data
    y = torch.empty_like(q)
    for i in range(q.shape[2]):
        stop = i + 1 if config["causal"] else k.shape[2]
        products = config["scale"] * (k[:, :, :stop] @ q[:, :, i, :, None])
        y[:, :, i] = (torch.softmax(products, dim=-2) * v[:, :, :stop]).sum(dim=-2)
    return y
