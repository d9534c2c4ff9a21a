"""Gray pictures: the inputs, the right answer, and what counts as right."""

import torch
from task import input_t, output_t
from utils import close

WEIGHTS = (0.2126, 0.7152, 0.0722)
TOLERANCE = 1e-6


def generate_input(height: int, width: int, seed: int) -> input_t:
    """Pixels of random colors, evenly from 0 to 1."""
    generator = torch.Generator(device=torch.get_default_device()).manual_seed(seed)
    return torch.rand(height, width, 3, generator=generator)


def ref_kernel(data: input_t) -> output_t:
    """The picture in gray, rounded once."""
    return exact(data).float()


def minimal_work(height: int, width: int, seed: int) -> tuple[int, int]:
    """Three numbers read and one written for each pixel, three products and two sums."""
    del seed
    return 4 * 4 * height * width, 5 * height * width


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Whether every element is within a relative tolerance of the exact one."""
    expected = exact(data)
    return close(output, expected, TOLERANCE * expected)


def exact(data: input_t) -> torch.Tensor:
    """The picture in gray in float64."""
    red, green, blue = data.double().unbind(dim=-1)
    return WEIGHTS[0] * red + WEIGHTS[1] * green + WEIGHTS[2] * blue
