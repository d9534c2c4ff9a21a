"""Tones of text, independent of the theme."""

import re
from enum import Enum

from rich.text import Text

from hpc_board.model.text import one_line, printable

_CODE = re.compile(r"(?<!\w)`([^`'\n]+)`(?!\w)")
"""Code in a text of hpc-board; linkers quote names as `name' in their messages."""


BRAND = "[bold reverse $own] hpc-board [/][$own]▓▒░[/]"
"""The app's name at the left end of the first line, in Textual's markup."""


class Tone(Enum):
    """The meaning of a colour, which the coloured word also expresses.

    The value is a style for both Rich and Textual; names with "$" are variables of the theme (themes.py).
    """

    PLAIN = ""
    MUTED = "$muted"
    ACCENT = "$accented"
    STRONG = "bold"
    OWN = "bold $own"
    GOOD = "$good"
    WAITING = "$waiting"
    BAD = "$bad"


def empty_text(words: str) -> Text:
    """Return the text of a part without contents: its reason, and the next key on a second line."""
    reason, _, next_step = words.partition("\n")
    lines = [coded(one_line(reason, 500)), *([coded(one_line(next_step, 300), Tone.MUTED)] if next_step else [])]
    return Text("\n").join(lines)


def coded(words: str, tone: Tone = Tone.PLAIN, limit: int = 65_536) -> Text:
    """Return a text of hpc-board in a tone, without control characters; code in backticks has its style, and not them.

    A text that may hold a foreign one, such as a compiler's message, keeps its backticks by `plain_text`.
    """
    text = Text(style=tone.value)
    for at, part in enumerate(_CODE.split(printable(words, limit))):
        # Every second part is code.
        text.append(part, Tone.ACCENT.value if at % 2 else None)
    return text


def plain_text(words: str, tone: Tone = Tone.PLAIN, limit: int = 65_536) -> Text:
    """Return a text of any origin in a tone, as it is but for control characters."""
    return Text(printable(words, limit), tone.value)


def toned(text: object, tone: Tone = Tone.PLAIN, limit: int = 200) -> Text:
    """Return `text` on one line in a tone, without markup and control characters."""
    return Text(one_line(str(text), limit), style=tone.value)
