"""Types of the input and the output; submissions may import them."""

from typing import TypedDict

import torch

input_t = torch.Tensor
output_t = torch.Tensor


class TestSpec(TypedDict):
    """One case of task.yml."""

    size: int
    seed: int
