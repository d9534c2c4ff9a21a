"""A text in Markdown, drawn by one widget: Textual's own makes a widget for each paragraph."""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import accumulate
from typing import ClassVar

from markdown_it import MarkdownIt
from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text
from rich.theme import Theme
from textual.geometry import Size
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from hpc_board.tui.palette import Tone
from hpc_board.tui.widgets.source_view import code_theme, highlighted

_KNOWN_MAX = 64
"""The most texts that are kept parsed, and as lines."""

_CHARACTERS_MAX = 20_000
"""The most characters that are drawn: the code of a longer text would hold the app up for seconds."""

_GOES_ON = "The text goes on; `hpc-board task` shows all of it."

_NESTING_MAX = 100

_CODE_INDENT = "  "

_CELL_MIN = 12
"""The least cells of a table's column whose words are longer."""

_GAP = 2
"""The cells between two columns of a table."""

_TONES = {
    **{f"markdown.h{level}": Tone.OWN for level in range(1, 7)},
    "markdown.code": Tone.ACCENT,
    "markdown.code_block": Tone.PLAIN,
    "markdown.kbd": Tone.STRONG,
    "markdown.link": Tone.ACCENT,
    **dict.fromkeys(
        (
            "markdown.block_quote",
            "markdown.hr",
            "markdown.item.bullet",
            "markdown.item.number",
            "markdown.link_url",
            "markdown.table.border",
            "markdown.table.header",
        ),
        Tone.MUTED,
    ),
}
"""The tones of Rich's styles of a text in Markdown."""


class _LeftHeading(Heading):
    """A heading at the left, as those of the app's other parts."""

    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


class _Code(CodeBlock):
    """A block of code in the colours of the app's theme."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines, cut at the edge: a break at a word would look like one of the code."""
        room = max(2, options.max_width - len(_CODE_INDENT))
        for line in highlighted(str(self.text).rstrip(), self.lexer_name, self.theme):
            ends = accumulate(len(piece) for piece in chop_cells(line.plain, room))
            for part in line.divide([*ends][:-1]):
                yield Text.assemble(_CODE_INDENT, part, no_wrap=True)


class _Table(TableElement):
    """A table without empty lines around it, as each block has one before it, whose cells are read whole.

    A row of a table that has no room for its words is a list of its cells, each beside the head of its column.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table."""
        for part in super().__rich_console__(console, options):
            if not isinstance(part, Table):
                yield part
            elif part.rows and _least_width(part) > options.max_width:
                yield _listed(part, options.max_width)
            else:
                part.show_edge = False
                for column in part.columns:
                    column.overflow = "fold"
                yield part


def _least_width(table: Table) -> int:
    """Return the width of a table whose cells are wrapped at their words, the longest of which are cut."""
    cells = ([str(cell) for cell in (column.header, *column.cells)] for column in table.columns)
    words = (max((cell_len(word) for cell in column for word in cell.split()), default=0) for column in cells)
    return sum(min(width, _CELL_MIN) + _GAP for width in words) - _GAP


def _listed(table: Table, width: int) -> Table:
    """Return the rows of a table one below the other: a line for each cell, and an empty one between two rows."""
    listed = Table.grid(padding=(0, _GAP, 0, 0))
    listed.add_column(max_width=max(_CELL_MIN, width // 3), overflow="fold")
    listed.add_column(overflow="fold")
    for number, cells in enumerate(zip(*(column.cells for column in table.columns), strict=True)):
        if number:
            listed.add_row()
        for column, cell in zip(table.columns, cells, strict=True):
            listed.add_row(_left(column.header), _left(cell))
    return listed


def _left(cell: RenderableType) -> RenderableType:
    return Text.assemble(cell, justify="left") if isinstance(cell, Text) else cell


class _Markdown(Markdown):
    """A text in Markdown in the form of the app's other parts; HTML in it is text."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "fence": _Code,
        "code_block": _Code,
        "table_open": _Table,
    }

    def __init__(self, source: str, theme: str) -> None:
        super().__init__("", code_theme=theme, hyperlinks=False)
        parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _NESTING_MAX})
        self.parsed = parser.enable(["table", "strikethrough"]).parse(source)


class Description(Widget):
    """A text in Markdown, wrapped at words."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self._source = ""
        self._known: dict[tuple[object, ...], tuple[Strip, ...]] = {}

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self.redraw())

    def show(self, source: str) -> None:
        """Show a text in Markdown, whose end is left out where it is very long."""
        if len(source) > _CHARACTERS_MAX:
            source = f"{source[:_CHARACTERS_MAX]} …\n\n{_GOES_ON}"
        if source != self._source:
            self._source = source
            self.redraw()

    def redraw(self) -> None:
        """Draw the text anew, as after a change of the theme."""
        self.clear_cached_dimensions()
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport
        return len(self._lines(width))

    def render_line(self, y: int) -> Strip:
        width, lines = self.size.width, self._lines(self.size.width)
        if y >= len(lines):
            return Strip.blank(width, self.rich_style)
        line = lines[y]
        if self.text_selection is not None and (span := self.text_selection.get_span(y)) is not None:
            line = with_selection(line, span, self.screen.get_component_rich_style("screen--selection"))
        return line.apply_offsets(0, y)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        text = "\n".join(line.text.rstrip() for line in self._lines(self.size.width))
        return selection.extract(text), "\n"

    def _lines(self, width: int) -> tuple[Strip, ...]:
        console, ground, theme = self.app.console, self.rich_style, code_theme(self.app)
        styles = {name: console.get_style(tone.value, default=Style.null()) for name, tone in _TONES.items()}
        # By the colours, since the name of the app's theme changes before Rich has its colours.
        key = (self._source, width, ground, theme, *styles.values())
        if key not in self._known:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            self._known[key] = tuple(self._drawn(width, ground, theme, styles))
        return self._known[key]

    def _drawn(self, width: int, ground: Style, theme: str, styles: Mapping[str, Style]) -> Iterator[Strip]:
        console = self.app.console
        options = console.options.update(width=max(1, width), height=None)
        try:
            with console.use_theme(Theme(styles, inherit=False)):
                lines = console.render_lines(parsed(self._source, theme), options, style=ground)
        except Exception:  # noqa: BLE001 - a description is text of others, and Rich may fail at an odd one
            lines = []
        # An image or a rule ends with an empty line, and a table begins with one.
        while lines and not _has_words(lines[-1]):
            lines.pop()
        while lines and not _has_words(lines[0]):
            del lines[0]
        if not lines and self._source.strip():
            # Rich leaves out parts that have no room, as in a quotation in many others.
            lines = console.render_lines(Text(self._source), options, style=ground)
        yield from (Strip(line).adjust_cell_length(width, ground) for line in lines)


def _has_words(line: Iterable[Segment]) -> bool:
    return any(segment.text.strip() for segment in line)


def with_selection(line: Strip, span: tuple[int, int], selected: Style) -> Strip:
    """Return a line whose characters in `span` have the ground of the selection; the end -1 is that of the line.

    A selection keeps its span when a narrower widget has shorter lines.
    """
    text, width = line.text, line.cell_length
    begin = min(cell_len(text[: span[0]]), width)
    end = width if span[1] == -1 else min(cell_len(text[: span[1]]), width)
    if begin >= end:
        return line
    # The style has one colour for text and ground.
    marked = Segment.apply_style(line.crop(begin, end), post_style=Style(bgcolor=selected.bgcolor))
    return Strip.join([line.crop(0, begin), Strip(marked), line.crop(end, width)])


@lru_cache(maxsize=_KNOWN_MAX)
def parsed(source: str, theme: str) -> Markdown:
    """Return the parts of a text in Markdown, with a theme for its code."""
    return _Markdown(source, theme)
