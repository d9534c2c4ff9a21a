"""The standings of one task on each GPU."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual import events, getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widgets import Static, Tab, Tabs

from hpc_board.board import Board
from hpc_board.domain.run import Run
from hpc_board.domain.standing import Mark, MarkKind, Page, Rows, Standing, by_rank
from hpc_board.report.histories import records_span
from hpc_board.tui import paging, targets
from hpc_board.tui.messages import Open
from hpc_board.tui.paging import Part, Span
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.screens.base import NOTHING_SELECTED, BoardScreen, Clock
from hpc_board.tui.screens.run_keys import NamedRun, RunScreen
from hpc_board.tui.verbs import binding
from hpc_board.tui.widgets.board_pane import PLOT_LINES_MIN, BoardPane
from hpc_board.tui.widgets.filter_line import FilterLine
from hpc_board.tui.widgets.list_pane import LOADING, ListPane

_PANE_WIDTH = 60
_TWO_ROWS_FROM = 50
"""The least lines of a screen that has a second row of boards for the GPUs that the first one has no room for."""
_PLOT_FROM = 28
"""The least lines of a screen whose boards may have room for a plot."""


class StandingsScreen(RunScreen):
    """A board for each GPU, as many in sight as fit; the user's rows are marked."""

    NAME: ClassVar[str] = "Board"
    BINDINGS: ClassVar[list[BindingType]] = [
        binding("submit", "Open the form with your latest file, here first"),
        binding("edit", show=False),
        Binding("left,h", "turn(-1)", "Previous GPU", key_display="←", show=False, tooltip="Show the previous GPU"),
        Binding("right,l", "turn(1)", "GPU", key_display="←→", tooltip="Show the next GPU"),
        binding("mine"),
        binding("scope", "Switch between the standings and your ranked runs"),
        binding("filter", "Filter the boards of all GPUs by users and files"),
        binding("feed", "Show recent changes to this task's standings"),
        binding("competition"),
    ]
    WITHOUT: ClassVar[frozenset[str]] = frozenset({"standings", "cancel"})
    LOADED: ClassVar[tuple[str, ...]] = ("gpus", "row")
    HELP: ClassVar[str] = (
        "[reference] is the time of the task's reference, the median over all users; Speedup is relative to it. Runs: "
        "the number of runs of the same code, whose median is the score. Names in brackets have no rank. self-run: "
        "the job ran under the user's account. verified: the job ran under the board's account. emulated: the kernel "
        "ran on a CPU, not on the GPU of the board's name. own eval: the task's own harness judged, in the kernel's "
        "process. removed: an admin removed your run. late: it missed the deadline. ~: statistical tie with the row "
        "above, as the intervals of their times overlap. Remark and File are hidden where all rows say the same. Speed "
        "is relative to the fastest row. The plot has the best time in the standings over time."
    )

    tabs = getters.query_one(Tabs)
    note = getters.query_one("#note", Static)

    def __init__(self, board: Board, now: Clock, target: targets.Standings) -> None:
        super().__init__(board, now, target)
        self._task_name = target.task
        self._gpu = target.gpu or ""
        self._gpus: tuple[str, ...] = ()
        self._panes: Sequence[BoardPane] = ()
        """The boards of the GPUs; none before they have their widgets."""
        self._own = False
        self._competition = ""
        """The competition of the board, if it is in one."""

    def compose_body(self) -> ComposeResult:
        with Container(id="boards"):
            yield Static(LOADING, id="note", markup=False, classes="nothing")

    def begin(self) -> None:
        self._show_place()
        self.ask("gpus", self._find_gpus, self._show_boards)
        self.ask("competition", self.board.standings.competitions, self._set_competition)

    def look_again(self) -> None:
        self._ask(patient=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide keys without a use, such as the filter of an empty board."""
        if (action == "competition" and not self._competition) or (action == "turn" and len(self._gpus) < 2):
            return False
        if action == "filter" and (self._active is None or self._has_no_rows):
            return False
        return super().check_action(action, parameters)

    def action_turn(self, step: int) -> None:
        if step > 0:
            self.tabs.action_next_tab()
        else:
            self.tabs.action_previous_tab()

    @property
    def key_labels(self) -> Mapping[str, str]:
        return {**super().key_labels, "scope": "All users" if self._own else "Your runs"}

    def shows(self, target: targets.Target) -> bool:
        return isinstance(target, targets.Standings) and target.task == self._task_name

    def turn_to(self, target: targets.Target) -> None:
        if not isinstance(target, targets.Standings) or target.gpu is None:
            return
        if target.gpu in self._gpus:
            self.tabs.active = f"gpu-{self._gpus.index(target.gpu)}"
            if target.user is not None:
                self._seek(target.gpu, target.user)
        elif self._gpus:
            self.notify(f"The settings have no {target.gpu} for this task; this is its board on {self._gpu}.")

    def _find_gpus(self) -> tuple[tuple[str, ...], str]:
        """Return the GPUs of the boards, and the one to show: the target's, or else the best one."""
        gpus = tuple(gpu.name for gpu in self.board.gpus.allowed(self.board.tasks.get(self._task_name)))
        if self._gpu in gpus or not gpus:
            return gpus, self._gpu
        return gpus, self._best(gpus).gpu

    def _best(self, gpus: Sequence[str]) -> Page:
        """Return the page of the GPU with the user's best rank, or else of the first with results, or of the first."""
        pages = self.board.standings.pages(self._task_name, gpus, limit=1)
        return min(pages, key=lambda page: by_rank(page.own, page.total))

    def _seek(self, gpu: str, user: str) -> None:
        """Select the row of a user or of their team among the users of this GPU's board, if there is one."""

        def question() -> Standing | None:
            (found,) = self.board.standings.pages(self._task_name, [gpu], user=user, limit=1)
            return found.own

        def select(found: Standing | None) -> None:
            if found is not None:
                pane = next(pane for pane in self._panes if pane.gpu == gpu)
                self._go_to(pane, pane.span_around(found.rank - 1), str(found.run))
                self._ask(patient=False)

        if self._own:
            self.action_scope()
        self.ask("row", question, select)

    def reason_against(self, action: str) -> str:
        reason = super().reason_against(action)
        if self._has_no_rows:
            needs_rows = reason or (action == "scope" and not self._own)
            return "This board has no rows yet." if needs_rows else ""
        return "This row is not a user's run." if reason == NOTHING_SELECTED and self._selected else reason

    def action_scope(self) -> None:
        self._own = not self._own
        self.refresh_bindings()
        self._show_place()
        for pane in self._panes:
            pane.jump(Span())
        self._ask(patient=False)

    def action_mine(self) -> None:
        pane = self._active
        if pane is None or pane.page is None:
            return
        own = pane.page.own
        if own is None:
            self.ask("row", partial(self._best, self._gpus), partial(self._turn_to_own, pane.gpu))
            return
        if pane.grid.current == str(own.run) and not pane.words:
            pane.jump(Span())
        else:
            # In the list of own runs, the rank gives no position of the best run.
            self._go_to(pane, Span() if self._own else pane.span_around(own.rank - 1), str(own.run))
        self._ask(patient=False)

    def _turn_to_own(self, here: str, best: Page) -> None:
        """Go to the user's best row on another GPU, as there is none `here`."""
        if best.own is None:
            self.notify(f"You have no passing ranked run for {self._task_name}. Press s to submit a file.")
        else:
            self.notify(f"You have no result on {here}. This is your rank on {best.gpu}: {best.own.rank}.")
            self.turn_to(targets.Standings(self._task_name, best.gpu, self.board.user))

    def action_submit(self) -> None:
        self.submit_latest_of(self._task_name, self._gpu)

    def action_feed(self) -> None:
        self.post_message(Open(targets.Feed(self._task_name)))

    def action_competition(self) -> None:
        self.post_message(Open(targets.Competition(self._competition)))

    def _set_competition(self, competitions: Mapping[str, Sequence[str]]) -> None:
        self._competition = next((name for name, tasks in competitions.items() if self._task_name in tasks), "")
        self.refresh_bindings()

    def action_back(self) -> None:
        if self._filtered is None:
            super().action_back()
        else:
            self._narrow("")

    def _narrow(self, words: str) -> None:
        """Filter the boards of all GPUs."""
        for pane in self._panes:
            if pane.words != words:
                pane.narrow(words)

    def _go_to(self, pane: BoardPane, span: Span, row: str) -> None:
        """Clear the filter, and read a board from `span` on, with this row selected."""
        self._narrow("")
        pane.jump(span, select=row)

    @property
    def _active(self) -> BoardPane | None:
        return next((pane for pane in self._panes if pane.gpu == self._gpu), None)

    @property
    def _has_no_rows(self) -> bool:
        return self._active is not None and self._active.is_empty and not self._active.words

    @property
    def _selected(self) -> Standing | Mark | Run | None:
        return self._active.line if self._active else None

    @property
    def user_in_hand(self) -> str | None:
        return None if self._selected is None or isinstance(self._selected, Mark) else self._selected.user

    @property
    def gpu_in_hand(self) -> str | None:
        return self._gpu or None

    @property
    def run_in_hand(self) -> Run | NamedRun | None:
        named, own = partial(NamedRun, task=self._task_name, gpu=self._gpu), self.board.user
        match self._selected:
            case Standing(run=number, user=user, submitter=submitter):
                return named(number, user=user, submitter=submitter)
            case Run(id=number):
                return named(number, user=own, submitter=own)
            case Mark(run=int(number), kind=kind, name=name):
                user = name if kind is MarkKind.LATE else own
                return named(number, user=user, submitter=user)
        return None

    @property
    def _rows(self) -> int:
        return 2 if self.size.height >= _TWO_ROWS_FROM and len(self._gpus) > self._columns else 1

    @property
    def _columns(self) -> int:
        return max(1, self.size.width // _PANE_WIDTH)

    @property
    def _in_sight(self) -> tuple[str, ...]:
        """Return the GPUs whose boards fit on the screen, including the chosen one."""
        count = self._columns * self._rows
        if self._gpu not in self._gpus:
            return ()
        first = max(0, min(self._gpus.index(self._gpu), len(self._gpus) - count))
        return self._gpus[first : first + count]

    def _show_place(self) -> None:
        self.show_place(f"Board {self._task_name}", *(["own runs"] if self._own else []))

    def fit_body(self) -> None:
        shown = self._in_sight
        # Rows of the same number of boards: four are two by two, also where three fit side by side.
        self.query_one("#boards").styles.grid_size_columns = max(1, math.ceil(len(shown) / self._rows))
        for pane in self._panes:
            pane.display = pane.gpu in shown
            if pane.gpu not in shown:
                self.withdraw(pane.subject)
        if (active := self._active) is not None and active.display and not active.grid.has_focus:
            active.grid.focus()

    async def _show_boards(self, found: tuple[tuple[str, ...], str]) -> None:
        self._gpus, self._gpu = found
        if not self._gpus:
            self.note.update(toned("No GPU of the settings is allowed for this task.", Tone.MUTED))
            return
        await self.note.remove()
        panes = [
            BoardPane(gpu, self.board.user, partial(self._pages, gpu), self.now, id=f"board-{index}")
            for index, gpu in enumerate(self._gpus)
        ]
        for pane in panes:
            pane.display = pane.gpu == self._gpu
            pane.data_bind(BoardScreen.marked)
        boards = self.query_one("#boards", Container)
        await boards.mount_all(panes)
        self._panes = panes
        # With the first tab active, the board of the first GPU would take the focus.
        tabs = (Tab(Text(gpu).plain, id=f"gpu-{index}") for index, gpu in enumerate(self._gpus))
        bar = Tabs(*tabs, active=f"gpu-{self._gpus.index(self._gpu)}", id="gpus")
        bar.display = len(self._gpus) > 1
        await self.mount(bar, before=boards)
        self.turn_to(self.target)

    @on(Tabs.TabActivated)
    def _turn_to(self, event: Tabs.TabActivated) -> None:
        self._gpu = self._gpus[int((event.tab.id or "gpu-0").removeprefix("gpu-"))]
        self.fit_body()
        self._ask(patient=False)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        pane = event.widget.parent
        if isinstance(pane, BoardPane) and pane.gpu != self._gpu:
            self.tabs.active = f"gpu-{self._gpus.index(pane.gpu)}"

    @on(FilterLine.Changed)
    def _narrow_all(self, event: FilterLine.Changed) -> None:
        self._narrow(event.words)

    @on(BoardPane.Shown)
    def _show_below(self) -> None:
        """Show the texts and plots below the rows: boards in sight have plots of one height and of one span."""
        found = tuple(pane.gpu for pane in self._panes if pane.window.items)
        in_sight = [pane for pane in self._panes if pane.display and pane.room >= PLOT_LINES_MIN]
        lines = max((pane.wanted for pane in in_sight), default=0)
        plotted = [pane.records for pane in in_sight if len(pane.records) > 1]
        span = records_span(plotted, self.now()) if plotted else None
        for pane in self._panes:
            pane.show_below(found, min([lines, *(each.room for each in in_sight)]) if pane in in_sight else 0, span)

    @on(ListPane.Chosen)
    def _open(self, event: ListPane.Chosen) -> None:
        chosen = event.item
        number = chosen.id if isinstance(chosen, Run) else chosen.run
        if number is not None:
            self.post_message(Open(targets.Report(number)))

    def _ask(self, *, patient: bool) -> None:
        for pane in self._panes:
            is_in_sight = pane.gpu in self._in_sight and pane.grid.size.height > 0
            # A filter without a match names the other boards with any.
            if is_in_sight or (pane.words and not patient):
                self.read(pane, patient=patient)

    def _pages(self, gpu: str, words: str) -> paging.Page[Standing]:
        board, task, own = self.board, self._task_name, self._own
        rows = Rows.OWN if own else Rows.USERS
        has_plot = self.size.height >= _PLOT_FROM

        def page(span: Span) -> Part[Standing]:
            first, limit = (0, None) if words else (span.offset, span.limit)
            if span.at_end and not words:
                (top,) = board.standings.pages(task, [gpu], rows=rows, limit=1)
                first = max(0, top.total - span.limit)
            (found,) = board.standings.pages(task, [gpu], rows=rows, limit=limit, offset=first)
            items, total, below = found.rows, found.total, first + len(found.rows) < found.total
            if words:
                matches = tuple(row for row in found.rows if _matches(row, words))
                total = len(matches)
                first = max(0, total - span.limit) if span.at_end else span.offset
                items, below = matches[first : first + span.limit], first + span.limit < total
            # Only a short board has room for its plot, for which all of its runs are read.
            is_whole = len(found.rows) == found.total <= span.limit
            records = board.standings.records(task, gpu) if has_plot and is_whole and (items or not words) else ()
            # Among users, the best late run of each is a mark.
            uncounted = board.standings.uncounted(task, gpu)
            about = found, tuple(run for run in uncounted if own or run.remarks.removal), records, own
            return Part(first, items, below, total, about)

        return page


def _matches(row: Standing, words: str) -> bool:
    text = f"{row.shown_name(entrants=True)} {row.file_name}".casefold()
    return all(word in text for word in words.casefold().split())
