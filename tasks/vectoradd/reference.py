"""Vector addition: its inputs, the right answer, and what counts as right."""

import torch
from task import input_t, output_t
from utils import equal


def generate_input(size: int, seed: int) -> input_t:
    """Two vectors of uniform random numbers; the seed decides the magnitude and the mean of each."""
    generator = torch.Generator(device=torch.get_default_device()).manual_seed(seed)
    return random_vector(size, generator), random_vector(size, generator)


def random_vector(size: int, generator: torch.Generator) -> torch.Tensor:
    """Uniform random numbers with a random magnitude and a random mean."""
    magnitude, center = torch.rand(2, generator=generator)
    return torch.rand(size, generator=generator).sub_(center).mul_(100 ** (magnitude - 0.5))


def ref_kernel(data: input_t) -> output_t:
    """The sum of the two vectors."""
    a, b = data
    return a + b


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Whether every element is the correctly rounded sum."""
    return equal(output, ref_kernel(data))
