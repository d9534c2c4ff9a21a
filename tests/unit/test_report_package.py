"""The package of reports imports the module of a name when the name is first used."""

import ast
import inspect
import subprocess
import sys

import pytest

from hpc_board import report


def test_every_public_name_has_the_module_that_type_checkers_see() -> None:
    seen = {
        name.name: (node.module or "").rpartition(".")[2]
        for node in ast.walk(ast.parse(inspect.getsource(report)))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hpc_board.report.")
        for name in node.names
    }
    assert seen == report._MODULES
    assert sorted(seen) == sorted(report.__all__)
    for name in seen:
        assert getattr(report, name) is not None


def test_a_name_loads_its_own_module_and_what_that_needs() -> None:
    program = "import sys; from hpc_board.report import tasks_table; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    loaded = {name.rpartition(".")[2] for name in done.stdout.split() if name.startswith("hpc_board.report.")}
    assert loaded == {"blocks", "formatting", "tables"}


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        report.nothing  # type: ignore[attr-defined]  # noqa: B018
