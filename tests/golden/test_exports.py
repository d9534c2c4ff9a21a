"""The files that `admin export` writes of the golden board."""

import re

import pytest

from tests.golden.board import GoldenBoard
from tests.golden.files import FOLDER, Golden
from tests.golden.normal import normal

CASES = {
    "runs.csv": "csv",
    "runs.code.csv": "csv --with-code --task histo --task narrow --gpu CPU,A100",
    "runs.json": "json",
    "cases.csv": "csv --what cases --task histo --gpu H100",
    "runs.since.json": "json --since 2024-03-14T18:00 --gpu h100",
    "boards.html": "html",
    "boards.course.html": "html --task course",
}

# Styles and scripts are files of their own, a chart ends today, and a diff of a single long line cannot be read.
_REPLACED = (
    (re.compile(r"(<(style|script)[^>]*>).*?(</\2>)", re.DOTALL), r"\1\3"),
    (re.compile(r"sha256-[\w+/]{43}="), "sha256-..."),
    (re.compile(r'( d| cx)="[^"]*"'), r'\1="..."'),
    (re.compile(r'(<text [^>]*text-anchor="end">)\d{4}-\d\d-\d\d<'), r"\1...<"),
    (re.compile(r">\s*<"), ">\n<"),
)


@pytest.mark.parametrize("name", CASES)
def test_an_export_is_what_it_was(golden: Golden, board: GoldenBoard, name: str) -> None:
    done = board.run("dean", "admin", "export", "--format", *CASES[name].split())
    assert done.exit_code == 0, done.stderr
    text = normal(done.stdout, board.folder)
    for pattern, word in _REPLACED if name.endswith(".html") else ():
        text = pattern.sub(word, text)
    golden.check(f"exports/{name}", text, served=board.served is not None)


def test_no_file_of_an_export_is_left_over() -> None:
    assert {file.name for file in (FOLDER / "exports").iterdir()} == set(CASES)
