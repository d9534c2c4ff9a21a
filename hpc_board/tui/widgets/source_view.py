"""A view of a source file with syntax highlighting."""

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from hpc_board.model.text import printable
from hpc_board.tui.palette import Tone, toned

_CHARACTERS_MAX = 100_000
"""The longest text to highlight in reasonable time; longer ones are cut."""

_LEXERS = {"py": "python", "cu": "cuda", "cuh": "cuda", "hip": "cuda", "cpp": "cpp", "h": "cpp"}


class SourceView(VerticalScroll):
    """The scrollable text of a file with syntax highlighting."""

    _text = ""
    _ending = ""

    def compose(self) -> ComposeResult:
        """Yield the text."""
        yield Static(id="source", markup=False)

    def show(self, text: str, ending: str) -> None:
        """Show `text`, highlighted as a file with this extension ("py")."""
        if (text, ending) != (self._text, self._ending):
            self._text, self._ending = text, ending
            self.scroll_home(animate=False)
            self.redraw()

    def say(self, words: str) -> None:
        """Show a message in place of a text."""
        self._text = ""
        self.query_one("#source", Static).update(toned(words, Tone.MUTED, 400))

    def redraw(self) -> None:
        """Redraw the text in the colours of the current theme."""
        if not self._text:
            return
        # The import of Pygments takes a tenth of a second, which only this view needs.
        from rich.syntax import Syntax

        shown = printable(self._text, _CHARACTERS_MAX)
        if len(shown) < len(self._text):
            shown += "\n… the rest is not shown"
        theme = self.app.current_theme
        colours = "ansi_dark" if theme.ansi or self.app.no_color else "one-dark" if theme.dark else "friendly"
        ground = "default" if theme.ansi else theme.background or "default"
        code = Syntax(shown, _LEXERS.get(self._ending, "text"), theme=colours, background_color=ground, word_wrap=True)
        self.query_one("#source", Static).update(code)
