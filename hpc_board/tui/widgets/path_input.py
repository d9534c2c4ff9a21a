"""An input field for paths with completion."""

import asyncio
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.suggester import Suggester
from textual.widgets import Input

from hpc_board.domain.submission import EXTENSIONS

_ENTRIES_MAX = 5000


class _Completer(Suggester):
    """The completion of a value by a function, in a thread."""

    def __init__(self, complete: Callable[[str], str | None]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._complete = complete

    async def get_suggestion(self, value: str) -> str | None:
        return await asyncio.to_thread(self._complete, value)


class CompletedInput(Input):
    """A field with completion by `complete`; Tab or the right arrow accepts the grey text."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("tab", "complete", show=False)]

    def __init__(
        self,
        complete: Callable[[str], str | None],
        *,
        value: str,
        id: str,  # noqa: A002 - Textual's name for it
        placeholder: str = "",
    ) -> None:
        super().__init__(value, placeholder, suggester=_Completer(complete), compact=True, select_on_focus=False, id=id)

    def action_complete(self) -> None:
        before = self.value
        if self.cursor_at_end:
            self.action_cursor_right()
        if self.value == before:
            self.screen.focus_next()


class PathInput(CompletedInput):
    """A field for the path of a submission."""

    def __init__(self, *, value: str, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(completion, value=value, id=id, placeholder=".py, .cpp, .cu, .cuh or .hip file")
        self._offered = value

    def on_paste(self, event: events.Paste) -> None:
        """Remove the quotes and blanks around a path, as terminals paste a dropped file."""
        event.text = _unquoted(event.text)

    def on_resize(self) -> None:
        """Show the cursor: of a long path that the app has filled in, the end is seen, which has the file's name."""
        self.scroll_to_region(Region(cell_len(self.value[: self.cursor_position]), 0, 1, 1), force=True, animate=False)

    def offer(self, value: str) -> None:
        """Set a default value, which the user can extend or overwrite."""
        self._offered = self.value = value
        self.cursor_position = len(value)

    def replace(self, text: str, start: int, end: int) -> None:
        """Replace a range by `text`; an absolute path replaces a default or incomplete value as a whole."""
        if start == end and text.startswith(("/", "~")) and self._begins_anew(text, start):
            start, end = 0, len(self.value)
        super().replace(text, start, end)

    def _begins_anew(self, text: str, cursor: int) -> bool:
        """Return whether a path that begins with `text` replaces the value instead of extending it."""
        pasted = len(text) > 1
        at_end = cursor == len(self.value)
        if self.value == self._offered:
            return pasted or at_end or cursor == 0
        # A second "/" typed after a folder is a typing error, not an absolute path.
        return at_end and self.value.endswith("/") and (pasted or text == "~")

    @property
    def named(self) -> Path | None:
        """Return the path in the field with "~" expanded; None without one."""
        return expanded(self.value) if self.value.strip() else None

    @property
    def path(self) -> Path | None:
        """Return the path in the field with "~" expanded; None unless its extension can be submitted."""
        path = self.named
        return path if path is not None and path.suffix in EXTENSIONS else None


def expanded(text: str) -> Path:
    """Return the path in `text`, with "~" expanded if the user has a home folder."""
    path = Path(text.strip().replace("\0", ""))
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def _unquoted(text: str) -> str:
    """Return the first line of `text` without blanks around it, and unquoted if it is one word of a shell."""
    line = (text.splitlines() or [""])[0].strip()
    try:
        words = shlex.split(line)
    except ValueError:
        return line
    return words[0] if len(words) == 1 else line


def completion(value: str) -> str | None:
    """Return the first folder or submission file that begins with `value`, if any."""
    head, slash, begun = value.rpartition("/")
    if not begun:
        return None
    try:
        names = _fitting(expanded(head + slash or "."), begun)
    except (OSError, ValueError):
        return None
    return head + slash + names[0] if names else None


def _fitting(folder: Path, begun: str) -> list[str]:
    names = []
    for index, entry in enumerate(folder.iterdir()):
        if index >= _ENTRIES_MAX:
            break
        if not entry.name.startswith(begun) or not entry.name.isprintable():
            continue
        if entry.is_dir():
            names.append(entry.name + "/")
        elif entry.suffix in EXTENSIONS:
            names.append(entry.name)
    return sorted(names)
