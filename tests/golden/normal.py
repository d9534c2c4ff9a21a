"""Normal form of output: paths, recent moments and secrets are replaced by the same words in every run of the tests."""

import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.golden.internals import REPOSITORY

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00)?")
_STAMP = re.compile(r"\b\d{8}T\d{6}\.\d+Z")
_AGO = re.compile(r"\b\d+ s ago")
_TOKEN = re.compile(r"\bhb-[0-9a-f]{16}\b")
_SECRET = re.compile(r'("(?:nonce|harness|harness_sha256)": ")[0-9a-f]{32,64}"')
_LONGEST = timedelta(days=1)


def normal(text: str, folder: Path) -> str:
    """Return the normal form of the output of a command on the board in `folder`.

    Moments of 2024, deadlines and versions of tasks stay. A word in the place of a moment is as long as the moment, so
    that tables keep their columns.
    """
    for path, word in (
        (str(folder.resolve()), "/golden"),
        (str(folder), "/golden"),
        (sys.executable, "/usr/bin/python"),
        (str(REPOSITORY), "/repository"),
    ):
        text = text.replace(path, word)
    text = _MOMENT.sub(_recent(datetime.now(UTC)), text)
    text = _STAMP.sub("<now>", text)
    text = _TOKEN.sub(numbered("hb-{:016d}"), text)
    text = _SECRET.sub(r'\1secret"', text)
    return _AGO.sub("0 s ago", text)


def _recent(now: datetime) -> Callable[[re.Match[str]], str]:
    """Return a replacement for moments of the last day: one board serves a whole run of the tests."""

    def word(match: re.Match[str]) -> str:
        try:
            at = datetime.fromisoformat(match[0])
        except ValueError:
            return match[0]
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return f"{'<now':-<{len(match[0]) - 1}}>" if abs(now - at) < _LONGEST else match[0]

    return word


def numbered(form: str) -> Callable[[re.Match[str]], str]:
    """Return a replacement for each distinct text by its number, in the order of appearance."""
    known: dict[str, str] = {}
    return lambda match: known.setdefault(match[0], form.format(len(known) + 1))
