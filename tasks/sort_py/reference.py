"""Sorting: the inputs, the right answer, and what counts as right."""

import torch
from task import input_t, output_t
from utils import equal


def generate_input(size: int, seed: int) -> input_t:
    """Numbers of both signs and many magnitudes in any order; an eighth of them are repetitions."""
    generator = torch.Generator(device=torch.get_default_device()).manual_seed(seed)
    magnitude = 10 ** (6 * torch.rand(size, generator=generator) - 3)
    x = torch.randn(size, generator=generator) * magnitude
    x[: size // 8] = x[size - size // 8 :]
    return x[torch.randperm(size, generator=generator)]


def ref_kernel(data: input_t) -> output_t:
    """The same numbers in ascending order."""
    return data.sort().values


def minimal_work(size: int, seed: int) -> tuple[int, int]:
    """A vector read and one written. Operations are not counted: how many are needed depends on the way of sorting."""
    del seed
    return 2 * 4 * size, 0


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Whether every element is the right one."""
    return equal(output, ref_kernel(data))
