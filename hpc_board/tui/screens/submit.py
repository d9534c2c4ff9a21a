"""The submit form: file, task, GPUs and mode, with a preview of the batch script."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace
from rich.text import Text
from textual import events, getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, Vertical, VerticalScroll
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Button, Input, Label, Select, Static

from hpc_board.board import Board
from hpc_board.board.code_diff import LINES_MAX, head_of, text_diff
from hpc_board.domain.budget import default_budget, left_text
from hpc_board.domain.catalog import Catalog
from hpc_board.domain.clock import span_words
from hpc_board.domain.code_tokens import tokens_sha256
from hpc_board.domain.draft import Preview, Source, SubmissionRequest
from hpc_board.domain.gpus import none_allowed
from hpc_board.domain.job_options import NO_OPTIONS, OptionRules, parsed
from hpc_board.domain.origin import default_origin
from hpc_board.domain.run import Run, RunState
from hpc_board.domain.standing import Page
from hpc_board.domain.submission import Directives
from hpc_board.errors import BoardError, InputError
from hpc_board.files import is_file, is_folder, shown_path
from hpc_board.model.gpu import Gpu, GpuStatus
from hpc_board.model.names import suggestion
from hpc_board.model.task import Language, Mode, Task, Template, language_of
from hpc_board.model.text import printable
from hpc_board.report.formatting import count_text, score_text
from hpc_board.report.run_words import start_text
from hpc_board.runs.drafts import header, read_source, sanitizers
from hpc_board.schedulers import kind_of
from hpc_board.tui import local_files, targets
from hpc_board.tui.choice import Choice
from hpc_board.tui.formatting import MODE_HELP, holding, listing, time_left
from hpc_board.tui.local_files import remember_sent
from hpc_board.tui.messages import Chosen, Open, RunsState
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.screens.base import HOLD_KEY, THE_FILE, THE_SCHEDULER, BoardScreen, Clock
from hpc_board.tui.screens.dialogs import PickFile
from hpc_board.tui.verbs import binding
from hpc_board.tui.widgets.bars import KeyLine
from hpc_board.tui.widgets.blocks import entitle
from hpc_board.tui.widgets.description import Description
from hpc_board.tui.widgets.form import GpuList, OptionsInput, PathInput, PreviewPane, TypedSelect, completion, files_in
from hpc_board.tui.widgets.list_pane import LOADING
from hpc_board.tui.widgets.text_pane import SourceText, SourceView

_CHECKS = ("tasks", "options", "allowed", "header", "draft")
_FORM_SUBJECTS = (*_CHECKS, "send")

_BESIDE_GPUS = 30
"""The lines of a wide, high screen that are not for the list of GPUs."""

_FILES_SHOWN = 4
"""The names of files that an empty field shows."""

_NO_SCRIPT = "The batch script appears here once file, task and GPU are chosen."

_TYPING_SECONDS = 0.3
"""The pause in typing after which a field is checked."""


class SubmitScreen(BoardScreen):
    """A form that is checked on every change, with the batch script beside it or one key away."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "send", "Submit", priority=True, tooltip="Submit one job for each ticked GPU"),
        Binding("ctrl+o", "browse", "Browse", priority=True, tooltip="Pick the file from a tree of folders"),
        Binding("ctrl+g", "preview", "Script", priority=True, tooltip="Switch between the form and the batch script"),
        binding("edit", "Edit the file in $VISUAL or $EDITOR (on the GPUs or a button)", action="edit(False)"),
        Binding("f4", "edit", "Edit", priority=True, tooltip="Edit the file in $VISUAL or $EDITOR"),
        binding("submit", "Submit (on the GPUs or a button)", action="send(False)", id="submit.send_letter"),
        binding("watch", "Submit the file on every save (on the GPUs or a button)"),
        binding("mode", "Choose the next mode (on the GPUs or a button)"),
        HOLD_KEY,
        binding("refresh", "Query the schedulers and the board again", action="ask_gpus", show=False),
    ]
    ACTIONS: ClassVar[tuple[str, ...]] = (*BoardScreen.ACTIONS, "send")
    OPENINGS: ClassVar[tuple[str, ...]] = (*BoardScreen.OPENINGS, "folders")
    SHOWN_BESIDE: ClassVar[tuple[str, ...]] = ("header", "code", "draft")
    HELP: ClassVar[str] = (
        "Tab accepts a grey completion, or else moves between the fields; in File, Down and Up go through the files "
        "of the folder. Space ticks a GPU, * ticks all. In Task and "
        "Mode, letters select the next choice that begins with them. "
        "Options are those of the command `submit`, such as qos=night time=5 sbatch=--comment=x; Tab completes them. "
        "A header in the file (#!POPCORN leaderboard TASK, #!POPCORN gpus A B) chooses task and GPUs. `python?` marks "
        "a GPU whose Python is missing on this machine; `hpc-board gpus` names it. `start` is the expected start of "
        "this board's last waiting run on a GPU. Lines of the script that come from extra options of the settings are "
        "highlighted. Watch submits the file on every save, in mode test, benchmark or ranked."
    )

    options_input = getters.query_one("#options", OptionsInput)
    path_input = getters.query_one("#file", PathInput)
    task_select: getters.query_one[TypedSelect[str]] = getters.query_one("#task", TypedSelect)
    gpu_list = getters.query_one(GpuList)
    status = getters.query_one("#status", Static)
    preview = getters.query_one(PreviewPane)
    code = getters.query_one("#file-code", SourceView)

    def __init__(self, board: Board, now: Clock, target: targets.Submit) -> None:
        super().__init__(board, now, target)
        self._start = self._choice = target.choice or Choice()
        self._of_run = target.of_run
        self._taken: Choice | None = None
        """The draft that the app took when another screen was opened above; a newer form may have replaced it."""
        self._blamed: Choice | None = None
        """The choice whose options the board has refused."""
        self._tasks: Mapping[str, Task] = {}
        self._gpus: tuple[Gpu, ...] = ()
        self._none_allowed: BoardError | None = None
        """The reason if no GPU of the board may run the task."""
        self._statuses: dict[str, GpuStatus] | None = None
        self._expected: Mapping[str, datetime] = {}
        self._typing: Timer | None = None
        self._ready = ""
        self._again = ""
        """The effect of the submission on the score that its code has."""
        self._header: Directives | None = None
        self._set_aside: tuple[str, ...] = ()
        """The ticked GPUs before a header chose others."""
        self._unsettled = False
        """True while the choice has GPUs of a header that are not yet checked against those of the task."""
        self._has_chosen = False
        """True once the user has chosen the task or GPUs, which a header chooses too."""
        self._files_here: Sequence[str] = ()
        """The files in the working folder that can be submitted."""
        self._is_refused = False
        """True after a key that needs a complete form, until the next change."""
        self._wanted: Choice | None = None
        """The contents to submit once the header of the file is read; a header that changes them ends that."""
        self._placed: Widget | None = None
        """The widget with the first focus, until the checks of the first contents have all been answered."""
        self._read_code: tuple[Path | None, str | None] | None = None
        """The file and the task of the code that was read last; None once the file may have changed."""
        self._left: Widget | None = None
        """The focused widget of the form before the focus went to the script."""

    def compose_body(self) -> ComposeResult:
        start = self._choice
        with Container(id="panes"):
            with VerticalScroll(id="form", classes="panel", can_focus=False):
                file = PathInput(value=str(start.file or ""), id="file")
                browse = Button("Browse", id="browse", action="screen.browse", compact=True)
                edit = Button("Edit", id="edit", action="screen.edit", compact=True)
                edit.can_focus = False  # F4 edits from each field
                yield _row("field", "File", file, browse, edit, id="file-field")
                yield _row("below", "", Static(id="file-note", markup=False))
                # The name is known before the board has told its tasks.
                known = [] if start.task is None else [(toned(start.task).plain, start.task)]
                tasks = TypedSelect[str](known, prompt="loading the tasks …", compact=True, id="task")
                yield _row("field", "Task", tasks)
                modes = [(f"{mode:<9}  {words}", mode) for mode, words in MODE_HELP.items()]
                mode = TypedSelect(modes, value=start.mode, allow_blank=False, compact=True, id="mode")
                yield _row("field", "Mode", mode)
                note = Input(value=start.note, placeholder="optional", compact=True, id="note")
                yield _row("field", "Note", note)
                yield _row("field", "GPUs", GpuList(compact=True, markup=False, id="gpus"), id="gpu-field")
                yield _row("field", "Options", OptionsInput(value=start.options, id="options"), id="options-field")
                yield _row("below", "", Static(id="options-note", markup=False))
                with Vertical(id="foot"):
                    yield Static(id="status", markup=False)
                    with Horizontal(id="buttons"):
                        yield Button("Submit", id="send", action="screen.send", variant="primary", compact=True)
                        yield Button("Watch", id="watch", action="screen.watch", compact=True)
                        yield Button("Show the script", id="show-script", action="screen.preview", compact=True)
            with VerticalScroll(id="about", classes="panel"):
                yield Description(id="description")
            yield PreviewPane(id="preview", classes="panel")
            yield SourceView(view="file-lines", id="file-code")

    def begin(self) -> None:
        self.show_place(*(() if self.way else ("Tasks",)), "Submit")
        self.query_one("#form").border_title = "Submission"
        self.preview.border_title = "Job"
        if self._choice.file is None:
            self.path_input.focus()
            self.ask("files", lambda: files_in(""), self._show_files, whom=THE_FILE)
        else:
            # The letters are keys there: s submits, e edits.
            self._placed = self.query_one("#send") if self._choice.gpus else self.query_one(GpuList)
            self.set_focus(self._placed)
        self.path_input.cursor_position = len(self.path_input.value)
        if self._choice.task is not None:
            with self.prevent(Select.Changed):
                self.task_select.value = self._choice.task
        self.ask("options", self.board.submissions.option_rules, self._show_rules)
        self._ask_gpus()
        self._read_header(self.path_input.path)

    @property
    def busy(self) -> bool:
        return super().busy or self._typing is not None

    def action_ask_gpus(self) -> None:
        def check(rules: OptionRules) -> None:
            self._blamed = None
            self._show_rules(rules)
            self._check()

        self._ask_gpus()
        self.ask("options", self.board.submissions.option_rules, check)

    def _ask_gpus(self) -> None:
        def question() -> tuple[Sequence[GpuStatus], Mapping[str, datetime]]:
            return self.board.gpus.statuses(), _expected(self.board.runs.in_flight())

        self.ask("tasks", self.board.tasks.catalog, self._show_tasks)
        self.ask("gpus", question, self._show_availability, whom=THE_SCHEDULER)

    def action_browse(self) -> None:
        def take(file: Path | None) -> None:
            if file is not None:
                self.path_input.offer(str(file))
                self._change(replace(self._choice, folder=file.parent))
                self.post_message(Chosen(self._choice))

        self.app.push_screen(PickFile(self._choice.folder), take)

    def action_edit(self, to_field: bool = True) -> None:
        self._finish_file()
        choice, file = self._choice, self._choice.file
        if (start := self._to_start) is not None:
            task, starter = start
            self.post_message(Chosen(choice))
            self.edit_starter_of(task, choice.gpus, choice.mode, starter)
            return
        if file is None:
            if (run := self._to_copy) is not None:
                self.edit_file_of(run)
            else:
                self._refuse(to_field)
            return

        def edit(exists: bool) -> None:
            if file != self._choice.file or not self.is_current:
                return
            if exists:
                self.post_message(Chosen(choice))
                self.post_message(Open(targets.Edit(file, choice.task, choice.gpus, choice.mode)))
            else:
                self._read_header(file)
                self.path_input.focus()

        self.ask("edit", lambda: is_file(file), edit, whom=THE_FILE)

    def action_watch(self) -> None:
        self._finish_file()
        choice = self._choice
        if choice.file is None or choice.task is None or self.reason_against("watch"):
            self._refuse(to_field=False)
            return
        if self.is_open("header"):
            self._show_status()
            return
        self.post_message(Chosen(choice))
        self.post_message(Open(targets.Watch(choice.file, choice.task, choice.gpus, choice.options, choice.mode)))

    def action_mode(self) -> None:
        modes, choice = list(MODE_HELP), self._choice
        language = language_of(choice.file.name if choice.file else "")
        chosen = [gpu for gpu in self._gpus if gpu.name in choice.gpus]
        if language is not None and not any(sanitizers(gpu.device, language) for gpu in chosen):
            modes = [mode for mode in modes if mode is not Mode.SANITIZE or mode is choice.mode]
        self.query_one("#mode", Select).value = modes[(modes.index(choice.mode) + 1) % len(modes)]

    def action_preview(self) -> None:
        if self.has_class("-preview", "-narrow") or self.preview.has_focus_within:
            self._show_form()
        else:
            self._left = self.focused
            self.add_class("-preview")
            self.query_one("#script").focus()

    def action_send(self, to_field: bool = True) -> None:
        self._finish_file()
        if self.is_open("send") or self.is_open("header"):
            self._wanted = self._choice if self.is_open("header") else None
            self._show_status()
            return
        if self._fault is not None:
            self._refuse(to_field)
            return
        choice = self._choice
        self.ask("send", lambda: self._submit(choice), self._follow, whom=THE_SCHEDULER)
        self._show_status()

    def action_back(self) -> None:
        if self.has_class("-preview", "-narrow"):
            self._show_form()
            return
        if self.awaits_outcome():
            return
        if (draft := self.draft) is not None:
            self.post_message(Chosen(draft))
            if draft.is_begun and self._is_changed:
                where = f" on {draft.task}, in Tasks," if draft.task else ""
                self.notify(f"Draft kept: s{where} opens it again.")
        super().action_back()

    def shows(self, target: targets.Target) -> bool:
        return isinstance(target, targets.Submit)

    @property
    def draft(self) -> Choice | None:
        """Return the contents for the next form; None if they are still those of a run, or taken already."""
        self._finish_file()
        if self._of_run and not self._is_changed:
            return None
        # A header can name a task that the board lacks: the next form has the draft, for the task selected then.
        found = replace(self._choice, task=self._choice.task if self._choice.task in self._tasks else None)
        return None if found == self._taken else found

    @property
    def has_draft(self) -> bool:
        """Return whether the form has more contents than those of a run."""
        # The key that quits is shown before the fields are mounted, too.
        is_typed = any(field.named is not None for field in self.query(PathInput))
        return (is_typed or self._choice.is_begun) and (self._is_changed or not self._of_run)

    def take_draft(self) -> Choice | None:
        """Return the draft, which this form has no more until it changes."""
        draft = self.draft
        self._taken = draft or self._taken
        return draft

    @property
    def key_labels(self) -> Mapping[str, str]:
        return {**super().key_labels, "dismiss": "Back"}

    @property
    def gpu_in_hand(self) -> str | None:
        """Return the GPU under the cursor in the list of GPUs, else the first ticked one."""
        if not self.is_mounted:
            return None
        under_cursor, ticked = self.gpu_list.under_cursor, self._choice.gpus
        return under_cursor if self.gpu_list.has_focus or not ticked else ticked[0]

    def fit_body(self) -> None:
        self._show_status()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Close an open list at a click elsewhere; the keys in the last line are pressed."""
        for select in self.query(Select):
            own = (select, *select.walk_children(Widget), self.query_one(KeyLine))
            if select.expanded and not any(widget.region.contains_point(event.screen_offset) for widget in own):
                select.expanded = False
                select.focus()

    def reason_against(self, action: str) -> str:
        if action != "watch":
            return super().reason_against(action)
        fault = self._fault if self.is_mounted else None
        return fault[1] if fault else self._choice.missing

    def watch_runs_state(self, before: RunsState, runs_state: RunsState) -> None:
        super().watch_runs_state(before, runs_state)
        taking, took = ({each.id for each in state.runners if each.takes_runs} for state in (runs_state, before))
        if before.runners != runs_state.runners:
            self._show_gpus()
        if taking != took:
            self._check()

    def settle(self, subject: str) -> None:
        if subject in _FORM_SUBJECTS:
            self._show_status()
        if subject in ("header", "draft") and self.has_failed(subject):
            self.call_later(self._empty_preview)
        # The answer itself is taken after this, and may ask the next question.
        self.call_later(self._place_focus)

    def look_again(self) -> None:
        self.gpu_list.show_age(self.now())
        if self.is_open("send"):
            self._show_status()

    def show_ages(self) -> None:
        self.look_again()

    # Actions of the user

    @on(Input.Changed, "#file")
    def _name_file(self) -> None:
        self._rest_then(self._read_rested)

    def _read_rested(self) -> None:
        """Read the header of the named file, unless the name is a folder's or the beginning of another."""
        value, named = self.path_input.value, self.path_input.named

        def take(found: str | None) -> None:
            if found is None and self.path_input.value == value and self._choice.file is None:
                self._read_header(named)

        # A field that begins with a file reports it as a change.
        if self.path_input.path != self._choice.file or self.has_failed("header"):
            self._read_header(self.path_input.path)
        if named is not None and self._choice.file is None and not value.endswith("/"):
            self.ask("completion", partial(completion, value), take, whom=THE_FILE)

    @on(Input.Blurred, "#file")
    def _finish_file(self) -> None:
        """Accept the file's name with any extension."""
        if self.path_input.named != self._choice.file:
            self._stop_resting()
            self._read_header(self.path_input.named)

    @on(Input.Changed, "#note")
    def _note(self, event: Input.Changed) -> None:
        self._choice = replace(self._choice, note=event.value.strip())
        self._rest_then(self._check)

    @on(Input.Changed, "#options")
    def _set_options(self, event: Input.Changed) -> None:
        self._choice = replace(self._choice, options=event.value.strip())
        self._show_options()
        self._rest_then(self._check)

    @on(Select.Changed, "#task")
    def _choose_task(self, event: Select.Changed) -> None:
        if isinstance(event.value, str) and event.value != self._choice.task:
            self._has_chosen = True
            self._choice = replace(self._choice, task=event.value)
            self._ask_allowed()
            self._show_status()

    @on(Select.Changed, "#mode")
    def _choose_mode(self, event: Select.Changed) -> None:
        if isinstance(event.value, Mode) and event.value is not self._choice.mode:
            self._change(replace(self._choice, mode=event.value))

    @on(GpuList.Ticked)
    def _tick(self, event: GpuList.Ticked) -> None:
        self._has_chosen = True
        self._choice = replace(self._choice, gpus=event.names)
        self._set_aside = ()
        self._unsettled = False
        self._show_gpus()
        self._check()

    # Answers of the board

    def _show_tasks(self, catalog: Catalog) -> None:
        self._tasks = {task.name: task for task in catalog.tasks}
        with self.prevent(Select.Changed):
            self.task_select.set_options([(toned(name).plain, name) for name in self._tasks])
            self.task_select.prompt = "choose a task" if self._tasks else "no tasks"
        self._show_task()
        self._ask_allowed()
        self._show_status()

    def _show_files(self, names: Sequence[str]) -> None:
        self._files_here = names
        self._show_file_note()

    def _show_rules(self, rules: OptionRules) -> None:
        self.options_input.rules = rules
        self._show_options()

    def _show_allowed(self, task: str, answer: tuple[tuple[Gpu, ...], BoardError | None]) -> None:
        if task != self._choice.task:
            return
        gpus, self._none_allowed = answer
        self._gpus = gpus
        if gpus:
            self.options_input.known = {name for gpu in gpus for name in kind_of(gpu.cluster).job_options}
            self._show_options()
        self._settle_gpus()

    def _show_availability(self, answer: tuple[Sequence[GpuStatus], Mapping[str, datetime]]) -> None:
        statuses, self._expected = answer
        self._statuses = {status.gpu.name: status for status in statuses}
        self._show_gpus()

    @property
    def _asked(self) -> Directives:
        """Return the choices in the file's header; none before it is read."""
        return self._header or Directives()

    def _take_header(self, directives: Directives) -> None:
        self._header = directives
        self._show_file_note()
        self.options_input.header = directives.options
        self._show_options()
        task = directives.leaderboard or self._choice.task
        changed = task != self._choice.task
        before = (() if self._unsettled else self._choice.gpus) or self._set_aside
        self._unsettled = bool(directives.gpus)
        self._set_aside = before if directives.gpus else ()
        self._choice = replace(self._choice, task=task, gpus=directives.gpus or before)
        self._show_task()
        if changed:
            self._ask_allowed()
        elif self._gpus:
            self._settle_gpus()
        else:
            self._check()
        if self._wanted == self._choice:
            self.action_send()

    async def _show_previews(self, answer: tuple[Sequence[Preview], str, Sequence[Page], str]) -> None:
        (previews, left, pages, again), choice = answer, self._choice
        if choice.missing or self.options_input.fault:
            return
        boards = {page.gpu: page for page in pages}
        about = {each.gpu.name: self._facts(each, boards[each.gpu.name]) for each in previews}
        await self.preview.show(previews, about=about)
        names = listing(tuple(each.gpu.name for each in previews))
        count = sum(each.runner is None for each in previews)
        jobs = ["one job" if count == 1 else f"{count} jobs"] if count else []
        jobs += [f"one run at runner {each.runner}" for each in previews if each.runner is not None]
        whose = f" as {self._entrant}" if self._entrant else ""
        mode = f"mode {choice.mode}{whose}"
        # The line has no room for all of it; task and GPUs stand above.
        rest = f"{', '.join(jobs)}, {mode}, {left}" if left else f"{choice.task} on {names}, {mode}: {', '.join(jobs)}"
        self._ready, self._again = f"Ready: {rest}.", again
        self._show_status()

    def _previews(self, choice: Choice, entrant: str) -> tuple[Sequence[Preview], str, Sequence[Page], str]:
        """Return the previews, the rest of the budget, the best times on each GPU, and the effect of a rerun."""
        submissions, budget, request = self.board.submissions, default_budget(os.environ), _request(choice)
        previews = submissions.preview([request])
        left = "" if budget is None else left_text(budget, submissions.budget_left(budget, entrant))
        pages = self.board.standings.pages(choice.task or "", choice.gpus, limit=1)
        for page in pages if choice.mode is Mode.RANKED else ():
            if (own := page.own) and own.submitter == self.board.user and self._is_code_of(request.source, own.run):
                has = f"This code has a score on {page.gpu}: {score_text(own.score_s)}."
                return previews, left, pages, f"{has} Another run makes it the median of {own.runs + 1}."
        return previews, left, pages, ""

    def _is_code_of(self, source: Source, run: int) -> bool:
        """Return whether a run has this code, comments and blanks aside."""
        language = language_of(source.file_name) or Language.PY
        return len({tokens_sha256(code, language) for code in (source.data, self.board.submissions.code(run)[1])}) == 1

    def _facts(self, preview: Preview, board: Page) -> Sequence[tuple[str, str]]:
        """Return the limits of a job and the times to beat, by name."""
        own, leader, reference = board.own, next(iter(board.rows), None), board.reference
        task = self._tasks.get(self._choice.task or "")
        return (
            ("Time limit", span_words(preview.time_limit_seconds)),
            ("Deadline", time_left(task.deadline, self.now())[0] if task is not None and task.deadline else ""),
            ("Your best", f"{score_text(own.score_s)}, #{own.rank} of {board.total}" if own else "none"),
            ("Leader", f"{score_text(leader.score_s)} by {leader.user}" if leader and leader != own else ""),
            ("Reference", score_text(reference.median_s) if reference else ""),
        )

    @property
    def _entrant(self) -> str:
        return default_origin(os.environ).entrant or self._asked.origin.entrant

    def _submit(self, choice: Choice) -> Sequence[Run]:
        request = _request(choice)
        runs = self.board.submissions.submit([request], budget=default_budget(os.environ))
        if choice.file is not None:
            remember_sent(self.memory, self.board.address, (choice.file, request.source.data))
        return runs

    def _follow(self, runs: Sequence[Run]) -> None:
        self._choice = replace(self._choice, is_sent=True)
        self.post_message(Chosen(self._choice))
        self.post_message(Open(targets.Sent(tuple(run.id for run in runs))))

    # State of the form

    def _change(self, choice: Choice) -> None:
        self._choice = choice
        self._check()

    def _rest_then(self, act: Callable[[], None]) -> None:
        def rested() -> None:
            self._stop_resting()
            act()

        self._stop_resting()
        self._typing = self.set_interval(_TYPING_SECONDS, rested)

    def _stop_resting(self) -> None:
        if self._typing is not None:
            self._typing.stop()
            self._typing = None

    def _read_header(self, file: Path | None) -> None:
        self._header = self._wanted = self._read_code = None
        self._show_file_note()
        self.options_input.header = NO_OPTIONS
        self._show_options()
        self._choice = replace(self._choice, file=file, folder=file.parent if file else self._choice.folder)
        if file is None:
            self.forget_failure("header")
            self._check()
        else:
            self._ask_header(file, self._take_header)

    def _ask_header(self, file: Path, then: Callable[[Directives], None]) -> None:
        def take(directives: Directives) -> None:
            if file == self._choice.file:
                then(directives)

        self.ask("header", lambda: header(read_source(file)), take, whom=THE_FILE)

    def _compare_header(self, directives: Directives) -> None:
        """Check the choices of the form, which stay as they are, against a header that was read again."""
        self._header = directives
        self._check()
        self._is_refused = self._fault is not None
        self._show_status()

    def _ask_allowed(self) -> None:
        task = self._choice.task
        self._none_allowed = None
        # A header can name a task that the board lacks.
        if task is not None and task in self._tasks:
            question = partial(self._allowed_gpus, task)
            self.ask("allowed", question, partial(self._show_allowed, task))
        else:
            self._check()

    def _check(self) -> None:
        """Check a complete form through the board."""
        choice = self._choice
        self._ready = self._again = ""
        self._is_refused = False
        self.forget_failure("send")
        if choice != self._blamed:
            self.options_input.refusal = None
            self._show_options()
        if choice.missing or self._file_fault or self.options_input.fault:
            self.withdraw("draft")
            self.call_later(self._empty_preview)
        else:
            question = partial(self._previews, choice, self._entrant)
            self.ask("draft", question, self._show_previews, failed=partial(self._blame, choice))
        self._show_status()

    def _blame(self, choice: Choice, error: BoardError) -> None:
        if any(re.search(rf"--{name}(?![\w-])", error.message) for name in parsed(choice.options).given):
            self._blamed = choice
            self.options_input.refusal = error
            self.forget_failure("draft")
            self._show_options()
            self._show_status()

    def _allowed_gpus(self, name: str) -> tuple[tuple[Gpu, ...], BoardError | None]:
        task = self.board.tasks.get(name)
        gpus = self.board.gpus.allowed(task)
        return gpus, None if gpus else none_allowed(task, self.board.gpus.all())

    def _refuse(self, to_field: bool) -> None:
        """Go to the first field to fill or to fix, and emphasize the reason.

        After a letter, not `to_field`, the focus goes to no field that would take the next letter.
        """
        self._is_refused = True
        if self.has_class("-preview"):
            self._show_form()
        fault = self._fault
        if fault is not None and (to_field or not isinstance(fault[0], Input | Select)):
            fault[0].focus()
        self._show_status()
        # The file may have been fixed in another window.
        if self._file_fault:
            self._read_header(self._choice.file)
        elif (file := self._choice.file) and (self._asked.leaderboard or self._asked.gpus):
            self._ask_header(file, self._compare_header)

    def _place_focus(self) -> None:
        """Focus the button of a complete form, else the first field to fill, unless the user has left the first focus.

        No field that has contents takes the focus: the letters would change them.
        """
        if self._placed is None or any(map(self.is_open, _CHECKS)):
            return
        if self.focused in (self._placed, None):
            fault, button = self._fault, self.query_one("#send")
            ready = self.gpu_list if button.disabled else button
            (ready if fault is None or isinstance(fault[0], Input) else fault[0]).focus()
        self._placed = None

    def _show_file_note(self) -> None:
        """Show the fault of the file, its score, or the choices in its header; without one, offer a file to edit."""
        header, file = self._header, self._choice.file
        if self._file_fault:
            words = toned(self._file_fault[1].strip(), Tone.BAD, 300)
        elif file is None:
            first, more = ", ".join(self._files_here[:_FILES_SHOWN]), " …" * (len(self._files_here) > _FILES_SHOWN)
            here = f"↓ chooses a file: {first}{more}" if first and self.path_input.named is None else ""
            words = toned(f"{self._file_offer} {here}".strip(), Tone.MUTED)
        else:
            folder = "In another folder." if local_files.is_elsewhere(file) else ""
            text = self._again or ("" if header is None else _asked_text(header))
            tone = Tone.WAITING if folder or self._again else Tone.MUTED
            words = toned(" ".join(filter(None, (folder, text))), tone, 300)
        self.query_one("#file-note", Static).update(words)

    def _show_description(self) -> None:
        """Show the description of the task in the place of the script until there is a file."""
        task = self._tasks.get(self._choice.task or "") if self._choice.file is None else None
        self.set_class(task is not None, "-blank")
        if task is not None:
            entitle(self.query_one("#about"), toned(task.name, limit=60))
            self.query_one(Description).show(printable(task.description))

    def _show_code(self) -> None:
        """Show below the form of a wide, high screen a file with its changes since a run, or the code for F4."""
        file, task, start, copied = self._choice.file, self._choice.task, self._to_start, self._to_copy
        is_new = start is not None or copied is not None
        has_text = is_new or (file is not None and not self.has_failed("header"))
        has_room = self.has_class("-wide", "-high")
        self.set_class(has_text and has_room, "-code")
        is_read = is_new or self._header is not None
        if self.has_class("-code") and is_read and self._read_code != (file, task):
            self._read_code = file, task
            question = partial(self._code_of, file, task, start, copied)
            self.ask("code", question, self.code.show_source, failed=self._show_no_code, whom=THE_FILE)

    def _code_of(
        self, file: Path | None, task: str | None, start: tuple[Task, Path] | None, copied: Run | None
    ) -> SourceText:
        """Return the starter, the code of a run, or the file: its changes since the form's run, else since the last."""
        if copied is not None:
            name, code = self.board.submissions.code(copied.id)
            return SourceText(code.decode(errors="replace"), name, f"{name}: run {copied.id}, which F4 copies")
        if start is not None:
            name = start[1].name
            text = local_files.starter_text(start[0], name)
            return SourceText(text, name, f"{name}: the starter, which F4 {'edits' if file is None else 'writes'}")
        source = read_source(file or Path())
        last = self._of_run
        if last is None or last.task != task:
            last = next(iter(self.board.runs.list(task=task, limit=1)), None) if task else None
        title = source.file_name
        if last is None:
            return SourceText(source.text, title, title)
        name, before = self.board.submissions.code(last.id)
        older, newer = (head_of(last.id, name), before), (title, source.data)
        if before == source.data:
            return SourceText(source.text, title, f"{title}: as in run {last.id}")
        changes = text_diff(older, newer, LINES_MAX)
        shown = (changes.text, "changes.diff") if changes.text else (source.text, title)
        return SourceText(*shown, f"{title}: changes since run {last.id}. {changes.remark}".removesuffix(". "))

    def _show_no_code(self, error: BoardError) -> None:
        self._read_code = None
        entitle(self.code, toned(""))
        self.code.say(error.message)

    def _show_options(self) -> None:
        """Show the fault of the job options, or those that apply without the field."""
        self.query_one("#options-note", Static).update(self.options_input.remark)

    def _show_task(self) -> None:
        with self.prevent(Select.Changed):
            if (task := self._choice.task) is not None and task in self._tasks:
                self.task_select.value = task
            else:
                self.task_select.clear()

    def _settle_gpus(self) -> None:
        """Tick the chosen GPUs that the task allows, or a single allowed one by default."""
        self._unsettled = False
        only = [gpu.name for gpu in self._gpus] if len(self._gpus) == 1 else []
        self._choice = replace(self._choice, gpus=_resolved(self._choice.gpus or only, self._gpus))
        self._show_gpus()
        self._check()

    def _show_form(self) -> None:
        self.remove_class("-preview")
        (self._left or self.path_input).focus()

    async def _empty_preview(self) -> None:
        error = self.failure_of("header") or self.failure_of("draft")
        fault = None if self._choice.missing else self._fault
        words = error.message if error is not None else fault[1] if fault is not None else ""
        nothing = LOADING if self.is_open("allowed") else _NO_SCRIPT
        await self.preview.show((), f"No script yet. {words}" if words else nothing)

    @property
    def _is_changed(self) -> bool:
        """Return whether the user has changed the contents with which the form has begun."""
        start, now = self._start, self._choice
        same = (now.file, now.mode, now.note, now.options) == (start.file, start.mode, start.note, start.options)
        return self._has_chosen or not same

    @property
    def _file_fault(self) -> tuple[str, str] | None:
        """Return the fault of the file, and the same as a sentence with a hint; None without one."""
        error, file = self.failure_of("header") or self._header_fault, self._choice.file
        if error is None or file is None or self.is_open("header"):
            return None
        # The path is in the field.
        words = error.message.removeprefix(f"{shown_path(file)}: ")
        return words, f"{words[:1].upper()}{words[1:]} {self._file_offer or error.hint}"

    @property
    def _header_fault(self) -> BoardError | None:
        """Return the error of a header that names a task which the board lacks."""
        name = self._asked.leaderboard
        if name is None or not self._tasks or name in self._tasks:
            return None
        return InputError(f'unknown task "{name}".{suggestion(name, self._tasks)}', hint="F4 edits the header.")

    @property
    def _fault(self) -> tuple[Widget, str] | None:
        """Return the first field to fill or to fix, and the reason; None if the form is complete."""
        choice, asked = self._choice, self._asked
        if choice.file is None:
            return self.path_input, choice.missing
        if fault := self._file_fault:
            return self.path_input, f"File: {fault[0]}"
        if choice.task is None:
            return self.task_select, choice.missing
        if (task := asked.leaderboard) and choice.task != task:
            return self.task_select, f"The header names task {task}: choose it, or change the header."
        if (none := self._none_allowed) is not None:
            return self.gpu_list, f"{none.message} {none.hint}"
        if not choice.gpus:
            if asked.gpus and not _resolved(asked.gpus, self._gpus):
                words = f"The header names {listing(asked.gpus)}, not available for {choice.task}. Choose a GPU."
                return self.gpu_list, words
            return self.gpu_list, choice.missing
        if self.options_input.fault:
            return self.options_input, f"Options: {self.options_input.fault}"
        return None

    @property
    def _to_start(self) -> tuple[Task, Path] | None:
        """Return the task and the file of the starter that F4 writes: the named file if it is new, or the task's own.

        A file is new if its folder exists, and the task has a starter in its language.
        """
        task, file, error = self._tasks.get(self._choice.task or ""), self.path_input.named, self.failure_of("header")
        if task is None or not task.templates or self._to_copy is not None:
            return None
        if file is None:
            return task, local_files.starter_file(self.memory, task)
        if file != self._choice.file or error is None or not isinstance(error.__cause__, FileNotFoundError):
            return None
        languages = {Template(name).language for name in task.templates}
        return (task, file) if language_of(file.name) in languages and is_folder(file.parent) else None

    @property
    def _to_copy(self) -> Run | None:
        """Return the run of which an empty field of the file offers a copy, as its own file was not found."""
        run = self._of_run
        return run if run is not None and run.task == self._choice.task and self.path_input.named is None else None

    @property
    def _file_offer(self) -> str:
        if (run := self._to_copy) is not None:
            return f"{run.file_name} was not found: F4 edits a copy of run {run.id}."
        if (start := self._to_start) is None:
            return ""
        file, language = start[1], language_of(start[1].name)
        if self._choice.file is None or language is None:
            return f"F4 edits the starter, {file.name}."
        return f"F4 writes the {Template.of(language)} starter to {file.name}."

    def _show_gpus(self) -> None:
        expected = {name: start_text(at, self.now()) for name, at in self._expected.items()}
        none = self._none_allowed
        remarks = (none.message, none.hint) if none is not None else ()
        held = {runner.gpu: holding(runner) for runner in self.runs_state.runners}
        self.gpu_list.show(self._gpus, self._statuses, self._choice.gpus, expected, held, remarks)
        # The rest of a high terminal is below the form, and not in its middle.
        room = self.size.height - _BESIDE_GPUS if self.has_class("-code") else self.gpu_list.option_count
        self.query_one("#gpu-field").styles.max_height = max(1, min(room, self.gpu_list.option_count))
        self.gpu_list.show_age(self.now())

    def _show_status(self) -> None:
        """Show the state of the form in one line, unless an error is shown, and mark the faulty field."""
        fault = self._fault
        refused = self.failure_of("draft") if fault is None else None
        self.status.set_class(refused is not None, "-error")
        if self.is_open("send"):
            count = len(self._choice.gpus)
            text = toned(f"Sending {count_text(count, 'run')} …", Tone.ACCENT)
        elif refused is not None:
            text = toned(f"{refused.message} {refused.hint}", Tone.BAD, 300)
        elif self.has_failed("tasks", "options", "allowed", "send") and not self._file_fault:
            text = Text("")
        elif fault is not None:
            # A short terminal has no texts below file and options.
            is_short = self.has_class("-short")
            words = "Correct the options." if fault[0] is self.options_input and not is_short else fault[1]
            if is_short:
                words = " ".join(filter(None, (words, self._file_offer)))
            text = toned(words, Tone.BAD if self._is_refused else Tone.WAITING)
        else:
            text = toned(self._ready, Tone.GOOD)
        self.status.update(text)
        self._show_file_note()
        task = self._tasks.get(self._choice.task or "")
        self.path_input.show_languages(tuple(Language) if task is None else task.accepted)
        faulty = fault[0] if fault is not None and (self._is_refused or self._file_fault) else None
        self._show_description()
        self._show_code()
        for field in (self.path_input, self.task_select, self.gpu_list, self.options_input):
            field.set_class(field is faulty, "-faulty")
        # A failed submission can be sent again.
        unfit = self.has_failed(*_CHECKS) or fault is not None
        self.query_one("#send", Button).disabled = self.is_open("send") or unfit
        self.query_one("#watch", Button).disabled = bool(self.reason_against("watch"))
        self.refresh_bindings()


def _row(kind: str, name: str, *widgets: Widget, id: str | None = None) -> Horizontal:
    return Horizontal(Label(name), *widgets, classes=kind, id=id)


def _asked_text(header: Directives) -> str:
    if header.leaderboard is None and not header.gpus:
        return "No header: choose task and GPUs here."
    return f"The file's header asks for {' on '.join(filter(None, (header.leaderboard, listing(header.gpus))))}."


def _request(choice: Choice) -> SubmissionRequest:
    source, options = read_source(choice.file or Path()), parsed(choice.options)
    origin = default_origin(os.environ)
    return SubmissionRequest(source, choice.task, choice.gpus, str(choice.mode), choice.note, options, origin)


def _expected(in_flight: Sequence[Run]) -> dict[str, datetime]:
    """Return the expected start of the last waiting run by GPU."""
    waiting = [(run.gpu, at) for run in in_flight if run.state is RunState.QUEUED and (at := run.status.expected_start)]
    return {gpu: max(at for name, at in waiting if name == gpu) for gpu, _ in waiting}


def _resolved(wanted: Sequence[str], gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """Return the wanted GPUs that are allowed, in the settings' spelling; `all` stands for all, as in headers."""
    spelled = {gpu.name.casefold(): gpu.name for gpu in gpus}
    names = [name.strip().casefold() for words in wanted for name in words.split(",")]
    if "all" in names:
        return tuple(spelled.values())
    return tuple(dict.fromkeys(spelled[name] for name in names if name in spelled))
