"""A task imported from another benchmark's format: the files of its folder, and the account of each part."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import msgspec

DEFINITION_FILE = "definition.json"
"""The file of a task with the definition of FlashInfer Trace that it was made of."""


class Origin(StrEnum):
    """The basis of a part of an imported task: the source, a guess, or nothing, as the source does not have it."""

    TAKEN = "taken"
    GUESSED = "guessed"
    MISSING = "missing"


class Part(msgspec.Struct, frozen=True):
    """One part of a source, and the part of the task that was made of it."""

    name: str
    origin: Origin
    became: str


class Imported(msgspec.Struct, frozen=True):
    """A task made of a problem at `source`: its name, the files of its folder, and the account of each part."""

    name: str
    source: Path
    format: str
    files: Mapping[str, str]
    parts: tuple[Part, ...]
    licence: str = ""
