"""Write the tables of keys in docs/settings.md anew, from what `hpc_board/settings.py` says of each key."""

import ast
import enum
import inspect
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec import Struct

from hpc_board import settings

PAGE = Path(__file__).resolve().parents[1] / "docs" / "settings.md"

_BEGIN = "<!-- The part from here to the end mark is made by `make docs`. -->\n"
_END = "<!-- end -->\n"

_KINDS = {
    "name": settings.Name,
    "text": settings.Line,
    "sbatch value": settings.SlurmWord,
    "module": settings.Module,
    "memory": settings.Memory,
    "count": settings.Count,
    "port": settings.Port,
    "user or group": settings.Somebody,
    "ssh name": settings.SshWord,
    "folder": settings.Mount,
    "seconds": settings.Seconds,
    "variable name": settings.EnvName,
    "variable value": settings.EnvValue,
}

_SECTIONS: tuple[tuple[str, type[Struct]], ...] = (
    ("The file", settings.SettingsFile),
    ("`clusters.NAME`", settings.ClusterSection),
    ("`clusters.NAME.ssh`", settings.SshSection),
    ("`gpus.NAME`", settings.GpuSection),
    ("`gpus.NAME.request`", settings.RequestSection),
    ("`gpus.NAME.container`", settings.ContainerSection),
    ("`gpus.NAME.sandbox`", settings.SandboxSection),
    ("`defaults`", settings.DefaultsSection),
    ("`roles`", settings.RolesSection),
)


def page_with_tables(page: str) -> str:
    """The text of the page with its generated part made anew."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{reference()}\n{_END}{after}"


def reference() -> str:
    """A table for each mapping of the settings file, and what the words of their second column mean."""
    tables = [f"### {title}\n\n{_table(struct)}" for title, struct in _SECTIONS]
    kinds = [f"- **{name}**: {_description(kind)}" for name, kind in _KINDS.items()]
    return "\n".join([*tables, "### Kinds of values\n", *kinds]) + "\n"


def _table(struct: type[Struct]) -> str:
    meanings = _meanings(struct)
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for field in msgspec.structs.fields(struct):
        cells = (f"`{field.encode_name}`", _words(field.type), _default(field), meanings[field.name])
        rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(rows) + "\n"


def _meanings(struct: type[Struct]) -> dict[str, str]:
    """The text below each field in the source of `struct`."""
    statements = next(node.body for node in ast.parse(inspect.getsource(struct)).body if isinstance(node, ast.ClassDef))
    meanings = {}
    for statement, following in pairwise(statements):
        if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
            continue
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            meanings[statement.target.id] = inspect.cleandoc(str(following.value.value)).replace("\n", " ")
    return meanings


def _words(type_: Any) -> str:
    name = next((name for name, kind in _KINDS.items() if kind == type_), "")
    if name:
        return name
    members = [member for member in get_args(type_) if member is not type(None)]
    if get_origin(type_) is Literal:
        return _choice(members)
    if get_origin(type_) is list:
        return f"list, each a {_words(members[0])}"
    if get_origin(type_) is dict:
        return f"mapping: each {_words(members[0])} to a {_words(members[1])}"
    if members:
        return " or ".join(map(_words, members))
    if type_ is bool:
        return "`true` or `false`"
    if issubclass(type_, enum.Enum):
        return _choice([item.value for item in type_])
    if issubclass(type_, Struct):
        return "mapping (see below)"
    raise TypeError(f"no words for the type {type_}")


def _choice(words: Sequence[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "must be given"
    if field.default is False:
        return "`false`"
    if isinstance(field.default, str):
        return f"`{field.default}`"
    return "optional"


def _description(kind: Any) -> str:
    return next(str(meta.description) for meta in kind.__metadata__ if meta.description)


if __name__ == "__main__":
    PAGE.write_text(page_with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
