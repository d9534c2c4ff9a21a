import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    """Softsign, with a temporary vector where none is needed."""
    return data / (1 + torch.abs(data))
