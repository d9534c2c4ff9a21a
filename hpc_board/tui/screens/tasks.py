"""The tasks: what there is to implement, how long it stays open, and where one stands."""

from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.widgets import Markdown, Static

from hpc_board.catalog import Catalog
from hpc_board.model.standings import Standing
from hpc_board.model.task import Task
from hpc_board.model.text import printable
from hpc_board.tui.messages import OpenRuns, OpenStandings, OpenSubmit, PlacesArrived, TasksArrived
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.screens.base import BoardScreen
from hpc_board.tui.widgets.blocks import facts
from hpc_board.tui.widgets.grid import Column, Grid, Row
from hpc_board.tui.wording import RANKED_BY, languages, moment, score, time_left

_COLUMNS = (
    Column("task", "Task", 20, grows=True),
    Column("language", "Lang", 5),
    Column("gpus", "GPUs", 24, from_width=72),
    Column("left", "Closes in", 9, right=True),
)


class TasksScreen(BoardScreen):
    """The first screen: a list of tasks and, for the selected one, its description and one's places on its boards."""

    CSS_PATH = "tasks.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", show=False),
        Binding("s", "submit", "Submit", tooltip="Submit a file for the selected task"),
        Binding("b", "standings", "Board", tooltip="Show the standings of the selected task"),
        Binding("r", "runs", "Runs", tooltip="Show your runs"),
        Binding("d", "description", "Description", tooltip="Move to the description to scroll it, and back"),
        Binding("f5", "reload", "Reload", show=False, tooltip="Read the task folders again"),
    ]
    HELP: ClassVar[str] = (
        "Choose a task and press s (or Enter) to submit a file for it. A deadline in the last day is marked by its "
        "colour; a task without one stays open."
    )

    grid = getters.query_one("#tasks", Grid)
    about = getters.query_one("#about", VerticalScroll)
    places = getters.query_one("#places", Static)
    description = getters.query_one("#description", Markdown)
    _catalog: Catalog | None = None

    def compose_body(self) -> ComposeResult:
        """The list, and beside or below it the selected task."""
        with Container(id="panes"):
            yield Grid(_COLUMNS, id="tasks")
            with VerticalScroll(id="about"):
                yield Static(toned("Reading the task folders …", Tone.MUTED), id="facts", markup=False)
                yield Static(id="places", markup=False)
                yield Markdown(id="description", open_links=False)

    def on_mount(self) -> None:
        """Read the tasks."""
        super().on_mount()
        self.title_bar.show_place("Tasks")
        self.grid.focus()
        self.action_reload()

    def action_reload(self) -> None:
        """Read the task folders again."""
        self.ask("tasks", lambda: TasksArrived(self.board.tasks()))

    def action_submit(self) -> None:
        """Submit a file for the selected task."""
        self.post_message(OpenSubmit(self.grid.current))

    def action_standings(self) -> None:
        """Show the boards of the selected task."""
        if self.grid.current is not None:
            self.post_message(OpenStandings(self.grid.current))

    def action_runs(self) -> None:
        """Show the runs."""
        self.post_message(OpenRuns())

    def action_description(self) -> None:
        """Move the focus between the list and the description."""
        (self.grid if self.about.has_focus else self.about).focus()

    def action_back(self) -> None:
        """Move the focus back to the list: there is nothing before this screen."""
        self.grid.focus()

    @on(TasksArrived)
    def _show_tasks(self, event: TasksArrived) -> None:
        self._catalog = event.catalog
        self.grid.show(self._row(task) for task in event.catalog.tasks)
        if event.catalog.faults:
            self.fail("faults", event.catalog.faults[0])
        else:
            self.forget_failure("faults")
        self._show_selected(self.grid.current)

    @on(Grid.Highlighted)
    def _select(self, event: Grid.Highlighted) -> None:
        self._show_selected(event.key)
        self.about.scroll_home(animate=False)

    @on(Grid.Chosen)
    def _choose(self) -> None:
        self.action_submit()

    @on(PlacesArrived)
    def _show_places(self, event: PlacesArrived) -> None:
        if event.task == self.grid.current:
            self.places.update(_places(event.boards, self.board.user))

    def _row(self, task: Task) -> Row:
        left, tone = time_left(task.deadline, self.now())
        cells = {
            "task": toned(task.name),
            "language": toned(languages(task), Tone.MUTED),
            "gpus": toned(" ".join(task.gpus) or "all", Tone.MUTED),
            "left": toned(left, tone),
        }
        return Row(task.name, cells)

    def _show_selected(self, name: str | None) -> None:
        task = next((task for task in self._catalog.tasks if task.name == name), None) if self._catalog else None
        if task is None:
            words = (
                "There are no tasks yet. The settings' `tasks` names the folders that hold them."
                if self._catalog
                else ""
            )
            self.query_one("#facts", Static).update(toned(words, Tone.MUTED))
            self.places.update("")
            self.description.update("")
            return
        self.query_one("#facts", Static).update(self._facts(task))
        self.places.update(toned("Asking for your places …", Tone.MUTED))
        self.description.update(printable(task.description))
        self.ask("places", lambda: self._places_of(task))

    def _facts(self, task: Task) -> Table:
        left, _ = time_left(task.deadline, self.now())
        ranked_by = RANKED_BY[task.ranking_by]
        several = [("Languages", ", ".join(task.accepted))] if len(task.accepted) > 1 else []
        return facts(
            [
                ("Closes", f"{moment(task.deadline)} ({left})" if task.deadline else "never"),
                *several,
                ("Cases", f"{len(task.tests)} tests, {len(task.benchmarks)} benchmarks, ranked by {ranked_by}"),
            ]
        )

    def _places_of(self, task: Task) -> PlacesArrived:
        gpus = [gpu.name for gpu in self.board.allowed_gpus(task)]
        return PlacesArrived(task.name, tuple((gpu, self.board.standings(task.name, gpu)) for gpu in gpus))


def _places(boards: tuple[tuple[str, tuple[Standing, ...]], ...], user: str) -> Text:
    """One line for each board: the user's place and time, and the time to beat."""
    width = max((len(gpu) for gpu, _ in boards), default=0) + 2
    lines = []
    for gpu, rows in boards:
        line = Text.assemble((gpu.ljust(width), Tone.MUTED.value))
        own = next((row for row in rows if row.user == user), None)
        if not rows:
            line.append("nobody yet", Tone.MUTED.value)
        elif own is None:
            line.append(f"{'-':>4}  {'':>9}")
        else:
            line.append(f"#{own.rank:<3}  {score(own.score_s):>9}", Tone.OWN.value)
        if rows:
            line.append(f"  of {len(rows)}, best {score(rows[0].score_s)} by ", Tone.MUTED.value)
            line.append_text(toned(rows[0].user, Tone.MUTED, 24))
        lines.append(line)
    return Text("\n").join(lines)
