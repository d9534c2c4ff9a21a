"""Textual, Rich and click are used only by their public parts; ruff finds `other._name` (SLF001), these the rest."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import hpc_board.cli
import hpc_board.tui

_FRAMEWORKS = ("textual", "rich", "click")
_SOURCES = Path(hpc_board.tui.__file__).parents[1]
_OF_ITSELF = re.compile(r"\b(?:(?:self|cls|super\(\))\.|def )(_[a-z]\w*)|^    (_[a-z]\w*)\b *[:=]", re.MULTILINE)


def _framework_of(name: str) -> bool:
    return name.partition(".")[0] in _FRAMEWORKS


def _classes() -> Iterator[type]:
    """Yield the classes of the app and of the command line that a framework's class is a base of."""
    for package in (hpc_board.tui, hpc_board.cli):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for each in vars(importlib.import_module(found.name)).values():
                if isinstance(each, type) and each.__module__ == found.name and _parts_of_bases(each):
                    yield each


@cache
def _parts(base: type) -> frozenset[str]:
    """Return the private names that the text of a class defines, assigns or uses."""
    return frozenset(first or second for first, second in _OF_ITSELF.findall(inspect.getsource(base)))


def _parts_of_bases(owner: type) -> frozenset[str]:
    return frozenset().union(*(_parts(base) for base in owner.__mro__ if _framework_of(base.__module__)))


def test_no_class_uses_or_replaces_a_private_part_of_its_framework() -> None:
    faults = []
    for owner in _classes():
        both = _parts(owner) & _parts_of_bases(owner)
        faults += [f"{owner.__module__}.{owner.__qualname__}: {name}" for name in sorted(both)]
    assert faults == []


def test_no_private_module_or_name_of_a_framework_is_imported() -> None:
    faults = []
    for path in _SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            faults += [f"{path}: {name}" for name in names if _framework_of(name) and "._" in name]
    assert faults == []


def test_no_private_part_is_reached_by_its_name_as_a_text_or_by_an_exemption() -> None:
    for path in [*(_SOURCES / "tui").rglob("*.py"), *(_SOURCES / "cli").rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"""(?:get|set|has|del)attr\([^)]*["']_|noqa: SLF|__dict__\[""", text), path
