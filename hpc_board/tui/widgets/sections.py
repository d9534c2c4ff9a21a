"""The line of a screen's pages."""

from collections.abc import Sequence

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Static

from hpc_board.tui.palette import Tone


class Sections(Horizontal, can_focus=False):
    """The names of the pages, each with the digit that opens it; empty pages are dim."""

    class Chosen(Message):
        """A page that the user clicked."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, names: Sequence[tuple[str, str]], *, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self._names = tuple(names)

    def compose(self) -> ComposeResult:
        for number, (name, title) in enumerate(self._names, start=1):
            yield _Section(name, number, title)

    def on_resize(self, event: events.Resize) -> None:
        needed = sum(len(title) + 4 for _, title in self._names)
        self.set_class(event.size.width < needed, "-tight")

    def show(self, current: str, empty: Sequence[str] = ()) -> None:
        """Mark the open page and the empty ones."""
        for label in self.query(_Section):
            label.show(is_open=label.page == current, is_empty=label.page in empty)


class _Section(Static):
    """The name of a page; a click opens it."""

    def __init__(self, page: str, number: int, title: str) -> None:
        super().__init__(markup=False)
        self.page = page
        self._number = number
        self._title = title

    def show(self, *, is_open: bool, is_empty: bool) -> None:
        """Draw the name of an open, empty or other page."""
        tone = Tone.STRONG if is_open else Tone.MUTED if is_empty else Tone.PLAIN
        digit = Tone.ACCENT.value if not is_empty or is_open else Tone.MUTED.value
        self.update(Text.assemble((f"{self._number} ", digit), (self._title, tone.value)))
        self.set_class(is_open, "-open")

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(Sections.Chosen(self.page))
