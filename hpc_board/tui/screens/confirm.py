"""The dialog for confirmations."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from hpc_board.tui.palette import Tone, toned


class Confirm(ModalScreen[bool]):
    """A question with two answers; the safe one has the focus."""

    CSS_PATH = "confirm.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape", "answer(False)", "No"),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
    ]

    def __init__(self, question: str, yes: str, no: str) -> None:
        super().__init__()
        self._question = question
        self._yes = yes
        self._no = no

    def compose(self) -> ComposeResult:
        """Yield the question and its answers."""
        with Vertical(id="box"):
            yield Static(toned(self._question, Tone.STRONG, 500), markup=False)
            with Horizontal():
                yield Button(toned(f"{self._no} (n)").plain, id="no", compact=True)
                yield Button(toned(f"{self._yes} (y)").plain, id="yes", compact=True)

    def action_answer(self, yes: bool) -> None:
        """Close with an answer."""
        self.dismiss(yes)

    @on(Button.Pressed)
    def _press(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")
