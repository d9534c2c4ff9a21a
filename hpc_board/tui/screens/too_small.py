"""What is shown in the place of a screen that the terminal has no room for."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Static

from hpc_board.tui.palette import Tone, toned

LEAST = (60, 16)
"""Columns and lines that every screen fits into."""


class TooSmallScreen(ModalScreen[None]):
    """How large the terminal has to be, and how large it is; the app closes it once there is room."""

    CSS_PATH = "too_small.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,ctrl+q", "app.quit", "Quit", id="toosmall.quit")]

    def compose(self) -> ComposeResult:
        """The words."""
        yield Static(id="words", markup=False)

    def on_mount(self) -> None:
        """Say what is missing."""
        self._show()

    def on_resize(self) -> None:
        """Say what is missing now."""
        self._show()

    def _show(self) -> None:
        columns, lines = LEAST
        have = f"{self.app.size.width}x{self.app.size.height}"
        words = f"hpc-board needs {columns}x{lines}; this terminal has {have}. Make it larger, or press q to leave."
        self.query_one("#words", Static).update(toned(words, Tone.WAITING))
