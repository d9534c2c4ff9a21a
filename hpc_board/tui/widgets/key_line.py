"""The last line, with the keys of the screen that fit."""

from collections.abc import Iterator
from typing import Any

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Footer

_HELP = "help"
"""The action whose key is always shown, as it lists the others."""


class KeyLine(Footer):
    """Textual's footer with one key for each action, without the keys that do not fit.

    The `key_labels` of the screen, which change, replace the labels of these actions.
    """

    def __init__(self) -> None:
        super().__init__(show_command_palette=False)
        self._looks: list[tuple[str, str, bool]] = []
        """The keys that are shown."""

    def compose(self) -> ComposeResult:
        keys = [*self._fitting()]
        self._looks = [*map(_look, keys)]
        yield from keys

    def bindings_changed(self, screen: Screen[Any]) -> None:
        # Most other rows have the same keys.
        if not self._looks or [*map(_look, self._fitting())] != self._looks:
            super().bindings_changed(screen)

    def on_resize(self) -> None:
        self.bindings_changed(self.screen)

    def _all_keys(self) -> Iterator[Any]:
        """Yield Textual's keys with their present labels: a letter where it acts, else the key that acts in fields."""
        labels = getattr(self.screen, "key_labels", {})
        first: dict[tuple[str, str], Any] = {}
        key: Any
        for key in super().compose():
            key.description = labels.get(key.action, key.description)
            name = key.action.partition("(")[0], key.description
            if name not in first or len(key.key_display) == 1:
                first[name] = key
        yield from first.values()

    def _fitting(self) -> Iterator[Any]:
        """Yield the key of the help, and the others that fit beside it."""
        keys = [*self._all_keys()]
        room = self.app.size.width - sum(_cells(key) for key in keys if key.action == _HELP)
        for key in keys:
            if key.action == _HELP:
                yield key
            elif _cells(key) <= room:
                room -= _cells(key)
                yield key


def _look(key: Any) -> tuple[str, str, bool]:
    return key.key_display, key.description, key.has_class("-disabled")


def _cells(key: Any) -> int:
    return cell_len(f" {key.key_display} {key.description} ")
