"""The box for the current error of a screen."""

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static
from textual.widgets._toast import ToastRack

from hpc_board.errors import BoardError
from hpc_board.tui.palette import Tone, coded, plain_text


class ErrorBox(VerticalScroll):
    """The title, message and hint of an error, hidden without one.

    The box can have the focus if it is scrollable. Its screen has the class `-failed` while it is shown.
    """

    def allow_focus(self) -> bool:
        """Return whether the box is scrollable."""
        return self.max_scroll_y > 0

    def compose(self) -> ComposeResult:
        """Yield the text of the box."""
        yield Static(id="error", markup=False)

    def on_show(self) -> None:
        """Keep messages above the box."""
        self._lift_messages()

    def on_hide(self) -> None:
        """Let messages lie above the keys."""
        self._lift_messages()

    def on_resize(self) -> None:
        """Keep messages above the box, and the focused field in sight, which has less room."""
        self._lift_messages()
        if (focused := self.screen.focused) is not None:
            focused.scroll_visible(animate=False)

    def _lift_messages(self) -> None:
        height = self.outer_size.height if self.display else 0
        for rack in self.screen.query(ToastRack):
            rack.styles.margin = (0, 0, height + 1, 0)

    def show(self, error: BoardError | None, age: str = "") -> None:
        """Show `error` with the age of the screen's data, if known; hide the box without an error."""
        if error is None and self.has_focus:
            self.screen.focus_next()
        self.display = error is not None
        self.screen.set_class(self.display, "-failed")
        if error is not None:
            parts = [Text(f"{error.title}:", f"bold {Tone.BAD.value}"), plain_text(error.message, limit=4000)]
            if error.hint:
                parts.append(coded(error.hint, Tone.MUTED, 2000))
            if age:
                parts.append(Text(f"The screen shows the last known state, {age} old.", Tone.MUTED.value))
            self.query_one("#error", Static).update(Text("\n").join(parts))
