"""A text in Markdown, drawn by one widget: Textual's own makes a widget for each paragraph."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text
from textual.app import App
from textual.geometry import Size
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from hpc_board.tui.palette import Tone
from hpc_board.tui.widgets.source_view import coloured

if TYPE_CHECKING:
    from markdown_it.token import Token

_BULLETS = "•◦▪"
_QUOTE = "▌ "
_CODE_INDENT = 2
_COLUMN_GAP = 2
_KNOWN_MAX = 64
"""The most texts that are kept as blocks, and as lines."""

_SPAN_STYLES = {"strong": "bold", "em": "italic", "s": "strike", "link": "underline"}


class _Block(msgspec.Struct, frozen=True):
    """A paragraph, a heading, a code block, a rule or a table.

    `first` begins its first line and `rest` the others; a `gap` is an empty line before it. A block of code has its
    `language`, a table its `rows` of cells, the first of which is the head.
    """

    text: Text
    first: str = ""
    rest: str = ""
    gap: bool = True
    language: str | None = None
    is_rule: bool = False
    rows: tuple[tuple[Text, ...], ...] = ()

    def lines(self, app: App[object], width: int) -> Iterator[Text]:
        """Yield the lines at a width."""
        if self.gap:
            yield Text()
        for number, line in enumerate(self._wrapped(app, max(1, width - cell_len(self.rest)))):
            line.rstrip()
            yield Text.assemble((self.rest if number else self.first, Tone.MUTED.value), line)

    def _wrapped(self, app: App[object], width: int) -> Iterator[Text]:
        if self.is_rule:
            yield Text("─" * width, Tone.MUTED.value)
        elif self.rows:
            yield from _table_lines(self.rows, app, width)
        elif self.language is not None:
            room = max(1, width - _CODE_INDENT)
            for line in coloured(self.text.plain, self.language, app):
                # A line of code is cut at the edge: a break at a word would look like one of the code.
                for part in line.divide(range(room, len(line), room)):
                    yield Text.assemble(" " * _CODE_INDENT, part)
        else:
            yield from self.text.wrap(app.console, width)


class _Indent(msgspec.Struct):
    """The beginning of the lines of a list item or a quotation; the first line of an item has its bullet."""

    first: str
    rest: str

    def take(self) -> str:
        """Return the beginning of the next line."""
        first, self.first = self.first, self.rest
        return first


class Description(Widget):
    """A text in Markdown, wrapped at words."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self._source = ""
        self._known: dict[tuple[str, int, str], tuple[Text, ...]] = {}

    def show(self, source: str) -> None:
        """Show a text in Markdown."""
        if source != self._source:
            self._source = source
            self.clear_cached_dimensions()
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines at a width."""
        del container, viewport
        return len(self._lines(width))

    def render_line(self, y: int) -> Strip:
        """Return a line in its styles, with the selected part."""
        width, lines = self.size.width, self._lines(self.size.width)
        if y >= len(lines):
            return Strip.blank(width, self.rich_style)
        line = lines[y].copy()
        line.stylize_before(self.rich_style)
        if self.text_selection is not None and (span := self.text_selection.get_span(y)) is not None:
            begin, end = span
            selected = self.screen.get_component_rich_style("screen--selection")
            line.stylize(selected, begin, len(line) if end == -1 else end)
        return Strip(line.render(self.app.console)).adjust_cell_length(width, self.rich_style).apply_offsets(0, y)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text, by the lines that are shown."""
        text = "\n".join(line.plain for line in self._lines(self.size.width))
        return selection.extract(text), "\n"

    def _lines(self, width: int) -> tuple[Text, ...]:
        key = (self._source, width, self.app.theme)
        if key not in self._known:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            lines = [line for block in blocks_of(self._source) for line in block.lines(self.app, width)]
            self._known[key] = tuple(lines)
        return self._known[key]


@lru_cache(maxsize=_KNOWN_MAX)
def blocks_of(source: str) -> tuple[_Block, ...]:
    """Return the blocks of a text in Markdown."""
    # The import takes as long as a frame.
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    return tuple(_Reader().read(parser.parse(source)))


class _Reader:
    """A walk over the parts of a text, which makes its blocks."""

    def __init__(self) -> None:
        self._indents: list[_Indent] = []
        self._numbers: list[int | None] = []
        """The next number of each open list; None for one with bullets."""
        self._rows: list[list[Text]] = []
        self._is_heading = False
        self._is_tight = False
        """True in a list without empty lines between its items."""
        self._gap = False

    def read(self, tokens: "Sequence[Token]") -> Iterator[_Block]:
        """Yield the blocks."""
        for token in tokens:
            self._take_nesting(token)
            if (block := self._block_of(token)) is not None:
                yield block

    def _take_nesting(self, token: "Token") -> None:
        """Note the lists and quotations around the next block."""
        match token.type:
            case "bullet_list_open":
                self._numbers.append(None)
            case "ordered_list_open":
                self._numbers.append(int(token.attrs.get("start", 1)))
            case "bullet_list_close" | "ordered_list_close":
                self._numbers.pop()
                self._gap |= not self._numbers
            case "list_item_open":
                self._indents.append(self._item())
            case "blockquote_open":
                self._indents.append(_Indent(_QUOTE, _QUOTE))
            case "list_item_close" | "blockquote_close":
                self._indents.pop()
            case "tr_open":
                self._rows.append([])
            case _ if token.block and token.nesting > 0:
                self._is_heading = token.type == "heading_open"
                self._is_tight = token.hidden

    def _block_of(self, token: "Token") -> _Block | None:
        """Return the block that ends with a token."""
        match token.type:
            case "inline" if self._rows:
                self._rows[-1].append(_inline(token.children or []))
            case "inline":
                text = _inline(token.children or [])
                if self._is_heading:
                    text.stylize(f"bold {Tone.ACCENT.value}")
                return self._block(text)
            case "fence" | "code_block":
                self._is_tight = False
                return self._block(Text(token.content.rstrip()), language=token.info.split(" ")[0])
            case "html_block":
                return self._block(Text(token.content.rstrip()))
            case "hr":
                return self._block(is_rule=True)
            case "table_close":
                rows, self._rows = tuple(map(tuple, self._rows)), []
                return self._block(rows=rows)
        return None

    def _item(self) -> _Indent:
        number = self._numbers[-1]
        bullet = _BULLETS[(len(self._numbers) - 1) % len(_BULLETS)] if number is None else f"{number}."
        if number is not None:
            self._numbers[-1] = number + 1
        return _Indent(f"{bullet} ", " " * (cell_len(bullet) + 1))

    def _block(
        self,
        text: Text | None = None,
        *,
        language: str | None = None,
        is_rule: bool = False,
        rows: tuple[tuple[Text, ...], ...] = (),
    ) -> _Block:
        gap, self._gap = self._gap, not self._is_tight
        first, rest = "".join(indent.take() for indent in self._indents), "".join(each.rest for each in self._indents)
        return _Block(text or Text(), first, rest, gap, language, is_rule, rows)


def _inline(tokens: "Sequence[Token]") -> Text:
    """Return the text of a paragraph with its styles."""
    text, styles, link = Text(), [], ""
    for token in tokens:
        kind, start = token.type, len(text)
        if token.nesting > 0:
            styles.append(_SPAN_STYLES.get(kind.removesuffix("_open"), ""))
            link = str(token.attrs.get("href", link))
        elif token.nesting < 0:
            styles.pop()
            if kind == "link_close" and not text.plain.endswith(link):
                text.append(f" ({link})", Tone.MUTED.value)
        elif kind == "code_inline":
            text.append(token.content, Tone.ACCENT.value)
        else:
            text.append({"softbreak": " ", "hardbreak": "\n"}.get(kind, token.content))
        for style in styles:
            text.stylize(style, start)
    return text


def _table_lines(rows: Sequence[Sequence[Text]], app: App[object], width: int) -> Iterator[Text]:
    """Yield the lines of a table."""
    head, *others = rows
    table = Table(box=None, pad_edge=False, padding=(0, _COLUMN_GAP, 0, 0), header_style=Tone.MUTED.value)
    for cell in head:
        table.add_column(cell)
    for row in others:
        table.add_row(*row)
    for segments in app.console.render_lines(table, app.console_options.update(width=width, height=None), pad=False):
        yield Text.assemble(*((segment.text, segment.style or "") for segment in segments))
