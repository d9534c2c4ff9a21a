"""Comparisons of an answer with the right one."""

from collections.abc import Callable
from typing import Any

import torch


def verbose_allclose(
    received: torch.Tensor, expected: torch.Tensor, rtol: float = 1e-5, atol: float = 1e-8, max_print: int = 5
) -> tuple[bool, list[str]]:
    """Return whether each element is within `atol + rtol * |expected|` of the expected one, and the faults if not.

    It compares in float64. An infinity is right only if the same is expected, and so is NaN.
    """
    if fault := misfit(received, expected):
        return False, [fault]
    got, right = received.detach().to(expected.device, torch.float64), expected.detach().to(torch.float64)
    # The test is for "within" and not for "beyond": no comparison with NaN is true.
    within = (got - right).abs() <= atol + rtol * right.abs()
    within &= right.isfinite()
    return _verdict(within | (got == right) | (got.isnan() & right.isnan()), got, right, max_print)


def close(
    received: object, expected: torch.Tensor, tolerance: torch.Tensor, dtype: torch.dtype = torch.float32
) -> tuple[bool, str]:
    """Return whether each element is within its own `tolerance` of the expected one, and the faults if not.

    `expected` and `tolerance` may be of a finer type than `dtype`, which the answer must have.
    """
    if fault := misfit(received, expected.to(dtype)):
        return False, fault
    got, right = received.detach().to(expected.device, torch.float64), expected.double()
    good, faults = _verdict((got - right).abs() <= tolerance, got, right, 5)
    return good, "\n".join(faults)


def verbose_allequal(received: torch.Tensor, expected: torch.Tensor, max_print: int = 5) -> tuple[bool, list[str]]:
    """Return whether each element equals the expected one, and the faults if not. NaN equals nothing."""
    if fault := misfit(received, expected):
        return False, [fault]
    got = received.detach().to(expected.device)
    return _verdict(got == expected, got, expected, max_print)


def match_reference(
    data: Any, output: torch.Tensor, reference: Callable[[Any], torch.Tensor], rtol: float = 1e-5, atol: float = 1e-8
) -> tuple[bool, str]:
    """Return whether `output` is close to the answer of `reference` to `data`, and the faults if not."""
    right, faults = verbose_allclose(output, reference(data), rtol=rtol, atol=atol)
    return right, "\n".join(faults)


def make_match_reference(
    reference: Callable[[Any], torch.Tensor], rtol: float = 1e-5, atol: float = 1e-8
) -> Callable[[Any, torch.Tensor], tuple[bool, str]]:
    """Return a `check_implementation` that compares with `reference`."""

    def check_implementation(data: Any, output: torch.Tensor) -> tuple[bool, str]:
        return match_reference(data, output, reference, rtol=rtol, atol=atol)

    return check_implementation


def misfit(received: object, expected: torch.Tensor) -> str:
    """Return the reason why the two are not comparable; empty if they are."""
    if type(received) is not torch.Tensor:
        return f"expected a torch.Tensor, got {type(received).__name__[:80]}"
    if received.shape != expected.shape:
        return f"expected the shape {list(expected.shape)}, got {str(list(received.shape))[:80]}"
    if received.dtype != expected.dtype:
        return f"expected the dtype {expected.dtype}, got {received.dtype}"
    return ""


def _verdict(right: torch.Tensor, got: torch.Tensor, expected: torch.Tensor, max_print: int) -> tuple[bool, list[str]]:
    """Return True if all elements are right; else False with the number of wrong ones and the first of them."""
    wrong = torch.argwhere(~right)
    if not len(wrong):
        return True, []
    faults = [f"{len(wrong)} of {right.numel()} elements are wrong"]
    for place in wrong[:max_print].tolist():
        index = tuple(place)
        faults.append(f"at {place}: expected {expected[index].item():.9g}, got {got[index].item():.9g}")
    return False, faults
