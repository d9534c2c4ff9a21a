"""The command palette: an action, a theme, a task, a board, a competition, a run or a user on each line."""

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from rich.cells import cell_len
from textual import on
from textual.await_complete import AwaitComplete
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.reactive import var
from textual.screen import Screen
from textual.style import Style
from textual.widgets import Input, OptionList
from textual.worker import Worker, WorkerState

from hpc_board.errors import BoardError
from hpc_board.model.text import one_line
from hpc_board.tui import targets
from hpc_board.tui.palette import Tone

if TYPE_CHECKING:
    from hpc_board.board import Board

_WIDTH_MAX = 100
"""The most cells of the palette, as in app.tcss."""

_EDGES = 6
"""The cells beside a line: the frame, its padding and the scroll bar."""

_NAME_MIN = 18
_KEY_MIN = 5

_FOUND_MAX = 5
"""The most tasks, and the most users, that a query finds."""

_WORD_MIN = 2
"""The least letters of a name that is looked for on the board."""

_FIND_SECONDS = 2.0
"""The time for the board's answer to a query."""

_ALONE_SECONDS = 0.3
"""The time after which the actions are shown before that answer, longer than Textual's between two updates."""

_RUN = re.compile(r"(?:run\s*)?(\d{1,18})", re.IGNORECASE)
_START, _NAME, _WORDS, _LETTERS = 1.0, 0.9, 0.6, 0.3
"""The scores of a line whose name begins with the query, has its words, has them with its own words, or its letters."""

_KINDS = ("task", "board", "competition", "user")


class PaletteLine(msgspec.Struct, frozen=True):
    """A line of the palette: its name, its words, its key, and its effect; one that is not `listed` is only found."""

    name: str
    words: str
    key: str
    act: Callable[[], object]
    listed: bool = True


_NOTHING = PaletteLine("No match", "Type part of a name, a run's number or `user`.", "", lambda: None)
_SILENT = PaletteLine("No answer", "The board does not answer. Actions are found without it.", "", lambda: None)
"""The lines when a query finds nothing; they have no effect."""

Finder = Callable[[str], Sequence[PaletteLine]]
"""A function that returns the lines for a query; it is called in a thread, and may raise BoardError."""


def found_on(board: "Board", go: Callable[[targets.Target], object], query: str) -> list[PaletteLine]:
    """Return lines for the run, tasks, boards, competitions and users that `query` names, and which `go` opens.

    "12" and "run 12" name a run; "user ada", "task soft", "board soft" and "competition cup" restrict the search to one
    kind, of which the word alone finds the first.
    """
    from hpc_board.tui.formatting import state

    def line(name: str, words: str, target: targets.Target) -> PaletteLine:
        return PaletteLine(one_line(name, 80), one_line(words, 200), "", partial(go, target))

    if number := _RUN.fullmatch(query):
        with suppress(BoardError):
            run = board.runs.get(int(number[1]))
            words = f"{state(run)[0]}, {run.task} on {run.gpu}, {run.user}"
            return [line(f"Run {run.id}", words, targets.Report(run.id))]
    kind, _, part = query.casefold().partition(" ")
    if kind not in _KINDS:
        kind, part = "", query.casefold()
    if not kind and len(part) < _WORD_MIN:
        return []
    lines = []
    if kind in ("", "task", "board"):
        names = [task.name for task in board.tasks.catalog().tasks if part in task.name.casefold()][:_FOUND_MAX]
        if kind != "board":
            lines += [line(name, "Show the task", targets.Tasks(name)) for name in names]
        if kind != "task":
            lines += [line(f"Board {name}", "Open the board: its standings", targets.Standings(name)) for name in names]
    if kind in ("", "competition"):
        found = [name for name in board.standings.competitions() if part in name.casefold()][:_FOUND_MAX]
        words = "Show the overall standings"
        lines += [line(f"Competition {name}", words, targets.Competition(name)) for name in found]
    if kind in ("", "user"):
        users = board.standings.users(part, _FOUND_MAX)
        lines += [line(f"User {name}", "Show the ranks and the newest runs", targets.User(name)) for name in users]
    return lines


class _Lines(Provider):
    """The lines of a palette that match the input, the best matches first, and those that `find` returns for it."""

    def __init__(
        self, lines: Sequence[PaletteLine], find: Finder | None, screen: Screen[Any], style: Style | None
    ) -> None:
        super().__init__(screen, style)
        self._palette_lines = lines
        self._find = find

    async def discover(self) -> Hits:
        listed = [line for line in self._palette_lines if line.listed]
        widths = _widths(listed)
        for line in listed:
            yield DiscoveryHit(self._drawn(line, widths), line.act, text=line.name)

    async def search(self, query: str) -> Hits:
        # Within one provider, so that it knows when there is no match.
        asked = asyncio.create_task(self._found(query))
        try:
            actions = [(score, line) for line in self._palette_lines if (score := self._score(line, query))]
            widths = _widths([line for _, line in actions])
            for number, (score, line) in enumerate(actions, start=1):
                if number == len(actions):
                    # Textual shows the lines so far when another one comes late.
                    await asyncio.wait([asked], timeout=_ALONE_SECONDS)
                yield Hit(score, self._drawn(line, widths), line.act, text=line.name)
            found = await asked
        finally:
            asked.cancel()
        widths = _widths([*(line for _, line in actions), *(found or ())])
        for line in found or ():
            yield Hit(self._score(line, query) or _LETTERS, self._drawn(line, widths), line.act, text=line.name)
        if self._find is not None and not (actions or found):
            line = _NOTHING if found is not None else _SILENT
            yield Hit(1, self._drawn(line, _widths([line])), line.act, text=query)

    async def _found(self, query: str) -> Sequence[PaletteLine] | None:
        """Return the board's lines for a query; None if it cannot be read, or not in time."""
        if self._find is None:
            return ()
        with suppress(BoardError, TimeoutError):
            return await asyncio.wait_for(asyncio.to_thread(self._find, query), _FIND_SECONDS)
        return None

    def _score(self, line: PaletteLine, query: str) -> float:
        """Return how well a line matches a query; Textual keeps the order of equal ones."""
        parts, name = query.casefold().split(), line.name.casefold()
        if not line.listed:
            return _WORDS if _has_words(name, parts) else 0
        if name.startswith(" ".join(parts)):
            return _START
        if _has_words(name, parts):
            return _NAME
        if _has_words(f"{name} {line.words.casefold()}", parts):
            return _WORDS
        return _LETTERS if self.matcher(query).match(line.name) else 0

    def _drawn(self, line: PaletteLine, widths: tuple[int, int]) -> Content:
        """Return a line with its key between name and words."""
        name_cells, key_cells = widths
        room = max(1, min(self.app.size.width, _WIDTH_MAX) - _EDGES - name_cells - key_cells)
        return Content.assemble(
            line.name.ljust(name_cells),
            (line.key.ljust(key_cells), Tone.ACCENT.value),
            Content(line.words).truncate(room, ellipsis=True).stylize(f"not bold {Tone.MUTED.value}"),
        )


def _has_words(text: str, parts: Sequence[str]) -> bool:
    """Return whether each part begins a word: most words have the letters of a short part somewhere."""
    return all(re.search(rf"(?:\b|_){re.escape(part)}", text) for part in parts)


def _widths(lines: Sequence[PaletteLine]) -> tuple[int, int]:
    """Return the cells of the names and of the keys, with the space behind each."""
    names, keys = (cell_len(line.name) for line in lines), (cell_len(line.key) for line in lines)
    return max(_NAME_MIN, *names, 0) + 2, max(_KEY_MIN, *keys, 0) + 2


class Actions(CommandPalette):
    """Textual's palette with `lines` and those of `find`; `show` gets the name under the cursor, None at the end."""

    is_opening: var[bool] = var(False)
    """True from Enter until the lines of the query are there, of which it chooses one; later keys wait."""

    def __init__(
        self,
        lines: Sequence[PaletteLine],
        placeholder: str,
        *,
        find: Finder | None = None,
        show: Callable[[str | None], None] | None = None,
    ) -> None:
        # Textual's types miss that a function may stand for the class of a provider.
        super().__init__([lambda: partial(_Lines, lines, find)], placeholder=placeholder)  # type: ignore[list-item, return-value]
        self._show = show
        self.set_class(show is not None, "-preview")

    @on(OptionList.OptionHighlighted)
    def _show_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        hit = getattr(event.option, "hit", None)
        if self._show is not None and hit is not None:
            self._show(hit.text)

    @on(Input.Submitted)
    def _choose_later(self, event: Input.Submitted) -> None:
        # Textual would choose a line of an earlier query.
        if any(worker.node is self and not worker.is_finished for worker in self.workers):
            event.prevent_default().stop()
            self.is_opening = True

    @on(Worker.StateChanged)
    def _choose(self, event: Worker.StateChanged) -> None:
        if self.is_opening and event.state is WorkerState.SUCCESS:
            field = self.query_one(Input)
            self.post_message(Input.Submitted(field, field.value))
            self.is_opening = False

    def abandon_opening(self) -> None:
        """Close the palette: Esc came before the lines."""
        self.is_opening = False
        self.dismiss()

    def dismiss(self, result: None = None) -> AwaitComplete:
        if self._show is not None:
            self._show(None)
        return super().dismiss(result)
