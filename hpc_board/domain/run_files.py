"""The files of a run that leave its job folder, within bounds."""

from collections.abc import Iterable
from typing import Annotated

import msgspec

FILES_MAX = 200
FILE_BYTES_MAX = 64 * 2**20
"""The size limit of a file; that of all files of a run together is RUN_BYTES_MAX."""

RUN_BYTES_MAX = 320 * 2**20

PART_BYTES = 2 * 2**20
"""The length of the parts in which a file is read: a far file system must answer within the time of one question."""


class RunFile(msgspec.Struct, frozen=True):
    """A file of a run: its name and size."""

    name: str
    bytes: Annotated[int, msgspec.Meta(ge=0)]


class LeftOut(msgspec.Struct, frozen=True):
    """A file that exceeds a bound, which `reason` names."""

    name: str
    bytes: int
    reason: str


class RunFiles(msgspec.Struct, frozen=True):
    """The files of a run that can be fetched, and those that exceed a bound."""

    files: tuple[RunFile, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def within_bounds(found: Iterable[RunFile]) -> RunFiles:
    """Return the files that are within the bounds, the first ones first, and the others."""
    taken: list[RunFile] = []
    left_out: list[LeftOut] = []
    total = 0
    for file in found:
        reason = ""
        if file.bytes > FILE_BYTES_MAX:
            reason = f"exceeds the limit of {_mebibytes(FILE_BYTES_MAX)} per file"
        elif total + file.bytes > RUN_BYTES_MAX:
            reason = f"exceeds the limit of {_mebibytes(RUN_BYTES_MAX)} per run"
        elif len(taken) == FILES_MAX:
            reason = f"exceeds the limit of {FILES_MAX} files per run"
        if reason:
            left_out.append(LeftOut(file.name, file.bytes, reason))
        else:
            taken.append(file)
            total += file.bytes
    return RunFiles(tuple(taken), tuple(left_out[:FILES_MAX]))


def _mebibytes(size: int) -> str:
    return f"{size // 2**20} MiB"
