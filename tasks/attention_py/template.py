#!POPCORN leaderboard attention_py

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    """Attention one step at a time, with the whole matrix of products."""
    config, q, k, v = data
    products = config["scale"] * (q @ k.transpose(-2, -1))
    if config["causal"]:
        hidden = torch.ones(products.shape[-2:], dtype=torch.bool, device=q.device).triu(diagonal=1)
        products = products.masked_fill(hidden, -torch.inf)
    return torch.softmax(products, dim=-1) @ v
