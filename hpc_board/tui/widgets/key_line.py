"""The last line: what the keys do here, as far as there is room for it."""

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

_PADDING = 3


class KeyLine(Footer):
    """The keys in the order of their bindings; one that does not fit is left out, but never `help`, which names it."""

    def __init__(self) -> None:
        super().__init__(show_command_palette=False)

    def compose(self) -> ComposeResult:
        """The keys for which there is room."""
        keys = [key for key in super().compose() if isinstance(key, FooterKey)]
        room = self.size.width - sum(_width(key) for key in keys if _stays(key))
        for key in keys:
            if _stays(key):
                yield key
            elif _width(key) <= room:
                room -= _width(key)
                yield key

    def on_resize(self, _event: events.Resize) -> None:
        """Choose again."""
        self.call_after_refresh(self.recompose)


def _stays(key: FooterKey) -> bool:
    return key.action == "help"


def _width(key: FooterKey) -> int:
    return cell_len(key.key_display) + cell_len(key.description) + _PADDING
