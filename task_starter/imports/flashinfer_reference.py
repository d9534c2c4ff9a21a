"""Adapts a definition of FlashInfer Trace, in definition.json and reference_source.py, to the judge."""

import base64
import json
from pathlib import Path
from typing import Any

import reference_source as source
import torch
from definition import DEFINITION, INPUTS, OUTPUTS, answers, axes_of, shape_of
from utils import close, misfit, verbose_allequal

FOLDER = Path(__file__).parent
TOLERANCE = json.loads((FOLDER / "import.json").read_text(encoding="utf-8"))
INTEGERS = {"int8": 128, "int16": 1024, "int32": 1024, "int64": 1024}
EPSILON = 1e-8


def generate_input(seed: int = 0, **case: Any) -> tuple[Any, ...]:
    """Return the inputs of one call, in the order of the definition."""
    generator = torch.Generator(device=torch.get_default_device()).manual_seed(seed)
    axes = axes_of(case)
    made: dict[str, Any] = {}
    if entry := DEFINITION.get("custom_inputs_entrypoint"):
        torch.manual_seed(seed)
        scalars = {name: value for name, value in case.items() if name in INPUTS and not isinstance(value, str)}
        made = getattr(source, entry)({**axes, **scalars}, torch.get_default_device())
    for name, tensor in INPUTS.items():
        if isinstance(case.get(name), str):
            made[name] = _stored(case[name], tensor, axes)
        elif name in case:
            made[name] = case[name]
        elif name not in made:
            made[name] = _random(tensor, axes, generator)
    return tuple(made[name] for name in INPUTS)


def ref_kernel(data: tuple[Any, ...]) -> Any:
    """Return the right answer."""
    with torch.no_grad():
        return answers(source.run(*(each.clone() if isinstance(each, torch.Tensor) else each for each in data)))


def check_implementation(data: tuple[Any, ...], output: Any) -> tuple[bool, str]:
    """Return whether each output is within the tolerance of import.json."""
    expected = ref_kernel(data)
    pairs = [(output, expected)] if len(OUTPUTS) == 1 else list(zip(output, expected, strict=True))
    for name, (got, right) in zip(OUTPUTS, pairs, strict=True):
        good, message = _compared(torch.as_tensor(got), torch.as_tensor(right))
        if not good:
            return False, f"{name}: {message}"
    return True, ""


def _compared(got: torch.Tensor, right: torch.Tensor) -> tuple[bool, str]:
    if not right.is_floating_point():
        good, faults = verbose_allequal(got, right)
        return good, "\n".join(faults)
    if fault := misfit(got, right):
        return False, fault
    alike = ~right.float().isfinite() & ((got.float() == right.float()) | (got.float().isnan() & right.float().isnan()))
    wide, exact = got.float().masked_fill(alike, 0), right.float().masked_fill(alike, 0)
    atol, rtol = TOLERANCE["atol"], TOLERANCE["rtol"]
    size = exact.abs()
    tolerance = atol + rtol * size if TOLERANCE["added"] else (rtol * (size + EPSILON)).clamp(min=atol)
    good, message = close(wide, exact, tolerance)
    if good or TOLERANCE["required_matched_ratio"] == 1:
        return good, message
    share = float(((wide - exact).abs() <= tolerance).double().mean())
    return share >= TOLERANCE["required_matched_ratio"], message


def _random(tensor: dict[str, Any], axes: dict[str, int], generator: torch.Generator) -> Any:
    """Return random numbers as flashinfer-bench draws them."""
    shape, kind = shape_of(tensor, axes) or (), tensor["dtype"]
    if kind == "bool":
        made = torch.randint(0, 2, shape, generator=generator)
    elif kind in INTEGERS:
        made = torch.randint(-INTEGERS[kind], INTEGERS[kind], shape, generator=generator)
    else:
        made = torch.randn(shape, generator=generator)
        made = made.clamp(-2, 2) if "float8" in kind else made
    made = made.to(getattr(torch, kind))
    return made.item() if tensor["shape"] is None else made


def _stored(file: str, tensor: dict[str, Any], axes: dict[str, int]) -> torch.Tensor:
    """Return a tensor that a workload took from a safetensors file."""
    data = bytearray(base64.b64decode((FOLDER / Path(file).name).read_text(encoding="ascii")))
    flat = torch.frombuffer(data, dtype=getattr(torch, tensor["dtype"]))
    return flat.reshape(shape_of(tensor, axes)).to(torch.get_default_device())
