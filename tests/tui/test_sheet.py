"""The style sheet, which parses a source once for each theme."""

from collections import Counter
from typing import Any

import pytest
from textual.css import stylesheet
from textual.css.errors import StylesheetError
from textual.css.parse import parse
from textual.css.stylesheet import StylesheetParseError

from hpc_board.tui.app import Sheet
from tests.tui.driving import app_on, press, settled
from tests.tui.fake_board import FakeBoard

SOURCE = "Static { color: $muted; }"


def sheet() -> Sheet:
    """A parsed style sheet with one source."""
    made = Sheet(variables={"muted": "#112233"})
    made.add_source(SOURCE, ("a", ""))
    made.reparse()
    return made


async def test_no_source_is_parsed_twice_while_screens_open(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: Counter[tuple[object, ...]] = Counter()

    def counted(scope: str, css: str, read_from: Any, **options: Any) -> Any:
        parsed[scope, css, options["is_default_rules"], options["tie_breaker"]] += 1
        return parse(scope, css, read_from, **options)

    monkeypatch.setattr(stylesheet, "parse", counted)
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "enter")
    assert parsed
    assert {source: times for source, times in parsed.items() if times > 1} == {}


def test_a_new_source_leaves_the_rules_of_the_others() -> None:
    styles = sheet()
    before = styles.rules[0]
    styles.add_source("Input { height: 1; }", ("b", ""))
    styles.reparse()
    assert len(styles.rules) == 2
    assert styles.rules[0] is before


def test_another_theme_changes_the_rules() -> None:
    styles = sheet()
    styles.set_variables({"muted": "#445566"})
    styles.reparse()
    assert [rule.styles.color.hex for rule in styles.rules] == ["#445566"]


def test_a_faulty_source_leaves_the_former_rules() -> None:
    styles = sheet()
    before = styles.rules
    styles.add_source("Input { heigth: 1; }", ("b", ""))
    with pytest.raises((StylesheetError, StylesheetParseError)):
        styles.reparse()
    assert styles._rules is before
