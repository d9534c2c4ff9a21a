"""The next steps after a run that did not pass."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from hpc_board.model.text import printable
from hpc_board.report.next_steps import NextSteps
from hpc_board.tui.palette import Tone, coded, toned
from hpc_board.tui.widgets.key_line import KeyLine


class NextStepsScreen(ModalScreen[str | None]):
    """The meaning of a run's outcome and the next steps; the result is the user's choice."""

    CSS_PATH = "next_steps.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "choose('edit')", "Edit", tooltip="Edit the file of this run, then submit it"),
        Binding("w", "choose('watch')", "Watch", tooltip="Test the file on every save"),
        Binding("R", "choose('again')", "Rerun", tooltip="Submit the same file again"),
        Binding("2", "choose('cases')", "Cases", tooltip="Show the cases"),
        *(
            Binding(
                key, f"choose('{page}')", page.capitalize(), show=False, tooltip=f"Show the page {page.capitalize()}"
            )
            for key, page in (("1", "overview"), ("3", "log"), ("4", "build"), ("6", "evidence"))
        ),
        Binding("y", "copy", "Copy", tooltip="Copy the commands"),
        Binding("escape", "dismiss", "Back"),
    ]

    def __init__(self, run: int, steps: NextSteps) -> None:
        super().__init__()
        self._run = run
        self._steps = steps

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            with VerticalScroll(id="steps"):
                yield Static(self._text(), markup=False)
            yield KeyLine()

    def on_mount(self) -> None:
        self.query_one("#steps").focus()

    def action_choose(self, way: str) -> None:
        self.dismiss(way)

    def action_copy(self) -> None:
        self.app.copy_to_clipboard("\n".join(self._steps.commands))
        self.notify("Copied the commands.", markup=False)

    def _text(self) -> Text:
        steps = self._steps
        lines = [
            Text.assemble((f"Run {self._run}: ", Tone.STRONG.value), (steps.outcome, f"bold {Tone.BAD.value}")),
            coded(steps.meaning.what),
        ]
        if steps.case:
            lines += [Text(), toned(steps.case, Tone.STRONG, 1000)]
        if steps.message:
            lines.append(toned(steps.message, Tone.BAD, 400))
        lines += [
            Text(),
            coded(steps.meaning.next),
            Text(),
            toned("To reproduce it on your own machine (y copies this):", Tone.MUTED),
            *(Text.assemble(("$ ", Tone.ACCENT.value), printable(command)) for command in steps.commands),
            Text(),
            Text.assemble(("e", Tone.ACCENT.value), "  edit the file and submit it again"),
            Text.assemble(("w", Tone.ACCENT.value), "  test the file on every save"),
            Text.assemble(("R", Tone.ACCENT.value), "  submit the same file again, if the kernel was not at fault"),
        ]
        return Text("\n").join(lines)
