"""The harness file as jobs of tests run it: with byte code, and with changes where a test wants some."""

import functools
import importlib.util
import io
import marshal
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass

from hpc_board.board import administration, context, runners, submissions
from hpc_board.harness.bundle import harness_bytes
from hpc_board.task_check import local_job

_WITHOUT_REFERENCES = 2
"""The version of `marshal` whose bytes are the same in each process."""

_UNCHECKED_HASH = 1
"""The flag of byte code that holds the hash of its source, which an import does not compare."""


@dataclass(frozen=True)
class Edit:
    """A small change of one file of the harness: `old` is there exactly once."""

    file: str
    old: str
    new: str


_SMALL_FLUSH = Edit("device/device.py", "_FLUSH_BYTES_MAX = 64 * 2**20", "_FLUSH_BYTES_MAX = 2**20")
_edits = [_SMALL_FLUSH] if "PYTEST_VERSION" in os.environ else []
"""The changes that each harness file gets: none outside of tests."""


def measure(wanted: bool) -> None:
    """Have the jobs of a test empty the caches before each timed call, or else a small part of them.

    Beside other tests, times mean nothing, and to empty the caches takes a quarter of a short benchmark.
    """
    _edits[:] = [] if wanted else [_SMALL_FLUSH]


def harness_file() -> bytes:
    """Return the harness file with byte code beside its sources.

    Two processes of each evaluation would compile them otherwise, in two fifths of the processor time of a short one.
    """
    return _made(tuple(_edits))


def send_with_byte_code() -> None:
    """Let the boards and the task checks of this process send the harness file with byte code."""
    for module in (context, administration, runners, submissions):
        vars(module)["harness"] = harness_file
    vars(local_job)["harness_bytes"] = harness_file


def edited(edits: tuple[Edit, ...], replaced: Mapping[str, str] | None = None) -> bytes:
    """Return the harness file with whole files `replaced`, and `edits` made in it."""
    return _made((*_edits, *edits), tuple((replaced or {}).items()))


@functools.lru_cache(maxsize=8)
def _made(edits: tuple[Edit, ...], replaced: tuple[tuple[str, str], ...] = ()) -> bytes:
    members = dict(_members())
    members |= {f"hpc_board/harness/{file}": text.encode() for file, text in replaced}
    for edit in edits:
        name = f"hpc_board/harness/{edit.file}"
        text = members[name].decode()
        assert text.count(edit.old) == 1, f"{edit.file} has {text.count(edit.old)} times: {edit.old}"
        members[name] = text.replace(edit.old, edit.new).encode()
    return _written(members)


@functools.cache
def _members() -> Mapping[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(harness_bytes())) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _written(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            # A `ZipInfo` without the time of day: each process has to make the same bytes.
            archive.writestr(zipfile.ZipInfo(name), data)
            if name.endswith(".py"):
                archive.writestr(zipfile.ZipInfo(f"{name}c"), _byte_code(name, data))
    return buffer.getvalue()


@functools.cache
def _byte_code(name: str, source: bytes) -> bytes:
    """Return the byte code of a file for this Python; another one reads the source."""
    head = importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH.to_bytes(4, "little") + importlib.util.source_hash(source)
    return head + marshal.dumps(compile(source, name, "exec", dont_inherit=True), _WITHOUT_REFERENCES)
