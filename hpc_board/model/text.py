"""Untrusted text made safe to show: no control characters, no escape sequences, a bounded size."""

import re
import unicodedata

# Compiled when a text first needs them: most are simple.
_ESCAPES = (
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|\x1b[\]PX^_][^\x1b\x07\r\n]{0,4096}(?:\x07|\x1b\\)"  # OSC, DCS, SOS, PM, APC: titles, clipboard
    r"|\x1b(?![\]PX^_])[ -/]*[0-~]"
)
_CONTROLS = (
    "\x1b[\\]PX^_]"  # only the introducer: an unterminated sequence must not hide the text after it
    "|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
    # format characters
    "\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e007f"
    # letters and marks without a shape
    "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0]"
)
_AN = r"[AEFHILMNORSX](?![a-z])|[AEIOaeio]|8"
"""Words that take "an": with a first letter spoken with a vowel ("H100", "MI300"), and vowels."""

_MARKS_MAX = 4
"""Largest number of combining marks on a character: no language uses more, and they paint over their neighbours."""


def is_simple(text: str) -> bool:
    """Return whether `text` has only printable ASCII characters, newlines and tabs."""
    return text.isascii() and text.replace("\n", "").replace("\t", "").isprintable()


def printable(text: str, limit: int = 64 * 1024) -> str:
    """Return `text` without escape sequences, other control and invisible characters as "·", at most `limit` long.

    Newlines and tabs stay; a carriage return starts a new line. The end of a text that is too long is cut.
    """
    text = text[: 4 * limit]
    if is_simple(text):
        return text[:limit]
    clean = re.sub(_ESCAPES, "", text).replace("\r\n", "\n").replace("\r", "\n")
    return _few_marks(re.sub(_CONTROLS, "·", clean))[:limit]


def one_line(text: str, limit: int = 200) -> str:
    """Return `text` made printable on one line of at most `limit` characters."""
    flat = " ".join(printable(text, 4 * limit).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def with_article(name: str) -> str:
    """Return a name after "a" or "an", as it is spoken: "an H100", "a B200", "an array", "a NoneType"."""
    return f"an {name}" if re.match(_AN, name) else f"a {name}"


def _few_marks(text: str) -> str:
    """Return `text` without the excess combining marks on each character."""
    if text.isascii():
        return text
    kept, marks = [], 0
    for character in text:
        marks = marks + 1 if _has_no_width(character) else 0
        if marks <= _MARKS_MAX:
            kept.append(character)
    return "".join(kept)


def _has_no_width(character: str) -> bool:
    """Return whether a terminal puts the character into the cell of the one before it."""
    hangul = "\u1161" <= character <= "\u11ff" or "\ud7b0" <= character <= "\ud7ff"
    return hangul or unicodedata.category(character) in ("Mn", "Me")
