"""Print docs/schema.json, the JSON Schema of the objects that commands print, from the Structs of their views."""

import json
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from hpc_board.report.views import MEANINGS, View
from hpc_board.report.views.printed import BRIEF, PRINTED

meanings = runpy.run_path(str(Path(__file__).with_name("settings_page.py")))["meanings"]


def json_schema() -> dict[str, Any]:
    """The schemas of all objects by the names of their Structs, and of each command's output by its name."""
    printed = [(names or ("error",), type_) for names, type_, _ in (*PRINTED, *BRIEF)]
    schemas, objects = msgspec.json.schema_components([type_ for _, type_ in printed], ref_template="#/$defs/{name}")
    commands: dict[str, list[Any]] = {}
    for (names, _), schema in zip(printed, schemas, strict=True):
        for name in names:
            commands.setdefault(name, []).append(schema)
    _describe(View, MEANINGS, objects)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The output of hpc-board with --json",
        "$defs": {**{name: {"anyOf": each} for name, each in sorted(commands.items())}, **objects},
    }


def _describe(struct: type[View], inherited: Mapping[str, str], objects: dict[str, Any]) -> None:
    """Add the meanings of the keys; new versions add keys, so that further ones are allowed."""
    found = {**inherited, **meanings(struct)}
    schema = objects.get(struct.__name__, {})
    schema.pop("additionalProperties", None)
    for key, value in schema.get("properties", {}).items():
        value["description"] = found[key]
    for each in struct.__subclasses__():
        _describe(each, found, objects)


if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=2))
