"""The tones that words are written in, whatever the theme is."""

from enum import Enum

from rich.text import Text

from hpc_board.model.text import one_line


class Tone(Enum):
    """What a word's colour means; every word also says it itself.

    The value is a style for Rich and for Textual alike: what begins with "$" is a variable of the theme (themes.py).
    """

    PLAIN = ""
    MUTED = "$muted"
    ACCENT = "$accented"
    STRONG = "bold"
    OWN = "bold $accented"
    GOOD = "$good"
    WAITING = "$waiting"
    BAD = "$bad"


def toned(text: object, tone: Tone = Tone.PLAIN, limit: int = 200) -> Text:
    """`text` on one line in a tone, without markup and without control characters."""
    return Text(one_line(str(text), limit), style=tone.value)
