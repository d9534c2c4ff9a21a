"""The inputs, the right answer, and the check: replace them by those of your task."""

import torch
from task import input_t, output_t
from utils import make_match_reference


def generate_input(size: int, seed: int) -> input_t:
    """Return normal random numbers; the seed decides their magnitude too."""
    generator = torch.Generator(device=torch.get_default_device()).manual_seed(seed)
    magnitude = 10 ** (torch.rand(1, generator=generator) - 0.5)
    return magnitude * torch.randn(size, generator=generator)


def ref_kernel(data: input_t) -> output_t:
    """Return softsign, computed in float64 and rounded once."""
    exact = data.double()
    return (exact / (1 + exact.abs())).float()


def minimal_work(size: int, seed: int) -> tuple[int, int]:
    """Return the least bytes to move and operations: one vector in, one out, two operations for each element."""
    del seed
    return 2 * 4 * size, 2 * size


check_implementation = make_match_reference(ref_kernel, rtol=1e-6, atol=0)
