"""What goes in and what comes out."""

from typing import TypedDict

import torch

input_t = tuple[torch.Tensor, torch.Tensor]
output_t = torch.Tensor


class TestSpec(TypedDict):
    """One case of task.yml."""

    batch: int
    channels: int
    height: int
    width: int
    filters: int
    window: int
    seed: int
