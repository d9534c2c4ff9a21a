"""The help: the keys of a screen, and a paragraph about it."""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import ClassVar

import msgspec
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from hpc_board.tui.palette import Tone, coded
from hpc_board.tui.widgets.key_line import KeyLine

_NAMES_FROM = 100
"""The least width at which the names of actions are shown, by which `app.yaml` changes their keys."""


class KeyGroup(Enum):
    """The groups of keys, in the order of the help."""

    ACTIONS = "Actions"
    PLACES = "Go to"
    APP = "On every screen"


class HelpKey(msgspec.Struct, frozen=True):
    """A key of a screen: its name, its meaning, and the name of its action in `app.yaml`."""

    key: str
    meaning: str
    action: str
    group: KeyGroup


class HelpScreen(ModalScreen[None]):
    """The help of one screen: its name, its keys in groups, and a paragraph about it."""

    CSS_PATH = "help.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,enter", "dismiss", "Back"),
    ]

    def __init__(self, name: str, about: str, keys: Sequence[HelpKey]) -> None:
        super().__init__()
        self._screen_name = name
        self._about = about
        self._keys = keys

    def compose(self) -> ComposeResult:
        with Vertical(id="box") as box:
            box.border_title = f"Help: {self._screen_name}"
            yield VerticalScroll(Static(Group(*self._lines()), markup=False), id="text")
            yield KeyLine()

    def _lines(self) -> Iterator[RenderableType]:
        has_names = self.app.size.width >= _NAMES_FROM
        width = max((len(key.key) for key in self._keys), default=0)
        names_width = max((len(key.action) for key in self._keys), default=0) if has_names else 0
        for group in KeyGroup:
            keys = [key for key in self._keys if key.group is group]
            if not keys:
                continue
            yield Text(group.value, f"bold {Tone.ACCENT.value}")
            table = Table.grid(padding=(0, 2, 0, 0), expand=True)
            table.add_column(no_wrap=True, style=Tone.STRONG.value, width=width)
            table.add_column(overflow="fold", ratio=1)
            table.add_column(no_wrap=True, style=Tone.MUTED.value, width=names_width)
            for key in keys:
                table.add_row(Text(key.key), coded(key.meaning), Text(key.action if has_names else ""))
            yield Padding(table, (0, 0, 1, 0))
        if self._about:
            yield Text("About this screen", f"bold {Tone.ACCENT.value}")
            yield Padding(coded(self._about), (0, 0, 1, 0))
        yield Text(
            "Mouse: click rows, tabs and keys in the last line. Other keys and themes: docs/app.md.", Tone.MUTED.value
        )
