"""The language of source and manual: a sentence names its subject, and a docstring begins with it or with a verb."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "hpc_board"

# The parts that follow the rule. A part that is rewritten gets its name here.
DONE = (
    "__main__.py",
    "accounts.py",
    "admin",
    "board",
    "boards",
    "bundled.py",
    "catalog",
    "cli",
    "domain",
    "deferred.py",
    "errors.py",
    "files.py",
    "harness",
    "model",
    "opening.py",
    "report",
    "runs",
    "schedulers",
    "scripting.py",
    "service",
    "settings.py",
    "settings_file.py",
    "store",
    "task_check",
    "transport",
    "trusted_file.py",
    "tui",
    "web",
    "yaml_document.py",
    "yaml_sections.py",
)

QUESTION = re.compile(r"(?:What|Whether|Which|Where|Why|Who|Whose|How)\b")
HIDDEN_ACTOR = re.compile(r"\b(?:somebody|nobody|someone|anyone|whoever|everybody)\b", re.IGNORECASE)

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


# The manual. CONTRIBUTING.md quotes the words that the rule forbids.
PAGES = (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md")))

CODE = re.compile(r"^```.*?^```$|^    .*?$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
SENTENCE_QUESTION = re.compile(r"(?:^|(?<=[.:;!?] )|(?<=\| )|(?<=- )|(?<=\*\*)|(?<=# ))What\b", re.MULTILINE)


def faults_of_page(page: str) -> list[str]:
    """Return the lines of a page whose prose breaks the rule; quoted code is exempt."""
    prose = CODE.sub(lambda code: "\n" * code[0].count("\n"), page)
    return [
        f"{number}: {line}"
        for number, line in enumerate(prose.splitlines(), 1)
        if HIDDEN_ACTOR.search(line) or SENTENCE_QUESTION.search(line)
    ]


def test_no_page_begins_a_sentence_with_what_or_hides_its_actor() -> None:
    found = {str(page.relative_to(REPOSITORY)): faults_of_page(page.read_text(encoding="utf-8")) for page in PAGES}
    assert {page: lines for page, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "page",
    [
        "Everybody may read it.",
        "| `code` | nobody may |",
        "## What a run is told",
        "It ends. What it had come to is kept.",
        "- What is free",
    ],
)
def test_the_check_finds_a_page_that_breaks_the_rule(page: str) -> None:
    assert len(faults_of_page(f"Some text.\n\n{page}\n")) == 1


def test_the_check_takes_plain_pages_and_quoted_code() -> None:
    page = "A user may read it.\n\n```text\nWhat to type next\n```\n\n    nobody\n\nIt runs as `nobody`.\n"
    assert faults_of_page(page) == []
