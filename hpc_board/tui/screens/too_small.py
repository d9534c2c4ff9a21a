"""The message of a terminal that is too small for the app."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Static

from hpc_board.tui.palette import Tone, toned

LEAST = (60, 16)
"""The least columns and lines, which all screens fit into."""


class TooSmallScreen(ModalScreen[None]):
    """The required and the actual size of the terminal; the app closes the screen once it is large enough."""

    CSS_PATH = "too_small.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,ctrl+q", "app.quit", "Quit", id="toosmall.quit")]

    def compose(self) -> ComposeResult:
        yield Static(id="words", markup=False)

    def on_mount(self) -> None:
        self._show()

    def on_resize(self) -> None:
        self._show()

    def _show(self) -> None:
        columns, lines = LEAST
        have = f"{self.app.size.width}x{self.app.size.height}"
        words = f"hpc-board needs {columns}x{lines}; this terminal has {have}. Enlarge it, or press q to quit."
        self.query_one("#words", Static).update(toned(words, Tone.WAITING))
