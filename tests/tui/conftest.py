"""The same clock, colours and folder for every test of the app, and no wait that is there for people alone."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual import _wait
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

from hpc_board.tui.screens import submit

_parse_rules: Callable[..., list[RuleSet]] = Stylesheet._parse_rules
_parsed: dict[tuple[Any, ...], list[RuleSet]] = {}


def _rules_parsed_once(sheet: Stylesheet, css: str, **source: Any) -> list[RuleSet]:
    """Parse style rules, once for all apps of this process: Textual does so for each app and each of its screens."""
    key = (css, *source.items(), *sheet._variables.items())
    if key not in _parsed:
        _parsed[key] = _parse_rules(sheet, css, **source)
    return _parsed[key]


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(submit, "_TYPING_SECONDS", 0.02)
    # After every key the pilot sleeps for as long as it takes to see an idle processor; `settled` looks at the app.
    monkeypatch.setattr(_wait, "SLEEP_GRANULARITY", 0.002)
    monkeypatch.setattr(_wait, "SLEEP_IDLE", 0.0005)
    monkeypatch.setattr(Stylesheet, "_parse_rules", _rules_parsed_once)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """A submission whose header names a task and two GPUs, by a path below the present folder."""
    (tmp_path / "kernel.py").write_text("#!POPCORN leaderboard vectoradd\n#!POPCORN gpus h100 A100\nimport torch\n")
    return Path("kernel.py")
