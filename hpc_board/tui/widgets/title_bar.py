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

    def compose(self) -> ComposeResult:
        yield _Path(id="where", markup=False)
        yield Static(id="runs-state", markup=False)

    @property
    def places(self) -> tuple[str, ...]:
        """Return the path that is shown."""
        return self.query_one(_Path).places

    def show_place(self, *places: str) -> None:
        """Show the path of this screen."""
        self.query_one(_Path).show(places)

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
        line, static = Text(" · ", Tone.MUTED.value).join(words), self.query_one("#runs-state", Static)
        if static.content != line:
            static.update(line)


class _Path(Static):
    """The path of a screen; a narrow line shows its end."""

    places: tuple[str, ...] = ()
    """The whole path."""

    def show(self, places: tuple[str, ...]) -> None:
        """Show the end of a path that fits."""
        self.places = places
        shown = [toned(place, Tone.MUTED) for place in places[:-1]] + [toned(places[-1], Tone.STRONG)]
        line = _path_line(shown)
        while len(shown) > 1 and line.cell_len > self.size.width > 0:
            del shown[0]
            line = _path_line([toned("…", Tone.MUTED), *shown])
        if line != self.content:
            self.update(line, layout=False)

    def on_resize(self) -> None:
        if self.places:
            self.show(self.places)


def _path_line(places: list[Text]) -> Text:
    way = Text(" / ", Tone.MUTED.value).join(places)
    return Text.assemble(("hpc-board", Tone.ACCENT.value), "  ", way)
