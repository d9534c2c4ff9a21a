"""Print docs/json.md, the reference of JSON, from the Structs of `hpc_board.report.views`."""

import inspect
import re
import runpy
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

import msgspec
from msgspec import Struct, UnsetType

from hpc_board.report.views import MEANINGS, View
from hpc_board.report.views.printed import BRIEF, PRINTED

meanings = runpy.run_path(str(Path(__file__).with_name("settings_page.py")))["meanings"]

_INTRODUCTION = """\
# JSON

`--json` makes a command print one JSON object or a list of them. New versions add keys, and never rename or remove
them. A moment is a text in ISO 8601, UTC; unknown values are `null`; a key that is "optional" may be absent. Text from
nodes and submissions is bounded, and free of control characters. [In scripts](scripts.md#json) has the short forms.
[schema.json](schema.json) has the JSON Schema of each command, under its name in `$defs`.

This page is made from the code by `make docs`.
"""

_PLAIN = {str: "text", int: "integer", float: "number", bool: "boolean"}


def json_page() -> str:
    """The whole page as Markdown."""
    commands = ["## Commands\n", "| command | prints |", "|---|---|"]
    for names, type_, when in (*PRINTED, *BRIEF):
        words = ", ".join(f"`{name}`" for name in names)
        commands.append(f"| {words}{' ' * bool(words and when)}{when} | {_words(type_)} |")
    return "\n".join([_INTRODUCTION, *commands, "", "## Objects", "", "\n".join(_objects())])


def _objects() -> Iterator[str]:
    for struct in _structs():
        about = inspect.cleandoc(struct.__doc__ or "")
        fields, (parent, *_) = msgspec.structs.fields(struct), struct.__bases__
        if parent is not View:
            about += f" Its first keys are those of a {_link(_title(parent))}."
            fields = fields[len(msgspec.structs.fields(parent)) :]
        found = MEANINGS | meanings(struct)
        yield _section(_title(struct), about, [(each.name, _words(each.type), found[each.name]) for each in fields])


def _structs() -> list[type[Struct]]:
    """Every Struct that a command prints, in the order of the commands, each before its parts."""
    found: dict[type[Struct], None] = {}

    def add(type_: Any) -> None:
        if isinstance(type_, type) and issubclass(type_, View):
            if type_ in found or type_ is View:
                return
            add(type_.__bases__[0])
            found[type_] = None
            for field in msgspec.structs.fields(type_):
                add(field.type)
        for member in get_args(type_):
            add(member)

    for _, type_, _ in (*PRINTED, *BRIEF):
        add(type_)
    return list(found)


def _section(title: str, about: str, rows: Sequence[tuple[str, str, str]]) -> str:
    lines = [f"| `{key}` | {kind} | {meaning} |" for key, kind, meaning in rows]
    return "\n".join([f"### {title}", "", about, "", "| key | type | meaning |", "|---|---|---|", *lines, ""])


def _title(struct: type[Struct]) -> str:
    words = re.findall(r"[A-Z][a-z]*", struct.__name__.removesuffix("View"))
    return " ".join([words[0], *map(str.lower, words[1:])]).replace("Gpu", "GPU").replace("gpu", "GPU")


def _link(title: str) -> str:
    return f"[{title if title.startswith('GPU') else title.lower()}](#{title.lower().replace(' ', '-')})"


def _words(type_: Any) -> str:
    if get_origin(type_) is Annotated:
        return str(type_.__metadata__[0].description)
    if get_origin(type_) is list:
        return f"list of {_words(get_args(type_)[0])}"
    if get_origin(type_) is dict:
        return "object"
    members = [each for each in get_args(type_) if each not in (NoneType, UnsetType)]
    if members:
        words = " or ".join(map(_words, members))
        words += " or `null`" if NoneType in get_args(type_) else ""
        return words + (", optional" if UnsetType in get_args(type_) else "")
    return _PLAIN.get(type_) or _link(_title(type_))


if __name__ == "__main__":
    print(json_page(), end="")
