"""The comparison of two runs: the times of each case on every GPU, and the difference of the files."""

from functools import partial
from typing import ClassVar

from textual import getters
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container

from hpc_board.board import Board
from hpc_board.board.code_diff import LINES_MAX, CodeDiff, code_diff
from hpc_board.domain.run import Run
from hpc_board.errors import NoTimes
from hpc_board.report.blocks import Block, Paragraph
from hpc_board.report.comparisons import comparison_report
from hpc_board.tui import targets
from hpc_board.tui.palette import toned
from hpc_board.tui.screens.base import Clock
from hpc_board.tui.screens.run_keys import RunScreen
from hpc_board.tui.verbs import binding
from hpc_board.tui.widgets.blocks import Blocks, set_style
from hpc_board.tui.widgets.text_pane import SourceText, SourceView

_EDGES = 2
"""The lines of a panel's edges."""


class CompareScreen(RunScreen):
    """The comparison of an older run with a newer one: the times of their files, and the difference of these."""

    BINDINGS: ClassVar[list[BindingType]] = [binding("search", "Search the diff of the files"), binding("panel")]
    LOADED: ClassVar[tuple[str, ...]] = ("compare",)
    HELP: ClassVar[str] = (
        "Compares the newer run with the older one, in whatever order they were marked. ± is half of the 95 % "
        "confidence interval of a change; if the interval includes 1x, the difference is within noise. Tab moves "
        "between the times and the diff of the files; long equal parts are folded. The keys of a run act on the newer "
        "one."
    )

    times = getters.query_one("#times", Blocks)
    code = getters.query_one(SourceView)

    run_in_hand: Run | None = None
    """The newer run, once it is known."""

    def __init__(self, board: Board, now: Clock, target: targets.Compare) -> None:
        super().__init__(board, now, target)
        self._older, self._newer = sorted((target.first, target.second))

    def compose_body(self) -> ComposeResult:
        with Container(id="panes"):
            yield Blocks("Times", id="times")
            yield SourceView("Diff", view="diff")

    def begin(self) -> None:
        self.show_place("Compare", f"run {self._older} with {self._newer}")
        self.times.show([Paragraph("Loading the times of both files …")])
        self.code.say("Loading both files …")
        # A short terminal has no room for both.
        (self.times if self.has_class("-short") else self.code.view).focus()
        self.ask("compare", self._compare, self._show_times)
        self.ask(
            "code", partial(code_diff, self.board.submissions, self._older, self._newer, LINES_MAX), self._show_code
        )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "search":
            return self.is_mounted and self.code.check_action(action, parameters)
        return super().check_action(action, parameters)

    def action_search(self) -> None:
        self.code.action_search()

    def settle(self, subject: str) -> None:
        if subject == "compare" and self.has_failed(subject):
            self.times.show([Paragraph("The times are not shown.")])
        if subject == "code" and self.has_failed(subject):
            self.code.say("The files are not shown.")

    def _compare(self) -> tuple[Run, list[Block]]:
        """Return the newer run and the times of both files, for files without times the reason."""
        try:
            found = self.board.submissions.compare(self._older, self._newer)
        except NoTimes as error:
            reason = f"{error.message[0].upper()}{error.message[1:]}. {error.hint}"
            return self.board.runs.get(self._newer), [Paragraph(reason)]
        reports = (comparison_report(each.runs, each.results, each.comparison) for each in found)
        return found[0].runs[1], [block for report in reports for block in report]

    def _show_times(self, found: tuple[Run, list[Block]]) -> None:
        self.run_in_hand, blocks = found
        self.refresh_bindings()
        self.times.show(blocks)

    def _show_code(self, found: CodeDiff) -> None:
        if not found.text:
            self.code.say(found.remark)
            return
        self.code.border_title = toned(": ".join(filter(None, ("Diff", found.remark))))
        self.code.show_source(SourceText(found.text, "compare.diff"))
        self._share_height()

    def fit_body(self) -> None:
        self.call_after_refresh(self._share_height)

    def _share_height(self) -> None:
        """Let the times have the lines that the difference of the files leaves empty, but at least a half."""
        height = self.query_one("#panes").size.height
        is_shared = self.code.text and not self.has_class("-short")
        used = len(self.code.text.splitlines()) + _EDGES
        set_style(self.times, "max_height", max(height // 2, height - used) if is_shared else None)
