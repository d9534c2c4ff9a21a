"""The colours of the app, and the tones that words are written in."""

from enum import Enum

from rich.text import Text
from textual.theme import Theme

from hpc_board.model.text import one_line

_ACCENT = "#7ab8f5"
_MUTED = "#98a2af"


class Tone(Enum):
    """What a word's colour means; every word also says it itself. The value is a Rich style."""

    PLAIN = ""
    MUTED = _MUTED
    ACCENT = _ACCENT
    STRONG = "bold"
    OWN = f"bold {_ACCENT}"
    GOOD = "#8fd19e"
    WAITING = "#e3c27a"
    BAD = "#f2938c"


THEME = Theme(
    name="hpc-board",
    primary=_ACCENT,
    secondary=_ACCENT,
    accent=_ACCENT,
    success=Tone.GOOD.value,
    warning=Tone.WAITING.value,
    error=Tone.BAD.value,
    foreground="#d9dee5",
    background="#15181d",
    surface="#1c2026",
    panel="#272c34",
    dark=True,
    variables={
        "muted": _MUTED,
        "block-cursor-background": "#2f4a66",
        "block-cursor-foreground": "#ffffff",
        "block-cursor-blurred-background": "#2a3038",
        "footer-background": "#272c34",
        "input-selection-background": "#2f4a66",
        "scrollbar": "#3a414b",
        "scrollbar-hover": "#4a525e",
        "scrollbar-active": _ACCENT,
        "scrollbar-background": "#15181d",
        "scrollbar-background-hover": "#15181d",
        "scrollbar-background-active": "#15181d",
        "border": _ACCENT,
        "border-blurred": "#3a414b",
    },
)


def toned(text: object, tone: Tone = Tone.PLAIN, limit: int = 200) -> Text:
    """`text` on one line in a tone, without markup and without control characters."""
    return Text(one_line(str(text), limit), style=tone.value)
