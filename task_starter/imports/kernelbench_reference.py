"""Adapts reference_source.py, a problem of KernelBench, to the judge: the keys of a case replace its constants."""

import ast
import copy
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from reference_tolerance import check

SOURCE = Path(__file__).with_name("reference_source.py")
_Sizes = tuple[tuple[str, Any], ...]


def generate_input(seed: int = 0, **sizes: Any) -> dict[str, Any]:
    """Return the inputs of one call, and under "model" the parts of a model, which are the same in many calls."""
    key = _hashable(sizes)
    init, model = _model(key, seed)
    torch.manual_seed(seed)
    inputs = list(_source(key).get_inputs())
    state = {name: value.clone() for name, value in model.state_dict().items()}
    return {"model": {"sizes": sizes, "seed": seed, "init": list(init), "state": state}, "inputs": inputs}


def ref_kernel(data: dict[str, Any]) -> Any:
    """Return the answer of Model."""
    with torch.no_grad():
        return _model(*_key(data))[1](*data["inputs"])


def check_implementation(data: dict[str, Any], output: Any) -> tuple[bool, str]:
    """Return whether an answer is right, by Model in float64."""
    key = _key(data)
    _, model = _model(*key)
    exact = _in_float64(*key)

    def in_float64(*inputs: Any) -> Any:
        torch.set_default_dtype(torch.float64)
        try:
            return exact(*inputs)
        finally:
            torch.set_default_dtype(torch.float32)

    return check(model, data["inputs"], output, in_float64, list(model.parameters()), key[0])


def _key(data: dict[str, Any]) -> tuple[_Sizes, int]:
    facts = data["model"]
    return _hashable(facts["sizes"]), facts["seed"]


def _hashable(sizes: dict[str, Any]) -> _Sizes:
    return tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in sizes.items())


@lru_cache(maxsize=4)
def _model(sizes: _Sizes, seed: int) -> tuple[Any, Any]:
    """Return the arguments of the constructor, and the model of a seed."""
    source = _source(sizes)
    torch.manual_seed(seed)
    init = source.get_init_inputs()
    torch.manual_seed(seed)
    return init, source.Model(*init).eval()


@lru_cache(maxsize=1)
def _in_float64(sizes: _Sizes, seed: int) -> Any:
    return copy.deepcopy(_model(sizes, seed)[1]).double()


@lru_cache(maxsize=4)
def _source(sizes: _Sizes) -> ModuleType:
    """Return the source as a module whose constants have these values."""
    known, body = dict(sizes), []
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    for node in tree.body:
        body.append(node)
        if isinstance(node, ast.Assign):
            names = [each.id for each in node.targets if isinstance(each, ast.Name) and each.id in known]
            body += ast.parse("\n".join(f"{name} = type({name})({known[name]!r})" for name in names)).body
    tree.body = body
    module = ModuleType("reference_source")
    module.__file__ = str(SOURCE)
    exec(compile(ast.fix_missing_locations(tree), str(SOURCE), "exec"), vars(module))  # noqa: S102 - the task's code
    return module
