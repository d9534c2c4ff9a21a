"""A line in which one types what a list is to be narrowed down to."""

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static

from hpc_board.tui.palette import Tone, toned


class _Field(Input):
    """A field whose Enter has a name in the last line."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "keep", "Keep", tooltip="Keep the words")]

    def on_key(self, event: events.Key) -> None:
        """Leave at once on Enter, and hand on what was typed after it: bindings are looked up later than letters."""
        line = self.parent
        if not isinstance(line, FilterLine):
            return
        if not line.display:
            self.app.simulate_key(event.key)
        elif event.key == "enter":
            line.action_keep()
        else:
            return
        event.stop()
        event.prevent_default()

    def action_keep(self) -> None:
        """Leave the line around this field, which keeps its words."""
        if isinstance(self.parent, FilterLine):
            self.parent.action_keep()


class FilterLine(Horizontal, can_focus=False):
    """A field that appears when it is called for; what it holds counts while it is typed, and until it is cleared."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "clear", "Clear", tooltip="Leave the field without words"),
        Binding("down", "keep", show=False),
    ]

    class Changed(Message):
        """Other words count now."""

        def __init__(self, words: str) -> None:
            super().__init__()
            self.words = words

    class Closed(Message):
        """The field is left, with or without words in it."""

    def __init__(self, sign: str, placeholder: str, *, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self._sign = sign
        self._placeholder = placeholder
        self.display = False

    def compose(self) -> ComposeResult:
        """The sign of the field, and the field."""
        yield Static(toned(self._sign, Tone.ACCENT), classes="sign", markup=False)
        yield _Field(placeholder=self._placeholder, compact=True, max_length=200)

    def open(self, words: str) -> None:
        """Take the cursor, with these words to begin with."""
        self.display = True
        field = self.query_one(Input)
        with self.prevent(Input.Changed):
            field.value = words
        field.cursor_position = len(words)
        # At once: what is typed right after the key belongs to the field.
        self.screen.set_focus(field)
        if not field.has_focus:
            # The page that it is on is only about to be shown.
            field.focus()

    def action_keep(self) -> None:
        """Leave the field, keep its words."""
        self._close()

    def action_clear(self) -> None:
        """Leave the field without words."""
        if self.query_one(Input).value:
            with self.prevent(Input.Changed):
                self.query_one(Input).value = ""
            self.post_message(self.Changed(""))
        self._close()

    def _close(self) -> None:
        # At once, before the message has had its effect: the next key may have been pressed already.
        self.screen.set_focus(None)
        self.display = False
        self.post_message(self.Closed())

    @on(Input.Changed)
    def _change(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed(event.value.strip()))
