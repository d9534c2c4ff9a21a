"""The dialogs: a confirmation, lines, the help, a tree of files."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import ClassVar

import msgspec
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text, TextType
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, DirectoryTree, Input, Label, Static

from hpc_board.accounts import home
from hpc_board.domain.submission import EXTENSIONS
from hpc_board.errors import InputError
from hpc_board.files import is_folder
from hpc_board.model.text import one_line
from hpc_board.tui.palette import Tone, coded, toned
from hpc_board.tui.widgets.bars import KeyLine
from hpc_board.tui.widgets.form import PathInput


class Confirm(ModalScreen[bool]):
    """A question with two answers; Enter gives the one with the focus, Esc the safe one.

    The safe one has the focus at first if the other one `destroys` data.
    """

    CSS_PATH = "confirm.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "press", "Confirm", priority=True),
        Binding("escape", "dismiss(False)", "Back"),
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
                yield Button(toned(self._no).plain, id="no", action="screen.dismiss(False)", compact=True)
                yield Button(toned(self._yes).plain, id="yes", action="screen.dismiss(True)", compact=True)
            yield KeyLine()

    def on_mount(self) -> None:
        self.query_one("#no" if self._destroys else "#yes").focus()

    @property
    def key_labels(self) -> Mapping[str, str]:
        return {"press": self._yes if self.focused is self.query_one("#yes") else self._no}

    def action_press(self) -> None:
        self.dismiss(self.focused is self.query_one("#yes"))


_CHARACTERS_MAX = 500


class Line(msgspec.Struct, frozen=True):
    """A text field: name, initial value, placeholder, whether it is required, its `choices` if others are faults.

    A field for a number has its unit and its bounds `beside` it.
    """

    name: str
    value: str = ""
    placeholder: str = ""
    needed: bool = False
    choices: tuple[str, ...] = ()
    is_path: bool = False
    beside: str = ""


class AskLines(ModalScreen[tuple[str, ...] | None]):
    """A form with text fields; Enter on the last one submits it, Esc closes it without an answer.

    `said` is the initial message, such as an error of the board on the same texts. `check` raises an InputError if the
    texts have a fault. Enter on any field submits the form if it acts `at_once`.
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
        *,
        about: str = "",
        check: Callable[[tuple[str, ...]], object] = lambda _: None,
        at_once: bool = False,
    ) -> None:
        super().__init__()
        self._question = question
        self._lines = tuple(lines)
        self._act = act
        self._said = said
        self._about = about
        self._check = check
        self._at_once = at_once

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Static(toned(self._question, Tone.STRONG, 400), id="question", markup=False)
            with Vertical(id="fields"):
                if self._about:
                    yield Static(toned(self._about, Tone.MUTED, 300), id="about", markup=False)
                for line in self._lines:
                    with Horizontal(classes="field"):
                        yield Label(toned(line.name))
                        if line.is_path:
                            yield PathInput(value=line.value, id="path")
                            continue
                        placeholder = line.placeholder or " or ".join(line.choices)
                        shape = "number" if line.beside else None
                        yield Input(line.value, placeholder, compact=True, max_length=_CHARACTERS_MAX, classes=shape)
                        if line.beside:
                            yield Static(toned(line.beside, Tone.MUTED), classes="beside", markup=False)
                yield Static(id="words", markup=False)
            yield KeyLine()

    def on_mount(self) -> None:
        self._fields[0].focus()
        if self._said:
            self._show_message(self._said)

    @property
    def _fields(self) -> list[Input]:
        return list(self.query(".field Input").results(Input))

    @property
    def key_labels(self) -> Mapping[str, str]:
        return {"accept": self._act}

    def action_accept(self) -> None:
        fields = self._fields
        if not self._at_once and (here := self.focused) in fields[:-1]:
            fields[fields.index(here) + 1].focus()
        elif (given := self._given()) is not None:
            self.dismiss(given)

    def _given(self) -> tuple[str, ...] | None:
        """Return the texts in the fields; None, with the fault shown, if they have one."""
        given = tuple(field.value.strip() for field in self._fields)
        for field, line, text in zip(self._fields, self._lines, given, strict=True):
            fault = f"{line.name} is required." if line.needed and not text else ""
            if text and line.choices and text not in line.choices:
                fault = f"{line.name}: use {' or '.join(line.choices)}."
            if fault:
                self._show_message(fault)
                field.focus()
                return None
        try:
            self._check(given)
        except InputError as error:
            self._show_message(f"{error.message} {error.hint}")
            return None
        return given

    def _show_message(self, words: str) -> None:
        self.query_one("#words", Static).update(toned(words, Tone.BAD, 400))


_NAMES_FROM = 160
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
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,enter", "dismiss", "Back")]

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
        yield Text("Rows and lines: arrows, j k, g G, ^f ^b by the page, ^d ^u by half a page.", Tone.MUTED.value)
        yield Text("Mouse: click rows, tabs, heads of columns, the path, the keys in the last line.", Tone.MUTED.value)


class SourceTree(DirectoryTree):
    """A tree of folders and files that can be submitted."""

    show_root = False
    ICON_FILE = "  "
    ICON_NODE = "▸ "
    ICON_NODE_EXPANDED = "▾ "

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Open")]

    def filter_paths(self, paths: Iterable[Path]) -> Iterable[Path]:
        for path in paths:
            if not path.name.startswith(".") and (path.suffix in EXTENSIONS or is_folder(path)):
                yield path

    def process_label(self, label: TextType) -> Text:
        return Text(one_line(str(label)) or "?")

    def on_key(self, event: events.Key) -> None:
        """Jump to the next entry that begins with a typed letter or digit."""
        begun = (event.character or "").casefold()
        if not begun.isalnum():
            return
        event.stop()
        count = self.last_line + 1
        for step in range(1, count + 1):
            node = self.get_node_at_line((self.cursor_line + step) % count)
            if node is not None and node.data is not None and node.data.path.name.casefold().startswith(begun):
                self.move_cursor(node)
                return


class PickFile(ModalScreen[Path | None]):
    """A tree of files below a folder, with keys to change the folder."""

    CSS_PATH = "pick_file.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("backspace", "up", "Parent folder", key_display="⌫", tooltip="Show the parent folder"),
        Binding("tilde", "home", "Home", key_display="~", tooltip="Show your home folder"),
        Binding("escape", "dismiss", "Back"),
    ]

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = _absolute(folder)

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Static(id="folder", markup=False)
            yield SourceTree(self._folder)
            yield KeyLine()

    def on_mount(self) -> None:
        self._show(self._folder)
        self.query_one(SourceTree).focus()

    def action_up(self) -> None:
        self._show(self._folder.parent)

    def action_home(self) -> None:
        try:
            self._show(home(os.environ))
        except InputError as error:
            self.notify(error.message, severity="warning")

    def _show(self, folder: Path) -> None:
        self._folder = folder
        self.query_one("#folder", Static).update(toned(folder, Tone.STRONG))
        tree = self.query_one(SourceTree)
        if Path(tree.path) != folder:
            tree.path = folder

    @on(DirectoryTree.FileSelected)
    def _pick(self, event: DirectoryTree.FileSelected) -> None:
        event.stop()
        self.dismiss(event.path)


def _absolute(folder: Path) -> Path:
    """Return the absolute path of `folder`, or the home folder if the current folder was removed."""
    with suppress(FileNotFoundError):
        return folder.absolute()
    with suppress(InputError):
        return home(os.environ)
    return Path("/")
