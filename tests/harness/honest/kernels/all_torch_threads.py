#!POPCORN leaderboard attention_py
"""Has PyTorch use a thread for each processor."""

import os

import torch

torch.set_num_threads(len(os.sched_getaffinity(0)))


def custom_kernel(data):
    config, q, k, v = data
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=config["causal"], scale=config["scale"])
