"""Golden files: recorded outputs of commands, and their comparison with the present ones."""

import difflib
from dataclasses import dataclass
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
UPDATE = "HPC_BOARD_UPDATE_GOLDEN"


@dataclass(frozen=True)
class Golden:
    """The golden files. HPC_BOARD_UPDATE_GOLDEN=1 in the environment rewrites them."""

    update: bool

    def check(self, name: str, text: str) -> None:
        """Fail with a unified diff if `text` differs from the file `name`."""
        file = FOLDER / name
        if self.update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="")
            return
        if not file.exists():
            pytest.fail(f"{file} is missing: {UPDATE}=1 writes it", pytrace=False)
        with file.open(encoding="utf-8", newline="") as stored:
            expected = stored.read()
        if text != expected:
            lines = difflib.unified_diff(
                expected.splitlines(keepends=True), text.splitlines(keepends=True), f"golden/{name}", "now"
            )
            diff = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
            pytest.fail(
                f"{diff}If the change is intended: {UPDATE}=1 pytest tests/golden, then read git diff.", pytrace=False
            )
