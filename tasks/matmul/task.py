"""What goes in and what comes out."""

from typing import TypedDict

import torch

input_t = tuple[torch.Tensor, torch.Tensor]
output_t = torch.Tensor


class TestSpec(TypedDict):
    """One case of task.yml."""

    m: int
    k: int
    n: int
    seed: int
