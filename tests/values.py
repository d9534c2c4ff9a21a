"""Changed copies of values, of the node's dataclasses and the login side's structs alike."""

import dataclasses
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def replace(value: T, **changes: Any) -> T:
    """Return a copy of `value` with these fields."""
    change: Any = msgspec.structs.replace if isinstance(value, msgspec.Struct) else dataclasses.replace
    changed: T = change(value, **changes)
    return changed
