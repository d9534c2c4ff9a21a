"""The list of tasks, with deadlines and the user's ranks."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import ClassVar

import msgspec
from msgspec.structs import replace
from rich.table import Table
from rich.text import Text
from textual import events, getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.geometry import Size
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Static

from hpc_board.board import Board
from hpc_board.domain.board_options import moment_words
from hpc_board.domain.catalog import Catalog
from hpc_board.domain.gpus import allowed_gpus, none_allowed
from hpc_board.domain.run import Run
from hpc_board.domain.standing import Page, Place, Record, by_rank
from hpc_board.errors import BoardError, InputError
from hpc_board.files import is_file, is_folder, write_file
from hpc_board.model.task import Task, Template
from hpc_board.model.text import one_line, printable
from hpc_board.report.blocks import Block, Paragraph
from hpc_board.report.blocks import Tone as ReportTone
from hpc_board.report.formatting import RANKING_WORDS, count_text, score_text
from hpc_board.report.tasks import hidden_text, rules_report
from hpc_board.tui import local_files, targets
from hpc_board.tui.formatting import languages, time_left
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.screens.base import NOTHING_SELECTED, SORT_HELP, THE_FILE, BoardScreen, Clock
from hpc_board.tui.verbs import app_binding, binding, bindings, page_bindings
from hpc_board.tui.widgets.bars import PageTabs
from hpc_board.tui.widgets.blocks import drawn, entitle, facts, set_style
from hpc_board.tui.widgets.description import Description
from hpc_board.tui.widgets.grid import Column, Grid
from hpc_board.tui.widgets.list_pane import Kind, ListPane
from hpc_board.tui.widgets.text_pane import SourceText, SourceView

_PARTS = tuple((part.lower(), part) for part in ("Description", "Reference", "Starter"))
_PAUSE = timedelta(seconds=5)
"""The interval of reads of the task folders, which change rarely and may be on a slow file system."""

_START = " · start here"

_LIST_SHARES = (0.4, 0.65)
"""The least and the greatest share of a wide screen for the list."""

_EDGES = 2
"""The cells of a panel's left and right edge."""

_BELOW_EDGES = 3
"""The lines of a code below the description that are not its own: its upper edge, a scrollbar, an empty line."""

_BOARD_ROWS = 10
_PLOT_LINES_MIN = 14
_PLOT_EDGES = 3
"""The lines of a plot that are not its own: its title, and its axis with the texts below."""


class _Ranks(msgspec.Struct, frozen=True):
    """The boards of a task, one per GPU, and the records of the one of most users, if there is room for them."""

    boards: tuple[Page, ...]
    records: tuple[Record, ...] = ()


class TasksScreen(BoardScreen):
    """The first screen: a list of tasks; for the selected one the description, the code and the user's ranks."""

    # The filter, which comes before the list, would take the letters.
    AUTO_FOCUS = "#tasks"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", show=False),
        binding("submit", "Open the form with your latest file, here first"),
        binding("standings"),
        app_binding("runs"),
        app_binding("feed"),
        binding("filter"),
        binding("write"),
        binding("edit", "Edit your latest file or the starter, then open the form"),
        binding("watch", "Submit your latest file or the starter on every save"),
        *bindings("panel", "sort", "reverse"),
        binding("copy", "Copy the shown text to the clipboard"),
        binding("refresh", "Reload the task folders", action="reload", show=False),
        *page_bindings(_PARTS),
    ]
    HELP: ClassVar[str] = (
        "A submission is one file with a kernel. The judge runs it on the cluster's GPUs, checks each answer and times "
        "each call; a board ranks the fastest passing run of each user. W writes the starter of a task, whose first "
        "line names the task; `hpc-board kernel.py` opens the app with that file in the form. Runs continue after "
        "you quit.\n\n"
        "Enter opens the selected task, Esc goes back to the list; s opens the form with a file for it. Rank and best "
        "are your best over all GPUs; the details list each GPU. A colour marks deadlines within a day. While you type "
        "after /, the task with the best matching name is selected; Enter keeps the filter, Esc clears it. "
        f"{SORT_HELP}"
    )

    grid = getters.query_one("#tasks", Grid)
    pane: getters.query_one[ListPane[Task]] = getters.query_one(ListPane)
    about = getters.query_one("#about", VerticalScroll)
    places = getters.query_one("#places", Static)
    board_panel = getters.query_one("#board", Static)
    tabs = getters.query_one(PageTabs)
    parts = getters.query_one("#part", ContentSwitcher)
    description = getters.query_one(Description)

    def __init__(self, board: Board, now: Clock, target: targets.Tasks) -> None:
        super().__init__(board, now, target)
        self._catalog: Catalog | None = None
        self._none_allowed: Mapping[str, InputError] = {}
        """The reasons of the tasks that no GPU of the board may run."""
        self._own: Mapping[tuple[str, str], Place] | None = None
        """The user's best places by task and version; None before the board has told them."""
        self._known_places: dict[str, _Ranks] = {}
        """The user's ranks in the tasks that were shown before."""
        self._shown: str | None = None
        """The task beside the list, which is the selected one once the cursor rests."""
        self._drawn: tuple[list[Block], Size] | None = None
        """The blocks in the panel of the boards, and its size; an update sends all of it to the terminal."""
        self._looked_at = now()
        self._returns = False
        """True if an earlier session has selected a task."""

    def compose_body(self) -> ComposeResult:
        self.action_reload()
        with Container(id="panes"):
            with Container(id="list"):
                kind = Kind(
                    self._columns,
                    key=lambda task: task.name,
                    filter_words="words of a name, a language, GPUs or the first line",
                    searched=_searched,
                    nothing=self._nothing,
                    title="Tasks",
                )
                yield ListPane(kind, id="task-list", grid_id="tasks")
                yield Static(id="board", classes="panel", markup=False)
            with VerticalScroll(id="about", classes="panel"):
                yield Static(toned("Loading the tasks …", Tone.MUTED), id="facts", markup=False)
                yield Static(id="places", markup=False)
                yield PageTabs(_PARTS)
                with ContentSwitcher(initial="description", id="part"):
                    yield Description(id="description")
                    yield SourceView("Reference", view="reference-lines", id="reference", framed=False)
                    yield SourceView("Starter", view="starter-lines", id="starter", framed=False)

    def begin(self) -> None:
        self.show_place("Tasks")
        self.tabs.display = False
        self._returns = bool(selected := self.memory.get("tasks", self._selected_key, ""))
        self.pane.select_once_read(selected)
        self.grid.focus()

    def fit_body(self) -> None:
        had_board = self.board_panel.display
        self._divide()
        self._show_code()
        if self.board_panel.display and not had_board and self._shown is not None and (task := self._selected):
            self._ask_places(task)

    def on_screen_resume(self) -> None:
        super().on_screen_resume()
        self._ask_own()

    def look_again(self) -> None:
        if not self.rests:
            self._look(patient=True)

    @property
    def rests(self) -> bool:
        return self.now() - self._looked_at < _PAUSE

    def action_reload(self) -> None:
        self._look(patient=False)

    def _look(self, *, patient: bool) -> None:
        self._looked_at = self.now()
        self.ask("tasks", self._read, self._show_tasks, failed=self._show_no_tasks, patient=patient)
        self._ask_own()

    def _read(self) -> tuple[Catalog, Mapping[str, InputError]]:
        """Read the tasks, and the reasons of those that no GPU of the board may run."""
        catalog, gpus = self.board.tasks.catalog(), self.board.gpus.all()
        return catalog, {task.name: none_allowed(task, gpus) for task in catalog.tasks if not allowed_gpus(task, gpus)}

    def action_submit(self) -> None:
        if self.grid.current is None:
            self.lead_to(targets.Submit())
        else:
            self.submit_latest_of(self.grid.current)

    def action_standings(self) -> None:
        if self.grid.current is not None:
            self.lead_to(targets.Standings(self.grid.current))

    def action_filter(self) -> None:
        self._set_reading(is_reading=False)
        super().action_filter()

    def action_turn(self, step: int) -> None:
        parts = [part for part, _ in _PARTS]
        self.action_show(parts[(parts.index(self.parts.current or parts[0]) + step) % len(parts)])

    def action_show(self, part: str) -> None:
        self.tabs.show_page(part)
        self.parts.current = part
        # The class gives code more lines.
        self.about.set_class(part != "description", "-code")
        self._show_code()
        if self.has_class("-reading"):
            self._reader.focus()

    def _go_to_list(self) -> None:
        # A list that is not shown takes no focus.
        self._set_reading(is_reading=False)
        self.grid.focus()

    def action_write(self) -> None:
        if (task := self._selected) is not None:
            self.forget_failure("write")
            self._ask_path(task, local_files.starter_file(self.memory, task))

    def _ask_path(self, task: Task, path: Path) -> None:
        from hpc_board.tui.screens.dialogs import AskLines, Line

        languages = dict.fromkeys(Template(name).language for name in task.templates)
        question = f"Write the starter of {task.name} ({' or '.join(each.extensions[0] for each in languages)}):"
        lines = [Line("File", str(path), needed=True, is_path=True)]
        ask = AskLines(question, lines, "Write", check=partial(_check_path, task))
        self.app.push_screen(ask, partial(self._take_path, task))

    def _take_path(self, task: Task, lines: tuple[str, ...] | None) -> None:
        from hpc_board.tui.screens.dialogs import Confirm
        from hpc_board.tui.widgets.form import expanded

        if lines is None:
            return
        path = expanded(lines[0])
        exists = is_file(path)

        def write(yes: bool | None) -> None:
            if yes:
                self.ask("write", lambda: _written(path, task, force=exists), self._tell_written)
            else:
                self._ask_path(task, path)

        if exists:
            question = f"{path} already exists. Replace it?"
            self.app.push_screen(Confirm(question, "Replace it", "Keep it", destroys=True), write)
        else:
            write(True)

    def _tell_written(self, starter: Path) -> None:
        self.remember_folder(starter)
        self.notify(f"Starter written to {starter}.")

    def action_edit(self) -> None:
        self._on_latest("edit", self.edit_file_of, self.edit_starter_of)

    def action_watch(self) -> None:
        self._on_latest("watch", self.watch_file_of, self._watch_starter)

    def _on_latest(self, subject: str, on_run: Callable[[Run, Path], None], on_starter: Callable[[Task], None]) -> None:
        """Pass the user's latest run of the task and its file to `on_run`, without one the task to the other."""
        if (task := self._selected) is None:
            return

        def act(found: tuple[Run, Path] | None) -> None:
            if found is None:
                on_starter(task)
            else:
                on_run(*found)

        self.ask(subject, partial(self.latest_of, task.name), act, whom=THE_FILE)

    def _watch_starter(self, task: Task) -> None:
        from hpc_board.domain.draft import SubmissionRequest
        from hpc_board.runs.drafts import read_source

        def watch(found: tuple[Path, bool, tuple[str, ...]]) -> None:
            file, is_new, gpus = found
            if gpus:
                self.lead_to(targets.Watch(file, task.name, gpus))
            else:
                self.lead_to(targets.Submit(task.name, file=file))
                self.notify_after_opening("Choose the GPUs, then press Watch.")
            if is_new:
                self.remember_folder(file)
                self.notify_after_opening(f"Starter written to {file}.")

        def question() -> tuple[Path, bool, tuple[str, ...]]:
            file, is_new = local_files.of_task(local_files.starter_file(self.memory, task), task)
            try:
                previews = self.board.submissions.preview([SubmissionRequest(read_source(file), task.name)])
            except BoardError:
                return file, is_new, ()  # the form has the fault
            return file, is_new, tuple(preview.gpu.name for preview in previews)

        self.ask("watch", question, watch)

    def action_copy(self) -> None:
        task = self._selected
        if task is None:
            return
        part = self.parts.current or "description"
        text = task.description if part == "description" else _code(task, part).text
        self.app.copy_to_clipboard(text)
        self.notify(f"Copied the {part} of {task.name}.")

    def action_back(self) -> None:
        for subject in ("preferences", "write", "edit", "watch"):
            self.forget_failure(subject)
        if self.has_class("-reading"):
            self._go_to_list()
            return
        if self.pane.is_filtered:
            self.pane.narrow("")
        self.grid.focus()

    def reason_against(self, action: str) -> str:
        if action in ("sort", "reverse") and self.has_class("-reading"):
            return "Esc leads to the list, which has an order."
        if action in ("write", "edit", "watch") and (self._selected is None or not self._selected.templates):
            return NOTHING_SELECTED if self._selected is None else "This task has no starter."
        return super().reason_against(action)

    @property
    def _reader(self) -> Widget:
        """Return the widget that scrolls the shown part of the task."""
        part = self.parts.current
        return self.query_one(f"#{part}-lines") if part in ("reference", "starter") else self.about

    @property
    def _selected(self) -> Task | None:
        return self.pane.selected if self._catalog else None

    def _ask_own(self) -> None:
        """Read the user's ranks, which are shown in the list of tasks, and the boards of the selected one."""
        if self._catalog is not None:
            self.ask("own", self.board.standings.places, self._show_own, patient=True)
        if self._shown is not None and (task := self._selected) is not None:
            self._ask_places(task, patient=True)

    def _ask_places(self, task: Task, *, patient: bool = False) -> None:
        question = partial(self._places_of, task, has_board=self._has_board)
        self.ask("places", question, partial(self._take_places, task.name), patient=patient)

    def _show_no_tasks(self, error: BoardError) -> None:
        """Show that there is no data, if the tasks have never been read."""
        self.pane.fail(error)
        if self._catalog is None:
            self.query_one("#facts", Static).update("")

    def _show_tasks(self, answer: tuple[Catalog, Mapping[str, InputError]]) -> None:
        before, selected, names = self._catalog, self._selected, [column.key for column in self._columns]
        catalog, self._none_allowed = answer
        self._catalog = catalog
        if [column.key for column in self._columns] != names:
            self.pane.set_columns(self._columns)
        if catalog.faults:
            self.fail("faults", catalog.faults[0])
        else:
            self.forget_failure("faults")
        self._show_rows()
        # An unchanged description keeps its scroll position.
        if before is None:
            self.query_one("#facts", Static).update("")
            self._show_selected()
            self._ask_own()
        elif self._selected != selected:
            self._show_selected()

    def _show_own(self, places: Sequence[Place]) -> None:
        best: dict[tuple[str, str], Place] = {}
        for place in sorted(places, key=lambda place: by_rank(place, place.users)):
            best.setdefault((place.task, place.task_version), place)
        if best != self._own:
            is_first, self._own = self._own is None and not self._returns, best
            self._show_rows(next((task.name for task in self._tasks if is_first and self._starts(task)), None))

    @on(ListPane.Selected)
    def _select(self) -> None:
        self._divide()
        self._show_selected()
        self.about.scroll_home(animate=False)

    @on(ListPane.Chosen)
    def _open(self) -> None:
        """Read the selected task: in the place of the list on a narrow terminal, beside it on a wide one."""
        # Before the list leaves, which has the focus.
        self._reader.focus()
        self._set_reading(is_reading=True)

    @on(events.DescendantFocus)
    def _end_reading(self, event: events.DescendantFocus) -> None:
        if self.pane in event.widget.ancestors:
            self._set_reading(is_reading=False)

    def _set_reading(self, *, is_reading: bool) -> None:
        self.set_class(is_reading, "-reading")
        self._show_place()
        self.about.border_subtitle = toned("Esc: list" if is_reading else "")
        self.refresh_bindings()

    def _show_place(self) -> None:
        task = self._selected if self.has_class("-reading") else None
        self.show_place(*(("Tasks", task.name) if task else ("Tasks",)))

    @property
    def place(self) -> tuple[str, ...]:
        # Without the task: a run that is opened from here may be of another one.
        return ("Tasks",) if self.has_class("-reading") else ()

    def _take_places(self, task: str, ranks: _Ranks) -> None:
        before = self._known_places.get(task)
        self._known_places[task] = ranks
        if ranks != before and task == self._shown:
            self._show_places(ranks)

    def _show_places(self, ranks: _Ranks | None) -> None:
        if (none := self._none_allowed.get(self._shown or "")) is not None:
            self.places.update(toned(f"{none.message} {none.hint}", Tone.BAD, 300))
        else:
            self.places.update(toned("Loading your ranks …", Tone.MUTED) if ranks is None else _places(ranks.boards))
        self._draw_board()

    @property
    def _has_board(self) -> bool:
        """Return whether the screen has room for the board of the selected task below the list."""
        return self.has_class("-wide", "-high")

    def _draw_board(self) -> None:
        """Draw the boards that have room below the list, those of most users first, and the best times of the first."""
        if not self.board_panel.display:
            return
        from hpc_board.report.histories import plot_lines, records_plot, records_span
        from hpc_board.report.plots import text_plot
        from hpc_board.report.standings import board_report

        task, now = self._shown or "", self.now()
        entitle(self.board_panel, toned(f"Board {task}", limit=60))
        ranks = self._known_places.get(task)
        size = self.board_panel.size
        shown: list[Block] = []
        if ranks is None or not (boards := _by_users(ranks.boards)):
            found = next((each for each in self._tasks if each.name == task), None)
            if ranks is not None and found is not None:
                words = "No results yet: e writes a starter and edits it, s submits a file."
                shown.append(Paragraph(words, ReportTone.QUIET))
                # Their bytes take a fifth of a second at 1 Mbit/s: where there is less room, they are not worth it.
                if self.has_class("-huge"):
                    shown += rules_report(found, [board.gpu for board in ranks.boards], now)
        else:
            options = self.app.console_options.update_width(size.width)
            room = size.height
            for board in boards:
                report = [*shown, *board_report(task, board, self.board.user, more="b shows all.", now=now)]
                left = size.height - len(self.app.console.render_lines(drawn(report), options))
                if shown and left < _PLOT_LINES_MIN:
                    break
                shown, room = report, left
            if len(ranks.records) > 1 and room >= _PLOT_LINES_MIN:
                picture = records_plot(ranks.records, records_span([ranks.records], now), reference=boards[0].reference)
                plot = text_plot(picture, size.width, plot_lines(len(ranks.records), room) - _PLOT_EDGES)
                shown.append(replace(plot, title=f"{boards[0].gpu}: {plot.title}"))
        if (shown, size) != self._drawn:
            self._drawn = shown, size
            self.board_panel.update(drawn(shown))

    @property
    def _tasks(self) -> tuple[Task, ...]:
        return () if self._catalog is None else self._catalog.tasks

    @property
    def _selected_key(self) -> str:
        """The key of the last selected task in the memory: each board has its own."""
        return f"selected on {self.board.address}"

    def _starts(self, task: Task) -> bool:
        """Return whether this task is the one to begin with, until the user has a rank on it."""
        return task.start_here and self._own is not None and task.name not in {name for name, _ in self._own}

    def _show_rows(self, select: str | None = None) -> None:
        if self._catalog is not None:
            # Among equal tasks, such as those without a time, the given order holds.
            self.pane.show_all(sorted(self._tasks, key=lambda task: not self._starts(task)), select=select)
            self._divide()

    def _divide(self) -> None:
        """Give the list beside a task the width that its columns need, within bounds; an empty one has all of it.

        A list above the task, or above its board on a high screen, has the height of its rows.
        """
        self.set_class(self.pane.is_empty, "-nothing")
        panel = self.query_one("#list")
        is_shared = self._has_board and not self.pane.is_empty
        self.board_panel.display = is_shared
        is_above = self.has_class("-narrow") and bool(self._tasks) and not self.pane.is_empty
        set_style(panel, "height", "auto" if is_above else None)
        self.pane.set_height(0 if is_shared or is_above else None)
        self.call_after_refresh(self._draw_board)
        if not self.has_class("-wide") or self.has_class("-nothing"):
            set_style(panel, "width", None)
            return
        least, most = (round(share * self.size.width) for share in _LIST_SHARES)
        panel.styles.width = max(least, min(self.grid.full_width + _EDGES, most))

    @property
    def _columns(self) -> tuple[Column, ...]:
        """Return the columns, without those in which all tasks are the same."""
        gpus, best, rank = self._gpus_of, self._own_best, self._own_rank
        columns = (
            Column(
                "task", "Task", 10, self._named, lambda task: (not self._starts(task), task.name), grows=True, most=24
            ),
            Column("language", "Lang", 5, lambda task: toned(languages(task), Tone.MUTED), languages),
            Column(
                "gpus", "GPUs", 5, lambda task: toned(gpus(task) or "all", Tone.MUTED), gpus, from_width=50, most=32
            ),
            Column("best", "Your best", 9, lambda task: toned(score_text(best(task)), Tone.OWN), best, right=True),
            Column(
                "rank",
                "Rank",
                5,
                lambda task: toned(f"#{rank(task)}" if rank(task) else "", Tone.OWN),
                rank,
                right=True,
            ),
            Column("left", "Deadline", 9, self._left, attrgetter("deadline"), right=True),
        )
        told = {
            "gpus": not self._tasks or any(map(gpus, self._tasks)),
            "left": any(task.deadline for task in self._tasks),
        }
        return tuple(column for column in columns if told.get(column.key, True))

    def _named(self, task: Task) -> Text:
        return toned(task.name).append(_START if self._starts(task) else "", Tone.GOOD.value)

    def _left(self, task: Task) -> Text:
        return toned(*time_left(task.deadline, self.now()))

    def _gpus_of(self, task: Task) -> str | None:
        return "none here" if task.name in self._none_allowed else " ".join(task.gpus) or None

    def _own_best(self, task: Task) -> float | None:
        return own.score_s if (own := self._own_of(task)) else None

    def _own_rank(self, task: Task) -> int | None:
        return own.rank if (own := self._own_of(task)) else None

    def _own_of(self, task: Task) -> Place | None:
        # A version is the hash of all files, which the first list need not wait for.
        return self._own.get((task.name, task.version)) if self._own else None

    def _show_selected(self) -> None:
        task = self._selected
        if self.has_class("-reading"):
            if task is None:
                self._go_to_list()
            self._show_place()
        self.tabs.display = task is not None
        self._shown = None if task is None else task.name
        self.about.border_title = toned(self._shown or "", limit=60)
        if task is None:
            self.query_one("#facts", Static).update("")
            self.places.update("")
            self.description.show("")
            self.action_show("description")
            self.refresh_bindings()
            return
        self.memory.set("tasks", self._selected_key, task.name)
        self.query_one("#facts", Static).update(self._facts(task))
        # The last known ranks have the height of the next ones, and a change of it lays the screen out.
        self._show_places(self._known_places.get(task.name))
        self.description.show(printable(task.description))
        self._show_code()
        self._ask_places(task)

    def _nothing(self) -> str:
        return "" if self._catalog is None else "No tasks yet.\nList their folders under `tasks` in the settings."

    def _show_code(self) -> None:
        """Show the code of the part; a huge screen has the reference or the starter below the description, too."""
        task, part = self._selected, self.parts.current
        if task is None or part is None:
            return
        below = None
        if part == "description" and self.has_class("-huge"):
            below = next((name for name in ("reference", "starter") if _code(task, name).text), None)
        for name in ("reference", "starter"):
            view = self.query_one(f"#{name}", SourceView)
            view.display = name in (part, below)
            view.set_class(name == below, "-below")
            if view.display:
                self._show_source(task, name, view)
            lines = len(view.text.splitlines()) + _BELOW_EDGES
            set_style(view, "height", lines if name == below else None)

    @staticmethod
    def _show_source(task: Task, part: str, view: SourceView) -> None:
        if part == "reference" and task.published_version:
            view.say("The service does not publish the reference.")
        elif part == "starter" and not task.templates:
            view.say("This task has no starter; its description specifies the submission.")
        else:
            view.subject = f"the {part} of {task.name}"
            view.show_source(_code(task, part))

    def _facts(self, task: Task) -> Table:
        left, _ = time_left(task.deadline, self.now())
        ranked_by = RANKING_WORDS[task.ranking_by].removesuffix(" of the benchmarks")
        tests, benchmarks = count_text(len(task.tests), "test"), count_text(len(task.benchmarks), "benchmark")
        hidden = hidden_text(task)
        return facts(
            [
                ("Deadline", f"{moment_words(task.deadline)} ({left})" if task.deadline else ""),
                ("Languages", ", ".join(task.accepted) if len(task.accepted) > 1 else ""),
                ("Cases", f"{tests}, {benchmarks}, ranked by {ranked_by}"),
                ("Hidden cases", f"{hidden}, in ranked runs" if hidden else ""),
                ("Inputs to prepare", one_line(", ".join(map(str, task.prepare)))),
                ("Means", task.means.words()),
            ]
        )

    def _places_of(self, task: Task, *, has_board: bool) -> _Ranks:
        gpus = [gpu.name for gpu in self.board.gpus.allowed(task)]
        standings = self.board.standings
        boards = tuple(standings.pages(task.name, gpus, limit=_BOARD_ROWS if has_board else 1))
        shown = _by_users(boards)[:1] if has_board else []
        return _Ranks(boards, standings.records(task.name, shown[0].gpu) if shown else ())


def _searched(task: Task) -> str:
    first = next((line for line in task.description.splitlines() if line.strip(" #")), "")
    return " ".join((task.name, *map(str, task.accepted), *task.gpus, first)).casefold()


def _code(task: Task, part: str) -> SourceText:
    """Return the reference or the starter of a task, empty if it has none."""
    from hpc_board.catalog.template import reference_file

    if part == "starter":
        name = local_files.starter_name(task)
        return SourceText(local_files.starter_text(task, name) if task.templates else "", name)
    reference = reference_file(task)
    return SourceText(reference.text or "", reference.name) if reference else SourceText("", "")


def _check_path(task: Task, lines: tuple[str, ...]) -> None:
    """Raise an InputError if the starter of a task cannot be written to the path on the only line."""
    from hpc_board.tui.widgets.form import expanded

    (words,) = lines
    if words.endswith("/") or is_folder(expanded(words)):
        raise InputError(f"{words} is a folder: enter the name of a file in it.", hint="")
    local_files.starter_text(task, words)


def _written(path: Path, task: Task, *, force: bool) -> Path:
    try:
        write_file(path, local_files.starter_text(task, path.name).encode(), force=force)
    except InputError as error:
        raise InputError(error.message, hint="Press W and enter another path.") from error
    return path


def _by_users(boards: Sequence[Page]) -> list[Page]:
    """Return the boards with results, those of most users first."""
    return sorted((board for board in boards if board.rows), key=lambda board: -board.total)


def _places(boards: Sequence[Page]) -> Text:
    """Return a line for each board with results: the user's rank and score, and the best score; one for all others."""
    known = [board for board in boards if board.rows]
    width = max((len(board.gpu) for board in known), default=0) + 2
    has_own = any(board.own for board in known)
    lines = []
    for board in known:
        line = Text.assemble((board.gpu.ljust(width), Tone.MUTED.value))
        if board.own is not None:
            line.append(f"#{board.own.rank:<3}  {score_text(board.own.score_s):>9}", Tone.OWN.value)
        elif has_own:
            line.append(f"{'-':<4}  {'':>9}")
        for best in board.rows[:1]:
            users = "1 user" if board.total == 1 else f"{board.total} users"
            how_many = f"  of {board.total}" if has_own else users
            line.append(f"{how_many}, best {score_text(best.score_s)} by ", Tone.MUTED.value)
            line.append_text(toned(best.user, Tone.MUTED, 24))
        lines.append(line)
    if empty := [board.gpu for board in boards if not board.rows]:
        where = empty[0] if len(empty) == 1 else count_text(len(empty), "GPU")
        lines.append(toned(f"no results on {where}", Tone.MUTED))
    return Text("\n").join(lines)
