"""The description of a task, in Markdown."""

from textual.widgets import Static

_CHARACTERS_MAX = 20_000
"""The most characters that are drawn: the code of a longer text would hold the app up for seconds."""

_GOES_ON = "Text truncated; `hpc-board task` shows all of it."


class Description(Static):
    """A text in Markdown, wrapped at words."""

    _source = ""

    def show(self, source: str) -> None:
        """Show a text in Markdown, whose end is left out where it is very long, once its list has been drawn."""
        if len(source) > _CHARACTERS_MAX:
            source = f"{source[:_CHARACTERS_MAX]} …\n\n{_GOES_ON}"
        if source != self._source:
            self._source = source
            self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        # The first list need not wait for the parser.
        from hpc_board.tui.widgets.markdown import DrawnMarkdown

        self.update(DrawnMarkdown(self._source, self.app))
