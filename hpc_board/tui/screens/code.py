"""The file of a run."""

from functools import partial
from typing import ClassVar

from textual import getters
from textual.app import ComposeResult

from hpc_board.board import Board
from hpc_board.domain.run import Run
from hpc_board.model.text import one_line
from hpc_board.tui import targets
from hpc_board.tui.screens.base import Clock
from hpc_board.tui.screens.run_keys import RunScreen
from hpc_board.tui.widgets.text_pane import SourceText, SourceView, source_of


class CodeScreen(RunScreen):
    """A submitted file with syntax highlighting."""

    WITHOUT: ClassVar[frozenset[str]] = frozenset({"code"})
    LOADED: ClassVar[tuple[str, ...]] = ("run",)
    HELP: ClassVar[str] = (
        "You can read your own files at any time. Admins can read all files; other users can after the deadline, if "
        "the board publishes code."
    )

    run_in_hand: Run | None = None
    """The run of the file, once it is known."""

    view = getters.query_one(SourceView)

    def __init__(self, board: Board, now: Clock, target: targets.Code) -> None:
        super().__init__(board, now, target)
        self._run = target.run

    def compose_body(self) -> ComposeResult:
        yield SourceView("File", view="code")

    def begin(self) -> None:
        self.show_place(f"File of run {self._run}")
        self.view.say("Loading the file …")
        self.view.view.focus()
        read = partial(source_of, self.board, self._run)
        self.ask("code", read, self._show, failed=lambda _: self.view.say("The file is not shown."))
        self.ask("run", partial(self.board.runs.get, self._run), self._take_run)

    def _take_run(self, run: Run) -> None:
        self.run_in_hand = run
        self.refresh_bindings()

    def _show(self, source: SourceText) -> None:
        self.view.subject = one_line(source.name)
        self.view.show_source(source)
        if not source.text:
            self.view.say("The file is empty.")
