"""The base of all screens: the frame, and questions to the board in threads."""

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from datetime import datetime, timedelta
from functools import partial
from inspect import isawaitable
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec
from msgspec.structs import astuple
from textual import events, getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.reactive import var
from textual.screen import Screen

from hpc_board.board import Board
from hpc_board.domain.run import Run
from hpc_board.domain.runner import Runner
from hpc_board.domain.runner_rules import LEAST_HOLD_MINUTES, RunnerRules
from hpc_board.errors import BoardError, InputError, Refused
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode, Task
from hpc_board.report.formatting import span_text
from hpc_board.report.runners import cost_text
from hpc_board.tui import editor, local_files, targets
from hpc_board.tui.keys import displayed, named
from hpc_board.tui.local_files import remember_sent, sent_as
from hpc_board.tui.messages import Answer, Answered, Heard, Open, RunnerChanged, RunsState, Tick
from hpc_board.tui.preferences import Memory
from hpc_board.tui.targets import Target
from hpc_board.tui.verbs import VERBS, binding
from hpc_board.tui.widgets.bars import ErrorBox, KeyLine, TitleBar
from hpc_board.tui.widgets.list_pane import ListPane

_WIDE_FROM = 120
_HUGE_FROM = 160
_HIGH_FROM = 40
_SHORT_BELOW = 20

SCHEDULER = "scheduler"
"""The subject of failed updates of the runs in flight, on every screen."""

THE_BOARD, THE_SCHEDULER, THE_FILE = "the board", "the scheduler", "the file"
"""The addressees of questions, for "waiting 12 s for the scheduler"."""

_LATEST_MAX = 10
"""The most runs whose files are looked for, as each is a look into the folder."""

HOLD_KEY = binding("hold", priority=True, id="runners.hold")
"""The binding of a screen with a `gpu_in_hand`."""

_HOLD_HELP = (
    "A job keeps the GPU for you and evaluates your runs one after another: only the first waits in the queue. Others "
    "cannot use the GPU in the meantime."
)

USER_KEY = binding("user", id="row.user")
"""The binding of a screen with a `user_in_hand`."""

_HINT_SECONDS = 3.0
"""The time for which the reason of a key without effect is shown."""

_VERB_OF = {verb.key: name for name, verb in VERBS.items()}

NOTHING_SELECTED = "Nothing is selected."
"""The reason against an action on a row where there is none."""

SORT_HELP = "A click on a column header sorts by that column; a second click reverses the order."

_LONG = timedelta(seconds=2)
"""The least wait for an answer that the title shows."""

Clock = Callable[[], datetime]

T = TypeVar("T")


def _ignore(_: object) -> None:
    """Ignore an answer."""


class _Question(msgspec.Struct, frozen=True):
    """An open question: addressee, start of the wait, handlers of the answer and the error."""

    whom: str
    since: datetime
    then: Callable[[Any], Awaitable[None] | None] = _ignore
    failed: Callable[[BoardError], None] = _ignore


class BoardScreen(Screen[None]):
    """A screen with a title line, a body, an error box and a line of keys.

    All questions to the board go through `ask`, which runs them in a thread that posts an `Answer`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "back", "Back", tooltip="Go back", id="screen.back")]
    NAME: ClassVar[str] = ""
    """The name of this screen in the help, by default that of its class."""
    HELP: ClassVar[str] = ""
    """The paragraph on this screen in the help."""
    FIRST_KEYS: ClassVar[tuple[str, ...]] = ()
    """The actions whose keys begin the last line, which a narrow terminal cuts."""
    SHOWS_OUTPUT: ClassVar[bool] = False
    """True if the screen shows the output of running jobs."""
    ACTIONS: ClassVar[tuple[str, ...]] = ("again", "cancel", "hold", "note")
    """The subjects of questions that change the board, whose answers the user has to see."""
    OPENINGS: ClassVar[tuple[str, ...]] = ("submit", "edit", "watch")
    """The subjects of questions whose answers open another screen, for which the app holds keys back."""
    LOADED: ClassVar[tuple[str, ...]] = ()
    """The subjects whose first answers tell the run or the rows of the screen."""
    SHOWN_BESIDE: ClassVar[tuple[str, ...]] = ()
    """The subjects whose errors the screen shows beside their cause instead of in the box."""

    DETAILS_PLACE: ClassVar[str] = "more on Cluster"
    """The place of the whole error of a scheduler, which is a line elsewhere; empty on the screen that shows it."""

    runs_state: var[RunsState] = var(RunsState())
    runner_rules: var[RunnerRules | None] = var(None)
    marked: var[int | None] = var(None)
    asking_since: var[datetime | None] = var(None)
    """The four are bound to the app's values, which have their meanings."""
    is_opening: var[bool] = var(False)
    """True while a question is open whose answer opens another screen."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Give the screen a name, its style sheet, and its bindings ids, by which preferences change their keys."""
        name = cls.__name__.removesuffix("Screen")
        if cls.__module__.endswith(f".{name.lower()}"):
            cls.CSS_PATH = f"{name.lower()}.tcss"
        if "BINDINGS" in cls.__dict__:
            cls.BINDINGS = named(cls.BINDINGS, name.lower())
        cls.NAME = cls.__dict__.get("NAME", name)
        super().__init_subclass__(**options)

    title_bar = getters.query_one(TitleBar)
    error_box = getters.query_one(ErrorBox)

    def __init__(self, board: Board, now: Clock, target: Target) -> None:
        super().__init__()
        self.board = board
        self.now = now
        self.target = target
        self.memory = Memory()
        """The app's memory, which the app sets before the screen is mounted."""
        self.way: tuple[str, ...] = ()
        """The place of the screen from which this one was opened, which the app sets too; empty above the tasks."""
        self._open_questions: dict[str, _Question] = {}
        self._failures: dict[str, BoardError] = {}
        self._answered: dict[str, datetime] = {}
        self._is_outdated = False

    def compose(self) -> ComposeResult:
        # Before the widgets exist: each later change of classes restyles all of them.
        self._fit(self.app.size)
        yield TitleBar()
        yield from self.compose_body()
        yield ErrorBox()
        yield KeyLine()

    def compose_body(self) -> ComposeResult:
        raise NotImplementedError

    def on_mount(self) -> None:
        self._show_runs_state()
        self.error_box.show(None)
        self.begin()

    def begin(self) -> None:
        """Begin, once the screen has its widgets."""

    def on_resize(self, event: events.Resize) -> None:
        self._fit(event.size)
        self.fit_body()

    def fit_body(self) -> None:
        """Fit the body to the size of the terminal."""

    def _fit(self, size: Size) -> None:
        self.set_class(size.width >= _WIDE_FROM, "-wide")
        self.set_class(size.width >= _HUGE_FROM, "-huge")
        self.set_class(size.width < _WIDE_FROM, "-narrow")
        self.set_class(size.height >= _HIGH_FROM, "-high")
        self.set_class(size.height < _SHORT_BELOW, "-short")

    def on_screen_resume(self) -> None:
        self.look_again()

    def ask(
        self,
        subject: str,
        question: Callable[[], T],
        then: Callable[[T], Awaitable[None] | None],
        *,
        failed: Callable[[BoardError], None] = _ignore,
        patient: bool = False,
        whom: str = THE_BOARD,
    ) -> None:
        """Run a question to the board in a thread, and pass its answer to `then`, or its error to `failed`.

        Each subject has at most one open question. A new one replaces it and drops its answer; a `patient` one is
        skipped while another is open. The title names the addressee `whom` during a long wait. The screen shows the
        error of a subject until its next answer.
        """
        if patient and subject in self._open_questions:
            return
        # A replacement inherits the start of the wait.
        since = self._open_questions[subject].since if subject in self._open_questions else self.now()
        asked = self._open_questions[subject] = _Question(whom, since, then, failed)
        self._show_opening()
        find_out = partial(self._find_out, subject, asked, question)
        self.run_worker(find_out, group=subject, exclusive=True, thread=True)

    def read(self, pane: ListPane[Any], *, patient: bool = True) -> None:
        """Read the visible pages of a list through `ask`."""
        question, then = pane.reading()
        self.ask(pane.subject, question, then, failed=pane.fail, patient=patient)

    @property
    def place(self) -> tuple[str, ...]:
        """Return the path of this screen as its title shows it; empty before that."""
        return self.title_bar.places if self.is_mounted else ()

    def show_place(self, *places: str) -> None:
        """Show the path to this screen, by which Esc leads back, and its own name."""
        self.title_bar.show_place(*self.way, *places)

    @property
    def busy(self) -> bool:
        """Return whether this screen waits for an answer, the end of typing or the rest of a cursor."""
        return bool(self._open_questions) or any(pane.is_moving for pane in self.query(ListPane))

    @property
    def is_loading(self) -> bool:
        """Return whether the run of the next key is not known yet, for which the app holds the key back."""
        first = any(self.is_open(subject) and subject not in self._answered for subject in self.LOADED)
        return not self._failures and (first or any(pane.is_loading for pane in self.query(ListPane)))

    def is_open(self, subject: str) -> bool:
        return subject in self._open_questions

    def has_failed(self, *subjects: str) -> bool:
        """Return whether the last question on one of these subjects failed."""
        return any(subject in self._failures for subject in subjects)

    def answered_at(self, subject: str) -> datetime | None:
        return self._answered.get(subject)

    def failure_of(self, subject: str) -> BoardError | None:
        """Return the error of the last question on this subject, if it failed."""
        return self._failures.get(subject)

    def fail(self, subject: str, error: BoardError) -> None:
        """Show an error until the next answer or error of this subject."""
        self._failures[subject] = error
        self._show_failures()

    def forget_failure(self, subject: str) -> None:
        self._failures.pop(subject, None)
        self._show_failures()

    def withdraw(self, subject: str) -> None:
        """Cancel the open question of a subject, and hide its error."""
        self._open_questions.pop(subject, None)
        self.workers.cancel_group(self, subject)
        self.forget_failure(subject)
        self._show_opening()

    def abandon_opening(self) -> None:
        """Cancel the questions whose answers open another screen."""
        for subject in self.OPENINGS:
            self.withdraw(subject)

    def _show_opening(self) -> None:
        self.is_opening = any(map(self.is_open, self.OPENINGS))

    def confirm(self, question: str, yes: str, no: str, act: Callable[[], object]) -> None:
        """Act once the user confirms it."""
        from hpc_board.tui.screens.dialogs import Confirm

        def take(answer: bool | None) -> None:
            if answer:
                act()

        self.app.push_screen(Confirm(question, yes, no), take)

    @property
    def user_in_hand(self) -> str | None:
        """Return the user of the selected row."""
        return None

    def action_user(self) -> None:
        if self.user_in_hand is not None:
            self.lead_to(targets.User(self.user_in_hand))

    @property
    def gpu_in_hand(self) -> str | None:
        """Return the GPU that the user can hold or release on this screen."""
        return None

    @property
    def _runner_in_hand(self) -> Runner | None:
        """Return the user's runner on the GPU in hand, if the user holds it."""
        return next((runner for runner in self.runs_state.runners if runner.gpu == self.gpu_in_hand), None)

    def action_hold(self) -> None:
        if (runner := self._runner_in_hand) is not None:
            self.offer_release(runner)
        elif self.gpu_in_hand is not None and self.runner_rules is not None:
            self._offer_hold(self.gpu_in_hand, self.runner_rules)

    def _offer_hold(self, gpu: str, rules: RunnerRules) -> None:
        """Start a runner on `gpu` for the times that the user enters."""
        from hpc_board.tui.screens.dialogs import AskLines, Line

        def times(minutes: tuple[str, ...]) -> tuple[int, int]:
            return astuple(rules.times(*(60 * int(each) if each.isdecimal() else 0 for each in minutes)))

        def act(minutes: tuple[str, ...] | None) -> None:
            if minutes is not None:
                hold = partial(self.board.runners.hold, gpu, *times(minutes))
                self.ask("hold", hold, self._tell_runner, whom=THE_SCHEDULER)

        seconds, idle_seconds = astuple(rules.times(None, None))
        lines = [
            Line("For", str(seconds // 60), beside=f"min, {LEAST_HOLD_MINUTES} to {rules.minutes}"),
            Line("Idle", str(idle_seconds // 60), beside=f"min without a run, 1 to {rules.idle_minutes}"),
        ]
        question = f"Hold {gpu} for your next runs"
        self.app.push_screen(AskLines(question, lines, "Hold", about=_HOLD_HELP, check=times, at_once=True), act)

    def offer_release(self, runner: Runner) -> None:
        """Release a GPU that the user holds, after a question with the cost so far."""

        def look(_: BoardError) -> None:
            # It may have ended since the last update.
            self.ask("runner", partial(self.board.runners.get, runner.id), self._tell_runner)

        def release() -> None:
            question = partial(self.board.runners.release, runner.id)
            self.ask("hold", question, self._tell_runner, failed=look, whom=THE_SCHEDULER)

        if runner.is_ending:
            self.notify(f"{runner.gpu} is being released: it ends after its current run.")
            return
        words = "Its job has not started."
        if runner.started_at is not None:
            words = f"So far you {cost_text(runner, self.now())}. It ends after its current run."
        self.confirm(f"Release {runner.gpu}? {words}", "Release it", "Keep it", release)

    def _tell_runner(self, runner: Runner) -> None:
        self.post_message(RunnerChanged(runner))

    def submit_latest_of(self, task: str, gpu: str | None = None) -> None:
        """Open the form for a task, with the latest file of the user that is known, for its GPU or another one."""

        def question() -> targets.Submit:
            if (found := self.latest_of(task)) is None:
                return targets.Submit(task)
            run, file = found
            return targets.Submit(task, (gpu or run.gpu,), self._next_mode(run), file, latest=True)

        self.ask("submit", question, self.lead_to, whom=THE_FILE)

    def lead_to(self, target: Target) -> None:
        """Ask the app to open a target."""
        self.post_message(Open(target))

    def latest_of(self, task: str) -> tuple[Run, Path] | None:
        """Return the user's latest run of a task whose file is in the current folder, with the file.

        Without one, it is the latest with whose name a file for the task is there, else the latest whose file is known.
        """
        runs = self.board.runs.list(task=task, limit=_LATEST_MAX)
        known = [(run, file) for run in runs if (file := self._file_of(run)) is not None]
        here = [(run, file) for run, file in known if not file.is_absolute()]
        named = ((run, Path(Path(run.file_name).name)) for run in runs)
        return next(chain(here, ((run, file) for run, file in named if local_files.is_for(file, task)), known), None)

    def _mode_of(self, run: Run) -> Mode:
        """Return the mode of a run, for a profile that of the user's last run before it that is none."""
        if run.mode is not Mode.PROFILE:
            return run.mode
        before = self.board.runs.list(task=run.task, before=run.id, limit=_LATEST_MAX)
        return next((each.mode for each in before if each.mode is not Mode.PROFILE), Mode.TEST)

    def _next_mode(self, run: Run) -> Mode:
        return Mode.RANKED if is_ready_to_rank(run) else self._mode_of(run)

    def watch_file_of(self, run: Run, known: Path | None = None) -> None:
        """Watch the user's file of a run, or the one that is `known`.

        After a measured run, the mode is benchmark: no save is ranked unasked.
        """
        mode = Mode.BENCHMARK if run.mode in (Mode.BENCHMARK, Mode.RANKED) else Mode.TEST

        def watch(file: Path | None) -> None:
            if file is not None:
                self.lead_to(targets.Watch(file, run.task, (run.gpu,), mode=mode))
            else:
                self.lead_to(targets.Submit(run.task, (run.gpu,), mode, of_run=run))
                self.notify_after_opening("Choose the file to watch, then press Watch.")

        if known is not None:
            watch(known)
        else:
            self.ask("watch", partial(self._file_of, run), watch, whom=THE_FILE)

    def edit_file_of(self, run: Run, known: Path | None = None) -> None:
        """Open the user's editor with the file of a run, or the one that is `known`, and then the form with it."""

        def question() -> targets.Edit:
            name, code = self.board.submissions.code(run.id)
            # Without an editor, no copy is written.
            if not editor.is_found(os.environ):
                return targets.Edit(Path(name))
            if known is not None and known != self._file_of(run):
                return targets.Edit(known, run.task, (run.gpu,), self._mode_of(run))
            sent = sent_as(self.memory, self.board.address, run.code_sha256)
            file, is_new = local_files.of_run(run.id, Path(name).name, code, sent)
            # The edited file is found again by the code that the run has.
            remember_sent(self.memory, self.board.address, (file, code))
            from hpc_board.report.runs import faulty_line

            result = self.board.runs.whole(run.id).result
            line = faulty_line(run, result) if result is not None else ""
            return targets.Edit(file, run.task, (run.gpu,), self._mode_of(run), is_new=is_new, line=line)

        self.ask("edit", question, self.lead_to, whom=THE_FILE)

    def edit_starter_of(
        self, task: Task, gpus: tuple[str, ...] = (), mode: Mode | None = None, file: Path | None = None
    ) -> None:
        """Open the user's editor with the file for a task, which begins as its starter, and then the form with it."""
        path = file or local_files.starter_file(self.memory, task)

        def question() -> tuple[Path, bool]:
            # Without an editor, no starter is written.
            if not editor.is_found(os.environ):
                return path, False
            return local_files.of_task(path, task)

        def edit(found: tuple[Path, bool]) -> None:
            file, is_new = found
            self.lead_to(targets.Edit(file, task.name, gpus, mode, is_new=is_new))
            if is_new:
                self.remember_folder(file)

        self.ask("edit", question, edit, whom=THE_FILE)

    def remember_folder(self, starter: Path) -> None:
        """Remember the folder of a starter for the next one."""
        folder = starter.parent
        self.memory.set("tasks", "folder", "" if folder == Path() else str(folder.absolute()))

    def notify_after_opening(self, words: str) -> None:
        """Tell the user something on the screen that this one has just asked the app to open."""
        self.call_later(self.notify, words)

    def _file_of(self, run: Run) -> Path | None:
        """Return the user's own file of a run, as it is now, if it is known."""
        if run.user != self.board.user:
            return None
        sent = sent_as(self.memory, self.board.address, run.code_sha256)
        return local_files.submitted_as(run.id, Path(run.file_name).name, run.code_sha256, sent)

    def look_again(self) -> None:
        """Update the screen; called while it is in front, about once a second, on a served board after a change."""

    def show_ages(self) -> None:
        """Update the texts that only time changes, about once a second while a served board's screen is in front."""
        for pane in self.query(ListPane):
            pane.redraw_ages()

    @property
    def key_labels(self) -> Mapping[str, str]:
        """Return the labels of keys whose effect depends on the screen's state, by action."""
        clear = {} if self._filtered is None else {"back": "Clear"}
        return {"hold": "Hold" if self._runner_in_hand is None else "Release", **clear}

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if self.reason_against(action):
            return None
        if action == "hold" and self._runner_in_hand is None:
            rules = self.runner_rules
            return self.gpu_in_hand is not None and rules is not None and rules.per_user > 0
        if action == "filter" and any(pane.is_filtering for pane in self.query(ListPane)):
            return False
        return super().check_action(action, parameters)

    def reason_against(self, action: str) -> str:
        """Return the reason for which an action has no effect now, and its key is dim; empty without one."""
        lacks_user = action == "user" and (not self.is_mounted or self.user_in_hand is None)
        return NOTHING_SELECTED if lacks_user else ""

    def on_key(self, event: events.Key) -> None:
        active = self.active_bindings.get(event.key)
        if active is not None and not active.enabled:
            self.notify(self.reason_against(active.binding.action), timeout=_HINT_SECONDS)
        elif active is None and (name := _VERB_OF.get(event.key)) is not None:
            self.notify(self.lacks(name), timeout=_HINT_SECONDS)

    def lacks(self, name: str) -> str:
        """Return the reason for which a verb has no key here now, or the place where it has one."""
        verb = VERBS[name]
        reason = self.reason_against(verb.action or name)
        place = f"{displayed(verb.display or verb.key)} ({verb.word}) works {verb.where}."
        return place if reason in ("", NOTHING_SELECTED) else reason

    def action_focus_next(self) -> None:
        self.focus_next()

    @property
    def rests(self) -> bool:
        """Return whether the screen has been updated too shortly before to be updated again."""
        return False

    def settle(self, subject: str) -> None:
        """Update the screen after an answer or an error on this subject."""

    def shows(self, target: Target) -> bool:
        """Return whether this is the screen of `target`."""
        return self.target == target

    def turn_to(self, target: Target) -> None:
        """Show the part of this screen that `target` names."""

    @property
    def _filtered(self) -> ListPane[Any] | None:
        """Return the list whose filter Esc clears, if any."""
        return next((pane for pane in self.query(ListPane) if pane.display and pane.is_filtered), None)

    def action_back(self) -> None:
        if (pane := self._filtered) is not None:
            pane.narrow("")
        elif not self.awaits_outcome():
            self.app.pop_screen()

    @property
    def may_close(self) -> bool:
        """Return whether nothing is lost with this screen, such as the answer to an action under way."""
        return not any(map(self.is_open, self.ACTIONS))

    def awaits_outcome(self) -> bool:
        """Return whether an action is under way; tell the user."""
        if not any(map(self.is_open, self.ACTIONS)):
            return False
        self.notify("Waiting for the answer to your last action. Runs shows the state of your runs.")
        return True

    def action_sort(self) -> None:
        self._list.sort_by_next()

    def action_reverse(self) -> None:
        self._list.sort_reversed()

    def action_filter(self) -> None:
        self._list.open_filter()
        self.refresh_bindings()

    @property
    def _list(self) -> ListPane[Any]:
        """Return the list that sorts and filters: the one with the focus, or else the first."""
        shown = [pane for pane in self.query(ListPane) if pane.display]
        return next((pane for pane in shown if pane.has_focus_within), shown[0])

    def _find_out(self, subject: str, asked: _Question, question: Callable[[], T]) -> None:
        # A service keeps its connections for the next question.
        session = nullcontext() if self.board.served else self.board.session()
        try:
            with session:
                answer = Answer(subject, asked, question())
        except BoardError as error:
            answer = Answer(subject, asked, failure=error)
        self.post_message(answer)

    def _show_runs_state(self) -> None:
        self.title_bar.show_runs_state(self.board.user, self.runs_state, self.now(), self._longest)

    @property
    def _longest(self) -> tuple[timedelta, str] | None:
        """Return the wait for the oldest open question and its addressee; None while there is no long wait."""
        asked = [*self._open_questions.values()]
        # The update of runs waits for the board too; the screen's own questions name the addressee better.
        follower = [] if self.asking_since is None else [_Question(THE_SCHEDULER, self.asking_since)]
        for questions in (asked, follower):
            oldest = min(questions, key=lambda question: question.since, default=None)
            if oldest is not None and (waited := self.now() - oldest.since) >= _LONG:
                return waited, oldest.whom
        return None

    def _show_failures(self) -> None:
        """Show the last error with the age of the screen's data."""
        boxed = [failed for failed in self._failures.items() if failed[0] not in self.SHOWN_BESIDE]
        if not boxed:
            self.error_box.show(None)
            return
        subject, failure = boxed[-1]
        known = self._answered.get(subject)
        if subject == SCHEDULER:
            known = self.runs_state.silent_since or self.runs_state.asked_at
        if type(failure) in (InputError, Refused):
            known = None  # the user's input is wrong, and the state that the screen shows is as new as before
        age = "" if known is None else span_text(self.now() - known)
        self.error_box.show(failure, age, self.DETAILS_PLACE if subject == SCHEDULER else "")

    @on(Answer)
    async def _take_answer(self, event: Answer) -> None:
        # The answer may belong to a question that was replaced.
        asked = self._open_questions.get(event.subject)
        if asked is None or asked is not event.asked:
            return
        self._open_questions.pop(event.subject)
        self._show_runs_state()
        self._failures.pop(event.subject, None)
        if event.failure is not None:
            self._failures[event.subject] = event.failure
        else:
            self._answered[event.subject] = self.now()
        self._show_failures()
        self.settle(event.subject)
        if event.failure is not None:
            # With the next tick.
            self._is_outdated = self.board.served
            asked.failed(event.failure)
        elif isawaitable(taken := asked.then(event.value)):
            await taken
        self._show_opening()
        self.post_message(Answered())
        if event.failure is None:
            self._catch_up()

    @on(ListPane.Wanted)
    def _read_wanted(self, event: ListPane.Wanted) -> None:
        self.read(event.pane, patient=not event.anew)

    def watch_runner_rules(self) -> None:
        self.refresh_bindings()

    def watch_runs_state(self, before: RunsState, runs_state: RunsState) -> None:
        self._show_runs_state()
        if before.runners != runs_state.runners:
            self.refresh_bindings()
        if runs_state.failure is None:
            self.forget_failure(SCHEDULER)
        else:
            self.fail(SCHEDULER, runs_state.failure)

    @on(Tick)
    def _take_tick(self) -> None:
        self._show_runs_state()
        self._show_failures()
        if not self.board.served:
            self.look_again()
            return
        self.show_ages()
        self._catch_up()

    @on(Heard)
    def _take_change(self, event: Heard) -> None:
        self._is_outdated |= event.change.facts or self.SHOWS_OUTPUT
        self._catch_up()

    def _catch_up(self) -> None:
        """Update the screen after a change, unless an open question may have been answered before the change."""
        if self._is_outdated and self.is_current and not self._open_questions and not self.rests:
            self._is_outdated = False
            self.look_again()


def is_ready_to_rank(run: Run) -> bool:
    """Return whether a run passed in mode test or benchmark, after which its file is submitted in mode ranked."""
    return run.mode in (Mode.TEST, Mode.BENCHMARK) and run.verdict is Verdict.PASS
