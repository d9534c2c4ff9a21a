"""The frame of the app until the board is open."""

from itertools import islice

from rich.text import Text
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Static

from hpc_board.tui.palette import Tone

_QUIET_SECONDS = 0.5
"""The time in which most boards open; a message within it would flicker."""


class OpeningScreen(Screen[None]):
    """The frame of every screen, with a message if a board opens slowly."""

    def compose(self) -> ComposeResult:
        yield Static(Text("hpc-board", Tone.ACCENT.value), id="title")
        yield Static(id="words")
        yield Static(id="keys")

    def on_mount(self) -> None:
        self.set_timer(_QUIET_SECONDS, self._say)

    def _say(self) -> None:
        quits = (active.binding for active in self.active_bindings.values() if active.binding.action == "quit")
        leave = "".join(f" {self.app.get_key_display(binding)} quits." for binding in islice(quits, 1))
        words = Text(f"Opening the board …{leave}", Tone.MUTED.value)
        self.query_one("#words", Static).update(words)
