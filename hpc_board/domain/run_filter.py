"""What somebody looks for among runs: a few words, each of them in any field or in one that it names."""

import re
from dataclasses import dataclass

FIELDS = ("task", "gpu", "state", "mode", "note", "file", "user")
"""The fields that a word may name: "gpu:h100". A state is also the verdict of a run that has one."""

_PARTS = re.compile(r'(?:"[^"]*"?|[^\s"])+')

WORDS_MAX = 8
CHARACTERS_MAX = 200


@dataclass(frozen=True)
class Word:
    """A text in lower case that has to be somewhere in `field`, or in any field where that is ""."""

    text: str
    field: str = ""


@dataclass(frozen=True)
class RunFilter:
    """The words that a run has to have, all of them; without any, every run fits."""

    words: tuple[Word, ...] = ()


def run_filter(text: str) -> RunFilter:
    """The filter that somebody has typed, "h100 state:wrong"; what is beyond its bounds is left out."""
    return RunFilter(tuple(_word(part) for part in parts_of(text[:CHARACTERS_MAX].lower())[:WORDS_MAX]))


def parts_of(text: str) -> list[str]:
    """The parts of what somebody has typed, with spaces between them; what is in quotes stays together."""
    return [part for part in (found.replace('"', "") for found in _PARTS.findall(text)) if part]


def _word(part: str) -> Word:
    field, colon, text = part.partition(":")
    if colon and field in FIELDS:
        return Word(_as_shown(text), field)
    return Word(_as_shown(part))


def _as_shown(text: str) -> str:
    """States and verdicts are shown, and so looked for, with spaces: "wrong value"."""
    return text.replace("_", " ")
