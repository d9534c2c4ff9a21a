"""The base of the screens that name runs, and the actions on such a run."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar, TypeVar

import msgspec
from textual.binding import BindingType

from hpc_board.domain.budget import default_budget
from hpc_board.domain.origin import default_origin
from hpc_board.domain.run import Cancellation, Run
from hpc_board.errors import BoardError
from hpc_board.model.task import Mode
from hpc_board.report.run_words import ended_before_text
from hpc_board.tui import targets
from hpc_board.tui.messages import Open, SideChosen
from hpc_board.tui.screens.base import HOLD_KEY, NOTHING_SELECTED, THE_FILE, THE_SCHEDULER, USER_KEY, BoardScreen
from hpc_board.tui.verbs import bindings

T = TypeVar("T")

_LISTED_MAX = 10
"""The most runs that a question names."""

_ON_AN_OWN_RUN = ("watch", "rerun", "note")
ON_A_RUN = ("code", "mark", "copy", "standings", "trend", "edit", "cancel", *_ON_AN_OWN_RUN)
"""The actions on the run in hand."""


class NamedRun(msgspec.Struct, frozen=True):
    """A passing ranked run as a row of a user or a team names it: its number, board and submitter."""

    id: int
    task: str
    gpu: str
    user: str
    submitter: str


class RunScreen(BoardScreen):
    """A screen whose rows name runs, or which shows one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("submit", "edit", "cancel", "standings", "code", "trend", "mark", "watch", "rerun", "note", "copy"),
        USER_KEY,
        replace(HOLD_KEY, show=False),
    ]
    OPENINGS: ClassVar[tuple[str, ...]] = (*BoardScreen.OPENINGS, "task")
    SHOWN_BESIDE: ClassVar[tuple[str, ...]] = ("task",)
    WITHOUT: ClassVar[frozenset[str]] = frozenset()
    """The actions on a run that this screen never has, such as one that would lead to itself."""

    _copied: int | None = None
    """The run whose texts were copied last."""
    _copies: int = 0
    """The number of presses of the key before the last one, on the same run."""

    @property
    def run_in_hand(self) -> Run | NamedRun | None:
        """Return the run of the selected row, or the one shown."""
        raise NotImplementedError

    @property
    def user_in_hand(self) -> str | None:
        return None if self.run_in_hand is None else self.run_in_hand.user

    @property
    def gpu_in_hand(self) -> str | None:
        return None if self.run_in_hand is None else self.run_in_hand.gpu

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in self.WITHOUT:
            return False
        if action in ("cancel", "mark") and self.reason_against(action):
            # The last line has the keys of few runs only there.
            return None if action == "mark" and self.run_in_hand is None else False
        return super().check_action(action, parameters)

    def reason_against(self, action: str) -> str:
        if action not in ON_A_RUN:
            return super().reason_against(action)
        run = self.run_in_hand
        if run is None:
            return NOTHING_SELECTED
        if action == "cancel" and not (isinstance(run, Run) and not run.state.ended):
            return f"Run {run.id} has ended."
        if action == "mark" and isinstance(run, Run) and not run.state.ended and run.id != self.marked:
            return f"Run {run.id} has not ended: only a run that has ended is compared."
        return self.reason_of_owner(run) if action in _ON_AN_OWN_RUN else ""

    def reason_of_owner(self, run: Run | NamedRun) -> str:
        """Return the reason for which the user may not watch, rerun or annotate a run, empty without one."""
        submitter = run.user if isinstance(run, Run) else run.submitter
        if submitter == self.board.user:
            return ""
        return f"Run {run.id} is {submitter}'s: only your own runs are watched or rerun, and only these get notes."

    def action_submit(self) -> None:
        """Open the form with the file and the choices of the run, or an empty one without a run."""
        if self.run_in_hand is None:
            self.post_message(Open(targets.Submit()))
        else:
            self._on_run(self.submit_file_of)

    def submit_file_of(self, run: Run) -> None:
        """Open the form with task, GPU and next mode of a run, and with its file if it is the user's and exists."""

        def fill(found: tuple[Path | None, Mode]) -> None:
            file, mode = found
            own = run if run.user == self.board.user else None
            self.post_message(Open(targets.Submit(run.task, (run.gpu,), mode, file, of_run=own)))

        self.ask("submit", lambda: (self._file_of(run), self._next_mode(run)), fill, whom=THE_FILE)

    def action_edit(self) -> None:
        self._on_run(self.edit_file_of)

    def action_watch(self) -> None:
        self._on_run(self.watch_file_of)

    def action_rerun(self) -> None:
        self._on_run(lambda run: self.offer_again([run]))

    def action_cancel(self) -> None:
        if isinstance(run := self.run_in_hand, Run):
            self.offer_cancel([run])

    def offer_cancel(self, runs: Sequence[Run]) -> None:
        """Cancel those of the runs that have not ended, after confirmation, with one question to each scheduler."""
        count, runs = len(runs), [run for run in runs if not run.state.ended]
        if not runs:
            return
        if len(runs) == 1:
            (run,) = runs
            question, cancel, keep = f"Cancel run {run.id}, {run.task} on {run.gpu}?", "Cancel run", "Keep run"
        else:
            cancel, keep = f"Cancel {len(runs)} runs", "Keep runs"
            question = f"{cancel}: {_listed(runs)}?"
        if ended := count - len(runs):
            question += f" {ended} of {count} {'has' if ended == 1 else 'have'} ended."
        cancelled = partial(self._cancelled, [run.id for run in runs])
        ask = partial(self.ask, "cancel", cancelled, self._notify_cancelled, whom=THE_SCHEDULER)
        self.confirm(question, cancel, keep, ask)

    def offer_again(self, runs: Sequence[Run]) -> None:
        def send() -> Sequence[Run]:
            submissions, entrant = self.board.submissions, default_origin(os.environ).entrant
            requests = [submissions.again(run.id, entrant=entrant) for run in runs]
            return submissions.submit(requests, budget=default_budget(os.environ))

        question = f"Rerun {len(runs)} runs: {_listed(runs)}?"
        if len(runs) == 1:
            (run,) = runs
            question = f"Rerun run {run.id}: {run.file_name}, {run.task} on {run.gpu}, mode {run.mode}?"
        self.confirm(question, "Rerun", "Back", lambda: self.ask("again", send, self.follow_sent, whom=THE_SCHEDULER))

    def follow_sent(self, runs: Sequence[Run]) -> None:
        """Show the runs that were just sent."""
        self.post_message(Open(targets.Sent(tuple(run.id for run in runs))))

    def _cancelled(self, numbers: Sequence[int]) -> Sequence[Cancellation]:
        """Request the cancellation of these runs, and return the answers without those that were refused.

        Raises:
            BoardError: none of them could be cancelled.
        """
        answers = self.board.runs.cancel_each(numbers)
        errors = [answer.error for answer in answers if answer.error is not None]
        done = [answer for answer in answers if answer.error is None]
        if errors and not done:
            raise errors[0]
        if errors:
            words = f"{len(errors)} of {len(answers)} runs were not cancelled: {errors[0].message}"
            self.app.call_from_thread(self.notify, words, severity="warning")
        return done

    def _notify_cancelled(self, answers: Sequence[Cancellation]) -> None:
        """Show which runs had ended before; the others are `cancelling` on the screen."""
        ended = [answer.run for answer in answers if answer.run is not None and answer.ended_before]
        if ended:
            self.notify("\n".join(map(ended_before_text, ended[:_LISTED_MAX])))
        self.look_again()

    def _run_of(self, run: Run | NamedRun) -> Run:
        return run if isinstance(run, Run) else self.board.runs.get(run.id)

    def _on_run(self, act: Callable[[Run], None]) -> None:
        """Read a run that a row only names with its task, and pass it to `act`; without the task as `_on_task`."""
        self._on_task(act, self._run_of)

    def _on_task(self, act: Callable[[T], None], read: Callable[[Run | NamedRun], T]) -> None:
        """Pass the run in hand, as `read`, to `act` if the board has its task; else tell the user, and stay here."""
        if (run := self.run_in_hand) is None:
            return

        def question() -> T:
            self.board.tasks.get(run.task)
            return read(run)

        self.ask("task", question, act, failed=partial(self._tell_of_run, run.id))

    def _tell_of_run(self, run: int, error: BoardError) -> None:
        self.notify(error.message, title=f"Run {run}", severity="warning")

    def action_code(self) -> None:
        if (run := self.run_in_hand) is not None:
            self.post_message(Open(targets.Code(run.id)))

    def action_standings(self) -> None:
        self._on_task(self.lead_to, lambda run: targets.Standings(run.task, run.gpu, run.user))

    def action_trend(self) -> None:
        self._on_task(self.lead_to, lambda run: targets.Trend(run.task, run.gpu, run.user))

    def action_note(self) -> None:
        if (run := self.run_in_hand) is not None:
            failed = partial(self._tell_of_run, run.id)
            self.ask("task", lambda: self._run_of(run).submission, self._ask_note, failed=failed)

    def _ask_note(self, submission: int) -> None:
        from hpc_board.tui.screens.dialogs import AskLines, Line

        def add(lines: tuple[str, ...] | None) -> None:
            if lines is not None:
                self.ask("note", partial(self.board.submissions.note, submission, *lines), self._tell_noted)

        ask = AskLines(f"Note on submission {submission}:", [Line("Note", needed=True)], "Add it")
        # As with other screens, the wait for this one ends before it is in front.
        self.call_later(self.app.push_screen, ask, add)

    def _tell_noted(self, _: None) -> None:
        self.notify("Note added.")
        self.read_again()

    def read_again(self) -> None:
        """Read the run in hand again, which has another note."""
        self.look_again()

    def action_copy(self) -> None:
        """Copy the number of the run; pressed again, its command, the path of its file, and the number of its job."""
        if (run := self.run_in_hand) is not None:
            self._copies = self._copies + 1 if run.id == self._copied else 0
            self._copied = run.id
            self.ask("copy", lambda: (found := self._run_of(run), self._file_of(found)), self._copy)

    def _copy(self, answer: tuple[Run, Path | None]) -> None:
        run, file = answer
        path = "" if file is None else str(file.absolute())
        named = ("run ", str(run.id)), ("", f"hpc-board run {run.id}"), ("", path), ("job ", run.status.job_id)
        texts = [(kind, text) for kind, text in named if text]
        (_, text), following = (texts[(self._copies + step) % len(texts)] for step in (0, 1))
        self.app.copy_to_clipboard(text)
        self.app.clear_notifications()
        self.notify(f"Copied {text}. y again: {''.join(following)}")

    def action_mark(self) -> None:
        if (run := self.run_in_hand) is not None:
            self.post_message(SideChosen(run.id, run.task))


def _listed(runs: Sequence[Run]) -> str:
    more = len(runs) - _LISTED_MAX
    return ", ".join(str(run.id) for run in runs[:_LISTED_MAX]) + (f" and {more} more" if more > 0 else "")
