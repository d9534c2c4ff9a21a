"""The dialog for the path of a file to write."""

from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.screens.confirm import Confirm
from hpc_board.tui.widgets.key_line import KeyLine
from hpc_board.tui.widgets.path_input import PathInput, expanded


class AskPath(ModalScreen[tuple[Path, bool] | None]):
    """A path, and whether to replace an existing file, after confirmation."""

    CSS_PATH = "ask_path.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "accept", "Write", priority=True),
        Binding("escape", "dismiss", "Back"),
    ]

    def __init__(self, question: str, start: Path) -> None:
        super().__init__()
        self._question = question
        self._start = start

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Static(toned(self._question, Tone.STRONG, 300), markup=False)
            yield PathInput(value=str(self._start), id="path")
            yield Static(id="words", markup=False)
            yield KeyLine()

    def on_mount(self) -> None:
        field = self.query_one(PathInput)
        field.focus()
        field.cursor_position = len(field.value)

    def action_accept(self) -> None:
        value = self.query_one(PathInput).value
        path = expanded(value)
        if not value.strip() or value.endswith("/"):
            self._show_message("Give the name of a file.")
            return
        try:
            there, folder = path.is_file(), path.is_dir()
        except OSError as error:
            self._show_message(f"{path}: {error.strerror}")
            return
        if folder:
            self._show_message(f"{path} is a folder: give the name of a file in it.")
        elif there:
            self.app.push_screen(
                Confirm(f"{path} exists already. Replace it?", "Replace it", "Keep it", destroys=True), self._replace
            )
        else:
            self.dismiss((path, False))

    def _replace(self, yes: bool | None) -> None:
        if yes:
            self.dismiss((expanded(self.query_one(PathInput).value), True))

    def _show_message(self, words: str) -> None:
        self.query_one("#words", Static).update(toned(words, Tone.WAITING, 400))
