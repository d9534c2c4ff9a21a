#!POPCORN leaderboard vectoradd_py
# Expected: wrong_value, wrong_nonfinite, late_write, timing_inconsistent
"""Leaves the work to a thread that begins when the call has returned."""

import threading

import torch


def custom_kernel(data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    a, b = data
    output = torch.full_like(a, float("nan"))
    threading.Timer(0.0005, torch.add, (a, b), {"out": output}).start()
    return output
