"""The comparison of an answer with that of a function whose tolerance nobody has stated, by the function in float64.

Each element's tolerance is the larger of two. One is a multiple of the function's own error in its own precision. The
other is its change when every input moves by one unit in the last place, or the rounding of the result, times the root
of the number of its terms, which a gradient counts: the error of a sum in any order grows with that root, and the
function's own error has it already. Errors and changes are the largest among neighbours.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
import utils

FACTOR_MIN = 24.0
FACTOR_MAX = 1024.0
FACTOR_UNKNOWN = 64.0
"""The factor if a function has no gradient."""

NEIGHBOURS = 8
OUTPUTS = (0.0, 0.618, 1.0)
"""The places of the elements whose terms are counted, as shares.

A running sum has the most terms at an end, a padded one in between.
"""

_BITS = {torch.float32: torch.int32, torch.float64: torch.int64}
_factors: dict[object, float] = {}


def check(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    output: Any,
    exact: Callable[..., Any] | None = None,
    parameters: Sequence[torch.Tensor] = (),
    key: object = None,
) -> tuple[bool, str]:
    """Return whether `output` is the value of `function(*arguments)` within the tolerance, and the faults if not.

    `exact` is the function in float64, by default the same one; `parameters` are those of the function, `key` names it.
    """
    exact = exact or function
    own = leaves(_called(function, arguments))
    fine, fault = own, ""
    wide, shifted = mapped(arguments, _wide), mapped(arguments, lambda leaf: _wide(_moved(leaf)))
    try:
        fine = leaves(_called(exact, wide))
        near = leaves(_called(exact, shifted))
        factor = _factor(function, arguments, parameters, (key, *(tuple(leaf.shape) for leaf in leaves(arguments))))
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        fault = f"\nThe reference cannot compute in float64 ({str(error)[:200]}): float32 decides."
        fine, near = own, leaves(_called(function, mapped(arguments, _moved)))
        factor = FACTOR_UNKNOWN
    for got, first, right, other in zip(leaves(output), own, fine, near, strict=True):
        if first.is_floating_point():
            good, message = _compared(got, first, right.double(), other.double(), factor)
        else:
            good, faults = utils.verbose_allequal(got, first)
            message = "\n".join(faults)
        if not good:
            return False, message + fault
    return True, ""


def _compared(
    got: torch.Tensor, own: torch.Tensor, right: torch.Tensor, near: torch.Tensor, factor: float
) -> tuple[bool, str]:
    scale = torch.maximum(FACTOR_MIN * (own.double() - right).abs(), factor * (near - right).abs())
    tolerance = torch.maximum(_of_neighbours(scale.nan_to_num(0.0, 0.0, 0.0)), factor * _ulp(own.dtype) * right.abs())
    alike = _both_lack_a_number(got, own)
    return utils.close(got.masked_fill(alike, 0), right.masked_fill(alike, 0), tolerance, own.dtype)


def leaves(value: Any) -> list[torch.Tensor]:
    """Return the tensors, arrays and numbers in a value, as tensors."""
    return [torch.as_tensor(leaf) for leaf in _leaves(value)]


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, dict):
        for key in sorted(value):
            yield from _leaves(value[key])
    elif isinstance(value, (torch.Tensor, np.ndarray, bool, int, float)):
        yield value


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a value with each tensor and array changed."""
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(item, change) for item in value)
    if isinstance(value, dict):
        return {key: mapped(item, change) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return change(torch.from_numpy(value.copy())).numpy()
    return change(value) if isinstance(value, torch.Tensor) else value


def _called(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """Return the value of a function that may change its inputs."""
    with torch.no_grad():
        return function(*mapped(arguments, torch.clone))


def _wide(leaf: torch.Tensor) -> torch.Tensor:
    return leaf.double() if leaf.is_floating_point() else leaf


def _moved(leaf: torch.Tensor) -> torch.Tensor:
    """Return numbers moved by one unit in the last place, by their own bits; other kernels read 16 bits exactly."""
    if leaf.dtype not in _BITS:
        return leaf
    bits = leaf.contiguous().view(_BITS[leaf.dtype])
    near = (bits + 1 - 2 * ((bits >> 2) & 1)).view(leaf.dtype)
    return torch.where(near.isfinite() & (leaf != 0), near, leaf)


def _ulp(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps if dtype != torch.float64 else torch.finfo(torch.float32).eps


def _of_neighbours(scale: torch.Tensor) -> torch.Tensor:
    """Return for each element the largest error near it: one element's may be small by chance."""
    flat = scale.reshape(-1)
    reach = min(NEIGHBOURS, max(0, flat.numel() - 1))
    found = flat
    for step in range(-reach, reach + 1):
        found = torch.maximum(found, flat.roll(step))
    return found.reshape(scale.shape)


def _both_lack_a_number(got: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    if got.shape != expected.shape:
        return torch.zeros_like(got, dtype=torch.bool)
    return ~expected.isfinite() & ((got == expected) | (got.isnan() & expected.isnan()))


def _factor(
    function: Callable[..., Any], arguments: Sequence[Any], parameters: Sequence[torch.Tensor], key: object
) -> float:
    """Return the root of the number of terms in an element of the result, within bounds."""
    if key not in _factors:
        terms = _terms(function, arguments, parameters)
        _factors[key] = FACTOR_UNKNOWN if terms == 0 else min(FACTOR_MAX, max(FACTOR_MIN, math.sqrt(terms)))
    return _factors[key]


def _terms(function: Callable[..., Any], arguments: Sequence[Any], parameters: Sequence[torch.Tensor]) -> int:
    """Return the largest number of elements of one input, or one parameter, that an element of the result depends on.

    Zero if the function has no gradient.
    """
    watched: list[torch.Tensor] = list(parameters)

    def watch(leaf: torch.Tensor) -> torch.Tensor:
        copy = leaf.clone()
        if copy.is_floating_point():
            watched.append(copy.requires_grad_())
        return copy

    with torch.enable_grad():
        value = function(*mapped(arguments, watch))
        results = [leaf.reshape(-1) for leaf in _leaves(value) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        if not results or not results[0].numel() or not watched:
            return 0
        places = {int(share * (results[0].numel() - 1)) for share in OUTPUTS}
        found = [torch.autograd.grad(results[0][at], watched, retain_graph=True, allow_unused=True) for at in places]
    return max((int(torch.count_nonzero(each)) for grads in found for each in grads if each is not None), default=0)
