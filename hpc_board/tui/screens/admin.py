"""The Admin screen: boards, users, ranked runs, and the audit log."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

from msgspec.structs import replace
from textual import getters, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.widgets import Static

from hpc_board.board import Board
from hpc_board.domain.admin_views import BoardState, PersonState
from hpc_board.domain.board_options import RequestedOptions, Visibility, utc_words
from hpc_board.domain.draft import RerunCandidate
from hpc_board.domain.moderation import (
    BOARD,
    CONFIRMING_RUNS,
    SUBMISSION,
    USER,
    Category,
    Decision,
    Limits,
    Period,
    limits_of,
)
from hpc_board.domain.roles import Role
from hpc_board.domain.run import Run, RunState
from hpc_board.domain.user_board import BoardRequest
from hpc_board.errors import BoardError, InputError
from hpc_board.model.task import Mode
from hpc_board.model.text import one_line
from hpc_board.report.moderation import limits_text
from hpc_board.tui import admin_tables, targets
from hpc_board.tui.paging import Page, paged, whole
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.run_cells import run_order
from hpc_board.tui.screens.base import NOTHING_SELECTED, SORT_HELP, BoardScreen, Clock
from hpc_board.tui.screens.dialogs import AskLines, Line
from hpc_board.tui.screens.run_keys import ON_A_RUN, NamedRun, RunScreen
from hpc_board.tui.verbs import binding, bindings, page_bindings
from hpc_board.tui.widgets.bars import PageTabs
from hpc_board.tui.widgets.list_pane import ListPane

_PAGES = {"boards": "Boards", "people": "Users", "runs": "Ranked runs", "log": "Log"}
_FOR_CREATORS = {page: _PAGES[page] for page in ("boards", "runs")}

_ACTIONS = {
    "boards": ("visibility", "terms", "stop", "limits", "rerun_best", "standings"),
    "people": ("ban", "user"),
    "runs": ("rerun_best", "remove", "submit", "user", *ON_A_RUN),
    "log": ("user",),
}
"""The actions of each page."""

_LOOK_EVERY = 3
"""The ticks between two updates, as these lists change slowly."""

_ROWS_MAX = 1_000
"""The most users and decisions of a list."""

_DECISION = "decision"
"""The subject of all decisions, of which one is open at a time."""

_RERUN_USERS = 100
_PREVIOUS, _PRESENT = "previous", "present"
_SHOWN, _PSEUDONYMS = "shown", "pseudonyms"
_RERUN_USERS_MAX = 10_000
_SKIPPED_SHOWN_MAX = 3
"""The most skipped submissions whose reasons are shown."""

_UNTIL_WORDS = '+2d or "2030-12-31 18:00" (UTC); empty: no end'


class _Reruns(NamedTuple):
    """Planned reruns, and the choices of their plan."""

    task: str
    choices: Mapping[str, Any]
    candidates: Sequence[RerunCandidate]


class AdminScreen(RunScreen):
    """Lists of boards, users, ranked runs and decisions, each on a page; creators see the boards that they manage."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("visibility", "terms", "stop", "limits"),
        binding("rerun", "Rerun the best submissions, or confirm a score", action="rerun_best", id="admin.rerun"),
        *bindings("ban", "remove", "filter", "sort", "reverse"),
        binding("refresh", show=False),
        *page_bindings(_PAGES.items()),
    ]
    ACTIONS: ClassVar[tuple[str, ...]] = (*BoardScreen.ACTIONS, _DECISION)
    HELP: ClassVar[str] = (
        "The digits open the pages; [ and ] switch to the previous and the next one. Enter on a board opens its "
        "standings, on a user their ranked runs, on a run its report, and on a line of the log its subject. All "
        "actions ask for confirmation, are logged with your name, and can be reverted. 1 h is the last hour; limits "
        "are per user, ranked first, then all other submissions; + stands for those of single users and roles. "
        f"{SORT_HELP}"
    )

    page_tabs = getters.query_one(PageTabs)
    stop_line = getters.query_one("#stop", Static)

    def __init__(self, board: Board, now: Clock, target: targets.Admin) -> None:
        super().__init__(board, now, target)
        self._is_admin = target.role.may_act_as(Role.ADMIN)
        self._pages = _PAGES if self._is_admin else _FOR_CREATORS
        self._page = "boards"
        self._stop: Decision | None = None
        self._ticks = 0

    def compose_body(self) -> ComposeResult:
        yield Static(toned("Loading …", Tone.MUTED), id="stop", markup=False)
        yield PageTabs([*self._pages.items()])
        lists: dict[str, tuple[Any, Callable[[str], Page[Any]]]] = {
            "boards": (admin_tables.boards, self._boards),
            "people": (admin_tables.people, self._people),
            "runs": (admin_tables.runs, self._runs),
            "log": (admin_tables.log, self._log),
        }
        with Container(id="lists"):
            for name in self._pages:
                kind, pages = lists[name]
                yield ListPane(kind(self.now), pages, id=name).data_bind(BoardScreen.marked)

    def begin(self) -> None:
        page = self.memory.get("admin", "page", "boards")
        self.action_show(page if page in self._pages else "boards")

    def on_screen_resume(self) -> None:
        self._ask(patient=True)

    def look_again(self) -> None:
        self._ticks += 1
        if self.board.served or self._ticks % _LOOK_EVERY == 0:
            self._ask(patient=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        elsewhere = any(action in actions for actions in _ACTIONS.values())
        if (elsewhere and action not in _ACTIONS[self._page]) or (
            action == "stop" and not (self._is_admin and self.answered_at("stop"))
        ):
            return False
        if action == "show" and parameters[0] not in self._pages:
            return False
        return super().check_action(action, parameters)

    def reason_against(self, action: str) -> str:
        if action == "stop" or action not in _ACTIONS[self._page]:
            return super().reason_against(action)
        selected = self._selected
        if selected is None:
            return NOTHING_SELECTED
        if action in ("visibility", "terms") and isinstance(selected, BoardState) and selected.terms is None:
            return "This board is that of a task in the settings: its task.yml has the deadline."
        if action == "standings" and isinstance(selected, BoardState):
            return ""
        return super().reason_against(action)

    def action_back(self) -> None:
        if self.has_failed(_DECISION):
            self.forget_failure(_DECISION)
        else:
            super().action_back()

    def action_show(self, page: str) -> None:
        self._page = page
        self.memory.set("admin", "page", page)
        for pane in self.query(ListPane):
            pane.display = pane.id == page
        self.page_tabs.show_page(page)
        self._pane.grid.focus()
        self.show_place("Admin", self._pages[page])
        self.refresh_bindings()
        self._ask(patient=False)

    def action_turn(self, by: int) -> None:
        pages = [*self._pages]
        self.action_show(pages[(pages.index(self._page) + by) % len(pages)])

    def action_again(self) -> None:
        self._ask(patient=False)

    # Boards

    @property
    def key_labels(self) -> Mapping[str, str]:
        labels = {**super().key_labels, **({} if self._stop is None else {"stop": "Start"})}
        match self._selected:
            case BoardState(visibility=Visibility.CLOSED):
                labels["visibility"] = "Open"
            case PersonState() as person if person.ban is not None:
                labels["ban"] = "Unban"
            case Run(remarks=remarks) if remarks.removal is not None:
                labels["remove"] = "Readmit"
        return labels

    def action_stop(self) -> None:
        stopped = self._stop is not None

        def act(lines: tuple[str, ...]) -> str:
            (reason,) = lines
            if stopped:
                begun = self.board.moderation.start(reason)
                return "Submissions are accepted again." if begun else "Submissions were already accepted."
            ended = self.board.moderation.stop(reason)
            return "No new submissions are accepted." if ended else "Submissions are already stopped."

        question = (
            "Accept submissions again?" if stopped else "Stop submissions to all boards? Runs in flight continue."
        )
        self._decide(question, [Line("Reason", placeholder="shown to all users")], "Start" if stopped else "Stop", act)

    def action_standings(self) -> None:
        if isinstance(board := self._selected, BoardState):
            self.lead_to(targets.Standings(board.name))
        else:
            super().action_standings()

    def action_visibility(self) -> None:
        board: BoardState = self._selected
        close = board.visibility is Visibility.PUBLIC
        question = (
            f"Close {board.name}? Only members, creator and admins will see it."
            if close
            else f"Open {board.name}? All users will see it with its runs."
        )
        self._decide(
            question,
            [Line("Reason", placeholder="recorded in the board's history")],
            "Close it" if close else "Open it",
            lambda lines: self._changed(board.name, RequestedOptions(closed=close), lines[0]),
        )

    def action_terms(self) -> None:
        board = self._selected
        if not isinstance(board, BoardState) or (terms := board.terms) is None:
            return
        names = _SHOWN, _PSEUDONYMS
        present = [utc_words(at).removesuffix(" UTC") for at in (board.deadline, terms.freeze_at)]

        def act(lines: tuple[str, ...]) -> str:
            # A deadline that is past may stay.
            deadline, freeze = (new if new != old else None for new, old in zip(lines, present, strict=False))
            anonymous = is_anonymous if (is_anonymous := lines[2] == _PSEUDONYMS) != terms.anonymous else None
            options = RequestedOptions(deadline=deadline, freeze=freeze, anonymous=anonymous)
            return self._changed(board.name, options, lines[3])

        self._decide(
            f"New deadline and freeze of {board.name}, in UTC, and the names of other users there:",
            [
                Line("Deadline", present[0], '"2030-12-31 18:00", "+7d" from now, or none', needed=True),
                Line("Freeze", present[1], '"-24h" before the deadline, a time, or none', needed=True),
                Line("Names", names[terms.anonymous], needed=True, choices=names),
                Line("Reason", placeholder="recorded in the board's history"),
            ],
            "Change",
            act,
        )

    def action_limits(self) -> None:
        board: BoardState = self._selected

        def act(lines: tuple[str, ...]) -> str:
            ranked, other = map(limits_of, lines)
            limits = [Limits(ranked.get(per), other.get(per), per) for per in Period]
            return f"{board.name}: {limits_text(self.board.moderation.limit(board.name, limits))}."

        ranked, other = (_limit_words(board, category) for category in Category)
        self._decide(
            f"Submissions per user to {board.name}, as in 5/h 20/d 50/w 100/all? 0 closes the board.",
            [Line("Ranked", ranked, "numbers, or none"), Line("Other", other, "all other modes together")],
            "Limit it",
            act,
        )

    def action_rerun_best(self) -> None:
        selected = self._selected
        if isinstance(selected, Run) and self._is_free():
            choices = {"submissions": (selected.submission,), "confirm": True}
            self.ask(_DECISION, partial(self._planned, selected.task, choices), self._ask_to_rerun)
        if not isinstance(selected, BoardState):
            return
        name = selected.name

        def plan(lines: tuple[str, ...]) -> _Reruns:
            gpus = tuple(word for word in lines[1].replace(",", " ").split() if word.lower() != "all")
            return self._planned(name, {"top": _users_of(lines[0]), "gpus": gpus, "confirm": lines[2] == _PRESENT})

        lines = [
            Line("Users", str(_RERUN_USERS), "number for each GPU", needed=True),
            Line("GPUs", "all"),
            Line("Version", _PREVIOUS, needed=True, choices=(_PREVIOUS, _PRESENT)),
        ]
        question = f"Rerun the best submissions to {name}, or confirm those of the present version?"
        self._decide(question, lines, "Show the plan", plan, self._ask_to_rerun)

    def _planned(self, task: str, choices: Mapping[str, Any]) -> _Reruns:
        return _Reruns(task, choices, self.board.submissions.rerun_plan(task, **choices))

    def _ask_to_rerun(self, reruns: _Reruns) -> None:
        sent = [each for each in reruns.candidates if each.source is not None]
        left = [f"submission {each.submission.id}: {each.why}" for each in reruns.candidates if each.source is None]
        if not sent:
            words = _first_of(left) or "Nothing to rerun."
            self.notify(words, title="No reruns")
            return
        users = ", ".join(dict.fromkeys(each.submission.user for each in sent))
        jobs = sum(len(each.gpus) for each in sent) * (CONFIRMING_RUNS if reruns.choices["confirm"] else 1)
        more = f" Skipped: {_first_of(left)}." if left else ""
        question = f"Send {jobs} ranked runs for {reruns.task} under your account? Users: {users}.{more}"

        def send() -> str:
            chosen = [each.submission.id for each in sent]
            return _sent_words(self.board.submissions.rerun(reruns.task, chosen, **reruns.choices))

        def act() -> None:
            if self._is_free():
                self.ask(_DECISION, send, self._show_decided)

        self.confirm(question, "Send them", "Don't", act)

    # Users

    def action_ban(self) -> None:
        person: PersonState = self._selected
        name, moderation = person.name, self.board.moderation
        if person.ban is not None:

            def unban(lines: tuple[str, ...]) -> str:
                return f"{name} {'may submit again' if moderation.unban(name, *lines) else 'was not banned'}."

            self._decide(f"Lift the ban of {name}?", [Line("Reason")], "Unban", unban)
            return

        def ban(lines: tuple[str, ...]) -> str:
            return f"{name} {'is banned' if moderation.ban(name, *lines) else 'was banned already'}."

        lines = [Line("Reason", placeholder="shown to the user", needed=True), Line("Until", placeholder=_UNTIL_WORDS)]
        self._decide(f"Ban {name} from submitting? Runs in flight continue.", lines, "Ban", ban)

    # Runs

    def action_remove(self) -> None:
        run: Run = self._selected
        number = run.submission
        if run.remarks.removal is not None:

            def readmit(lines: tuple[str, ...]) -> str:
                self.board.moderation.readmit([number], *lines)
                return f"Submission {number} is back in the standings, with all passing runs."

            question = f"Readmit submission {number} of {run.user} to the standings?"
            self._decide(question, [Line("Reason")], "Readmit", readmit)
            return

        def remove(lines: tuple[str, ...]) -> str:
            self.board.moderation.remove([number], *lines)
            return f"Submission {number} is removed from the standings."

        question = f"Remove submission {number} of {run.user} from the standings, with all its runs?"
        self._decide(question, [Line("Reason", placeholder="shown to all users", needed=True)], "Remove", remove)

    # All pages

    @property
    def _pane(self) -> ListPane[Any]:
        return self._pane_of(self._page)

    def _pane_of(self, page: str) -> ListPane[Any]:
        return self.query_one(f"#{page}", ListPane)

    @property
    def run_in_hand(self) -> Run | NamedRun | None:
        return self._selected if isinstance(self._selected, Run) else None

    @property
    def _selected(self) -> Any:
        return self._pane.selected if self.is_mounted else None

    @property
    def user_in_hand(self) -> str | None:
        match self._selected:
            case PersonState(name=name) | Run(user=name) | Decision(by_user=name):
                return str(name)
        return None

    def _decide(
        self,
        question: str,
        lines: Sequence[Line],
        words: str,
        act: Callable[[tuple[str, ...]], Any],
        then: Callable[[Any], None] | None = None,
        said: str = "",
    ) -> None:
        """Ask for lines, pass them to `act` in a thread, and its result to `then`; on an error, ask again.

        Without `then`, the result is the message to show.
        """

        def take(given: tuple[str, ...] | None) -> None:
            def ask_again(error: BoardError) -> None:
                if self.is_current:
                    self.forget_failure(_DECISION)
                    self._decide(question, typed, words, act, then, f"{error.message.rstrip('.')}. {error.hint}")

            if given is not None and self._is_free():
                typed = [replace(line, value=text) for line, text in zip(lines, given, strict=True)]
                self.ask(_DECISION, partial(act, given), then or self._show_decided, failed=ask_again)

        self.app.push_screen(AskLines(question, lines, words, said), take)

    def _is_free(self) -> bool:
        if self.is_open(_DECISION):
            self.notify("The previous action is still in progress. Try again in a moment.")
            return False
        return True

    def _changed(self, name: str, options: RequestedOptions, reason: str) -> str:
        """Change the options of a board, and return the changes as a message."""
        request = BoardRequest(name=name, options=options, update=True)
        (plan,) = self.board.leaderboards.plan(request)
        self.board.leaderboards.carry_out(request, {name: plan.after_change}, reason=reason)
        changes = ", ".join(f"{each.what} {each.after} (was {each.before})" for each in plan.differences)
        return f"{name}: {changes or 'no changes'}."

    def _ask(self, *, patient: bool) -> None:
        self.read(self._pane, patient=patient)
        self.ask("stop", self.board.admin_views.stop, self._show_stop, patient=patient)

    def _boards(self, words: str) -> Page[BoardState]:
        board = self.board
        return lambda _: whole(tuple(each for each in board.admin_views.boards() if words.lower() in each.name.lower()))

    def _people(self, words: str) -> Page[PersonState]:
        return lambda _: whole(self.board.admin_views.people(limit=_ROWS_MAX, part=words))

    def _runs(self, words: str) -> Page[Run]:
        pane, runs = self._pane_of("runs"), self.board.runs
        order, user = run_order(pane.sorting), pane.scope or None

        def read(offset: int, limit: int) -> Sequence[Run]:
            return runs.list(
                everyone=True, user=user, mode=Mode.RANKED, words=words, order=order, offset=offset, limit=limit
            )

        return paged(read, lambda: runs.count(everyone=True, user=user, mode=Mode.RANKED, words=words))

    def _log(self, words: str) -> Page[Decision]:
        wanted = words.lower().split()

        def is_wanted(decision: Decision) -> bool:
            return all(word in admin_tables.decision_text(decision) for word in wanted)

        return lambda _: whole(tuple(filter(is_wanted, self.board.moderation.decisions(limit=_ROWS_MAX))))

    def _show_stop(self, stop: Decision | None) -> None:
        self._stop = stop
        self.stop_line.update(admin_tables.stop_text(stop, self.now()))
        self.refresh_bindings()

    def _show_decided(self, words: str) -> None:
        self.notify(words)
        self._ask(patient=False)

    @on(ListPane.Chosen)
    def _open(self, event: ListPane.Chosen) -> None:
        match event.item:
            case BoardState(name=name):
                self.lead_to(targets.Standings(name))
            case PersonState(name=name):
                self._turn_to("runs", scope=name)
            case Run(id=number):
                self.lead_to(targets.Report(number))
            case Decision(kind=kind, subject=subject) if kind == USER:
                self._turn_to("people", subject)
            case Decision(kind=kind, subject=subject) if kind == BOARD:
                self._turn_to("boards", subject)
            case Decision(kind=kind, subject=subject) if kind == SUBMISSION and subject.isdecimal():
                read = partial(self.board.runs.list, everyone=True, submission=int(subject), limit=1)
                self.ask("file", lambda: targets.Code(read()[0].id), self.lead_to)

    def _turn_to(self, page: str, words: str = "", scope: str = "") -> None:
        """Open a page with its list filtered by these words and a scope."""
        self._pane_of(page).narrow(words, scope)
        self.action_show(page)


def _limit_words(board: BoardState, category: Category) -> str:
    """Return the limits of all users as `limits_of` reads them."""
    limits = ((each.of(category), each.per) for each in board.limits if each.applies_to_all)
    return " ".join(f"{limit}/{per}" for limit, per in limits if limit is not None) or "none"


def _users_of(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and 1 <= int(text) <= _RERUN_USERS_MAX):
        hint = f"Use a number from 1 to {_RERUN_USERS_MAX}."
        raise InputError(f"invalid number of users {one_line(text, 40)!r}.", hint=hint)
    return int(text)


def _first_of(left: Sequence[str]) -> str:
    more = len(left) - _SKIPPED_SHOWN_MAX
    return "; ".join(left[:_SKIPPED_SHOWN_MAX]) + (f"; and {more} more" if more > 0 else "")


def _sent_words(runs: Sequence[Run]) -> str:
    unsent = sum(run.state is RunState.ERROR for run in runs)
    many = "1 rerun" if len(runs) == 1 else f"{len(runs)} reruns"
    return f"{many} sent." if not unsent else f"{unsent} of {len(runs)} runs rejected; see their reasons."
