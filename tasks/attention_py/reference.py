"""Attention: the inputs, the right answer, and what counts as right."""

import torch
from task import Config, input_t, output_t
from utils import close

TOLERANCE = 5e-5


def generate_input(batch: int, heads: int, length: int, width: int, causal: bool, seed: int) -> input_t:
    """Normal random numbers; the seed decides the scale, from once to twice the usual `1 / sqrt(width)`."""
    generator = torch.Generator(device=torch.get_default_device()).manual_seed(seed)
    scale = (1 + float(torch.rand(1, generator=generator))) / width**0.5
    q, k, v = (torch.randn(batch, heads, length, width, generator=generator) for _ in range(3))
    return Config(scale=scale, causal=causal), q, k, v


def ref_kernel(data: input_t) -> output_t:
    """What each position takes from those that it sees, rounded once."""
    return (weights(data) @ data[3].double()).float()


def minimal_work(batch: int, heads: int, length: int, width: int, causal: bool, seed: int) -> tuple[int, int]:
    """Three tensors read and one written; an exponential for each pair of positions, of which a mask leaves half."""
    del seed
    pairs = length * (length + 1) // 2 if causal else length * length
    return 4 * 4 * batch * heads * length * width, batch * heads * pairs


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Whether every element is within a tolerance that follows the sizes of its terms."""
    seen, v = weights(data), data[3].double()
    return close(output, seen @ v, TOLERANCE * (seen.square() @ v.square()).sqrt())


def weights(data: input_t) -> torch.Tensor:
    """How much each position takes from each other, in float64."""
    config, q, k, _ = data
    products = config["scale"] * q.double() @ k.double().transpose(-2, -1)
    if config["causal"]:
        hidden = torch.ones(products.shape[-2:], dtype=torch.bool, device=q.device).triu(diagonal=1)
        products = products.masked_fill(hidden, -torch.inf)
    return torch.softmax(products, dim=-1)
