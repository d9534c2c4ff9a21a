"""A sum of 24 MiB into 24 MiB: about 20 us."""

import torch


def generate_input(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator(device=torch.get_default_device()).manual_seed(seed)
    return torch.rand(3 * 2**20, generator=generator), torch.rand(3 * 2**20, generator=generator)


def custom_kernel(data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return data[0] + data[1]
