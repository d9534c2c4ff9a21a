"""The command palette: an action, or a theme, on each line."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
from rich.cells import cell_len
from textual import on
from textual.await_complete import AwaitComplete
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.screen import Screen
from textual.style import Style
from textual.widgets import OptionList

from hpc_board.tui.palette import Tone

_EDGES = 6
"""The cells beside a line: its padding and the scroll bar."""

_NAME_MIN = 14


class PaletteLine(msgspec.Struct, frozen=True):
    """A line of the palette: its name, its words, its key, and its effect; one that is not `listed` is only found."""

    name: str
    words: str
    key: str
    act: Callable[[], object]
    listed: bool = True


class _Lines(Provider):
    """The lines of a palette that match the input; the best matches first."""

    def __init__(self, lines: Sequence[PaletteLine], screen: Screen[Any], style: Style | None) -> None:
        super().__init__(screen, style)
        self._palette_lines = lines

    async def discover(self) -> Hits:
        listed = [line for line in self._palette_lines if line.listed]
        for line in listed:
            yield DiscoveryHit(self._drawn(line, _name_cells(listed)), line.act, text=line.name)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        found: list[tuple[float, PaletteLine]] = []
        for line in self._palette_lines:
            score = matcher.match(line.name)
            if line.listed:
                # A match in the name counts twice, as the words of other lines may have it by chance.
                score = max(2 * score, matcher.match(line.words))
            if score > 0:
                found.append((score, line))
        name_cells = _name_cells([line for _, line in found])
        for score, line in found:
            yield Hit(score, self._drawn(line, name_cells), line.act, text=line.name)

    def _drawn(self, line: PaletteLine, name_cells: int) -> Content:
        """Return a line with its key at the right end."""
        room = max(1, self.app.size.width - _EDGES - name_cells - cell_len(line.key) - 2)
        words = Content(line.words).truncate(room, ellipsis=True, pad=True)
        return Content.assemble(
            line.name.ljust(name_cells),
            words.stylize(f"not bold {Tone.MUTED.value}"),
            "  ",
            (line.key, Tone.ACCENT.value),
        )


def _name_cells(lines: Sequence[PaletteLine]) -> int:
    return max(_NAME_MIN, *(cell_len(line.name) for line in lines), 0) + 2


class Actions(CommandPalette):
    """Textual's palette with one line for each action; `show` gets the name under the cursor, None if it is closed."""

    def __init__(
        self, lines: Sequence[PaletteLine], placeholder: str, show: Callable[[str | None], None] | None = None
    ) -> None:
        # Textual's types miss that a function may stand for the class of a provider.
        super().__init__([lambda: partial(_Lines, lines)], placeholder=placeholder)  # type: ignore[list-item, return-value]
        self._show = show

    @on(OptionList.OptionHighlighted)
    def _show_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        hit = getattr(event.option, "hit", None)
        if self._show is not None and hit is not None:
            self._show(hit.text)

    def dismiss(self, result: None = None) -> AwaitComplete:
        if self._show is not None:
            self._show(None)
        return super().dismiss(result)
