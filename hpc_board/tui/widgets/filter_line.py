"""The field for the filter of a list, and for a search."""

from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from hpc_board.tui.palette import Tone, toned


class _Field(Input):
    """An input field whose Enter key is listed in the last line."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "Keep", tooltip="Keep the filter")]


class FilterLine(Horizontal, can_focus=False):
    """A field that is shown on demand; its words apply while the user types, until they are cleared."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "clear", "Clear", tooltip="Clear the filter and close the field"),
        Binding("down", "keep", show=False),
    ]

    class Changed(Message):
        """A change of the words."""

        def __init__(self, words: str) -> None:
            super().__init__()
            self.words = words

    def __init__(self, placeholder: str, *, id: str) -> None:
        super().__init__(id=id)
        self._placeholder = placeholder
        self.display = False

    def open(self, words: str) -> None:
        """Show the field with these words, and focus it."""
        if not self.children:
            # Here, as few lists are filtered, and the first one is not to wait for it.
            field = _Field(placeholder=self._placeholder, compact=True, max_length=200)
            self.mount(Static(toned("/", Tone.ACCENT), classes="sign", markup=False), field)
        self.display = True
        field = self.query_one(_Field)
        with self.prevent(Input.Changed):
            field.value = words
        field.cursor_position = len(words)
        # At once: the next key belongs to the field.
        self.screen.set_focus(field)
        if not field.has_focus:
            # The page of the field is not shown yet.
            field.focus()

    def action_clear(self) -> None:
        if self.query_one(Input).value:
            with self.prevent(Input.Changed):
                self.query_one(Input).value = ""
            self.post_message(self.Changed(""))
        self.action_keep()

    def action_keep(self) -> None:
        """Close the field, and focus the list or the text beside it: at once, as the next key may be pressed."""
        self.display = False
        beside = self.parent.query(Widget) if self.parent is not None else ()
        self.screen.set_focus(next((widget for widget in beside if widget.focusable), None))
        self.screen.refresh_bindings()

    @on(Input.Changed)
    def _change(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed(event.value.strip()))

    @on(Input.Submitted)
    def _keep(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_keep()
