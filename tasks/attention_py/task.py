"""What goes in and what comes out."""

from typing import TypedDict

import torch


class Config(TypedDict):
    """What the products are scaled with, and whether a position sees only itself and those before it."""

    scale: float
    causal: bool


input_t = tuple[Config, torch.Tensor, torch.Tensor, torch.Tensor]
output_t = torch.Tensor


class TestSpec(TypedDict):
    """One case of task.yml."""

    batch: int
    heads: int
    length: int
    width: int
    causal: bool
    seed: int
