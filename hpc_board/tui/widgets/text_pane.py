"""Views of a text: a long one that may grow, with search, and a source file with syntax colours."""

from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate, groupby, islice, zip_longest
from typing import TYPE_CHECKING, ClassVar

import msgspec
from rich.cells import cell_len, chop_cells
from rich.highlighter import Highlighter
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import getters, on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Log, Static

from hpc_board.board import Board
from hpc_board.model.text import printable
from hpc_board.report.tones import ToneFinder, diagnostic_tones
from hpc_board.tui.palette import Tone, empty_text, toned
from hpc_board.tui.themes import contrasting
from hpc_board.tui.verbs import binding
from hpc_board.tui.widgets.blocks import TONES, entitle, show_text
from hpc_board.tui.widgets.filter_line import FilterLine

if TYPE_CHECKING:
    from hpc_board.board.code_diff import DiffRow

_MATCHES_MAX = 10_000
_FOUND = Style(reverse=True)
_CURRENT = Style(reverse=True, bold=True, underline=True)


class Match(msgspec.Struct, frozen=True):
    """A match of a search: its line, and its first and last cell."""

    line: int
    begin: int
    end: int


class _Toned(Highlighter):
    """The tones of the lines of compilers or profilers."""

    def __init__(self, tones: ToneFinder) -> None:
        self._tones = tones

    def highlight(self, text: Text) -> None:
        for begin, end, tone in self._tones(text.plain):
            text.stylize(TONES[tone].value, begin, end)


class LogView(Log):
    """Scrollable lines with highlighted matches."""

    class Scrolled(Message):
        """A change of the scroll position."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", show=False, id="text.down"),
        Binding("k", "scroll_up", show=False, id="text.up"),
        Binding("h", "scroll_left", show=False, id="text.left"),
        Binding("l", "scroll_right", show=False, id="text.right"),
        Binding("g", "scroll_home", show=False, id="text.top"),
        Binding("G", "scroll_end", show=False, id="text.bottom"),
        Binding("ctrl+f", "page_down", show=False, id="text.page_down"),
        Binding("ctrl+b", "page_up", show=False, id="text.page_up"),
        Binding("ctrl+d", "half_page(1)", show=False, id="text.half_page_down"),
        Binding("ctrl+u", "half_page(-1)", show=False, id="text.half_page_up"),
    ]

    matches: tuple[Match, ...] = ()
    current: int = -1
    _lines_with: Mapping[int, Sequence[tuple[int, Match]]] = {}
    """The matches of each line, with their indexes."""

    def __init__(self, tones: ToneFinder = diagnostic_tones, *, id: str | None = None) -> None:
        super().__init__(id=id, highlight=True)
        self.highlighter = _Toned(tones)

    def plain_line(self, y: int) -> Strip:
        """Return a line without its matches."""
        return super().render_line(y)

    def render_line(self, y: int) -> Strip:
        strip = self.plain_line(y)
        number, left = y + self.scroll_offset.y, self.scroll_offset.x
        for index, match in self._lines_with.get(number, ()):
            begin, end = max(0, match.begin - left), min(strip.cell_length, match.end - left)
            if begin < end:
                before, found, after = strip.crop(0, begin), strip.crop(begin, end), strip.crop(end)
                strip = Strip.join([before, found.apply_style(_CURRENT if index == self.current else _FOUND), after])
        return strip

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.Scrolled())

    def action_half_page(self, by: int) -> None:
        self.scroll_to(y=self.scroll_offset.y + by * max(1, self.size.height // 2), animate=False)

    def mark(self, matches: tuple[Match, ...], current: int) -> None:
        """Highlight these matches, one of them as the current one."""
        self.matches, self.current = matches, current
        lines = groupby(enumerate(matches), lambda each: each[1].line)
        self._lines_with = {line: list(found) for line, found in lines}
        self.refresh()

    def reveal(self, match: Match) -> None:
        """Scroll to a match, a little below the top."""
        x = 0 if match.end < self.size.width else max(0, match.begin - self.size.width // 3)
        self.scroll_to(x=x, y=max(0, match.line - self.size.height // 3), animate=False)

    @property
    def heads_for_end(self) -> bool:
        """Return whether the end is in sight, or will be after the scrolling that is under way."""
        return self.scroll_target_y >= self.max_scroll_y


class TextPane(Vertical):
    """A text that is not wrapped, with a search field and a status line; `view` is the id of its lines.

    `copied` is the text that the key y copies, under the name `subject`; `tones` are those of its lines.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "clear_search", "Clear", tooltip="Clear the search"),
        binding("search", "Search the text", id="text.search"),
        binding("next_match", id="text.next"),
        binding("previous_match", id="text.previous"),
        binding("copy", "Copy the text to the clipboard", id="text.copy"),
    ]

    def __init__(
        self,
        title: str,
        *,
        view: str,
        id: str | None = None,
        framed: bool = True,
        tones: ToneFinder = diagnostic_tones,
    ) -> None:
        super().__init__(id=id, classes="panel" if framed else None)
        self.border_title = title
        self._tones = tones
        self.subject = f"the {title.lower()}"
        self.copied = ""
        self.view_id = view
        self.text = ""
        self._growing = False
        self._words = ""
        self._unseen_from = 0

    def compose(self) -> ComposeResult:
        yield Static(classes="nothing", markup=False)
        yield from self.compose_view()
        yield FilterLine("search; after Enter, n and N step through the matches", id=f"{self.view_id}-search")
        yield Static(classes="standing", markup=False)

    def compose_view(self) -> ComposeResult:
        yield LogView(self._tones, id=self.view_id)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "search" and (self.is_empty or (self.is_mounted and self.query_one(FilterLine).display)):
            return False
        if action == "clear_search" and not self._words:
            return False
        return super().check_action(action, parameters)

    @property
    def view(self) -> LogView:
        return self.query_one(LogView)

    @property
    def is_empty(self) -> bool:
        return not self.text

    def show(self, text: str, *, nothing: str = "", growing: bool = False) -> None:
        """Show this text, or the text `nothing` if it is empty.

        A `growing` text is first shown at its end and followed, a complete one at its top.
        """
        self._growing = growing
        words = self.query_one(".nothing", Static)
        words.display = not text
        show_text(words, empty_text("" if text else nothing))
        if text != self.text:
            had_text = bool(self.text)
            self._take(text)
            if bool(text) is not had_text:
                self.screen.refresh_bindings()
        self.copied = text
        self._show_standing()

    def action_search(self) -> None:
        self.query_one(FilterLine).open(self._words)
        self.screen.refresh_bindings()

    def action_clear_search(self) -> None:
        self._find("")

    def action_copy(self) -> None:
        if self.copied:
            self.app.copy_to_clipboard(self.copied)
            self.notify(f"Copied {self.subject}.")

    def action_step(self, by: int) -> None:
        view = self.view
        if view.matches:
            view.mark(view.matches, (view.current + by) % len(view.matches))
            view.reveal(view.matches[view.current])
            self._show_standing()

    def _take(self, text: str) -> None:
        view = self.view
        follows = view.heads_for_end if self.text else self._growing
        if self.text and text.startswith(self.text):
            view.write(text[len(self.text) :], scroll_end=False)
        else:
            view.clear().write(text, scroll_end=False)
        self.text = text
        if self._words:
            view.mark(_matches(view.lines, self._words), view.current)
        if follows:
            view.anchor()
            self._unseen_from = view.line_count

    def _show_standing(self) -> None:
        view = self.view
        standing = self.query_one(".standing", Static)
        standing.display = bool(self.text) and (self._growing or bool(self._words))
        parts = []
        if self._words:
            place = f"{view.current + 1} of {len(view.matches)}" if view.matches else "not found"
            parts.append(toned(f"/{self._words}: {place}", Tone.ACCENT if view.matches else Tone.BAD))
        if self._growing:
            unseen = view.line_count - self._unseen_from
            more = f", {unseen} new {'line' if unseen == 1 else 'lines'} below" if unseen > 0 else ""
            paused = toned(f"paused{more}: End resumes", Tone.WAITING)
            parts.append(toned("following", Tone.MUTED) if view.heads_for_end else paused)
        show_text(standing, Text(" · ", Tone.MUTED.value).join(parts))

    @on(LogView.Scrolled)
    def _note_place(self, event: LogView.Scrolled) -> None:
        event.stop()
        if self.view.heads_for_end:
            self._unseen_from = self.view.line_count
        self._show_standing()

    @on(FilterLine.Changed)
    def _search(self, event: FilterLine.Changed) -> None:
        event.stop()
        self._find(event.words)

    def _find(self, words: str) -> None:
        """Go to the first match of `words` from the line at the top on; without words, leave the search."""
        view = self.view
        self._words = words
        matches = _matches(view.lines, words)
        below = (index for index, match in enumerate(matches) if match.line >= view.scroll_offset.y)
        view.mark(matches, next(below, 0) if matches else -1)
        if matches:
            view.reveal(matches[view.current])
        self._show_standing()
        self.screen.refresh_bindings()


def _matches(lines: Sequence[str], words: str) -> tuple[Match, ...]:
    """Return the matches of `words` in these lines, case-insensitive, up to a limit."""
    found: list[Match] = []
    wanted = words.lower()
    for number, raw in enumerate(lines if wanted else ()):
        line = raw.expandtabs()
        # A few letters get longer in lower case; lines with them are searched case-sensitively.
        lower = line.lower() if len(line.lower()) == len(line) else line
        place = lower.find(wanted)
        while place >= 0 and len(found) < _MATCHES_MAX:
            begin = cell_len(line[:place])
            found.append(Match(number, begin, begin + cell_len(line[place : place + len(wanted)])))
            place = lower.find(wanted, place + len(wanted))
    return tuple(found)


_CHARACTERS_MAX = 100_000
"""The longest text to highlight in reasonable time; longer ones are cut."""

_DIFF = "diff"
"""The extension of a unified diff with all equal lines, which are folded where they have no room."""

_SPLIT_FROM = 140
"""The least cells for the two files of a diff side by side."""

_BETWEEN = " │ "

_CHANGES = {"-": Tone.BAD, "+": Tone.GOOD}
"""The tones of changed lines by their signs."""

_GROUND, _WORD_GROUND = 0.14, 0.28
"""The shares of a tone in the ground of a changed line, and of its changed words."""

_COMMENTS = "Token.Comment", "Token.Literal.String.Doc"
"""Pygments' kinds of text that is no code; it has preprocessor lines among them."""

_HEADER_LINES = 3
"""The last lines of a file's header that are in sight above its code at first."""

_LEXERS = {"py": "python", "cu": "cuda", "cuh": "cuda", "hip": "cuda", "cpp": "cpp", "h": "cpp", "sh": "bash"}


class SourceText(msgspec.Struct, frozen=True):
    """A file to show: its text, its name, whose extension gives the colours, and its title on the panel."""

    text: str
    name: str
    title: str = ""


def source_of(board: Board, run: int) -> SourceText:
    """Return the file of a run with its name as title."""
    name, data = board.submissions.code(run)
    return SourceText(data.decode(errors="replace"), name, name)


class _CodeView(LogView):
    """Scrollable lines of code in colour."""

    coloured: tuple[Text, ...] = ()

    def plain_line(self, y: int) -> Strip:
        (left, top), width = self.scroll_offset, self.size.width
        number = y + top
        if number >= len(self.coloured):
            return Strip.blank(width, self.rich_style)
        line = self.coloured[number].copy()
        base = self.rich_style if isinstance(line.style, str) else self.rich_style + line.style
        line.stylize_before(base)
        if self.text_selection is not None and (span := self.text_selection.get_span(number)) is not None:
            begin, end = span
            # The style has one colour for text and ground.
            ground = self.screen.get_component_rich_style("screen--selection").bgcolor
            line.stylize(Style(bgcolor=ground), begin, len(line) if end == -1 else end)
        strip = Strip(line.render(self.app.console)).crop_extend(left, left + width, base)
        return strip.apply_offsets(left, number)


class _LineNumbers(Widget, can_focus=False):
    """The numbers of the lines in sight, beside the lines, which scroll sideways without them."""

    ALLOW_SELECT = False

    def __init__(self, lines: LogView) -> None:
        super().__init__(classes="line-numbers")
        self._lines = lines
        self.first = 0
        self.numbers: Sequence[int] = ()

    def show(self, first: int, numbers: Sequence[int]) -> None:
        """Show the numbers from the line with the index `first` on; a line with the number 0 has none."""
        if numbers != self.numbers:
            self.styles.width = len(str(max(numbers, default=0))) + 1
        self.first, self.numbers = first, numbers
        self.refresh()

    def render_line(self, y: int) -> Strip:
        index = self.first + y
        is_shown = index < len(self.numbers) and y < self._lines.scrollable_content_region.height
        words = f"{(is_shown and self.numbers[index]) or '':>{self.size.width - 1}} "
        muted = self.app.console.get_style(Tone.MUTED.value)
        return Strip([Segment(words, self.rich_style + muted)]).adjust_cell_length(self.size.width, self.rich_style)


class SourceView(TextPane):
    """A file with syntax colours and line numbers, which scrolls sideways instead of wrapping its lines.

    `view` is the id of the lines, which have the focus.
    """

    numbers = getters.query_one(_LineNumbers)

    def __init__(self, title: str = "", *, view: str, id: str | None = None, framed: bool = True) -> None:
        super().__init__(title, view=view, id=id, framed=framed)
        self._shown: tuple[str, str, frozenset[str]] | None = None
        """The text that is shown, the extension of its name, and its marked lines."""
        self._code_line = 0
        """The first line in sight at first, shortly above the code."""
        self._rows: Sequence[DiffRow] = ()
        """All lines of a diff; empty for another file."""
        self._rows_in_sight: Sequence[DiffRow] = ()
        self._is_split = False
        """True while the two files of a diff are side by side; the older file's rows in sight have even places."""

    def compose_view(self) -> ComposeResult:
        lines = _CodeView(id=self.view_id)
        with Horizontal(classes="code"):
            yield _LineNumbers(lines)
            yield lines

    def show_source(self, source: SourceText, *, marked: Collection[str] = ()) -> None:
        """Show a file, highlighted, and with `marked` lines in a warning tone; one without a title keeps the last."""
        if source.title:
            entitle(self, toned(source.title))
        text, ending = source.text, source.name.rpartition(".")[2]
        if (text, ending, frozenset(marked)) == self._shown:
            return
        self._shown = text, ending, frozenset(marked)
        self.query_one(Horizontal).display = True
        shown = printable(text, _CHARACTERS_MAX)
        if len(text) > _CHARACTERS_MAX:
            shown += "\n… the rest is not shown"
        lines = 0
        if ending == _DIFF:
            from hpc_board.board.code_diff import diff_rows

            self._rows = diff_rows("\n".join(line[:1] + line[1:].expandtabs() for line in shown.split("\n")))
            self._fold()
        else:
            self._rows = ()
            self.numbers.display = True
            shown = "\n".join(line.expandtabs() for line in shown.split("\n"))
            self._show_lines(shown)
            # A batch script's options are comments, and its header is the whole of interest.
            lines = 0 if ending == "sh" else _header_lines(shown, _lexer(ending))
        self._code_line = max(0, lines - _HEADER_LINES)
        self._scroll_to_code()

    def _scroll_to_code(self) -> None:
        self.view.scroll_to(0, self._code_line, animate=False, force=True)

    def on_resize(self) -> None:
        if self._rows:
            self._fold()
        elif not self.view.has_focus:
            # A lower view scrolls farther.
            self.call_after_refresh(self._scroll_to_code)

    def _fold(self) -> None:
        """Show the lines of a diff, all of them where a huge screen has room, and both files side by side if wide."""
        from hpc_board.board.code_diff import beside, folded

        has_room = self.screen.has_class("-huge") and len(self._rows) <= self.size.height
        rows = self._rows if has_room else folded(self._rows)
        self._is_split = self.size.width >= _SPLIT_FROM
        self.numbers.display = not self._is_split
        self._rows_in_sight = [row for pair in beside(rows) for row in pair] if self._is_split else rows
        self._show_lines("\n".join(line.plain for line in self._drawn_rows()))

    def _drawn_rows(self) -> list[Text]:
        """Return the lines of a diff in colour."""
        rows, lines = self._rows_in_sight, _coloured_rows(self._rows, self._rows_in_sight, self.app)
        if not self._is_split:
            return lines
        digits = len(str(max(max(row.number, row.former) for row in self._rows)))
        # The last cell is that of the scroll bar.
        cells = (self.size.width - len(_BETWEEN) - 1) // 2
        numbers = (row.former or row.number if index % 2 == 0 else row.number for index, row in enumerate(rows))
        sides = [_wrapped(*each, cells, digits) for each in zip(lines, numbers, strict=True)]
        found = []
        for older, newer in zip(sides[::2], sides[1::2], strict=True):
            for left, right in zip_longest(older, newer, fillvalue=Text(" " * cells)):
                found.append(left.copy().append(_BETWEEN, Tone.MUTED.value).append_text(right))
        return found

    def _show_lines(self, text: str) -> None:
        self.show(text)
        self.copied = self._shown[0] if self._shown else ""
        self.redraw()

    def say(self, words: str) -> None:
        """Show a message in place of a text."""
        self._shown, self._rows = None, ()
        self.show("", nothing=words)
        self.query_one(Horizontal).display = False

    def redraw(self) -> None:
        """Redraw the text in the colours of the current theme."""
        if self._shown is None:
            return
        view, (_, ending, warned) = self.query_one(_CodeView), self._shown
        lines = self._drawn_rows() if self._rows else coloured(self.text, _lexer(ending), self.app)
        warning = f"bold {Tone.WAITING.value}"
        marked = (_styled(line.plain, warning) if line.plain in warned else line for line in lines)
        view.coloured = tuple(islice(marked, view.line_count))
        view.refresh()
        self._number()

    @on(LogView.Scrolled)
    def _number(self) -> None:
        lines = [row.number for row in self._rows_in_sight] if self._rows else range(1, self.view.line_count + 1)
        self.numbers.show(int(self.view.scroll_offset.y), lines)


def _lexer(ending: str) -> str:
    return _LEXERS.get(ending, "text")


def _header_lines(code: str, language: str) -> int:
    """Return the number of lines of comments, docstring and space above the code; 0 if that is all."""
    from rich.syntax import Syntax

    lines, lexer = 0, Syntax("", language).lexer
    for kind, text in lexer.get_tokens(code) if lexer is not None else ():
        is_comment = str(kind).startswith(_COMMENTS) and "Preproc" not in str(kind)
        if text.strip() and not is_comment:
            return lines
        lines += text.count("\n")
    return 0


def _styled(line: str, style: str) -> Text:
    # As a span: the view's own style goes before all spans, and over the style of the whole text.
    text = Text(line, no_wrap=True, end="")
    text.stylize(style)
    return text


def coloured(code: str, language: str, app: App[object]) -> list[Text]:
    """Return the lines of a code in the colours of the app's theme, on the ground of the panel."""
    # The import of Pygments takes a tenth of a second, which few views need.
    from rich.syntax import Syntax

    lines = Syntax("", language, theme=code_theme(app)).highlight(code).split("\n", allow_blank=True)
    grounds = () if _has_few_colours(app) else (Color.parse(app.get_css_variables()["background"]),)
    # The highlighter adds a line at the end.
    return [_on(line, grounds) for line in lines[: code.count("\n") + 1]]


def _coloured_rows(rows: "Sequence[DiffRow]", chosen: "Sequence[DiffRow]", app: App[object]) -> list[Text]:
    """Return the `chosen` rows of a diff in the colours of their language, changed lines and words on other grounds."""
    language = _lexer(rows[1].text.rpartition(".")[2])
    drawn: dict[tuple[str, int], Text] = {}
    for sign in _CHANGES:
        side = [row for row in rows if row.sign in (" ", sign)]
        lines = coloured("\n".join(row.text for row in side), language, app)
        drawn |= {(row.sign, row.number): line for row, line in zip(side, lines, strict=True)}
    found = []
    for row in chosen:
        line = drawn.get((row.sign, row.number), Text(row.text))
        tone = _CHANGES.get(row.sign)
        grounds = () if tone is None else _grounds(tone, app)
        shown = Text(row.sign, no_wrap=True, end="").append_text(_on(line, grounds) if grounds else line)
        if not row.sign:
            shown.stylize(_CHANGES[row.text[0]].value if row.text[:1] in _CHANGES else Tone.MUTED.value)
        elif tone is not None:
            of_line, of_words = (Style(bgcolor=each.rich_color) for each in grounds) if grounds else ("", "underline")
            shown.style = of_line
            # Without a ground, the whole line has the tone.
            shown.stylize(tone.value, 0, 1 if grounds else len(shown))
            for begin, end in row.changed:
                shown.stylize(of_words, begin + 1, end + 1)
        found.append(shown)
    return found


def _wrapped(line: Text, number: int, cells: int, digits: int) -> list[Text]:
    """Return a line of a diff behind its number, in as many lines of `cells` cells as it needs."""
    pieces = chop_cells(line.plain, cells - digits - 1) or [""]
    label, found = f"{number or '':>{digits}} ", list[Text]()
    for part in line.divide([*accumulate(map(len, pieces))][:-1]):
        side = Text(no_wrap=True, end="").append(label, Tone.MUTED.value).append_text(part)
        found.append(side.append(" " * (cells - side.cell_len), line.style))
        label = " " * len(label)
    return found


def _grounds(tone: Tone, app: App[object]) -> tuple[Color, ...]:
    """Return the grounds of a changed line and of its changed words; a terminal of few colours has none."""
    if _has_few_colours(app):
        return ()
    made = app.get_css_variables()
    tint = Color.parse(made[tone.value.removeprefix("$")])
    return tuple(Color.parse(made["background"]).blend(tint, share) for share in (_GROUND, _WORD_GROUND))


def _has_few_colours(app: App[object]) -> bool:
    """Return whether a terminal has sixteen colours or none."""
    return app.no_color or app.current_theme.ansi


def code_theme(app: App[object]) -> str:
    """Return the name of Rich's or Pygments' theme for code that suits the app's theme."""
    theme = app.current_theme
    if app.no_color:
        return "bw"
    return "ansi_dark" if theme.ansi else "one-dark" if theme.dark else "default"


def _on(line: Text, grounds: tuple[Color, ...]) -> Text:
    """Return a line of code without a ground of its own, in shades of its colours that can be read on these."""
    shown = Text(line.plain, no_wrap=True, end="")
    for begin, end, style in line.spans:
        kept = style if isinstance(style, Style) else Style.null()
        colour = kept.color
        if colour is not None and grounds:
            colour = contrasting(Color.from_rich_color(colour), grounds).rich_color
        shown.stylize(Style(color=colour, bold=kept.bold, italic=kept.italic), begin, end)
    return shown
