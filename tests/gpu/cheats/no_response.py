#!POPCORN leaderboard identity_py
# Expected: timing_inconsistent
"""Leaves out the response to the judge's challenge, so that a copy engine can do all of its work."""

import gc

import torch


def custom_kernel(data: torch.Tensor) -> torch.Tensor:
    for each in gc.get_objects():
        if type(each).__name__ == "GpuQueue":
            each._kept.mul = lambda *_arguments, **_names: None
    return data.clone()
