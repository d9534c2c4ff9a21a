"""A text in Markdown, drawn by Rich in one widget: Textual's own makes a widget for each paragraph and cell."""

from typing import Any, ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement, TableElement
from rich.table import Table
from rich.text import Text
from textual.app import App

from hpc_board.tui.widgets.text_pane import code_theme

_NESTING_MAX = 100


class _LeftHeading(Heading):
    """A heading at the left, as those of the app's other parts."""

    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


class _WholeTable(TableElement):
    """A table whose long words are broken instead of cut."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in super().__rich_console__(console, options):
            for column in part.columns if isinstance(part, Table) else ():
                column.overflow = "fold"
            yield part


class _Markdown(Markdown):
    """A text in Markdown; HTML in it is text."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "table_open": _WholeTable,
    }

    def __init__(self, source: str, theme: str) -> None:
        super().__init__("", code_theme=theme, hyperlinks=False)
        parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _NESTING_MAX})
        self.parsed = parser.enable(["table", "strikethrough"]).parse(source)


class DrawnMarkdown:
    """A text in Markdown in the app's present theme, or as it is where Rich cannot draw it."""

    def __init__(self, source: str, app: App[Any]) -> None:
        self._source = source
        self._app = app

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        try:
            markdown = _Markdown(self._source, "ansi_dark" if self._app.no_color else code_theme(self._app))
            segments = list(console.render(markdown, options))
        except Exception:  # noqa: BLE001 - a description is text of others, and Rich may fail at an odd one
            segments = []
        # Rich leaves out parts that have no room, as in a quotation in many others.
        has_words = any(segment.text.strip() for segment in segments)
        yield from segments if has_words else [Text(self._source)]
