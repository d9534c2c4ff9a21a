"""What went wrong, readable until it is over."""

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from hpc_board.errors import BoardError
from hpc_board.model.text import printable
from hpc_board.tui.palette import Tone


class ErrorBox(VerticalScroll):
    """The title, message and hint of an error; nothing at all while there is none.

    Tab leads to it where it has more lines than fit, and the arrows to the others.
    """

    def allow_focus(self) -> bool:
        """Have the keys only where they move something."""
        return self.max_scroll_y > 0

    def compose(self) -> ComposeResult:
        """The text of the box."""
        yield Static(id="error", markup=False)

    def show(self, error: BoardError | None, age: str = "") -> None:
        """Show `error`, with the age of what else the screen shows where that is known; or go away."""
        if error is None and self.has_focus:
            self.screen.focus_next()
        self.display = error is not None
        if error is not None:
            parts = [Text(error.title, f"bold {Tone.BAD.value}"), Text(printable(error.message, 4000))]
            if error.hint:
                parts.append(Text(printable(error.hint, 2000), Tone.MUTED.value))
            if age:
                parts.append(Text(f"What you see is the last known state, {age} old.", Tone.MUTED.value))
            self.query_one("#error", Static).update(Text("\n").join(parts))
