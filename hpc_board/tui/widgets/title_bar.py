"""The top line: the path of the screen, the user, and the state of their runs."""

from datetime import datetime, timedelta

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Static

from hpc_board.report.formatting import span_text
from hpc_board.tui.messages import RunsState
from hpc_board.tui.palette import Tone, toned

_ASKED_FROM_WIDTH = 70
_ALL_FROM_WIDTH = 100

FRESH = timedelta(seconds=5)
"""The age below which an answer of the schedulers is as good as new."""


class TitleBar(Horizontal):
    """The path of the screen on the left, the user and their runs in flight on the right."""

    places: tuple[str, ...] = ()
    """The path that is shown."""

    def compose(self) -> ComposeResult:
        """Yield the two parts of the line."""
        yield Static(id="where", markup=False)
        yield Static(id="runs-state", markup=False)

    def show_place(self, *places: str) -> None:
        """Show the path of this screen."""
        self.places = places
        way = [toned(place, Tone.MUTED) for place in places[:-1]] + [toned(places[-1], Tone.STRONG)]
        line = Text.assemble(("hpc-board", Tone.ACCENT.value), "  ", Text(" / ", Tone.MUTED.value).join(way))
        self._say("#where", line)

    def show_runs_state(
        self, user: str, runs_state: RunsState, now: datetime, waiting: tuple[timedelta, str] | None = None
    ) -> None:
        """Show the user, the number of runs in flight and the age of the scheduler's answer.

        `waiting` is the duration of a long wait and its addressee; on a narrow terminal it replaces the rest.
        """
        width = self.app.size.width
        words = [toned(user, Tone.PLAIN, 32)]
        if runs_state.in_flight and (waiting is None or width >= _ALL_FROM_WIDTH):
            words.append(toned(f"{len(runs_state.in_flight)} in flight", Tone.ACCENT))
            age = timedelta() if runs_state.asked_at is None else now - runs_state.asked_at
            if waiting is None and age >= FRESH and width >= _ASKED_FROM_WIDTH:
                words.append(toned(f"updated {span_text(age)} ago", Tone.MUTED))
        if waiting is not None:
            whom = f" for {waiting[1]}" if width >= _ASKED_FROM_WIDTH else ""
            words.append(toned(f"waiting {span_text(waiting[0])}{whom}", Tone.WAITING))
        self._say("#runs-state", Text(" · ", Tone.MUTED.value).join(words))

    def _say(self, part: str, line: Text) -> None:
        """Show a line; only one of another length lays the screen out again, which takes half a frame."""
        static = self.query_one(part, Static)
        before = static.content
        if not isinstance(before, Text) or before.cell_len != line.cell_len:
            static.update(line)
        elif before != line:
            static.update(line, layout=False)
