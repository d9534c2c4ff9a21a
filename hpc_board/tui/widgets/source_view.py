"""A view of a source file with syntax colours and line numbers."""

from collections.abc import Collection

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import getters, on
from textual.app import App, ComposeResult
from textual.containers import Horizontal
from textual.strip import Strip
from textual.widget import Widget

from hpc_board.model.text import printable
from hpc_board.tui.palette import Tone
from hpc_board.tui.widgets.text_pane import LogView, TextPane

_CHARACTERS_MAX = 100_000
"""The longest text to highlight in reasonable time; longer ones are cut."""

_LEXERS = {"py": "python", "cu": "cuda", "cuh": "cuda", "hip": "cuda", "cpp": "cpp", "h": "cpp", "sh": "bash"}


class _CodeView(LogView):
    """Scrollable lines of code in colour."""

    coloured: tuple[Text, ...] = ()

    def plain_line(self, y: int) -> Strip:
        (left, top), width = self.scroll_offset, self.size.width
        number = y + top
        if number >= len(self.coloured):
            return Strip.blank(width, self.rich_style)
        line = self.coloured[number].copy()
        line.stylize_before(self.rich_style)
        if self.text_selection is not None and (span := self.text_selection.get_span(number)) is not None:
            begin, end = span
            # The style has one colour for text and ground.
            ground = self.screen.get_component_rich_style("screen--selection").bgcolor
            line.stylize(Style(bgcolor=ground), begin, len(line) if end == -1 else end)
        strip = Strip(line.render(self.app.console)).crop_extend(left, left + width, self.rich_style)
        return strip.apply_offsets(left, number)


class _LineNumbers(Widget, can_focus=False):
    """The numbers of the lines in sight, beside the lines, which scroll sideways without them."""

    ALLOW_SELECT = False

    def __init__(self, lines: LogView) -> None:
        super().__init__(classes="line-numbers")
        self._lines = lines
        self.first = 0
        self.count = 0

    def show(self, first: int, count: int) -> None:
        """Show the numbers from the line with the index `first` on, of `count` lines."""
        if count != self.count:
            self.styles.width = len(str(count)) + 1
        self.first, self.count = first, count
        self.refresh()

    def render_line(self, y: int) -> Strip:
        number = self.first + y + 1
        is_shown = number <= self.count and y < self._lines.scrollable_content_region.height
        words = f"{number if is_shown else '':>{self.size.width - 1}} "
        muted = self.app.console.get_style(Tone.MUTED.value)
        return Strip([Segment(words, self.rich_style + muted)]).adjust_cell_length(self.size.width, self.rich_style)


class SourceView(TextPane):
    """A file with syntax colours and line numbers, which scrolls sideways instead of wrapping its lines.

    `view` is the id of the lines, which have the focus.
    """

    numbers = getters.query_one(_LineNumbers)

    def __init__(self, title: str = "", *, view: str, id: str | None = None, framed: bool = True) -> None:  # noqa: A002
        super().__init__(title, view=view, id=id, framed=framed)
        self._ending = ""
        self._marked: frozenset[str] = frozenset()

    def compose_view(self) -> ComposeResult:
        lines = _CodeView(id=self.view_id)
        with Horizontal(classes="code"):
            yield _LineNumbers(lines)
            yield lines

    def show_source(self, text: str, ending: str, marked: Collection[str] = ()) -> None:
        """Show `text`, highlighted as a file with this extension ("py"), and with `marked` lines in a warning tone."""
        if (text, ending, frozenset(marked)) == (self.text, self._ending, self._marked):
            return
        self._ending, self._marked = ending, frozenset(marked)
        shown = "\n".join(line.expandtabs() for line in printable(text, _CHARACTERS_MAX).split("\n"))
        if len(text) > _CHARACTERS_MAX:
            shown += "\n… the rest is not shown"
        self.query_one(Horizontal).display = True
        self.show(shown, nothing="", growing=False)
        self.copied = text
        self.redraw()
        self.view.scroll_home(animate=False, immediate=True)

    def say(self, words: str) -> None:
        """Show a message in place of a text."""
        self.show("", nothing=words, growing=False)
        self.query_one(Horizontal).display = False

    def redraw(self) -> None:
        """Redraw the text in the colours of the current theme."""
        if not self.text:
            return
        view = self.query_one(_CodeView)
        lines = coloured(self.text, _LEXERS.get(self._ending, "text"), self.app)
        view.coloured = tuple(self._toned(line) for line in lines[: view.line_count])
        view.refresh()
        self._number()

    def _toned(self, line: Text) -> Text:
        if line.plain in self._marked:
            return Text(line.plain, f"bold {Tone.WAITING.value}", no_wrap=True, end="")
        return line

    @on(LogView.Scrolled)
    def _number(self) -> None:
        self.numbers.show(int(self.view.scroll_offset.y), self.view.line_count)


def coloured(code: str, language: str, app: App[object]) -> tuple[Text, ...]:
    """Return the lines of a code in the colours of the app's theme, on the ground of the panel."""
    # The import of Pygments takes a tenth of a second, which few views need.
    from rich.syntax import Syntax

    lines = Syntax("", language, theme=code_theme(app)).highlight(code).split("\n", allow_blank=True)
    # The highlighter adds a line at the end.
    return tuple(map(_without_ground, lines[: code.count("\n") + 1]))


def code_theme(app: App[object]) -> str:
    """Return the name of Rich's or Pygments' theme for code that suits the app's theme."""
    theme = app.current_theme
    if app.no_color:
        return "bw"
    return "ansi_dark" if theme.ansi else "one-dark" if theme.dark else "friendly"


def _without_ground(line: Text) -> Text:
    shown = Text(line.plain, no_wrap=True, end="")
    for begin, end, style in line.spans:
        kept = style if isinstance(style, Style) else Style.null()
        shown.stylize(Style(color=kept.color, bold=kept.bold, italic=kept.italic), begin, end)
    return shown
