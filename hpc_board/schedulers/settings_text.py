"""Text of settings files that schedulers' packages write from a machine's description."""

import json
import re
import textwrap
from collections.abc import Iterator

import msgspec

from hpc_board.domain.diagnostic import Diagnostic

_WIDTH = 116
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_YAML_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


class Detected(msgspec.Struct, frozen=True):
    """The text of a settings file, the names of the GPUs that it has, none where all is commented, and diagnostics."""

    text: str
    gpus: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...] = ()


def commented(line: str, why: str = "", indent: str = "") -> Iterator[str]:
    """Yield a line of settings that a user has to complete, as a comment."""
    yield from comment(f"{line}    # {why}" if why else line, indent, wrap=False)


def comment(text: str, indent: str, *, wrap: bool = True) -> Iterator[str]:
    """Yield the lines of a comment, each indented."""
    room = _WIDTH - len(indent) - 2
    lines = textwrap.wrap(text, room, break_on_hyphens=False) if wrap else [text[: 4 * room]]
    yield from (f"{indent}# {line}" for line in lines)


def quoted(text: str) -> str:
    """Return any text as one YAML value; a JSON string is one."""
    return text if re.fullmatch(r"/[A-Za-z0-9_./+-]*", text) else json.dumps(text)


def scalar(text: str) -> str:
    """Return a name as a value of YAML."""
    return text if _PLAIN.fullmatch(text) and text.lower() not in _YAML_WORDS else f'"{text}"'
