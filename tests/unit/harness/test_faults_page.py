"""The page on faults and the tests on a real Slurm name each other."""

import ast
import re

from tests.unit.recorded import REPOSITORY


def test_every_fault_of_the_page_has_its_test_and_every_test_its_row() -> None:
    page = (REPOSITORY / "docs/design/faults.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| fault ")]
    named = [re.findall(r"`(test_\w+)` \|$", row) for row in rows]
    assert all(len(names) == 1 for names in named), "each row ends with the name of one test"
    module = ast.parse((REPOSITORY / "tests/slurm/test_faults.py").read_text(encoding="utf-8"))
    tests = {node.name for node in module.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}
    assert {names[0] for names in named} == tests
