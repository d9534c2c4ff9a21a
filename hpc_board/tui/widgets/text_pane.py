"""A view of a long text that may grow, with search."""

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Log, Static

from hpc_board.tui.palette import Tone, empty_text, toned
from hpc_board.tui.widgets.filter_line import FilterLine

_MATCHES_MAX = 10_000
_FOUND = Style(reverse=True)
_CURRENT = Style(reverse=True, bold=True, underline=True)


class Match(msgspec.Struct, frozen=True):
    """A match of a search: its line, and its first and last cell."""

    line: int
    begin: int
    end: int


class LogView(Log):
    """Scrollable lines with highlighted matches."""

    class Scrolled(Message):
        """A change of the scroll position."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", show=False, id="text.down"),
        Binding("k", "scroll_up", show=False, id="text.up"),
        Binding("h", "scroll_left", show=False, id="text.left"),
        Binding("l", "scroll_right", show=False, id="text.right"),
        Binding("g", "scroll_home", show=False, id="text.top"),
        Binding("G", "scroll_end", show=False, id="text.bottom"),
        Binding("ctrl+f", "page_down", show=False, id="text.page_down"),
        Binding("ctrl+b", "page_up", show=False, id="text.page_up"),
        Binding("ctrl+d", "half_page(1)", show=False, id="text.half_page_down"),
        Binding("ctrl+u", "half_page(-1)", show=False, id="text.half_page_up"),
    ]

    matches: tuple[Match, ...] = ()
    current: int = -1

    def plain_line(self, y: int) -> Strip:
        """Return a line without its matches."""
        return super().render_line(y)

    def render_line(self, y: int) -> Strip:
        strip = self.plain_line(y)
        number, left = y + self.scroll_offset.y, self.scroll_offset.x
        for index, match in self._on_line(number):
            begin, end = max(0, match.begin - left), min(strip.cell_length, match.end - left)
            if begin < end:
                before, found, after = strip.crop(0, begin), strip.crop(begin, end), strip.crop(end)
                strip = Strip.join([before, found.apply_style(_CURRENT if index == self.current else _FOUND), after])
        return strip

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.Scrolled())

    def action_half_page(self, by: int) -> None:
        self.scroll_to(y=self.scroll_offset.y + by * max(1, self.size.height // 2), animate=False)

    def mark(self, matches: tuple[Match, ...], current: int) -> None:
        """Highlight these matches, one of them as the current one."""
        self.matches, self.current = matches, current
        self._lines_with: dict[int, list[tuple[int, Match]]] = {}
        for index, match in enumerate(matches):
            self._lines_with.setdefault(match.line, []).append((index, match))
        self.refresh()

    def reveal(self, match: Match) -> None:
        """Scroll to a match, a little below the top."""
        x = 0 if match.end < self.size.width else max(0, match.begin - self.size.width // 3)
        self.scroll_to(x=x, y=max(0, match.line - self.size.height // 3), animate=False)

    @property
    def heads_for_end(self) -> bool:
        """Return whether the end is in sight, or will be after the scrolling that is under way."""
        return self.scroll_target_y >= self.max_scroll_y

    def _on_line(self, number: int) -> list[tuple[int, Match]]:
        return self._lines_with.get(number, []) if self.matches else []


class TextPane(Vertical):
    """A text that is not wrapped, with a search field and a status line; `view` is the id of its lines.

    `copied` is the text that the key y copies, under the name `subject`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", key_display="/", tooltip="Search the text", id="text.search"),
        Binding("n", "step(1)", "Next", show=False, tooltip="Go to the next match", id="text.next"),
        Binding("N", "step(-1)", "Previous", show=False, tooltip="Go to the previous match", id="text.previous"),
        Binding("y", "copy", "Copy", show=False, tooltip="Copy the text to the clipboard", id="text.copy"),
    ]

    def __init__(self, title: str, *, view: str, id: str | None = None, framed: bool = True) -> None:  # noqa: A002
        super().__init__(id=id, classes="panel" if framed else None)
        self.border_title = title
        self.subject = f"the {title.lower()}"
        self.copied = ""
        self.view_id = view
        self._text = ""
        self._growing = False
        self._words = ""
        self._unseen_from = 0

    def compose(self) -> ComposeResult:
        yield Static(classes="nothing", markup=False)
        yield from self.compose_view()
        yield FilterLine("search; Enter keeps the words, then n and N move", id=f"{self.view_id}-search")
        yield Static(classes="standing", markup=False)

    def compose_view(self) -> ComposeResult:
        yield LogView(id=self.view_id)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "search" and self.is_mounted and self.query_one(FilterLine).display:
            return False
        return super().check_action(action, parameters)

    @property
    def view(self) -> LogView:
        """Return the lines."""
        return self.query_one(LogView)

    @property
    def is_empty(self) -> bool:
        return not self._text

    @property
    def text(self) -> str:
        """Return the shown text."""
        return self._text

    def show(self, text: str, *, nothing: str, growing: bool) -> None:
        """Show this text, or the text `nothing` if it is empty.

        A `growing` text is first shown at its end and followed, a complete one at its top.
        """
        self._growing = growing
        words = self.query_one(".nothing", Static)
        words.display = not text
        words.update(empty_text(nothing) if not text else "")
        if text != self._text:
            self._take(text)
        self.copied = text
        self._show_standing()

    def action_search(self) -> None:
        self.query_one(FilterLine).open(self._words)
        self.screen.refresh_bindings()

    def action_copy(self) -> None:
        if self.copied:
            self.app.copy_to_clipboard(self.copied)
            self.notify(f"Copied {self.subject}.", markup=False)

    def action_step(self, by: int) -> None:
        view = self.view
        if view.matches:
            view.mark(view.matches, (view.current + by) % len(view.matches))
            view.reveal(view.matches[view.current])
            self._show_standing()

    def _take(self, text: str) -> None:
        view = self.view
        follows = view.heads_for_end if self._text else self._growing
        if self._text and text.startswith(self._text):
            view.write(text[len(self._text) :], scroll_end=False)
        else:
            view.clear().write(text, scroll_end=False)
        self._text = text
        if self._words:
            view.mark(_matches(view.lines, self._words), view.current)
        if follows:
            view.anchor()
            self._unseen_from = view.line_count

    def _show_standing(self) -> None:
        view = self.view
        standing = self.query_one(".standing", Static)
        standing.display = bool(self._text) and (self._growing or bool(self._words))
        parts = []
        if self._words:
            place = f"{view.current + 1} of {len(view.matches)}" if view.matches else "not found"
            parts.append(toned(f"/{self._words}: {place}", Tone.ACCENT if view.matches else Tone.BAD))
        if self._growing:
            unseen = view.line_count - self._unseen_from
            more = f", {unseen} new {'line' if unseen == 1 else 'lines'} below" if unseen > 0 else ""
            paused = toned(f"paused{more}: End resumes", Tone.WAITING)
            parts.append(toned("following", Tone.MUTED) if view.heads_for_end else paused)
        standing.update(Text(" · ", Tone.MUTED.value).join(parts))

    @on(LogView.Scrolled)
    def _note_place(self, event: LogView.Scrolled) -> None:
        event.stop()
        if self.view.heads_for_end:
            self._unseen_from = self.view.line_count
        self._show_standing()

    @on(FilterLine.Changed)
    def _search(self, event: FilterLine.Changed) -> None:
        event.stop()
        view = self.view
        self._words = event.words
        matches = _matches(view.lines, event.words)
        below = (index for index, match in enumerate(matches) if match.line >= view.scroll_offset.y)
        view.mark(matches, next(below, 0) if matches else -1)
        if matches:
            view.reveal(matches[view.current])
        self._show_standing()

    @on(FilterLine.Closed)
    def _leave_search(self, event: FilterLine.Closed) -> None:
        event.stop()
        self.view.focus()
        self.screen.refresh_bindings()


def _matches(lines: Sequence[str], words: str) -> tuple[Match, ...]:
    """Return the matches of `words` in these lines, case-insensitive, up to a limit."""
    found: list[Match] = []
    wanted = words.lower()
    for number, raw in enumerate(lines if wanted else ()):
        line = raw.expandtabs()
        # A few letters get longer in lower case; lines with them are searched case-sensitively.
        lower = line.lower() if len(line.lower()) == len(line) else line
        place = lower.find(wanted)
        while place >= 0 and len(found) < _MATCHES_MAX:
            begin = cell_len(line[:place])
            found.append(Match(number, begin, begin + cell_len(line[place : place + len(wanted)])))
            place = lower.find(wanted, place + len(wanted))
    return tuple(found)
