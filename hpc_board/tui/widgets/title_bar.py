"""The top line: where one is, who one is, and what is under way."""

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


class TitleBar(Horizontal):
    """The name of the screen on the left, the user's runs in flight on the right."""

    def compose(self) -> ComposeResult:
        """The two ends of the line."""
        yield Static(id="where", markup=False)
        yield Static(id="pulse", markup=False)

    def show_place(self, *places: str) -> None:
        """Show the way here, the last place being this one."""
        way = [toned(place, Tone.MUTED) for place in places[:-1]] + [toned(places[-1], Tone.STRONG)]
        line = Text.assemble(("hpc-board", Tone.ACCENT.value), "  ", Text(" / ", Tone.MUTED.value).join(way))
        self.query_one("#where", Static).update(line)

    def show_pulse(
        self, user: str, pulse: RunsState, now: datetime, waiting: tuple[timedelta, str] | None = None
    ) -> None:
        """Show who looks, how many runs are in flight and how old the scheduler's answer is.

        Where an answer takes long, `waiting` says how long it has taken so far and whose it is. On a narrow terminal it
        has the place of the rest, so that the way here can still be read.
        """
        width = self.app.size.width
        words = [toned(user, Tone.PLAIN, 32)]
        if pulse.in_flight and (waiting is None or width >= _ALL_FROM_WIDTH):
            words.append(toned(f"{len(pulse.in_flight)} in flight", Tone.ACCENT))
            if waiting is None and pulse.asked_at is not None and width >= _ASKED_FROM_WIDTH:
                words.append(toned(f"asked {span_text(now - pulse.asked_at)} ago", Tone.MUTED))
        if waiting is not None:
            whom = f" for {waiting[1]}" if width >= _ASKED_FROM_WIDTH else ""
            words.append(toned(f"waiting {span_text(waiting[0])}{whom}", Tone.WAITING))
        self.query_one("#pulse", Static).update(Text(" · ", Tone.MUTED.value).join(words))
