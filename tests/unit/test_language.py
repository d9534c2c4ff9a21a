"""The language of the source: a docstring names its subject, and begins with it or with a verb."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "hpc_board"

# The parts that follow the rule. A part that is rewritten gets its name here.
DONE = (
    "accounts.py",
    "admin",
    "board",
    "boards",
    "bundled.py",
    "catalog",
    "domain",
    "errors.py",
    "files.py",
    "runs",
    "schedulers",
    "settings.py",
    "store",
    "task_check",
    "transport",
    "yaml_document.py",
)

QUESTION = re.compile(r"(?:What|Whether|Who|Whose|How)\b")
HIDDEN_ACTOR = re.compile(r"\b(?:somebody|nobody|whoever|everybody)\b", re.IGNORECASE)

# Values that programs read: the name of a role.
VALUES = {"nobody"}


def sources() -> list[Path]:
    """Return the files of the parts that follow the rule."""
    found = (PACKAGE / part for part in DONE)
    return sorted(file for part in found for file in (part.rglob("*.py") if part.is_dir() else [part]))


def strings(tree: ast.AST) -> Iterator[tuple[ast.AST, int, str]]:
    """Yield each string of a module, with its node and its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node, node.lineno, node.value


def faults(text: str) -> list[str]:
    """Return the strings of a module's text that break the rule, each with its line."""
    tree = ast.parse(text)
    # A string that is a statement documents the module, the function, the class or the value before it.
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        f"{line}: {value}"
        for node, line, value in strings(tree)
        if (id(node) in docstrings and QUESTION.match(value)) or (HIDDEN_ACTOR.search(value) and value not in VALUES)
    ]


@pytest.mark.parametrize("part", DONE)
def test_a_part_that_follows_the_rule_exists(part: str) -> None:
    assert (PACKAGE / part).exists()


def test_no_docstring_is_a_question_and_no_string_hides_its_actor() -> None:
    found = {str(path.relative_to(PACKAGE)): faults(path.read_text(encoding="utf-8")) for path in sources()}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "text",
    [
        '"""What it does."""',
        'def is_sound():\n    """Whether it is sound."""',
        'LIMIT = 3\n"""How many there are."""',
        'raise ValueError("somebody else has it")',
        'print(f"Nobody is in {group}")',
    ],
)
def test_the_check_finds_a_break_of_the_rule(text: str) -> None:
    assert len(faults(text)) == 1


def test_the_check_takes_a_plain_sentence() -> None:
    assert faults('def is_sound():\n    """Return whether it is sound."""\n    return "nobody"') == []
