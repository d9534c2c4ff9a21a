"""Counting values: the inputs, the right answer, and what counts as right."""

import torch
from task import input_t, output_t
from utils import equal

VALUES = 256


def generate_input(size: int, crowding: int, seed: int) -> input_t:
    """Bytes: `crowding` per cent are one value, and the rest any below a bound; the seed chooses both."""
    generator = torch.Generator(device=torch.get_default_device()).manual_seed(seed)
    bound, crowded = (int(each) for each in torch.randint(VALUES // 2, VALUES, (2,), generator=generator))
    x = torch.randint(bound, (size,), generator=generator)
    x[torch.rand(size, generator=generator) < crowding / 100] = crowded
    return x.to(torch.uint8)


def ref_kernel(data: input_t) -> output_t:
    """How often each value occurs."""
    return torch.bincount(data, minlength=VALUES)


def minimal_work(size: int, crowding: int, seed: int) -> tuple[int, int]:
    """A vector of bytes read and the counts written, an addition for each element."""
    del crowding, seed
    return size + 8 * VALUES, size


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Whether every count is the right one."""
    return equal(output, ref_kernel(data))
