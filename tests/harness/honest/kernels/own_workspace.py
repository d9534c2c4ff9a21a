#!POPCORN leaderboard prefixsum_py
"""Computes in a workspace of its own that it keeps from call to call."""

import torch

_workspace = torch.empty(0, dtype=torch.float64)


def custom_kernel(data):
    global _workspace
    if _workspace.numel() < data.numel():
        _workspace = torch.empty(data.numel(), dtype=torch.float64)
    totals = _workspace[: data.numel()]
    totals.copy_(data)
    torch.cumsum(totals, dim=0, out=totals)
    return totals.float()
