"""The style sheet, which parses a source once for each theme."""

from collections import Counter
from typing import Any

import pytest
from textual.css import stylesheet
from textual.css.parse import parse

from tests.tui.driving import app_on, press, settled
from tests.tui.fake_board import FakeBoard


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
