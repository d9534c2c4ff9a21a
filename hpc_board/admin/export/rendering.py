"""The Jinja2 templates of the page for a browser: each value is escaped, and a missing one is an error."""

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hpc_board.admin.export.json_file import moment

if TYPE_CHECKING:
    import jinja2


def template(name: str) -> "jinja2.Template":
    """Return a template of this package, compiled."""
    return _environment().get_template(name)


@cache
def _environment() -> "jinja2.Environment":
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(moment=moment, minute=_minute, tenth=_tenth)
    return environment


def _minute(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"


def _tenth(number: float) -> str:
    return f"{number:.1f}"
