"""Text from outside, made safe to show: no control characters, no escape sequences, a bounded size."""

import re

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # OSC, DCS, SOS, PM, APC: titles, clipboard
    r"|\x1b[ -/]*[0-~]",
    re.DOTALL,
)
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)


def printable(text: str, limit: int = 64 * 1024) -> str:
    """`text` with escape sequences removed, other control characters shown as "·", at most `limit` characters.

    Newlines and tabs stay; a carriage return starts a new line. The end of a text that is too long is cut.
    """
    clean = _ESCAPES.sub("", text[: 4 * limit]).replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROLS.sub("·", clean)[:limit]


def one_line(text: str, limit: int = 200) -> str:
    """`text` made printable on one line of at most `limit` characters."""
    flat = " ".join(printable(text, 4 * limit).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
