"""How the modules of the app depend on each other."""

import ast
from pathlib import Path

from hpc_board import tui

ROOT = Path(tui.__file__).parent
MODULES = {
    "hpc_board.tui." + ".".join(path.relative_to(ROOT).with_suffix("").parts): ast.parse(path.read_text())
    for path in ROOT.rglob("*.py")
    if path.name != "__init__.py"
}
SHARED = {"base", "confirm"}
"""The frame of every screen, and the question that every screen may put."""


def imported(tree: ast.AST) -> set[str]:
    return {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)} & MODULES.keys()


def test_the_app_alone_knows_which_screens_there_are() -> None:
    screens = "hpc_board.tui.screens."
    known = {
        (name, other.removeprefix(screens))
        for name, tree in MODULES.items()
        for other in imported(tree)
        if other.startswith(screens) and name != "hpc_board.tui.app"
    }
    assert {(name, other) for name, other in known if other not in SHARED} == {(f"{screens}submit", "pick_file")}


def test_no_module_of_the_app_is_imported_late_or_in_a_circle() -> None:
    late = {
        name
        for name, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom | ast.Import) and node not in tree.body
    }
    assert late == set()
    left = {name: imported(tree) for name, tree in MODULES.items()}
    while free := {name for name, needed in left.items() if not needed & left.keys()}:
        left = {name: needed for name, needed in left.items() if name not in free}
    assert left == {}
