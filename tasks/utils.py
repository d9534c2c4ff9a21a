"""How the checks of the tasks compare an answer with the expected one."""

import torch


def equal(output: object, expected: torch.Tensor) -> tuple[bool, str]:
    """Whether every element is exactly the expected one, and if not, what is wrong."""
    if fault := misfit(output, expected.shape, expected.dtype):
        return False, fault
    output = output.detach().to(expected.device)
    return verdict(output != expected, output, expected)


def close(
    output: object, expected: torch.Tensor, tolerance: torch.Tensor, dtype: torch.dtype = torch.float32
) -> tuple[bool, str]:
    """Whether every element is within its own tolerance of the expected one, and if not, what is wrong.

    `expected` and `tolerance` may be of higher precision than `dtype`, the one that the answer must have.
    """
    if fault := misfit(output, expected.shape, dtype):
        return False, fault
    output = output.detach().to(expected)
    # "not within" where "beyond" would do for numbers: no comparison with NaN is true.
    return verdict(~((output - expected).abs() <= tolerance), output, expected)


def misfit(output: object, shape: torch.Size, dtype: torch.dtype) -> str:
    """Why the answer cannot be compared at all; empty where it can."""
    if type(output) is not torch.Tensor:
        return f"expected a torch.Tensor, got {type(output).__name__[:80]}"
    if output.shape != shape:
        return f"expected the shape {list(shape)}, got {str(list(output.shape))[:80]}"
    if output.dtype != dtype:
        return f"expected the dtype {dtype}, got {output.dtype}"
    return ""


def verdict(wrong: torch.Tensor, output: torch.Tensor, expected: torch.Tensor) -> tuple[bool, str]:
    """Passed where nothing is wrong; else the first wrong element and how many there are."""
    count = int(wrong.count_nonzero())
    if count == 0:
        return True, ""
    first = torch.unravel_index(wrong.flatten().to(torch.uint8).argmax(), wrong.shape)
    index = [int(position) for position in first]
    return False, (
        f"wrong value at {index}: expected {float(expected[first]):.9g}, got {float(output[first]):.9g}; "
        f"{count} of {wrong.numel()} elements are wrong"
    )
