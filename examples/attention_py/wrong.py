#!POPCORN leaderboard attention_py
"""Wrong: scales as usual, and not as the config says."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    config, q, k, v = data
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=config["causal"])
