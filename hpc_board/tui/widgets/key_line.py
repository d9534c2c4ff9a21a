"""The last line, with the keys of the screen that fit."""

from collections.abc import Iterable

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import ActiveBinding
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Static

from hpc_board.tui.palette import Tone

_HELP = "help"
"""The action whose key is always shown, as it lists the others."""


class KeyLine(Horizontal, can_focus=False):
    """The keys in the order of their bindings, clickable, without those that do not fit."""

    _named: tuple[tuple[str, bool], ...] = ()
    _width = 0

    def compose(self) -> ComposeResult:
        """Yield the keys that fit."""
        self._named = self._names()
        keys = [_Key(binding, self.app.get_key_display(binding.binding)) for binding in self._shown_bindings()]
        # Before the line has its own width, that of the terminal is the same.
        self._width = self.size.width or self.app.size.width
        room = self._width - sum(key.cells for key in keys if key.stays)
        for key in keys:
            if key.stays:
                yield key
            elif key.cells <= room:
                room -= key.cells
                yield key

    def on_mount(self) -> None:
        """Update the keys on every change of bindings."""
        self.screen.bindings_updated_signal.subscribe(self, self._choose_again)

    def on_resize(self) -> None:
        """Update the keys that fit."""
        self.call_after_refresh(self.recompose)

    def _choose_again(self, screen: Screen[object]) -> None:
        # Updates without the terminal's focus would flicker.
        if screen.app.app_focus and self._names() != self._named:
            self.call_after_refresh(self.recompose)

    def _names(self) -> tuple[tuple[str, bool], ...]:
        return tuple((active.binding.action, active.enabled) for active in self._shown_bindings())

    def _shown_bindings(self) -> Iterable[ActiveBinding]:
        """Return one binding for each action."""
        first: dict[str, ActiveBinding] = {}
        for active in self.screen.active_bindings.values():
            if active.binding.show:
                first.setdefault(active.binding.action, active)
        return first.values()


class _Key(Static):
    """A key with its label; a click presses it."""

    def __init__(self, active: ActiveBinding, name: str) -> None:
        label = Text.assemble((f" {name} ", f"bold {Tone.ACCENT.value}"), f"{active.binding.description} ")
        super().__init__(label, markup=False, disabled=not active.enabled)
        self.tooltip = active.tooltip or None
        self.stays = active.binding.action == _HELP
        self.cells = cell_len(label.plain)
        self._key = active.binding.key

    def on_click(self, event: events.Click) -> None:
        """Press the key."""
        event.stop()
        self.app.simulate_key(self._key)
