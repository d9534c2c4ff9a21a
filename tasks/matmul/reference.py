"""Matrix multiplication: its inputs, the right answer, and what counts as right."""

import torch
from task import input_t, output_t
from utils import close

TOLERANCE = 1e-4


def generate_input(m: int, k: int, n: int, seed: int) -> input_t:
    """Two matrices of normal random numbers; the seed decides the magnitude and the mean of each."""
    generator = torch.Generator(device=torch.get_default_device()).manual_seed(seed)
    return random_matrix(m, k, generator), random_matrix(k, n, generator)


def random_matrix(rows: int, columns: int, generator: torch.Generator) -> torch.Tensor:
    """Normal random numbers with a random magnitude and a mean of up to half of it."""
    magnitude, center = torch.rand(2, generator=generator)
    return (torch.randn(rows, columns, generator=generator) + center - 0.5) * 100 ** (magnitude - 0.5)


def ref_kernel(data: input_t) -> output_t:
    """The product, rounded once."""
    a, b = data
    return (a.double() @ b.double()).float()


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Whether every element is within a tolerance that follows the lengths of its row and its column."""
    a, b = (matrix.double() for matrix in data)
    typical = a.norm(dim=1, keepdim=True) * b.norm(dim=0, keepdim=True) / a.shape[1] ** 0.5
    return close(output, a @ b, TOLERANCE * typical)
