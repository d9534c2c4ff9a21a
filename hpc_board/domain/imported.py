"""A task imported from another benchmark's format: the files of its folder, and the account of each part."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import msgspec

DEFINITION_FILE = "definition.json"
"""The file of a task with the definition of FlashInfer Trace that it was made of."""


AXIS_END = 2**31
"""The value after the largest one of an axis."""


class Axis(msgspec.Struct, frozen=True):
    """A dimension of tensors: constant, given by each workload, or computed from others."""

    type: Literal["const", "var", "expr"]
    value: Annotated[int, msgspec.Meta(ge=0, lt=AXIS_END)] = 0
    expression: str = ""


class Tensor(msgspec.Struct, frozen=True):
    """An input or an output: the names of its axes, None for a scalar, and its type."""

    shape: list[str] | None
    dtype: str


class Definition(msgspec.Struct, frozen=True):
    """A definition in the schema of FlashInfer Trace, and in that of SOL-ExecBench, which extends it."""

    name: str
    axes: dict[str, Axis]
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    reference: str
    op_type: str | None = None
    description: str | None = None
    custom_inputs_entrypoint: str | None = None
    constraints: list[str] | None = None


class Basis(StrEnum):
    """The basis of a part of an imported task: the source, a guess, or nothing, as the source does not have it."""

    TAKEN = "taken"
    GUESSED = "guessed"
    MISSING = "missing"


class Part(msgspec.Struct, frozen=True):
    """One part of a source, and the part of the task that was made of it."""

    name: str
    basis: Basis
    became: str


class Imported(msgspec.Struct, frozen=True):
    """A task made of a problem at `source`: its name, the files of its folder, and the account of each part."""

    name: str
    source: Path
    format: str
    files: Mapping[str, str]
    parts: tuple[Part, ...]
    licence: str = ""
