"""Looking after a board: its boards, its people, the ranked runs, and what was decided."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, TypeVar

from msgspec.structs import replace
from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widgets import Static

from hpc_board.board import Board
from hpc_board.boards.editor import RequestedOptions
from hpc_board.boards.moderation import RerunCandidate
from hpc_board.domain.admin_views import BoardState, PersonState
from hpc_board.domain.board_options import Visibility, utc_words
from hpc_board.domain.moderation import BOARD, SUBMISSION, USER, Decision, Limits, limit_of
from hpc_board.domain.roles import Role
from hpc_board.domain.run import Run, RunState
from hpc_board.model.task import Mode
from hpc_board.report.moderation import limits_text
from hpc_board.tui import admin_tables, targets
from hpc_board.tui.messages import Open
from hpc_board.tui.paging import Page, forward, whole
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.screens.base import BoardScreen, Clock
from hpc_board.tui.screens.confirm import Confirm
from hpc_board.tui.screens.form_dialog import AskLines, Line
from hpc_board.tui.widgets.list_pane import ListPane
from hpc_board.tui.widgets.sections import Sections

_PAGES = (("boards", "Boards"), ("people", "People"), ("runs", "Ranked runs"), ("log", "Log"))
_FOR_CREATORS = _PAGES[:1]

_ACTIONS = {
    "boards": ("visibility", "deadline", "stop", "limits", "rerun"),
    "people": ("ban",),
    "runs": ("remove", "note", "code"),
    "log": (),
}
"""What can be done on which page only."""

_OF_ADMINS = ("stop", "limits", "rerun")

_LOOK_EVERY = 3
"""How many beats pass between two looks: nothing here changes by the second."""

_DECISION = "decision"
"""The subject of whatever is decided: one thing at a time."""

_RERUN_USERS = 100
_RERUN_USERS_MAX = 10_000
_LEFT_OUT_TOLD_MAX = 3
"""Of how many submissions that are not sent again it is told why."""

_UNTIL_WORDS = '+2d or "2030-12-31 18:00" (UTC); empty: no end'


T = TypeVar("T")


class AdminScreen(BoardScreen):
    """Lists of what there is to look after, page by page; each decision is asked for, and another one takes it back.

    Of the user, `role` is what they may do: creators have their own boards alone.
    """

    CSS_PATH = "admin.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "visibility", "Open/close", tooltip="Let everybody see the selected board, or its members alone"),
        Binding("d", "deadline", "Deadline", tooltip="Give the selected board another deadline"),
        Binding("s", "stop", "Stop/start", tooltip="Stop submissions to all boards, or take them again"),
        Binding("l", "limits", "Limits", tooltip="Limit how much each user may submit to the selected board"),
        Binding("r", "rerun", "Rerun", tooltip="Send the best submissions of the version before again"),
        Binding("b", "ban", "Ban/unban", tooltip="Let the selected user submit no more, or again"),
        Binding("x", "remove", "Remove/readmit", tooltip="Take the run's submission out of the standings, or back in"),
        Binding("v", "code", "Code", tooltip="Read the file of the selected run"),
        Binding("n", "note", "Note", tooltip="Put a note on the selected run, if it is your own"),
        Binding("slash", "filter", "Filter", key_display="/", tooltip="Narrow the list down to what you type"),
        Binding("f5", "again", "Look again", show=False, tooltip="Read the list again"),
        *(
            Binding(str(number), f"show('{name}')", title, show=False, tooltip=f"Show the page {title}")
            for number, (name, title) in enumerate(_PAGES, start=1)
        ),
        Binding("left_square_bracket", "turn(-1)", show=False),
        Binding("right_square_bracket", "turn(1)", show=False),
    ]
    HELP: ClassVar[str] = (
        "The digits open the pages, [ and ] turn them. Enter on a board opens its standings, on a user their ranked "
        "runs, on a run its report, and on a line of the log what it is about. What is decided here is asked for "
        "first, stands in the log with your name, and is taken back by another decision. 1 h is the last hour; limits "
        "are those for each user and hour, ranked first, then all others."
    )

    sections = getters.query_one(Sections)
    stop_line = getters.query_one("#stop", Static)

    def __init__(self, board: Board, now: Clock, role: Role) -> None:
        super().__init__(board, now)
        self._is_admin = role.may_act_as(Role.ADMIN)
        self._pages = _PAGES if self._is_admin else _FOR_CREATORS
        self._page = "boards"
        self._stop: Decision | None = None
        self._knows_stop = False
        self._ask_again: Callable[[str], None] | None = None
        self._beats = 0

    def compose_body(self) -> ComposeResult:
        """Whether submissions are taken, the names of the pages, and the lists."""
        yield Static(toned("Looking …", Tone.MUTED), id="stop", markup=False)
        yield Sections(self._pages, id="pages")
        lists: dict[str, tuple[Any, Callable[[str], Page[Any]]]] = {
            "boards": (admin_tables.boards, self._boards),
            "people": (admin_tables.people, self._people),
            "runs": (admin_tables.runs, self._runs),
            "log": (admin_tables.log, self._log),
        }
        with Container(id="lists"):
            for name, _ in self._pages:
                kind, pages = lists[name]
                yield ListPane(kind(self.now), pages, id=name)

    def on_mount(self) -> None:
        """Open the page that was open last."""
        super().on_mount()
        page = self.memory.get("admin", "page", "boards")
        self.action_show(page if page in self._names else "boards")

    def on_screen_resume(self) -> None:
        """Look again at what went on behind another screen."""
        self._ask(patient=True)

    def look_again(self) -> None:
        """Read again what is in sight, every few beats."""
        self._beats += 1
        if self._beats % _LOOK_EVERY == 0:
            self._ask(patient=True)

    def settle(self, subject: str) -> None:
        """Ask again what the board has refused."""
        if subject == _DECISION and self._ask_again is not None:
            again, self._ask_again = self._ask_again, None
            error = self.failure_of(subject)
            if error is not None and self.is_current:
                self.forget_failure(subject)
                again(f"{error.message.rstrip('.')}. {error.hint}")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer what can be done on this page, with what is selected, by this user."""
        elsewhere = any(action in actions for page, actions in _ACTIONS.items() if page != self._page)
        if elsewhere or (action in _OF_ADMINS and not self._is_admin):
            return False
        if action == "show" and parameters[0] not in self._names:
            return False
        if action == "filter" and self.is_mounted and self._pane.is_filtering:
            return False
        if action == "stop" and not self._knows_stop:
            return None
        if action != "stop" and action in _ACTIONS[self._page] and not self._may(action):
            return None
        return super().check_action(action, parameters)

    def action_back(self) -> None:
        """Take away what could not be decided, clear the words of the list, or else leave."""
        if self.has_failed(_DECISION):
            self.forget_failure(_DECISION)
        elif self._pane.words or self._pane.scope:
            self._pane.narrow("")
        else:
            super().action_back()

    def action_show(self, page: str) -> None:
        """Open a page."""
        self._page = page
        self.memory.set("admin", "page", page)
        for pane in self.query(ListPane):
            pane.display = pane.id == page
        self.sections.show(page)
        self._pane.grid.focus()
        self._show_place()
        self.refresh_bindings()
        self._ask(patient=False)

    def action_turn(self, by: int) -> None:
        """Open the next page, or the one before."""
        self.action_show(self._names[(self._names.index(self._page) + by) % len(self._names)])

    def action_filter(self) -> None:
        """Narrow the list down to what one types."""
        self._pane.open_filter()
        self.refresh_bindings()

    def action_again(self) -> None:
        """Read the list again."""
        self._ask(patient=False)

    # Boards

    def action_stop(self) -> None:
        """Stop submissions, or take them again."""
        stopped = self._stop is not None

        def act(lines: tuple[str, ...]) -> str:
            (reason,) = lines
            if stopped:
                begun = self.board.moderation.start(reason)
                return "Submissions are taken again." if begun else "Submissions were taken already."
            ended = self.board.moderation.stop(reason)
            return "No new submissions are taken." if ended else "No new submissions were taken before, either."

        question = "Take submissions again?" if stopped else "Stop submissions to all boards? Runs in flight go on."
        self._decide(question, [Line("Reason", placeholder="shown to everybody")], "Start" if stopped else "Stop", act)

    def action_visibility(self) -> None:
        """Let everybody see the selected board, or its members alone."""
        board = self._selected
        if not isinstance(board, BoardState):
            return
        close = board.visibility is Visibility.PUBLIC
        question = (
            f"Close {board.name}? Its members, its creator and admins see it then."
            if close
            else f"Open {board.name}? Everybody sees it then, with what was submitted to it."
        )
        self._decide(
            question,
            [Line("Reason", placeholder="kept in the board's history")],
            "Close it" if close else "Open it",
            lambda lines: self._changed(board.name, RequestedOptions(closed=close), lines[0]),
        )

    def action_deadline(self) -> None:
        """Give the selected board another deadline."""
        board = self._selected
        if not isinstance(board, BoardState):
            return
        present = utc_words(board.deadline).removesuffix(" UTC")
        self._decide(
            f"Until when, in UTC, may one submit to {board.name}?",
            [
                Line("Deadline", present, '"2030-12-31 18:00", "+7d" from now, or none', needed=True),
                Line("Reason", placeholder="kept in the board's history"),
            ],
            "Change it",
            lambda lines: self._changed(board.name, RequestedOptions(deadline=lines[0]), lines[1]),
        )

    def action_limits(self) -> None:
        """Limit how much each user may submit to the selected board."""
        board = self._selected
        if not isinstance(board, BoardState):
            return

        def act(lines: tuple[str, ...]) -> str:
            limits = Limits(*map(limit_of, lines))
            return f"{board.name}: {limits_text(self.board.moderation.limit(board.name, lambda _: limits))}."

        ranked, other = ("none" if limit is None else str(limit) for limit in (board.limits.ranked, board.limits.other))
        self._decide(
            f"How much may each user submit to {board.name} within an hour? 0 closes it for them, none is no limit.",
            [Line("Ranked", ranked, "a number, or none"), Line("Other", other, "test, benchmark and profile together")],
            "Limit it",
            act,
            _limits_fault,
        )

    def action_rerun(self) -> None:
        """Send the best submissions of the version before the present one again."""
        board = self._selected
        if not isinstance(board, BoardState):
            return
        name = board.name

        def plan(lines: tuple[str, ...]) -> Sequence[RerunCandidate]:
            gpus = [word for word in lines[1].replace(",", " ").split() if word.lower() != "all"]
            return self.board.submissions.rerun_plan(name, top=int(lines[0]), gpus=gpus)

        lines = [Line("Users", str(_RERUN_USERS), "how many of each GPU", needed=True), Line("GPUs", "all")]
        question = f"Send the best submissions to {name}, as they stood at the version before, again?"
        then = partial(self._ask_to_rerun, name)
        self._ask_lines(question, lines, "Say what would be sent", plan, then, _users_fault)

    def _ask_to_rerun(self, task: str, plan: Sequence[RerunCandidate]) -> None:
        sent = [each for each in plan if each.source is not None]
        left = [f"submission {each.submission.id}: {each.why}" for each in plan if each.source is None]
        if not sent:
            words = _first_of(left) or "Nothing to rerun."
            self.notify(words, title="Nothing is sent", markup=False)
            return
        users = ", ".join(dict.fromkeys(each.submission.user for each in sent))
        jobs = sum(len(each.gpus) for each in sent)
        more = f" Left out: {_first_of(left)}." if left else ""
        question = f"Send {jobs} ranked runs for {task} under your account? They are of {users}.{more}"

        def act(yes: bool | None) -> None:
            if yes and self._is_free():
                self.ask(_DECISION, lambda: _sent_words(self.board.submissions.rerun(plan)), self._tell_decided)

        self.app.push_screen(Confirm(question, "Send them", "Don't"), act)

    # People

    def action_ban(self) -> None:
        """Let the selected user submit no more, or again."""
        person = self._selected
        if not isinstance(person, PersonState):
            return
        name = person.name
        if person.ban is not None:

            def unban(lines: tuple[str, ...]) -> str:
                return (
                    f"{name} {'may submit again' if self.board.moderation.unban(name, *lines) else 'was not banned'}."
                )

            self._decide(f"Let {name} submit again?", [Line("Reason")], "Unban", unban)
            return

        def ban(lines: tuple[str, ...]) -> str:
            return f"{name} {'is banned' if self.board.moderation.ban(name, *lines) else 'was banned already'}."

        lines = [Line("Reason", placeholder="shown to the user", needed=True), Line("Until", placeholder=_UNTIL_WORDS)]
        self._decide(f"Let {name} submit no more? Runs in flight go on.", lines, "Ban", ban)

    # Runs

    def action_remove(self) -> None:
        """Take the selected run's submission out of the standings, or put it back."""
        run = self._selected
        if not isinstance(run, Run):
            return
        number = run.submission
        if run.remarks.removal is not None:

            def readmit(lines: tuple[str, ...]) -> str:
                self.board.moderation.readmit([number], *lines)
                return f"Submission {number} is in the standings again, as far as it passed."

            question = f"Put submission {number} of {run.user} back into the standings?"
            self._decide(question, [Line("Reason")], "Readmit", readmit)
            return

        def remove(lines: tuple[str, ...]) -> str:
            self.board.moderation.remove([number], *lines)
            return f"Submission {number} is in the standings no more."

        question = f"Take submission {number} of {run.user} out of the standings, with all its runs?"
        self._decide(question, [Line("Reason", placeholder="shown to everybody", needed=True)], "Remove", remove)

    def action_note(self) -> None:
        """Put a note on the selected run's submission."""
        run = self._selected
        if not isinstance(run, Run):
            return

        def act(lines: tuple[str, ...]) -> str:
            self.board.submissions.note(run.submission, *lines)
            return f"Submission {run.submission} has the note."

        self._decide(f"A note on submission {run.submission}:", [Line("Note", needed=True)], "Put it there", act)

    def action_code(self) -> None:
        """Read the file of the selected run."""
        if isinstance(run := self._selected, Run):
            self.post_message(Open(targets.Code(run.submission, run.task)))

    # What all pages share

    @property
    def _names(self) -> list[str]:
        return [name for name, _ in self._pages]

    @property
    def _pane(self) -> ListPane[Any]:
        return self._pane_of(self._page)

    def _pane_of(self, page: str) -> ListPane[Any]:
        return self.query_one(f"#{page}", ListPane)

    @property
    def _selected(self) -> Any:
        return self._pane.selected

    def _may(self, action: str) -> bool:
        """Whether this can be done with what is selected."""
        selected = self._selected if self.is_mounted else None
        if action in ("visibility", "deadline"):
            return isinstance(selected, BoardState) and selected.is_created
        if action == "note":
            return isinstance(selected, Run) and selected.user == self.board.user
        return selected is not None

    def _decide(
        self,
        question: str,
        lines: Sequence[Line],
        words: str,
        act: Callable[[tuple[str, ...]], str],
        fault: Callable[[tuple[str, ...]], str] = lambda _: "",
    ) -> None:
        """Ask, and do it; what `act` returns says what was done."""
        self._ask_lines(question, lines, words, act, self._tell_decided, fault)

    def _ask_lines(
        self,
        question: str,
        lines: Sequence[Line],
        words: str,
        answer: Callable[[tuple[str, ...]], T],
        then: Callable[[T], None],
        fault: Callable[[tuple[str, ...]], str],
        said: str = "",
    ) -> None:
        """Ask for lines that `answer` takes, for `then`; what it refuses is asked again with what was typed."""

        def take(given: tuple[str, ...] | None) -> None:
            if given is not None and self._is_free():
                typed = [replace(line, value=text) for line, text in zip(lines, given, strict=True)]
                self._ask_again = partial(self._ask_lines, question, typed, words, answer, then, fault)
                self.ask(_DECISION, lambda: answer(given), then)

        self.app.push_screen(AskLines(question, lines, words, fault, said), take)

    def _is_free(self) -> bool:
        if self.is_open(_DECISION):
            self.notify("What you decided before is not done yet. Try again in a moment.", markup=False)
            return False
        return True

    def _changed(self, name: str, options: RequestedOptions, reason: str) -> str:
        """The terms of a board changed as wished; what has changed, in words."""
        plan = self.board.leaderboards.plan_update(name, options=options)
        self.board.leaderboards.carry_out([plan], reason=reason)
        changes = ", ".join(f"{each.what} {each.after} (was {each.before})" for each in plan.differences)
        return f"{name}: {changes or 'nothing is to be changed'}."

    def _show_place(self) -> None:
        pane = self._pane
        places = (dict(self._pages)[self._page], pane.scope, f"/{pane.words}" if pane.words else "")
        self.title_bar.show_place("Admin", " · ".join(filter(None, places)))

    def _ask(self, *, patient: bool) -> None:
        self.read(self._pane, patient=patient)
        self.ask("stop", self.board.admin_views.stop, self._show_stop, patient=patient)

    def _boards(self, words: str) -> Page[BoardState]:
        board = self.board
        return lambda _: whole(tuple(each for each in board.admin_views.boards() if words.lower() in each.name.lower()))

    def _people(self, words: str) -> Page[PersonState]:
        def read(after: str | None, limit: int) -> tuple[PersonState, ...]:
            return self.board.admin_views.people(after=after or "", limit=limit, part=words)

        return forward(read, admin_tables.BY_NAME.key)

    def _runs(self, words: str) -> Page[Run]:
        user = self._pane_of("runs").scope or None

        def read(before: int | None, limit: int) -> tuple[Run, ...]:
            return self.board.runs.list(
                everyone=True, user=user, mode=Mode.RANKED, words=words, limit=limit, before=before
            )

        return forward(read, admin_tables.NEWEST_RUN.key)

    def _log(self, words: str) -> Page[Decision]:
        def read(before: tuple[float, int] | None, limit: int) -> tuple[Decision, ...]:
            older = None if before is None else before[1]
            return self.board.moderation.decisions(limit=limit, before=older, words=words.split())

        return forward(read, admin_tables.NEWEST_DECISION.key)

    @on(Sections.Chosen)
    def _open_page(self, event: Sections.Chosen) -> None:
        self.action_show(event.name)

    def _show_stop(self, stop: Decision | None) -> None:
        self._stop, self._knows_stop = stop, True
        self.stop_line.update(admin_tables.stop_text(stop, self.now()))
        self.refresh_bindings()

    def _tell_decided(self, words: str) -> None:
        self.notify(words, markup=False)
        self._ask(patient=False)

    @on(ListPane.Narrowed)
    def _tell_words(self) -> None:
        self._show_place()

    @on(ListPane.Chosen)
    def _open(self, event: ListPane.Chosen) -> None:
        match event.item:
            case BoardState(name=name):
                self.post_message(Open(targets.Standings(name)))
            case PersonState(name=name):
                self._turn_to("runs", scope=name)
            case Run(id=number):
                self.post_message(Open(targets.Report(number)))
            case Decision(kind=kind, subject=subject) if kind == USER:
                self._turn_to("people", subject)
            case Decision(kind=kind, subject=subject) if kind == BOARD:
                self._turn_to("boards", subject)
            case Decision(kind=kind, subject=subject) if kind == SUBMISSION and subject.isdecimal():
                self.post_message(Open(targets.Code(int(subject))))

    def _turn_to(self, page: str, words: str = "", scope: str = "") -> None:
        """Open a page with what fits these words, within a scope."""
        self._pane_of(page).narrow(words, scope)
        self.action_show(page)


def _limits_fault(lines: tuple[str, ...]) -> str:
    try:
        for line in lines:
            limit_of(line)
    except ValueError as error:
        return f"{error}."
    return ""


def _users_fault(lines: tuple[str, ...]) -> str:
    users = lines[0]
    fits = users.isascii() and users.isdecimal() and len(users) < 10 and 1 <= int(users) <= _RERUN_USERS_MAX
    return "" if fits else f"Users: a number from 1 to {_RERUN_USERS_MAX}."


def _first_of(left: Sequence[str]) -> str:
    more = len(left) - _LEFT_OUT_TOLD_MAX
    return "; ".join(left[:_LEFT_OUT_TOLD_MAX]) + (f"; and {more} more" if more > 0 else "")


def _sent_words(runs: Sequence[Run]) -> str:
    unsent = sum(run.state is RunState.ERROR for run in runs)
    many = "1 run is" if len(runs) == 1 else f"{len(runs)} runs are"
    return f"{many} sent again." if not unsent else f"Of {len(runs)} runs, {unsent} could not be sent; they say why."
