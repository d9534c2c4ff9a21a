"""A source file to read, in colours."""

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from hpc_board.model.text import printable
from hpc_board.tui.palette import Tone, toned

_CHARACTERS_MAX = 100_000
"""What is longer than this takes too long to colour; its beginning is shown."""

_LEXERS = {"py": "python", "cu": "cuda", "cuh": "cuda", "hip": "cuda", "cpp": "cpp", "h": "cpp"}


class SourceView(VerticalScroll):
    """The text of a file with the colours of its language, to be scrolled."""

    _text = ""
    _ending = ""

    def compose(self) -> ComposeResult:
        """The text."""
        yield Static(id="source", markup=False)

    def show(self, text: str, ending: str) -> None:
        """Show `text` in the colours of the files with this ending ("py")."""
        if (text, ending) != (self._text, self._ending):
            self._text, self._ending = text, ending
            self.scroll_home(animate=False)
            self.redraw()

    def say(self, words: str) -> None:
        """Show why there is no text."""
        self._text = ""
        self.query_one("#source", Static).update(toned(words, Tone.MUTED, 400))

    def redraw(self) -> None:
        """Draw the text in the colours of the present theme."""
        if not self._text:
            return
        # Pygments takes a tenth of a second to load, which only who reads code should wait for.
        from rich.syntax import Syntax

        shown = printable(self._text, _CHARACTERS_MAX)
        if len(shown) < len(self._text):
            shown += "\n… the rest is not shown"
        theme = self.app.current_theme
        colours = "ansi_dark" if theme.ansi or self.app.no_color else "one-dark" if theme.dark else "friendly"
        ground = "default" if theme.ansi else theme.background or "default"
        code = Syntax(shown, _LEXERS.get(self._ending, "text"), theme=colours, background_color=ground, word_wrap=True)
        self.query_one("#source", Static).update(code)
