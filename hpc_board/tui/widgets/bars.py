"""The lines above and below the body of a screen: title, names of pages, error and keys."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Static, Tab, Tabs

from hpc_board.domain.runner import Runner
from hpc_board.errors import BoardError
from hpc_board.report.formatting import span_text
from hpc_board.tui.formatting import held_text, holding
from hpc_board.tui.messages import RunsState
from hpc_board.tui.palette import BRAND, Tone, coded, plain_text, toned
from hpc_board.tui.verbs import position
from hpc_board.tui.widgets.blocks import show_text

_ASKED_FROM_WIDTH = 70
_HOLDING_FROM_WIDTH = 80
_ALL_FROM_WIDTH = 100

FRESH = timedelta(seconds=5)
"""The age below which an answer of the schedulers is as good as new."""


class TitleBar(Horizontal):
    """The path of the screen on the left, the user with their held GPUs and runs in flight on the right."""

    def compose(self) -> ComposeResult:
        yield Static(BRAND, id="brand")
        yield _Path(id="where", markup=False)
        yield Static(id="runs-state", markup=False)

    @property
    def places(self) -> tuple[str, ...]:
        return self.query_one(_Path).places

    def show_place(self, *places: str) -> None:
        self.query_one(_Path).show(places)

    def show_runs_state(
        self, user: str, runs_state: RunsState, now: datetime, waiting: tuple[timedelta, str] | None = None
    ) -> None:
        """Show the user, their held GPUs, the number of runs in flight and the age of the scheduler's answer.

        `waiting` is the duration of a long wait and its addressee; on a narrow terminal it replaces the rest.
        """
        width = self.app.size.width
        words = [toned(user, Tone.PLAIN, 32)]
        if runs_state.runners and (waiting is None or width >= _ALL_FROM_WIDTH):
            words.append(_holding(runs_state.runners, now, brief=width < _HOLDING_FROM_WIDTH))
        if runs_state.in_flight and (waiting is None or width >= _ALL_FROM_WIDTH):
            words.append(toned(f"{len(runs_state.in_flight)} in flight", Tone.ACCENT))
            known = runs_state.silent_since or runs_state.asked_at
            age = timedelta() if known is None else now - known
            asked_from = _ALL_FROM_WIDTH if runs_state.runners else _ASKED_FROM_WIDTH
            if waiting is None and age >= FRESH and width >= asked_from:
                words.append(toned(f"updated {span_text(age)} ago", Tone.MUTED))
        if waiting is not None:
            whom = f" for {waiting[1]}" if width >= _ASKED_FROM_WIDTH else ""
            words.append(toned(f"waiting {span_text(waiting[0])}{whom}", Tone.WAITING))
        show_text(self.query_one("#runs-state", Static), Text(" · ", Tone.MUTED.value).join(words))


def _holding(runners: Sequence[Runner], now: datetime, *, brief: bool) -> Text:
    """Return the state of the runner that ends first, and the number of the others."""
    first = min(runners, key=lambda runner: (runner.started_at is None, runner.left_seconds(now)))
    more = f" +{len(runners) - 1}" if len(runners) > 1 else ""
    return Text(f"{held_text(first, now, brief=brief)}{more}", holding(first)[1].value)


class _Path(Static):
    """The path of a screen; a narrow line shows its end."""

    places: tuple[str, ...] = ()
    """The whole path."""

    def show(self, places: tuple[str, ...]) -> None:
        self.places = places
        shown = [toned(place, Tone.MUTED) for place in places[:-1]] + [toned(places[-1], Tone.STRONG)]
        for number, place in enumerate(shown[:-1]):
            # A click goes back there, as Esc does step by step.
            place.apply_meta({"@click": f"app.back_to({number})"})
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
    return Text(" / ", Tone.MUTED.value).join(places)


class PageTabs(Tabs, can_focus=False):
    """The names of the pages, each with the digit that opens it; empty pages are dim, others may be hidden."""

    def __init__(self, pages: Sequence[tuple[str, str]]) -> None:
        super().__init__(*(Tab("", id=f"page-{name}") for name, _ in pages))
        self._titles = [title for _, title in pages]

    def show_page(self, current: str, empty: Sequence[str] = (), hidden: Sequence[str] = ()) -> None:
        for tab in self.query(Tab):
            tab.display = _page_of(tab) not in hidden
            tab.set_class(_page_of(tab) in empty, "-empty")
        self.active = f"page-{current}"
        self._draw_names()

    def on_resize(self) -> None:
        self._draw_names()

    def _draw_names(self) -> None:
        """Draw the names with less space around them, or even behind their digits, where all need it to fit."""
        labels = enumerate(zip(self.query(Tab), self._titles, strict=True), 1)
        shown = [(number, tab, title) for number, (tab, title) in labels if tab.display]
        room = self.size.width - sum(len(title) for _, _, title in shown)
        self.set_class(room < 4 * len(shown), "-tight")
        gap = " " if room >= 3 * len(shown) else ""
        for number, tab, title in shown:
            digit = "not bold" if tab.has_class("-empty") and tab.id != self.active else f"not bold {Tone.ACCENT.value}"
            label = Content.assemble((f"{number}{gap}", digit), title)
            if not label.is_same(tab.label):
                tab.label = label

    @on(Tab.Clicked)
    async def _open(self, event: Tab.Clicked) -> None:
        await self.run_action(f"screen.show('{_page_of(event.tab)}')")


def _page_of(tab: Tab) -> str:
    return str(tab.id).removeprefix("page-")


_ALWAYS = ("back", "help")
"""The actions whose keys are always shown; help lists the others."""


class _Key(NamedTuple):
    """A key as the line shows it."""

    action: str
    display: str
    description: str
    is_enabled: bool

    @property
    def cells(self) -> int:
        return cell_len(f" {self.display} {self.description} ")


class KeyLine(Footer):
    """Textual's footer with one key for each action, without the keys that do not fit.

    The `key_labels` of the screen, which change, replace the labels of these actions.
    """

    def __init__(self) -> None:
        super().__init__(show_command_palette=False)
        self._keys: list[_Key] = []
        """The keys that are shown, or will be after the next refresh."""

    def compose(self) -> ComposeResult:
        # Textual has none until the screen says that its keys are known.
        widgets: dict[str, Any] = {widget.action: widget for widget in super().compose()}  # type: ignore[attr-defined]
        self._keys = self._fitting() if widgets else []
        for key in self._keys:
            widget = widgets[key.action]
            widget.description = key.description
            # Else Textual styles each key twice more: as its default, compact, and then as the line is.
            widget.set_reactive(Footer.compact, self.compact)
            yield widget

    def bindings_changed(self, screen: Screen[Any]) -> None:
        # Most other rows have the same keys, whose comparison takes a tenth of the time of their widgets. Textual makes
        # no widgets while the terminal is not in front.
        if self.app.app_focus and (keys := self._fitting()) != self._keys:
            self._keys = keys
            super().bindings_changed(screen)

    def on_resize(self) -> None:
        self.bindings_changed(self.screen)

    def _all_keys(self) -> list[_Key]:
        """Return the keys with their present labels: a letter where it acts, else the key that acts in fields."""
        labels = getattr(self.screen, "key_labels", {})
        hidden = () if getattr(self.app, "has_participants", True) else ("admin",)
        actions = set()
        first: dict[tuple[str, str], _Key] = {}
        positions: dict[str, int] = {}
        for _, binding, is_enabled, _ in self.screen.active_bindings.values():
            if not binding.show or binding.action in actions or binding.action in hidden:
                continue
            actions.add(binding.action)
            description = labels.get(binding.action, binding.description)
            display = self.app.get_key_display(binding)
            name = binding.action.partition("(")[0], description
            if name not in first or len(display) == 1:
                first[name] = _Key(binding.action, display, description, is_enabled)
                # A button of a dialog may have the word of a verb.
                positions[binding.action] = 0 if self.screen.is_modal else position(binding)
        ahead = getattr(self.screen, "FIRST_KEYS", ())
        return sorted(first.values(), key=lambda key: (key.action not in ahead, positions[key.action]))

    def _fitting(self) -> list[_Key]:
        keys = self._all_keys()
        room = self.app.size.width - sum(key.cells for key in keys if key.action in _ALWAYS)
        fitting = []
        for key in keys:
            if key.action in _ALWAYS:
                fitting.append(key)
            elif key.cells <= room:
                room -= key.cells
                fitting.append(key)
        return fitting


class ErrorBox(VerticalScroll):
    """The title, message and hint of an error, hidden without one.

    The box can have the focus if it is scrollable. Its screen has the class `-failed` while all of an error is shown.
    """

    def allow_focus(self) -> bool:
        return self.max_scroll_y > 0

    def compose(self) -> ComposeResult:
        yield Static(id="error", markup=False)

    def on_resize(self) -> None:
        """Keep the focused field in sight, which has less room."""
        if (focused := self.screen.focused) is not None:
            focused.scroll_visible(animate=False)

    def show(self, error: BoardError | None, age: str = "", more: str = "") -> None:
        """Show `error` with the age of the screen's data, if known; hide the box without an error.

        The box has one line if `more` names the place of its details.
        """
        if error is None and self.has_focus:
            self.screen.focus_next()
        self.display = error is not None
        self.screen.set_class(self.display and not more, "-failed")
        self.set_class(bool(more), "-brief")
        if error is not None and more:
            words = ", ".join(filter(None, (error.title, f"state {age} old" if age else "", more)))
            line = Text.assemble((f"{words}: ", f"bold {Tone.BAD.value}"), toned(error.message, limit=400))
            self.query_one("#error", Static).update(line)
        elif error is not None:
            parts = [Text(f"{error.title}:", f"bold {Tone.BAD.value}"), plain_text(error.message, limit=4000)]
            if error.hint:
                parts.append(coded(error.hint, Tone.MUTED, 2000))
            if age:
                parts.append(Text(f"The screen shows the last known state, {age} old.", Tone.MUTED.value))
            self.query_one("#error", Static).update(Text("\n").join(parts))
