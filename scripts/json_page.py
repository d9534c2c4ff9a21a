"""Print docs/json.md, the reference of JSON, from the Structs of `hpc_board.report.views` and the tables of columns."""

import inspect
import re
import runpy
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

import msgspec
from msgspec import Struct, UnsetType

from hpc_board.report import run_columns, standing_columns
from hpc_board.report.standing_columns import Document
from hpc_board.report.views import View
from hpc_board.report.views.commands import PRINTED
from hpc_board.report.views.runs import ResultView, RunView, WholeRunView
from hpc_board.report.views.standings import MarkView, StandingView

meanings = runpy.run_path(str(Path(__file__).with_name("settings_page.py")))["meanings"]

_INTRODUCTION = """\
# JSON

`--json` makes a command print one JSON object or a list of them. New versions add keys, and never rename or remove
them. A moment is a text in ISO 8601, UTC; unknown values are `null`; a key that is "optional" may be absent. Text from
nodes and submissions is bounded, and free of control characters. [In scripts](scripts.md#json) shows a run and
standings in full.

This page is made from the code by `make docs`.
"""

_PLAIN = {str: "text", int: "integer", float: "number", bool: "boolean"}


def json_page() -> str:
    """The whole page as Markdown."""
    commands = ["## Commands\n", "| command | prints |", "|---|---|"]
    for printed in PRINTED:
        names = ", ".join(f"`{name}`" for name in printed.commands)
        commands.append(f"| {names}{' ' * bool(printed.when)}{printed.when} | {_words(printed.type)} |")
    return "\n".join([_INTRODUCTION, *commands, "", "## Objects", "", "\n".join(_objects())])


def _objects() -> Iterator[str]:
    yield _section("Run", "A run in a list.", _of_run())
    about = "A run with the keys of a [run](#run), and behind them these."
    yield _section("Run with its result", about, _of_struct(ResultView))
    yield _section("Row", "A row of standings.", _of_standing(Document.SHOW))
    kind = ("kind", "text", "`reference` or `milestone`"), ("name", "text", "the name of the milestone, or `reference`")
    yield _section("Mark", "A line beside the ranks.", [*kind, *_of_standing(Document.MARKS)])
    for struct in _structs():
        yield _section(_title(struct), inspect.cleandoc(struct.__doc__ or ""), _of_struct(struct))


def _structs() -> list[type[Struct]]:
    """Every Struct that a command prints, in the order of the commands, each before its parts."""
    found: dict[type[Struct], None] = {}

    def add(type_: Any) -> None:
        if isinstance(type_, type) and issubclass(type_, View):
            if type_ in found:
                return
            found[type_] = None
            for field in msgspec.structs.fields(type_):
                add(field.type)
        for member in get_args(type_):
            add(member)

    for printed in PRINTED:
        add(printed.type)
    for struct in _all(View):
        add(struct)
    return [struct for struct in found if struct is not ResultView]


def _all(struct: type[Struct]) -> Iterator[type[Struct]]:
    for child in struct.__subclasses__():
        yield child
        yield from _all(child)


def _of_run() -> list[tuple[str, str, str]]:
    return [(field.key, field.type, field.meaning) for field in run_columns.json_fields()]


def _of_standing(document: Document) -> list[tuple[str, str, str]]:
    fields = [field for column in standing_columns.COLUMNS for field in column.fields if document in field.documents]
    return [(field.key, field.type, field.meaning) for field in fields]


def _of_struct(struct: type[Struct]) -> list[tuple[str, str, str]]:
    parents = [each for each in reversed(struct.__mro__) if issubclass(each, View) and each is not View]
    found = {name: words for each in parents for name, words in meanings(each).items()}
    return [(each.encode_name, _words(each.type), found[each.name]) for each in msgspec.structs.fields(struct)]


def _section(title: str, about: str, rows: Sequence[tuple[str, str, str]]) -> str:
    lines = [f"| `{key}` | {kind} | {meaning} |" for key, kind, meaning in rows]
    return "\n".join([f"### {title}", "", about, "", "| key | type | meaning |", "|---|---|---|", *lines, ""])


def _title(struct: type[Struct]) -> str:
    words = re.findall(r"[A-Z][a-z]*", struct.__name__.removesuffix("View"))
    return " ".join([words[0], *map(str.lower, words[1:])]).replace("Gpu", "GPU").replace("gpu", "GPU")


def _link(title: str) -> str:
    return f"[{title if title.startswith('GPU') else title.lower()}](#{title.lower().replace(' ', '-')})"


def _words(type_: Any) -> str:
    for view, title in (
        (RunView, "Run"),
        (WholeRunView, "Run with its result"),
        (StandingView, "Row"),
        (MarkView, "Mark"),
    ):
        if type_ == view:
            return _link(title)
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
