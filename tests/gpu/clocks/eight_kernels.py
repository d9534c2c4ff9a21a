"""Eight small kernels, one after the other, whose launches no window contains."""

import torch


def generate_input(seed: int) -> torch.Tensor:
    generator = torch.Generator(device=torch.get_default_device()).manual_seed(seed)
    return torch.rand(2**18, generator=generator)


def custom_kernel(data: torch.Tensor) -> torch.Tensor:
    for _ in range(8):
        data = data * 0.5
    return data
