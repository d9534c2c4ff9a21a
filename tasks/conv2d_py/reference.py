"""Convolution: the inputs, the right answer, and what counts as right."""

import torch
from task import input_t, output_t
from utils import close

TOLERANCE = 5e-5


def generate_input(batch: int, channels: int, height: int, width: int, filters: int, window: int, seed: int) -> input_t:
    """Pictures and filters of normal random numbers; the seed decides the magnitude of both."""
    generator = torch.Generator(device=torch.get_default_device()).manual_seed(seed)
    of_x, of_w = 100 ** (torch.rand(2, generator=generator) - 0.5)
    x = torch.randn(batch, channels, height, width, generator=generator) * of_x
    w = torch.randn(filters, channels, window, window, generator=generator) * of_w
    return x, w


def ref_kernel(data: input_t) -> output_t:
    """The convolution, rounded once."""
    x, w = data
    return exact(x.double(), w.double()).float()


def minimal_work(
    batch: int, channels: int, height: int, width: int, filters: int, window: int, seed: int
) -> tuple[int, int]:
    """Pictures and filters read, results written. Operations are not counted: there are ways to need fewer products."""
    del seed
    read = batch * channels * height * width + filters * channels * window * window
    return 4 * (read + batch * filters * (height - window + 1) * (width - window + 1)), 0


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Whether every element is within a tolerance that follows the lengths of its window and its filter."""
    x, w = (tensor.double() for tensor in data)
    # Rounding may leave a tiny number below zero where the squares are summed by way of a transform.
    typical = exact(x.square(), w.square()).clamp(min=0).sqrt()
    return close(output, exact(x, w), TOLERANCE * typical)


def exact(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The convolution in the precision of its inputs."""
    return torch.nn.functional.conv2d(x, w)
