"""The dialog for decisions that need one or two lines of text."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Label, Static

from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.widgets.key_line import KeyLine

_CHARACTERS_MAX = 500


class Line(msgspec.Struct, frozen=True):
    """A text field: name, initial value, placeholder, and whether it is required."""

    name: str
    value: str = ""
    placeholder: str = ""
    needed: bool = False


class AskLines(ModalScreen[tuple[str, ...] | None]):
    """A form with text fields; Enter on the last one submits it, Esc closes it without an answer.

    `said` is the initial message, such as an error of the board on the same texts.
    """

    CSS_PATH = "ask_lines.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "accept", "Next", priority=True),
        Binding("escape", "dismiss", "Back"),
        Binding("up", "app.focus_previous", show=False),
        Binding("down", "app.focus_next", show=False),
    ]

    def __init__(
        self,
        question: str,
        lines: Sequence[Line],
        act: str,
        said: str = "",
    ) -> None:
        super().__init__()
        self._question = question
        self._lines = tuple(lines)
        self._act = act
        self._said = said

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Static(toned(self._question, Tone.STRONG, 400), id="question", markup=False)
            for line in self._lines:
                with Horizontal(classes="field"):
                    yield Label(toned(line.name))
                    yield Input(line.value, line.placeholder, compact=True, max_length=_CHARACTERS_MAX)
            yield Static(id="words", markup=False)
            yield KeyLine()

    def on_mount(self) -> None:
        self.query(Input).first().focus()
        if self._said:
            self._show_message(self._said)

    @property
    def key_labels(self) -> Mapping[str, str]:
        return {"accept": self._act}

    def action_accept(self) -> None:
        fields = list(self.query(Input))
        if (here := self.focused) in fields[:-1]:
            fields[fields.index(here) + 1].focus()
            return
        given = tuple(field.value.strip() for field in fields)
        for field, line, text in zip(fields, self._lines, given, strict=True):
            if line.needed and not text:
                self._show_message(f"{line.name} is required.")
                field.focus()
                return
        self.dismiss(given)

    def _show_message(self, words: str) -> None:
        self.query_one("#words", Static).update(toned(words, Tone.WAITING, 400))
