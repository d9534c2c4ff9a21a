"""The Jinja2 templates of pages for a browser: each value is escaped, and a missing one is an error."""

import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hpc_board.domain.board_options import utc_words
from hpc_board.model.score import duration_text
from hpc_board.model.text import one_line
from hpc_board.report.feeds import feed_line
from hpc_board.report.formatting import score_text, speedup_text
from hpc_board.report.run_words import verdict_text
from hpc_board.report.tasks import first_sentence
from hpc_board.report.times import scatter_text
from hpc_board.report.views import moment_of

if TYPE_CHECKING:
    import jinja2

_HERE = Path(__file__).parent

_CODE = re.compile("`([^`]+)`")
"""The pattern of code in descriptions in Markdown."""


def template(name: str) -> "jinja2.Template":
    """Return a template of this package, compiled."""
    return _environment().get_template(name)


@cache
def asset(name: str) -> str:
    """Return the text of a style or script of this package; the style of pages has that of plots within it."""
    text = (_HERE / name).read_text(encoding="utf-8")
    return asset("plot.css") + text if name == "page.css" else text


@cache
def _environment() -> "jinja2.Environment":
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        moment=moment_of,
        day=_day,
        minute=_minute,
        utc=utc_words,
        clock=_clock,
        tenth=_tenth,
        marked=_CODE.split,
        one_line=one_line,
        first_sentence=first_sentence,
        feed_line=feed_line,
        score=score_text,
        speedup=speedup_text,
        duration=duration_text,
        scatter=scatter_text,
        verdict=verdict_text,
    )
    return environment


def _day(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d}"


def _clock(at: datetime) -> str:
    return f"{at.astimezone(UTC):%H:%M}"


def _minute(at: datetime) -> str:
    return f"{_day(at)} {_clock(at)}"


def _tenth(number: float) -> str:
    return f"{number:.1f}"
