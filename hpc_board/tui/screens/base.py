"""What all screens share: the frame around them, and how they ask the board."""

import itertools
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from inspect import isawaitable
from typing import Any, ClassVar, TypeVar

import msgspec
from textual import events, getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.reactive import var
from textual.screen import Screen
from textual.worker import get_current_worker

from hpc_board.board import Board
from hpc_board.domain.run import Run
from hpc_board.errors import BoardError
from hpc_board.report.formatting import span_text
from hpc_board.tui.keys import named
from hpc_board.tui.messages import Answer, RunsState, Tick
from hpc_board.tui.preferences import Memory
from hpc_board.tui.screens.confirm import Confirm
from hpc_board.tui.targets import Target
from hpc_board.tui.widgets.error_box import ErrorBox
from hpc_board.tui.widgets.key_line import KeyLine
from hpc_board.tui.widgets.list_pane import ListPane
from hpc_board.tui.widgets.title_bar import TitleBar

_WIDE_FROM = 110
_SHORT_BELOW = 20

SCHEDULER = "scheduler"
"""The subject of what the app could not find out of the runs in flight, on whatever screen is in front."""

THE_BOARD, THE_SCHEDULER, THE_FILE = "the board", "the scheduler", "the file"
"""What a question is put to, as it stands in "waiting 12 s for the scheduler"."""

_LONG = timedelta(seconds=2)
"""How long a question takes before the title says so."""

Clock = Callable[[], datetime]

T = TypeVar("T")


def _ignore(_: object) -> None:
    """Take an answer that nothing depends on."""


class _Question(msgspec.Struct, frozen=True):
    """An open question: its addressee, the start of the wait, its number on this screen, the takers of its answer."""

    whom: str
    since: datetime
    number: int = 0
    then: Callable[[Any], Awaitable[None] | None] = _ignore
    failed: Callable[[BoardError], None] = _ignore


class BoardScreen(Screen[None]):
    """A screen with a title line, a body, a place for errors and the keys.

    Every question to the board goes through `ask`: it is put in a thread, and its answer comes back as an `Answer`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", tooltip="Go back to where you came from", id="screen.back"),
    ]
    HELP: ClassVar[str] = ""
    """A paragraph about this screen, for the help."""

    pulse: var[RunsState] = var(RunsState())
    """The user's runs in flight; the app's own value, as the two below are."""
    marked: var[int | None] = var(None)
    """The submission that was chosen to be compared."""
    asking_since: var[datetime | None] = var(None)
    """The time of a question to the schedulers that has no answer yet."""
    is_answered: var[bool] = var(False)
    """Whether a question of this screen has had an answer or has failed."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Name the keys of a screen after it, so that a user can choose others for them."""
        if "BINDINGS" in cls.__dict__:
            cls.BINDINGS = named(cls.BINDINGS, cls.__name__.removesuffix("Screen").lower())
        super().__init_subclass__(**options)

    title_bar = getters.query_one(TitleBar)
    error_box = getters.query_one(ErrorBox)

    def __init__(self, board: Board, now: Clock) -> None:
        super().__init__()
        self.board = board
        self.now = now
        self.target: Target | None = None
        """The place that this screen is; the app sets it, as it does the memory."""
        self.memory = Memory()
        """What the app remembers; the app's own takes this one's place before the screen is mounted."""
        self._open_questions: dict[str, _Question] = {}
        self._numbers = itertools.count(1)
        self._failures: dict[str, BoardError] = {}
        self._answered: dict[str, datetime] = {}

    def compose(self) -> ComposeResult:
        """The frame, and the body within it."""
        # Before there are widgets: each class that comes later has all of them styled again.
        self._fit(self.app.size)
        yield TitleBar()
        yield from self.compose_body()
        yield ErrorBox()
        yield KeyLine()

    def compose_body(self) -> ComposeResult:
        """The part between the title and the keys."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Show the frame before anything is known."""
        self._show_pulse()
        self.error_box.show(None)

    def on_resize(self, event: events.Resize) -> None:
        """Put two panes beside each other where both fit, and save lines where there are few."""
        self._fit(event.size)

    def _fit(self, size: Size) -> None:
        self.set_class(size.width >= _WIDE_FROM, "-wide")
        self.set_class(size.width < _WIDE_FROM, "-narrow")
        self.set_class(size.height < _SHORT_BELOW, "-short")

    def on_screen_resume(self) -> None:
        """Look again at what went on behind another screen."""
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
        """Put a question to the board in a thread, and hand its answer to `then`, or its error to `failed`.

        One question is open for each subject. A new one takes the place of the old one, whose answer is then dropped;
        a `patient` one is not asked while another is open. `whom` is what the answer depends on, for the title to name
        where it takes long. The screen shows the error of a subject until the subject has an answer.
        """
        if patient and subject in self._open_questions:
            return
        # What takes the place of a question has been waited for as long as that one.
        since = self._open_questions[subject].since if subject in self._open_questions else self.now()
        asked = self._open_questions[subject] = _Question(whom, since, next(self._numbers), then, failed)
        find_out = partial(self._find_out, subject, asked.number, question)
        self.run_worker(find_out, group=subject, exclusive=True, thread=True)

    def read(self, pane: ListPane[Any], *, patient: bool = True) -> None:
        """Read the pages of a list that are in sight, as `ask` does."""
        question, then = pane.reading()
        self.ask(pane.subject, question, then, failed=pane.fail, patient=patient)

    def call_after_paint(self, act: Callable[[], object]) -> None:
        """Call `act` when the rows that a table was just given are on the screen."""
        # A table that has no size yet takes them with the first refresh, and paints them with the second.
        self.call_after_refresh(self.call_after_refresh, act)

    @property
    def busy(self) -> bool:
        """Whether this screen waits for an answer, or for a field to rest."""
        return bool(self._open_questions)

    def is_open(self, subject: str) -> bool:
        """Whether a question on this subject waits for its answer."""
        return subject in self._open_questions

    def has_failed(self, *subjects: str) -> bool:
        """Whether the last question on one of these subjects failed."""
        return any(subject in self._failures for subject in subjects)

    def answered_at(self, subject: str) -> datetime | None:
        """Return the time of the last answer on this subject; None where there was none."""
        return self._answered.get(subject)

    def failure_of(self, subject: str) -> BoardError | None:
        """Why the last question on this subject failed; None where it did not."""
        return self._failures.get(subject)

    def fail(self, subject: str, error: BoardError) -> None:
        """Show an error until this subject has an answer or another error."""
        self._failures[subject] = error
        self._show_failures()

    def forget_failure(self, subject: str) -> None:
        """Take back what was shown of a subject's failure."""
        self._failures.pop(subject, None)
        self._show_failures()

    def withdraw(self, subject: str) -> None:
        """Drop an open question and what was shown of an earlier failure: nobody wants the answer any more."""
        self._open_questions.pop(subject, None)
        self.workers.cancel_group(self, subject)
        self.forget_failure(subject)

    def offer_cancel(self, run: Run) -> None:
        """Cancel a run, after a question."""

        def act(yes: bool | None) -> None:
            if yes:
                self.ask("cancel", lambda: self.board.runs.cancel(run.id), self._tell_cancelled, whom=THE_SCHEDULER)

        question = f"Cancel run {run.id}, {run.task} on {run.gpu}?"
        self.app.push_screen(Confirm(question, "Cancel the run", "Keep it"), act)

    def offer_again(self, run: Run, then: Callable[[Sequence[Run]], None]) -> None:
        """Send the file of a run again, after a question; `then` takes the new runs."""

        def send() -> Sequence[Run]:
            return self.board.submissions.submit(self.board.submissions.draft_again(run.id))

        def act(yes: bool | None) -> None:
            if yes:
                self.ask("again", send, then, whom=THE_SCHEDULER)

        question = f"Send the file of run {run.id} again: {run.file_name}, {run.task} on {run.gpu}, mode {run.mode}?"
        self.app.push_screen(Confirm(question, "Send it again", "Don't"), act)

    def look_again(self) -> None:
        """Ask for what changes by itself; called about once a second while the screen is in front."""

    def settle(self, subject: str) -> None:
        """Show that a question on this subject is no longer open, whether it was answered or failed."""

    def action_back(self) -> None:
        """Leave this screen."""
        self.app.pop_screen()

    def _find_out(self, subject: str, number: int, question: Callable[[], T]) -> None:
        worker = get_current_worker()
        try:
            answer = Answer(subject, number, question())
        except BoardError as error:
            answer = Answer(subject, number, failure=error)
        if not worker.is_cancelled:
            self.post_message(answer)

    def _show_pulse(self) -> None:
        self.title_bar.show_pulse(self.board.user, self.pulse, self.now(), self._longest)

    @property
    def _longest(self) -> tuple[timedelta, str] | None:
        """How long the oldest open question has been waited for, and what it was put to; None while none takes long."""
        asked = [*self._open_questions.values()]
        # Carrying the runs on waits for the board too: where this screen does so as well, it knows better for what.
        follower = [] if self.asking_since is None else [_Question(THE_SCHEDULER, self.asking_since)]
        for questions in (asked, follower):
            oldest = min(questions, key=lambda question: question.since, default=None)
            if oldest is not None and (waited := self.now() - oldest.since) >= _LONG:
                return waited, oldest.whom
        return None

    def _show_failures(self) -> None:
        """Show the failure that came last, and how old what is shown has become by it."""
        if not self._failures:
            self.error_box.show(None)
            return
        subject, failure = next(reversed(self._failures.items()))
        known = self._answered.get(subject)
        if subject == SCHEDULER:
            known = self.pulse.silent_since or self.pulse.asked_at
        self.error_box.show(failure, "" if known is None else span_text(self.now() - known))

    @on(Answer)
    async def _take_answer(self, event: Answer[Any]) -> None:
        # The answer to a question that was replaced may have been on its way already.
        asked = self._open_questions.get(event.subject)
        if asked is None or asked.number != event.number:
            return
        self._open_questions.pop(event.subject)
        self._show_pulse()
        self._failures.pop(event.subject, None)
        if event.failure is not None:
            self._failures[event.subject] = event.failure
        else:
            self._answered[event.subject] = self.now()
        self._show_failures()
        self.settle(event.subject)
        if event.failure is not None:
            asked.failed(event.failure)
        elif isawaitable(taken := asked.then(event.value)):
            await taken
        self.is_answered = True

    def _tell_cancelled(self, run: Run) -> None:
        self.notify(f"Asked the scheduler to cancel run {run.id}.", markup=False)
        self.look_again()

    @on(ListPane.Wanted)
    def _read_wanted(self, event: ListPane.Wanted) -> None:
        self.read(event.pane, patient=not event.anew)

    def watch_pulse(self, pulse: RunsState) -> None:
        """Show the state of the runs in flight, and the error in the way of a newer one."""
        self._show_pulse()
        if pulse.failure is None:
            self.forget_failure(SCHEDULER)
        else:
            self.fail(SCHEDULER, pulse.failure)

    @on(Tick)
    def _beat(self) -> None:
        self._show_pulse()
        self._show_failures()
        self.look_again()
