"""The file of a submission, to be read."""

from typing import ClassVar

from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from hpc_board.board import Board
from hpc_board.model.text import one_line
from hpc_board.tui.messages import CodeRead, SideChosen
from hpc_board.tui.screens.base import BoardScreen, Clock
from hpc_board.tui.widgets.source_view import SourceView


class CodeScreen(BoardScreen):
    """The file as it was submitted, in the colours of its language."""

    CSS_PATH = "code.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", "Copy", tooltip="Copy the file"),
        Binding("m", "mark", "Mark", tooltip="Choose this submission to compare it, then another one"),
    ]
    HELP: ClassVar[str] = (
        "One's own files can be read at any time. Those of others can be read by admins, and by everybody where the "
        "terms of the board say so and its deadline has passed."
    )

    view = getters.query_one(SourceView)

    def __init__(self, board: Board, now: Clock, submission: int, task: str | None = None) -> None:
        super().__init__(board, now)
        self._submission = submission
        self._task_name = task
        self._read: CodeRead | None = None

    def compose_body(self) -> ComposeResult:
        """The text."""
        yield SourceView()

    def on_mount(self) -> None:
        """Read the file."""
        super().on_mount()
        self.title_bar.show_place("Board", f"Submission {self._submission}")
        self.view.say("Reading the file …")
        self.view.focus()
        submission = self._submission

        def question() -> CodeRead:
            name, data = self.board.code(submission)
            return CodeRead(name, data.decode(errors="replace"))

        self.ask("code", question)

    def settle(self, subject: str) -> None:
        """Say that there is nothing to read."""
        if self.has_failed(subject):
            self.view.say("The file is not shown.")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Copy only what is there."""
        if action == "copy" and self._read is None:
            return None
        return super().check_action(action, parameters)

    def action_copy(self) -> None:
        """Copy the file."""
        if self._read is not None:
            self.app.copy_to_clipboard(self._read.text)
            self.notify(f"Copied {one_line(self._read.file_name)}.", markup=False)

    def action_mark(self) -> None:
        """Choose this submission to be compared."""
        self.post_message(SideChosen(self._submission, self._task_name))

    @on(CodeRead)
    def _show(self, event: CodeRead) -> None:
        self._read = event
        self.title_bar.show_place("Board", f"Submission {self._submission}", one_line(event.file_name))
        if event.text:
            self.view.show(event.text, event.file_name.rpartition(".")[2])
        else:
            self.view.say("The file is empty.")
        self.refresh_bindings()
