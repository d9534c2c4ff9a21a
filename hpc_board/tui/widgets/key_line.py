"""The last line, with the keys of the screen that fit."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from rich.cells import cell_len
from textual import events
from textual.binding import ActiveBinding
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from hpc_board.tui.palette import Tone

_HELP = "help"
"""The action whose key is always shown, as it lists the others."""

_HOVERED = "on $block-hover-background"


class Key(msgspec.Struct, frozen=True):
    """A key as the line shows it: its name and label, its binding's tooltip, and whether it has an effect now."""

    key: str
    name: str
    label: str
    tooltip: str
    enabled: bool
    stays: bool

    @property
    def cells(self) -> int:
        """Return the width on the line."""
        return cell_len(f" {self.name} {self.label} ")

    def content(self, *, hovered: bool) -> Content:
        """Return the name and the label."""
        content = Content.assemble((f" {self.name} ", f"bold {Tone.ACCENT.value}"), f"{self.label} ")
        if not self.enabled:
            return content.stylize("dim")
        return content.stylize(_HOVERED) if hovered else content


class KeyLine(Static, can_focus=False):
    """The keys in the order of their bindings, clickable, without those that do not fit.

    `labels` replace those of the bindings of these actions, as do the `key_labels` of the screen, which change. One
    widget draws all keys, since each widget adds to the time in which a screen opens.
    """

    def __init__(self, labels: Mapping[str, str] | None = None) -> None:
        super().__init__(markup=False)
        self._labels = labels or {}
        self.keys: tuple[Key, ...] = ()
        """The keys that are shown."""
        self._hovered: Key | None = None
        self._announced = ""

    def announce(self, words: str) -> None:
        """Show a text in place of the keys, until an empty one."""
        self._announced = words
        self._draw()

    def on_mount(self) -> None:
        self._show_keys()
        self.screen.bindings_updated_signal.subscribe(self, self._choose_again)

    def on_resize(self) -> None:
        self._show_keys()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._hover(self._key_at(event.x))

    def on_leave(self) -> None:
        self._hover(None)

    def on_click(self, event: events.Click) -> None:
        """Press the key under the mouse; while the screen opens another one, that is for this screen, and ends it."""
        event.stop()
        key = self._key_at(event.x)
        if key is not None and key.enabled:
            screen: Any = self.screen
            # Esc ends it by itself, and does nothing else.
            if getattr(screen, "is_opening", False) and key.key != "escape":
                screen.abandon_opening()
            self.app.simulate_key(key.key)

    def _choose_again(self, screen: Screen[object]) -> None:
        # Updates without the terminal's focus would flicker.
        if screen.app.app_focus:
            self._show_keys()

    def _show_keys(self) -> None:
        # Before the line has its own width, that of the terminal is the same.
        keys = tuple(_fitting(self._all_keys(), self.size.width or self.app.size.width))
        if keys != self.keys:
            self.keys = keys
            self._draw()

    def _all_keys(self) -> list[Key]:
        """Return one key for each action: a letter where it acts, else the key that acts in text fields, too."""
        labels = {**self._labels, **getattr(self.screen, "key_labels", {})}
        first: dict[tuple[str, str], ActiveBinding] = {}
        for active in self.screen.active_bindings.values():
            if active.binding.show:
                action = active.binding.action
                label = labels.get(action, active.binding.description)
                name = action.partition("(")[0], label
                before = first.get(name)
                if before is None or (before.binding.priority and not active.binding.priority):
                    first[name] = active
        return [
            Key(
                active.binding.key,
                self.app.get_key_display(active.binding),
                label,
                active.tooltip,
                active.enabled,
                action == _HELP,
            )
            for (action, label), active in first.items()
        ]

    def _hover(self, key: Key | None) -> None:
        if key != self._hovered:
            self._hovered = key
            self.tooltip = key.tooltip or None if key else None
            self.styles.pointer = "pointer" if key and key.enabled else "default"
            self._draw()

    def _draw(self) -> None:
        if self._announced:
            self.update(Content.assemble((f" {self._announced} ", Tone.WAITING.value)), layout=False)
            return
        self.update(Content.assemble(*(key.content(hovered=key == self._hovered) for key in self.keys)), layout=False)

    def _key_at(self, x: int) -> Key | None:
        for key in self.keys:
            if 0 <= x < key.cells:
                return key
            x -= key.cells
        return None


def _fitting(keys: Iterable[Key], width: int) -> Iterator[Key]:
    """Yield the keys that stay, and the others that fit beside them."""
    keys = tuple(keys)
    room = width - sum(key.cells for key in keys if key.stays)
    for key in keys:
        if key.stays:
            yield key
        elif key.cells <= room:
            room -= key.cells
            yield key
