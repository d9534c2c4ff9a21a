"""The help: the keys of a screen, and a paragraph about it."""

from collections.abc import Sequence
from typing import ClassVar

from rich.console import Group
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from hpc_board.tui.palette import Tone
from hpc_board.tui.widgets.key_line import KeyLine

_NAMES_FROM = 100
"""The least width at which the names of actions are shown, by which `app.yaml` changes their keys."""


class HelpScreen(ModalScreen[None]):
    """The help of one screen."""

    CSS_PATH = "help.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,enter", "dismiss", "Close"),
    ]

    def __init__(self, about: str, keys: Sequence[tuple[str, str, str]]) -> None:
        super().__init__()
        self._about = about
        self._keys = keys

    def compose(self) -> ComposeResult:
        """Yield the text and the keys."""
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True, style=Tone.ACCENT.value)
        table.add_column(overflow="fold")
        table.add_column(no_wrap=True, style=Tone.MUTED.value)
        for key, what, name in self._keys:
            table.add_row(Text(key), Text(what), Text(name if self.app.size.width >= _NAMES_FROM else ""))
        with Vertical(id="box"):
            yield VerticalScroll(
                Static(
                    Group(
                        *([Text(self._about), Text("")] if self._about else []),
                        table,
                        Text(""),
                        Text(
                            "Mouse: click rows, tabs and keys in the last line. Other keys and themes: docs/app.md.",
                            Tone.MUTED.value,
                        ),
                    ),
                    markup=False,
                ),
                id="text",
            )
            yield KeyLine()
