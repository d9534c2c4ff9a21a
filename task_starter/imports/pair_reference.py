"""Adapts reference_source.py, a pair of plain functions, to the judge; import.json has their names."""

import json
from pathlib import Path
from typing import Any

import reference_source as source
from reference_tolerance import check

FACTS = json.loads(Path(__file__).with_name("import.json").read_text(encoding="utf-8"))
_make = getattr(source, FACTS["inputs"])
_reference = getattr(source, FACTS["reference"])


def generate_input(seed: int = 0, **case: Any) -> Any:
    """Return the arguments of one call."""
    if FACTS["seeded"]:
        case["seed"] = seed
    made = _make(**{name: list(value) if isinstance(value, tuple) else value for name, value in case.items()})
    return made if isinstance(made, (tuple, list, dict)) else (made,)


def ref_kernel(data: Any) -> Any:
    """Return the right answer."""
    return _called(_reference, data)


def check_implementation(data: Any, output: Any) -> tuple[bool, str]:
    """Return whether an answer is right, by the reference in float64."""
    return check(lambda given: _called(_reference, given), (data,), output)


def _called(function: Any, data: Any) -> Any:
    return function(**data) if isinstance(data, dict) else function(*data)
