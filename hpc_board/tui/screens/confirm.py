"""The dialog for confirmations."""

from collections.abc import Mapping
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.widgets.key_line import KeyLine


class Confirm(ModalScreen[bool]):
    """A question with two answers; Enter gives the one with the focus, Esc the safe one.

    The safe one has the focus at first if the other one `destroys` data.
    """

    CSS_PATH = "confirm.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "press", "Confirm", priority=True),
        Binding("escape", "answer(False)", "Back"),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
    ]

    def __init__(self, question: str, yes: str, no: str, *, destroys: bool = False) -> None:
        super().__init__()
        self._question = question
        self._yes = yes
        self._no = no
        self._destroys = destroys

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Static(toned(self._question, Tone.STRONG, 500), markup=False)
            with Horizontal():
                yield Button(toned(self._no).plain, id="no", compact=True)
                yield Button(toned(self._yes).plain, id="yes", compact=True)
            yield KeyLine()

    def on_mount(self) -> None:
        self.query_one("#no" if self._destroys else "#yes").focus()

    def on_descendant_focus(self) -> None:
        self.refresh_bindings()

    @property
    def key_labels(self) -> Mapping[str, str]:
        """Return the answer that Enter gives."""
        return {"press": self._yes if self.focused is self.query_one("#yes") else self._no}

    def action_press(self) -> None:
        self.dismiss(self.focused is self.query_one("#yes"))

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)

    @on(Button.Pressed)
    def _press(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")
