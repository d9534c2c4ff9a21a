"""The language of source and manual: a sentence names its subject, and a docstring begins with it or with a verb."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_board import errors

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = ("hpc_board", "scripts")
# Tasks as their authors write them.
LEFT_OUT = ("tests/fixtures/",)

QUESTION = re.compile(r"(?:What|Whether|Which|Where|Why|Who|Whose|How)\b")
HIDDEN_ACTOR = re.compile(r"\b(?:somebody|nobody|someone|anyone|whoever|everybody)\b", re.IGNORECASE)
NOUNLESS = re.compile(r"\bwhat\b", re.IGNORECASE)
QUOTED = re.compile(r"`[^`\n]*`")

# Values that programs read: the name of a role.
VALUES = {"nobody"}


def strings(tree: ast.AST) -> Iterator[tuple[ast.AST, int, str]]:
    """Yield each string of a module, with its node and its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node, node.lineno, node.value


def docstrings_of(tree: ast.AST) -> set[int]:
    """Return the ids of the strings that are statements: they document the module, function, class or value before."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def nounless(text: str) -> list[str]:
    """Return the docstrings of a module's text in which "what" stands for a noun, each with its line."""
    tree = ast.parse(text)
    documenting = docstrings_of(tree)
    found = ((line, value) for node, line, value in strings(tree) if id(node) in documenting)
    return [f"{line}: {value}" for line, value in found if NOUNLESS.search(QUOTED.sub("", value))]


def faults(text: str, *, only_docstrings: bool = False) -> list[str]:
    """Return the strings of a module's text that break the rule, each with its line."""
    tree = ast.parse(text)
    docstrings = docstrings_of(tree)
    return [
        f"{line}: {value}"
        for node, line, value in strings(tree)
        if (id(node) in docstrings and QUESTION.match(value))
        or (HIDDEN_ACTOR.search(QUOTED.sub("", value)) and value not in VALUES)
        if id(node) in docstrings or not only_docstrings
    ]


def modules(part: str) -> dict[str, str]:
    """Return the texts of the modules in a folder of the repository, by their paths."""
    found = {str(each.relative_to(REPOSITORY)): each for each in sorted((REPOSITORY / part).rglob("*.py"))}
    return {path: each.read_text(encoding="utf-8") for path, each in found.items() if not path.startswith(LEFT_OUT)}


@pytest.mark.parametrize("part", SOURCES)
def test_no_docstring_is_a_question_and_no_string_hides_its_actor(part: str) -> None:
    found = {path: faults(text) for path, text in modules(part).items()}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize("part", SOURCES)
def test_no_docstring_has_what_in_the_place_of_a_noun(part: str) -> None:
    found = {path: nounless(text) for path, text in modules(part).items()}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_the_check_finds_what_in_the_place_of_a_noun() -> None:
    assert nounless('"""Print the run, and what is left."""\nwhat = "what it is"') == [
        "1: Print the run, and what is left."
    ]
    assert nounless('"""Print `what`."""') == []


def test_no_docstring_of_a_test_is_a_question_or_hides_its_actor() -> None:
    found = {path: faults(text, only_docstrings=True) for path, text in modules("tests").items()}
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


# The messages of errors follow "error: " or a title, and begin in lower case but for a name. click has its own.
ERRORS = {*(name for name, each in vars(errors).items() if isinstance(each, type)), "UsageError"} - {"Fault"}
NAMES = ("Parquet ", "Slurm ", "Socket timed out", "GPU ", "Missing argument ")
# The sort keys of runs have their messages there.


def capitals(text: str) -> list[str]:
    """Return the messages of errors of a module's text that begin with a capital letter, each with its line."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).rpartition(".")[2] in ERRORS:
            first = node.args[0].values[0] if isinstance(node.args[0], ast.JoinedStr) else node.args[0]
            message = first.value if isinstance(first, ast.Constant) else ""
            if isinstance(message, str) and message[:1].isupper() and not message.startswith(NAMES):
                found.append(f"{first.lineno}: {message}")
    return found


def test_the_message_of_an_error_begins_in_lower_case() -> None:
    found = {path: capitals(text) for path, text in modules("hpc_board").items()}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("message", "is_fault"),
    [("'There is none.'", True), ("f'There is no {name}.'", True), ("'there is none.'", False), ("name", False)],
)
def test_the_check_finds_a_message_that_begins_with_a_capital(message: str, *, is_fault: bool) -> None:
    assert bool(capitals(f"raise errors.InputError({message}, hint='Give one.')")) is is_fault


# Comments give reasons, in sentences of the same kind.
PRAGMA = re.compile(r"\A(?:noqa|type: ignore|pragma)\b.*?(?: - |# |\Z)")
SENTENCE = r"(?:^|(?<=[.:;!?] ))"
STUMBLES = {
    "a sentence begins with a question word": re.compile(rf"{SENTENCE}(?:Whether|Which|Where|Why|Who|Whose|How)\b"),
    "`what` stands for a noun": NOUNLESS,
    "the actor is hidden": re.compile(rf"{HIDDEN_ACTOR.pattern}|\b(?:anybody|everyone|whatever)\b", re.IGNORECASE),
    "the history is told, not the reason": re.compile(
        r"\b(?:formerly|previously|originally|historically|until recently|used to (?:be|have|do))\b"
        rf"|{SENTENCE}(?:Now|Before|Earlier|Once),"
    ),
}


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of a module's text with their first lines; lines below each other are one comment."""
    first, words, after = 0, "", 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, alone = token.start[0], not token.line[: token.start[1]].strip()
        said = PRAGMA.sub("", token.string.lstrip("#! "))
        if alone and line == after:
            words += f" {said}"
        else:
            yield first, words
            first, words = line, said
        after = line + 1 if alone else 0
    yield first, words


def stumbles(text: str) -> list[str]:
    """Return the comments of a module's text over which a reader stumbles, with line and reason; `code` is exempt."""
    perhaps = [part.strip() for line in text.splitlines() for part in line.split("#")[1:]]
    if not any(word.search(part) for word in STUMBLES.values() for part in perhaps):
        return []  # a file's tokens take longer than all else here
    return [
        f"{line}: {reason}: {comment}"
        for line, comment in comments(text)
        for reason, word in STUMBLES.items()
        if word.search(QUOTED.sub("", comment))
    ]


@pytest.mark.parametrize("part", [*SOURCES, "tests"])
def test_no_comment_is_a_stumble(part: str) -> None:
    found = {path: stumbles(text) for path, text in modules(part).items()}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "text",
    [
        "# What it had come to stays.",
        "limit = 3  # what a node may take",
        "# Where the disk is full, it waits.",
        "# It waits. Who leaves is told so.",
        "# It is closed: whoever comes",
        "# A file that belongs to\n# somebody else",
        "# The limit used to be three.",
        "# It polls. Before, it waited.",
        "limit = 3  # noqa: S311 - whatever it is",
        "limit = 3  # type: ignore[assignment]  # whatever it is",
    ],
)
def test_the_check_finds_a_comment_that_is_a_stumble(text: str) -> None:
    assert len(stumbles(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "# A node that takes part is used to measure the others.",
        "# The account `nobody` owns it.",
        "# Before the file is opened: its owner may change.",
        "limit = 3  # noqa: PLR2004",
        'text = "# What a comment is not"',
        '"""What the docstring\'s own test finds."""',
    ],
)
def test_the_check_takes_plain_comments(text: str) -> None:
    assert stumbles(text) == []


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
