#!POPCORN leaderboard attention_py
"""The library's attention, which goes through keys and values in blocks and never has the whole matrix of products."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    config, q, k, v = data
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=config["causal"], scale=config["scale"])
