"""The dialog to pick a file from a tree of folders."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from rich.text import Text, TextType
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import DirectoryTree, Static

from hpc_board.domain.submission import EXTENSIONS
from hpc_board.files import is_folder
from hpc_board.model.text import one_line
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.widgets.bars import KeyLine


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
        Binding("backspace", "up", "Folder above", key_display="⌫", tooltip="Show the folder above"),
        Binding("tilde", "home", "Home", key_display="~", tooltip="Show your home folder"),
        Binding("ctrl+r", "recent", "Last folders", tooltip="Open the next folder of a recent submission"),
        Binding("escape", "dismiss", "Back"),
    ]

    def __init__(self, folder: Path, recent: Sequence[Path] = ()) -> None:
        super().__init__()
        self._folder = _absolute(folder)
        self._recent = tuple(recent)

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

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "recent" and not self._recent:
            return False
        return super().check_action(action, parameters)

    def action_recent(self) -> None:
        place = self._recent.index(self._folder) + 1 if self._folder in self._recent else 0
        self._show(self._recent[place % len(self._recent)])

    def action_home(self) -> None:
        home = _home()
        if home is None:
            self.notify("No home folder on this machine.", severity="warning", markup=False)
        else:
            self._show(home)

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
    try:
        return folder.absolute()
    except FileNotFoundError:
        return _home() or Path("/")


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:
        return None
