"""The definition of FlashInfer Trace in definition.json: its inputs, outputs and axes."""

import json
from pathlib import Path
from typing import Any

import torch

DEFINITION = json.loads(Path(__file__).with_name("definition.json").read_text(encoding="utf-8"))
INPUTS = DEFINITION["inputs"]
OUTPUTS = DEFINITION["outputs"]


def axes_of(known: dict[str, Any]) -> dict[str, int]:
    """Return the values of all axes, from those of the variable ones."""
    found = {name: axis["value"] for name, axis in DEFINITION["axes"].items() if axis["type"] == "const"}
    found |= {name: known[name] for name, axis in DEFINITION["axes"].items() if axis["type"] == "var" and name in known}
    for name, axis in DEFINITION["axes"].items():
        if axis["type"] == "expr":
            found[name] = int(eval(axis["expression"], {"__builtins__": {}}, found))  # noqa: S307 - code of the author
    return found


def axes_of_inputs(data: tuple[Any, ...]) -> dict[str, int]:
    """Return the values of all axes, from the shapes of inputs."""
    known = {}
    for tensor, value in zip(INPUTS.values(), data, strict=True):
        if tensor["shape"] is not None:
            known.update(zip(tensor["shape"], value.shape, strict=True))
    return {**axes_of(known), **known}


def shape_of(tensor: dict[str, Any], axes: dict[str, int]) -> list[int] | None:
    """Return the shape of a tensor of the definition; None for a number."""
    return None if tensor["shape"] is None else [axes[name] for name in tensor["shape"]]


def answers(value: Any) -> Any:
    """Return a result as the judge compares it: one output, or the tuple of them in the order of the definition."""
    if isinstance(value, dict):
        value = tuple(value[name] for name in OUTPUTS)
    if len(OUTPUTS) == 1:
        return value[0] if isinstance(value, (tuple, list)) else value
    return tuple(value)


def room(data: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
    """Return new memory for each output of a call that writes them."""
    axes = axes_of_inputs(data)
    return tuple(
        torch.empty(shape_of(tensor, axes) or (), dtype=getattr(torch, tensor["dtype"])) for tensor in OUTPUTS.values()
    )
