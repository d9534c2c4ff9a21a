"""Write the tables of keys in docs/settings.md anew, from the sections of the settings and of every scheduler."""

import ast
import enum
import inspect
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
from msgspec import Struct

from hpc_board import schedulers, settings, yaml_sections
from hpc_board.schedulers import sections
from hpc_board.schedulers.slurm import kind as slurm

PAGE = Path(__file__).resolve().parents[1] / "docs" / "settings.md"

_BEGIN = "<!-- The part from here to the end mark is made by `make docs`. -->\n"
_END = "<!-- end -->\n"

_MAPPING = "mapping with a table of its own"

_KINDS = {
    "name": yaml_sections.Name,
    "text": yaml_sections.Line,
    "sbatch value": sections.OptionValue,
    "module": sections.Module,
    "memory": slurm.Memory,
    "count": slurm.Count,
    "port": sections.Port,
    "user or group": settings.AccountName,
    "address": settings.Address,
    "ssh name": sections.SshWord,
    "folder": sections.Folder,
    "seconds": sections.Seconds,
    "variable name": sections.EnvName,
    "variable value": sections.EnvValue,
}


def page_with_tables(page: str) -> str:
    """The text of the page with its generated part made anew."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{reference()}\n{_END}{after}"


def reference() -> str:
    """A table for each mapping of the settings file, and the meanings of the words in their second column."""
    tables = [f"### {title}\n\n{text}" for title, text in _tables()]
    kinds = [f"- **{name}**: {_description(kind)}" for name, kind in _KINDS.items()]
    return "\n".join([*tables, "### Kinds of values\n", *kinds]) + "\n"


def _tables() -> Iterator[tuple[str, str]]:
    yield "The file", _table(settings.SettingsFile)
    cluster, gpu = "clusters.NAME", "gpus.NAME"
    yield f"`{cluster}`", _table(sections.ClusterSection, path=cluster)
    for kind in schedulers.kinds():
        title = f"`{cluster}` with `scheduler: {kind.name}`"
        own = _own(kind.cluster_section, sections.ClusterSection)
        yield title, "\n".join([_defaults(kind), *([_table(kind.cluster_section, own, cluster)] if own else [])])
    yield f"`{cluster}.ssh`", _table(sections.SshSection)
    yield f"`{gpu}`", _table(sections.GpuSection, path=gpu)
    for kind in schedulers.kinds():
        own = _own(kind.gpu_section, sections.GpuSection)
        if own:
            yield f"`{gpu}` on a cluster with `scheduler: {kind.name}`", _table(kind.gpu_section, own, gpu)
        for field in own:
            for struct in _structs(field.type):
                yield f"`{gpu}.{field.encode_name}`", _table(struct)
    yield f"`{gpu}.container`", _table(sections.ContainerSection)
    yield f"`{gpu}.sandbox`", _table(sections.SandboxSection)
    yield "`defaults`", _table(settings.DefaultsSection, path=gpu)
    yield "`roles`", _table(settings.RolesSection)
    yield "`serve`", _table(settings.ServeSection)
    yield "`jobs`", _table(settings.JobsSection)
    yield "`submit`", _table(settings.SubmitSection)
    yield "`runners`", _table(settings.RunnersSection)
    yield "`notify`", _table(settings.NotifySection)


def _defaults(kind: schedulers.AnyKind) -> str:
    least = f", and at least {kind.poll_seconds_min:g}" if kind.poll_seconds_min else ""
    root = str(kind.allow_root).lower()
    return f"`poll_seconds` is {kind.poll_seconds:g} by default{least}; `allow_root` is `{root}` by default.\n"


def _structs(type_: Any) -> list[type[Struct]]:
    members = [type_, *get_args(type_)]
    return [member for member in members if isinstance(member, type) and issubclass(member, Struct)]


def _own(struct: type[Struct], base: type[Struct]) -> list[msgspec.structs.FieldInfo]:
    """The fields of `struct` that `base` does not have."""
    return [field for field in msgspec.structs.fields(struct) if field.name not in base.__struct_fields__]


def _table(
    struct: type[Struct], fields: Sequence[msgspec.structs.FieldInfo] | None = None, path: str | None = None
) -> str:
    """Return the table of a mapping; `path` is its place in the file, under which the tables of its parts stand."""
    words_of = {name: words for each in _sections_of(struct) for name, words in meanings(each).items()}
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for field in msgspec.structs.fields(struct) if fields is None else fields:
        value = _choice(list(schedulers.KINDS)) if field.name == "scheduler" else _words(field.type)
        value = value.replace(_MAPPING, f"[mapping](#{_anchor(field, path)})")
        cells = (f"`{field.encode_name}`", value, _default(field), words_of[field.name])
        rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(rows) + "\n"


def _anchor(field: msgspec.structs.FieldInfo, path: str | None) -> str:
    """Return the anchor of the table of a field that is a mapping, or a mapping of names to such."""
    names = [*([path] if path else []), field.encode_name, *(["NAME"] if get_origin(field.type) is dict else [])]
    return "".join(names).replace(".", "").lower()


def _sections_of(struct: type[Struct]) -> list[type]:
    """A section and those that it extends, these first."""
    return [each for each in reversed(struct.__mro__) if issubclass(each, yaml_sections.Section)]


def meanings(struct: type) -> dict[str, str]:
    """The text below each field in the source of `struct`."""
    statements = next(node.body for node in ast.parse(inspect.getsource(struct)).body if isinstance(node, ast.ClassDef))
    found = {}
    for statement, following in pairwise(statements):
        if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
            continue
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            found[statement.target.id] = inspect.cleandoc(str(following.value.value)).replace("\n", " ")
    return found


def _words(type_: Any) -> str:
    name = next((name for name, kind in _KINDS.items() if kind == type_), "")
    if name:
        return name
    if type_ is yaml_sections.Part:
        return _MAPPING
    if get_origin(type_) is Annotated:
        return _description(type_)
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
        return _MAPPING
    raise TypeError(f"no words for the type {type_}")


def _choice(words: Sequence[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "must be given"
    if field.default is False:
        return "`false`"
    if isinstance(field.default, str | int):
        return f"`{field.default}`"
    return "optional"


def _description(kind: Any) -> str:
    return next(str(meta.description) for meta in kind.__metadata__ if meta.description)


if __name__ == "__main__":
    PAGE.write_text(page_with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
