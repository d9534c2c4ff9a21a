"""The screens that need no board: the frame until it is open, and the message of a terminal that is too small."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from hpc_board.tui.palette import BRAND, Tone, toned

LEAST = (60, 16)
"""The least columns and lines, which all screens fit into."""

_QUIET_SECONDS = 0.5
"""The time in which most boards open; a message within it would flicker."""


class OpeningScreen(Screen[None]):
    """The frame of every screen, with a message if a board opens slowly."""

    def compose(self) -> ComposeResult:
        yield Static(BRAND, id="title")
        yield Static(id="words")
        yield Static(id="keys")

    def on_mount(self) -> None:
        self.set_timer(_QUIET_SECONDS, self._show_message)

    def _show_message(self) -> None:
        quits = [active.binding for active in self.active_bindings.values() if active.binding.action == "quit"]
        leave = f" {self.app.get_key_display(quits[0])} quits." if quits else ""
        self.query_one("#words", Static).update(toned(f"Opening the board …{leave}", Tone.MUTED))


class TooSmallScreen(ModalScreen[None]):
    """The required and the actual size of the terminal; the app closes the screen once it is large enough."""

    CSS_PATH = "too_small.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,ctrl+q", "app.quit", "Quit", id="toosmall.quit")]

    def compose(self) -> ComposeResult:
        yield Static(id="words", markup=False)

    def on_resize(self) -> None:
        columns, lines = LEAST
        have = f"{self.app.size.width}x{self.app.size.height}"
        words = f"hpc-board needs {columns}x{lines}; this terminal has {have}. Enlarge it, or press q to quit."
        self.query_one("#words", Static).update(toned(words, Tone.BAD))
