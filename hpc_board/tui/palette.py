"""Tones of text, independent of the theme."""

from enum import Enum

from rich.text import Text

from hpc_board.model.text import one_line


class Tone(Enum):
    """The meaning of a colour, which the coloured word also expresses.

    The value is a style for both Rich and Textual; names with "$" are variables of the theme (themes.py).
    """

    PLAIN = ""
    MUTED = "$muted"
    ACCENT = "$accented"
    STRONG = "bold"
    OWN = "bold $accented"
    GOOD = "$good"
    WAITING = "$waiting"
    BAD = "$bad"


def empty_text(words: str) -> Text:
    """Return the text of a part without contents: its reason, and the next key on a second line."""
    reason, _, next_step = words.partition("\n")
    lines = [toned(reason, Tone.PLAIN, 500), *([toned(next_step, Tone.MUTED, 300)] if next_step else [])]
    return Text("\n").join(lines)


def toned(text: object, tone: Tone = Tone.PLAIN, limit: int = 200) -> Text:
    """Return `text` on one line in a tone, without markup and control characters."""
    return Text(one_line(str(text), limit), style=tone.value)
