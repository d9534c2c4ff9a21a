"""Golden files: recorded outputs of commands, and their comparison with the present ones."""

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

DIFFERENCES = (
    # A job runs under the service's account, in a folder that only this account can enter.
    (re.compile(r'"trust": "(self-run|verified)"'), '"trust": "..."'),
    (re.compile(r'"account": (null|"\w+")'), '"account": "..."'),
    # Submissions of all users run under one account.
    (re.compile(r'"minimum_isolation": "(S3)?"'), '"minimum_isolation": "..."'),
    (re.compile(r'"minimum_clock": "(judge)?"'), '"minimum_clock": "..."'),
    # Users take turns, so their jobs have other numbers.
    (re.compile(r'"id": "90\d"'), '"id": "90."'),
    # A folder travels as a zip.
    (re.compile(r"competition(\.zip)?/"), "competition/"),
    # A task's files stay with the service.
    (re.compile(r"(?m)^(\S+ +)(\d+ lines|not published by the service)$"), r"\1..."),
)
"""Patterns of output that differs on a served board, and the words in their place."""

FOLDER = Path(__file__).parent
UPDATE = "HPC_BOARD_UPDATE_GOLDEN"


@dataclass(frozen=True)
class Golden:
    """The golden files. HPC_BOARD_UPDATE_GOLDEN=1 in the environment rewrites them."""

    update: bool

    def check(self, name: str, text: str, *, served: bool = False) -> None:
        """Fail with a unified diff if `text` differs from the file `name`, of a `served` board beyond DIFFERENCES."""
        file = FOLDER / name
        if self.update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="")
            return
        if not file.exists():
            pytest.fail(f"{file} is missing: {UPDATE}=1 writes it", pytrace=False)
        with file.open(encoding="utf-8", newline="") as stored:
            expected = stored.read()
        if served:
            expected, text = _without_differences(expected), _without_differences(text)
        if text != expected:
            lines = difflib.unified_diff(
                expected.splitlines(keepends=True), text.splitlines(keepends=True), f"golden/{name}", "now"
            )
            diff = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
            pytest.fail(
                f"{diff}If the change is intended: {UPDATE}=1 pytest tests/golden, then read git diff.", pytrace=False
            )


def _without_differences(text: str) -> str:
    for pattern, word in DIFFERENCES:
        text = pattern.sub(word, text)
    return text
