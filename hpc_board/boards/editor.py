"""Leaderboards that users created: visibility, creation, change and deletion."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from hpc_board.accounts import groups_of, members_of, unknown_accounts
from hpc_board.domain.board_options import (
    DEADLINE_WORDS,
    BoardOptions,
    CodeShown,
    CompetitionTerms,
    Extension,
    RequestedOptions,
    Visibility,
    deadline_of,
    moment_words,
)
from hpc_board.domain.catalog import Catalog
from hpc_board.domain.clock import span_of
from hpc_board.domain.gpus import allowed_gpus, gpu, none_allowed, unfit_gpus
from hpc_board.domain.moderation import Sender
from hpc_board.domain.roles import ACCOUNT_PATTERN, ACCOUNT_PATTERN_WORDS, GROUP, Role
from hpc_board.domain.user_board import (
    Action,
    BoardChange,
    CreatedBoard,
    Plan,
    Synced,
    differences,
    loss,
)
from hpc_board.errors import DocumentError, InputError, Refused
from hpc_board.model.gpu import Gpu
from hpc_board.model.names import NAME, NAME_WORDS, listed, suggestion
from hpc_board.model.task import OWN, Task
from hpc_board.model.text import one_line
from hpc_board.store import Store
from hpc_board.store.boards import NewChange, Newest, bounded, pseudonym_key, teams_of
from hpc_board.store.sqlite import Database

if TYPE_CHECKING:
    from hpc_board.store.readers import Reader, Withheld

_EXTENSION_WORDS = (
    'Use --extend USER:+2d or @GROUP:+2d, from the deadline of the board, USER:"2030-12-31 18:00", or USER:none.'
)


class BoardUser(msgspec.Struct, frozen=True):
    """The user of a client: name, groups and role; `guest_of` are closed leaderboards that they see as a member."""

    name: str
    groups: frozenset[str]
    role: Role
    guest_of: frozenset[str] = frozenset()

    def sees(self, board: Newest) -> bool:
        """Return whether a leaderboard is visible to the user."""
        return board.name in self.guest_of or board.options.visible_to(self.name, self.groups, self.role)

    def manages(self, terms: BoardOptions) -> bool:
        """Return whether the user has all rights on a leaderboard with these terms."""
        return terms.managed_by(self.name, self.groups, self.role)

    def shown(self, board: CreatedBoard) -> CreatedBoard:
        """Return a leaderboard with the options that the user may see."""
        return replace(board, change=self.shown_change(board.change))

    def shown_change(self, change: BoardChange) -> BoardChange:
        """Return a change with the options that the user may see, and its reason if it did nothing else."""
        if self.manages(change.options):
            return change
        options = change.options.shown_to(self.name, self.groups)
        reason = change.reason if options.extensions == change.options.extensions else ""
        return replace(change, options=options, reason=reason)


class LeaderboardEditor:
    """The leaderboards in `store`, as far as `person` may see and change them; `gpus` are those of the settings.

    `role_of` returns the role of a user.

    Reading creates no database, and each task is read once.
    """

    def __init__(
        self, store: Store, person: Callable[[], BoardUser], role_of: Callable[[str], Role], gpus: Sequence[Gpu]
    ) -> None:
        self._store = store
        self._person = person
        self._role_of = role_of
        self._gpus = gpus
        self._known: dict[int, Newest] = {}

    def catalog(self, of_settings: Catalog) -> Catalog:
        """Return the tasks of the settings and of the visible leaderboards; on equal names the leaderboard's wins.

        An invisible or deleted leaderboard also hides the settings' task of its name: no name means two tasks.
        """
        newest = self._newest()
        if not newest:
            return of_settings
        hidden = _hidden_from(self._person(), newest)
        seen = {
            each.name: _task_of(each, self._person())
            for each in newest
            if isinstance(each, CreatedBoard) and each.name not in hidden
        }
        tasks = {task.name: task for task in of_settings.tasks if task.name not in hidden} | seen
        replaced = tuple(task.name for task in of_settings.tasks if task.name in seen)
        return Catalog(tuple(tasks[name] for name in sorted(tasks)), of_settings.faults, replaced)

    def task(self, name: str, of_settings: Callable[[str], Task | None]) -> Task | None:
        """Return the task of the leaderboard `name`, else that of the settings; None if it is hidden from the user."""
        newest = self._newest()
        if newest and name in _hidden_from(self._person(), newest):
            return None
        board = next((each for each in newest if each.name == name), None)
        return _task_of(board, self._person()) if isinstance(board, CreatedBoard) else of_settings(name)

    def visible(self) -> tuple[CreatedBoard, ...]:
        """Return the leaderboards that are visible to the user, by name."""
        person = self._person()
        return tuple(person.shown(board) for board in self._boards() if person.sees(board))

    def hidden(self) -> frozenset[str]:
        """Return the names of leaderboards that are hidden from the user, also of deleted ones."""
        return _hidden_from(self._person(), self._newest())

    def hidden_from(self, people: Sequence[BoardUser]) -> list[frozenset[str]]:
        """Return the names that are hidden from each of `people`, by one read of the leaderboards."""
        newest = self._newest()
        return [_hidden_from(person, newest) for person in people]

    def reader(self, db: Database) -> "Reader":
        """Return the user with the bounds that freezes and anonymous leaderboards, also deleted ones, set them."""
        from hpc_board.store.readers import Reader

        person = self._person()
        (withheld,) = self.restrictions_of([person], db)
        key = pseudonym_key(db) if any(each.scope for each in withheld.values()) else ""
        return Reader(person.name, withheld, key)

    def restrictions_of(self, people: Sequence[BoardUser], db: Database) -> "list[dict[str, Withheld]]":
        """Return the bounds of each of `people` by the terms in `db`, by leaderboard."""
        # Most boards have none.
        from hpc_board.store.readers import Withheld

        terms = {each.name: (each.options, teams_of(db, each.name)) for each in bounded(db)}
        return [
            {
                name: Withheld.of(person.name, each.freeze_at, each.scope(name), teams)
                for name, (each, teams) in terms.items()
                if not person.manages(each)
            }
            for person in people
        ]

    def closed(self) -> frozenset[str]:
        """Return the names of closed leaderboards, also of deleted ones."""
        return _hidden_from(BoardUser("", frozenset(), Role.PARTICIPANT), self._newest())

    @property
    def deleted(self) -> frozenset[str]:
        """The names of the leaderboards that were deleted when they were last read."""
        return frozenset(each.name for each in self._known.values() if isinstance(each, BoardChange))

    def board(self, name: str) -> CreatedBoard | None:
        """Return the leaderboard of this name; None if none is visible to the user."""
        newest = {each.name: each for each in self._newest()}
        found, person = newest.get(name), self._person()
        return person.shown(found) if isinstance(found, CreatedBoard) and person.sees(found) else None

    def manages(self, name: str) -> bool:
        """Return whether the user has all rights on the leaderboard `name`, which is not a task of the settings."""
        board = self.board(name)
        return board is not None and self._person().manages(board.options)

    def history(self, name: str) -> tuple[BoardChange, ...]:
        """Return the changes of the leaderboards of this name, oldest first; empty if they are hidden from the user."""
        if name in self.hidden():
            return ()
        person, changes = self._person(), self._store.boards.changes(name)
        shown = [person.shown_change(change) for change in changes]
        # A change of others' extensions alone is theirs to see.
        alike = [
            bool(index)
            and change.options != changes[index - 1].options
            and (shown[index].options, change.task_version, change.action)
            == (shown[index - 1].options, changes[index - 1].task_version, Action.UPDATE)
            for index, change in enumerate(changes)
        ]
        return tuple(change for change, is_alike in zip(shown, alike, strict=True) if not is_alike)

    def shows_code(self, name: str, submitted_at: datetime, now: datetime) -> bool:
        """Return whether participants may read others' submissions of that time to the leaderboard `name`.

        The terms must have promised it before the submission, and must still do so.
        """
        board = next((each for each in self._boards() if each.name == name), None)
        if board is None or not self._person().sees(board) or not board.options.shows_code(now):
            return False
        promised_at = board.change.at
        for change in reversed(self._store.boards.changes(name)):
            if change.action is Action.DELETE or change.options.code_shown is CodeShown.NEVER:
                break
            promised_at = change.at
        return submitted_at >= promised_at

    def creation(
        self, tasks: Sequence[Task], options: RequestedOptions, of_settings: Catalog, now: datetime
    ) -> tuple[Plan, ...]:
        """Plan a leaderboard for each of `tasks`, under the task's name.

        Raises:
            InputError: a name or an option is invalid.
            Refused: the user may not take a name; see `_require_name`.
        """
        newest = {each.name: each for each in self._newest()}
        plans = [self._creation_plan(task, options, newest.get(task.name), of_settings, now) for task in tasks]
        for plan in plans:
            self._require_name(plan)
        return tuple(plans)

    def update(self, board: CreatedBoard, task: Task, options: RequestedOptions, now: datetime) -> Plan:
        """Plan a change of `board` to this task and these options.

        Raises:
            InputError: an option is invalid.
        """
        if task is not board.task:
            _check_support(task)
        return self._update_plan(board, task, self._terms(board.options, task, options, now))

    def of_competition(
        self,
        task: Task,
        options: RequestedOptions,
        of_settings: Catalog,
        now: datetime,
        competition: CompetitionTerms | None,
    ) -> Plan:
        """Plan the leaderboard of a competition's task: `options` win over the competition's, these over the present.

        Raises:
            InputError: the task cannot have a leaderboard, for the reason in the message.
        """
        newest = {each.name: each for each in self._newest()}
        before = newest.get(task.name)
        if not isinstance(before, CreatedBoard):
            return self._creation_plan(task, options, before, of_settings, now, competition)
        _check_support(task)
        terms = replace(
            before.options,
            deadline=task.deadline or before.options.deadline,
            gpus=task.gpus or before.options.gpus,
            competition=competition,
        )
        return self._update_plan(before, task, self._terms(terms, task, options, now))

    def left_competitions(self, competition: Catalog) -> Iterator[Plan]:
        """Yield the plans that take leaderboards out of these competitions whose tasks are no longer there."""
        names = {each.name for each in competition.competitions.values()}
        for board in self._boards():
            own = board.options.competition
            if own is not None and own.name in names and board.name not in competition.competitions:
                yield self._update_plan(board, board.task, replace(board.options, competition=None))

    def deletion(self, board: CreatedBoard) -> Plan:
        """Plan the deletion of `board`."""
        left = self._store.boards.entries(board.name, board.change.task_version or "")
        return Plan(board.name, Action.DELETE, board.options, None, board, left=left, after_change=board.change.id)

    def require_change(self, board: CreatedBoard) -> None:
        """Require that the user may change and delete `board`.

        Raises:
            Refused: it belongs to another user.
        """
        person = self._person()
        if not person.manages(board.options):
            raise Refused(
                f"you may not change the board {board.name}: it belongs to {one_line(board.options.creator)}, and "
                f"{person.name}'s role is {person.role}.",
                hint="Ask the creator or an admin.",
            )

    def _require_name(self, plan: Plan) -> None:
        """Require that the user may create the leaderboard of `plan` under its name.

        Submissions stay with the name, so that its new owner could show or hide those of others.

        Raises:
            Refused: the name is or was that of a task of the settings or of another user's leaderboard, and the user is
                no admin.
        """
        person = self._person()
        if person.role is Role.ADMIN:
            return
        # The store detects changes since the plan was made.
        changes = self._store.boards.changes(plan.name)
        if plan.shadows:
            reason = "a task in the settings has this name"
        elif not changes and self._store.submissions.knows_task(plan.name):
            reason = "a former task in the settings had this name and has runs"
        elif any(each.options.creator != person.name for each in changes if each.id <= plan.after_change):
            reason = "another user had a board of this name"
        else:
            return
        raise Refused(
            f"you may not create a board {plan.name}: {reason}, and {person.name}'s role is {person.role}.",
            hint="Choose another name, or ask an admin to create the board.",
        )

    def carry_out(
        self, plans: Sequence[Plan], *, force: bool, reason: str, at: datetime, store: Store
    ) -> tuple[Plan, ...]:
        """Carry out `plans` in one transaction, without those that change nothing.

        Users who lose their rank are counted in the same transaction; the returned plans have that number.

        Raises:
            InputError: another user has changed a leaderboard meanwhile, or `reason` is too long or not one line.
            Refused: a leaderboard or its name belongs to another user, or users would lose their ranks and `force` is
                false.
        """
        from hpc_board.runs.drafts import check_reason

        person = self._person()
        check_reason(reason)
        for plan in plans:
            if plan.before is not None:
                self.require_change(plan.before)
            else:
                self._require_name(plan)
        # A directory server may have to answer, for which no transaction waits.
        sender, members = cache(self._sender), cache(members_of)
        changes = []
        for plan in plans:
            if plan.action is Action.UPDATE and not plan.differences:
                continue
            users = frozenset[str]()
            if plan.task is not None and plan.options.needs_groups:
                teams = (members(team.removeprefix(GROUP)) for team in plan.options.teams)
                users = store.boards.users(plan.name).union(*teams)
            changes.append(
                NewChange(
                    plan.name,
                    plan.action,
                    plan.task,
                    plan.options,
                    person.name,
                    at,
                    reason,
                    plan.after_change,
                    {user: sender(user) for user in users},
                    plan.reset_by,
                )
            )
        left = store.boards.change(changes, force=force)
        return tuple(replace(plan, left=left.get(plan.name, plan.left)) for plan in plans)

    def _sender(self, user: str) -> Sender:
        return Sender(self._role_of(user), groups_of(user))

    def _creation_plan(
        self,
        task: Task,
        options: RequestedOptions,
        before: Newest | None,
        of_settings: Catalog,
        now: datetime,
        competition: CompetitionTerms | None = None,
    ) -> Plan:
        """Plan a leaderboard under the task's name, which has the state `before`.

        Raises:
            InputError: the task, its name or an option is invalid.
        """
        _check_name(task.name, before)
        _check_support(task)
        _check_own_deadline(task, options, now)
        own = BoardOptions(self._person().name, task.deadline, task.gpus, competition=competition)
        terms = self._terms(own, task, options, now)
        _check_stays_closed(terms, before)
        return Plan(
            task.name,
            Action.CREATE,
            terms,
            task,
            joined=self._store.boards.entries(task.name, task.version),
            after_change=before.id if isinstance(before, BoardChange) else 0,
            shadows=any(each.name == task.name for each in of_settings.tasks),
            shows_names=before is not None and before.options.anonymous and not terms.anonymous,
            unfit_gpus=self._unfit_gpus(task, terms),
        )

    def _update_plan(self, board: CreatedBoard, task: Task, terms: BoardOptions) -> Plan:
        import dataclasses

        restarts = task.version != board.task.version
        return Plan(
            board.name,
            Action.UPDATE,
            terms,
            dataclasses.replace(task, name=board.name),
            board,
            differences(board.task, task, board.options, terms),
            self._store.boards.entries(board.name, board.task.version) if restarts else (),
            self._store.boards.entries(board.name, task.version) if restarts else (),
            board.change.id,
            unfit_gpus=self._unfit_gpus(task, terms),
        )

    def _terms(self, terms: BoardOptions, task: Task, options: RequestedOptions, now: datetime) -> BoardOptions:
        """Return the requested terms.

        Raises:
            InputError: they are invalid.
        """
        changes: dict[str, Any] = {
            "deadline": _deadline(terms.deadline, options.deadline, now),
            "gpus": terms.gpus if options.gpus is None else self._gpu_names(options.gpus),
            "members": _users(terms.members, options.members, options.no_members, "member"),
            "maintainers": _users(terms.maintainers, options.maintainers, options.no_maintainers, "maintainer"),
            "teams": _users(terms.teams, options.teams, options.no_teams, "team"),
        }
        if options.late is not None:
            changes["late_seconds"] = _late_seconds(options.late)
        changes["extensions"] = _extensions(terms.extensions, options.extend, changes["deadline"])
        if options.freeze is not None:
            changes["freeze_at"] = _freeze_at(options.freeze, changes["deadline"], now)
        if options.anonymous is not None:
            changes["anonymous"] = options.anonymous
        if options.closed is not None:
            changes["visibility"] = Visibility.CLOSED if options.closed else Visibility.PUBLIC
        if options.show_code is not None:
            changes["code_shown"] = CodeShown.AFTER_DEADLINE if options.show_code else CodeShown.NEVER
        changed = replace(terms, **changes)
        if options.members and changed.visibility is Visibility.PUBLIC:
            raise InputError("only a closed board has members.", hint="Add --closed, or omit --member.")
        self._check_gpus(task, changed)
        return changed

    def _gpu_names(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the settings' GPUs in `words`; none for "all"."""
        names = listed(words)
        if any(name.casefold() == "all" for name in names):
            return ()
        return tuple(dict.fromkeys(gpu(name, self._gpus).name for name in names))

    def _check_gpus(self, task: Task, terms: BoardOptions) -> None:
        import dataclasses

        task = dataclasses.replace(task, gpus=terms.gpus)
        if not allowed_gpus(task, self._gpus):
            raise none_allowed(task, self._gpus)

    def _unfit_gpus(self, task: Task, terms: BoardOptions) -> str:
        import dataclasses

        return unfit_gpus(dataclasses.replace(task, gpus=terms.gpus), self._gpus)

    def _boards(self) -> tuple[CreatedBoard, ...]:
        return tuple(each for each in self._newest() if isinstance(each, CreatedBoard))

    def _newest(self) -> tuple[Newest, ...]:
        newest = self._known = self._store.boards.newest(self._known)
        return tuple(newest.values())


def chosen_task(name: str, tasks: Sequence[Task], source: str) -> Task:
    """Return the task of a source for the leaderboard `name`: the only one, or the one of that name.

    Raises:
        InputError: the source has several tasks, and none of that name.
    """
    if len(tasks) == 1:
        import dataclasses

        return dataclasses.replace(tasks[0], name=name)
    found = next((task for task in tasks if task.name == name), None)
    if found is None:
        names = ", ".join(task.name for task in tasks)
        raise InputError(
            f"{one_line(source)} contains {len(tasks)} tasks, none of them named {one_line(name, 80)}: {names}.",
            hint="Use the source of one of them, or omit the name to create a board of each.",
        )
    return found


def not_a_board(name: str, boards: Sequence[CreatedBoard], of_settings: Catalog) -> InputError:
    """Return the error for a name without a created leaderboard."""
    if any(task.name == name for task in of_settings.tasks):
        return InputError(
            f"{name} comes from a folder in the settings, not from `create`.",
            hint=f"Change it in that folder, or copy it to a board with `hpc-board create {name} {name}`.",
        )
    names = [board.name for board in boards]
    if name.isdecimal():
        return InputError(
            f'unknown board "{one_line(name, 80)}".', hint="`hpc-board cancel ID` cancels a run; ended runs stay."
        )
    return InputError(
        f'unknown board "{one_line(name, 80)}".{suggestion(name, names)}',
        hint=f"User boards: {', '.join(names)}."
        if names
        else "There are no boards yet; `hpc-board create` creates one.",
    )


def _check_name(name: str, before: Newest | None) -> None:
    if not re.fullmatch(NAME, name):
        raise InputError(f'"{one_line(name, 80)}" is not a valid board name.', hint=f"Give {NAME_WORDS}.")
    if isinstance(before, CreatedBoard):
        raise InputError(
            f"board {name} already exists.", hint=f"Choose another name, or change the board: hpc-board update {name}"
        )


def _check_stays_closed(terms: BoardOptions, before: Newest | None) -> None:
    """Require that a public leaderboard does not show the runs of a deleted closed one.

    Raises:
        InputError: it would show them.
    """
    was_closed = isinstance(before, BoardChange) and before.options.visibility is Visibility.CLOSED
    if before is not None and was_closed and terms.visibility is Visibility.PUBLIC:
        raise InputError(
            f"a closed board {before.name} existed; a public board of the same name would show its runs to all users.",
            hint=f"Choose another name, or add --closed; `hpc-board update {before.name} --open` opens it afterwards.",
        )


def _hidden_from(person: BoardUser, newest: Collection[Newest]) -> frozenset[str]:
    """Return the names that are hidden from `person`, by the terms of each leaderboard's newest change."""
    if person.role is Role.ADMIN:
        return frozenset()
    return frozenset(each.name for each in newest if not person.sees(each))


def _check_support(task: Task) -> None:
    from hpc_board.runs.drafts import check_support

    check_support(task)


def _check_own_deadline(task: Task, options: RequestedOptions, now: datetime) -> None:
    if options.deadline is None and task.deadline is not None and task.deadline <= now:
        raise InputError(
            f"{task.name}: its own deadline, {moment_words(task.deadline)}, has passed.",
            hint="Choose another one, or none: --deadline +30d, --deadline none.",
        )


def _deadline(before: datetime | None, requested: str | None, now: datetime) -> datetime | None:
    from hpc_board.runs.drafts import end_given

    return before if requested is None else end_given(requested, now, what="deadline", option="--deadline")


def _users(before: Sequence[str], more: Sequence[str], fewer: Sequence[str], what: str) -> tuple[str, ...]:
    """Return the users and groups of a list after an addition and a removal; `what` names one of them.

    Raises:
        InputError: a name is invalid, or one to remove is not in the list.
    """
    added, taken = listed(more), listed(fewer)
    for name in added:
        if what == "team" and not name.startswith(GROUP):
            raise InputError(f'"{one_line(name, 80)}" is not a valid team.', hint="Give a Unix group with @ before it.")
        if not re.fullmatch(ACCOUNT_PATTERN, name):
            raise InputError(f'"{one_line(name, 80)}" is not a valid {what}.', hint=f"Give {ACCOUNT_PATTERN_WORDS}.")
    for name in taken:
        if name not in before:
            raise InputError(
                f'"{one_line(name, 80)}" is not a {what}.{suggestion(name, before)}',
                hint=f"{what.capitalize()}s: {', '.join(before) or 'none'}.",
            )
    kept = (name for name in before if name not in taken)
    return tuple(dict.fromkeys((*kept, *added)))


def unknown_users(plan: Plan) -> tuple[str, ...]:
    """Return the new members, maintainers and teams without an account on this machine, mistyped or not yet created."""
    before = _named(plan.before.options) if plan.before else ()
    return unknown_accounts(name for name in _named(plan.options) if name not in before)


def _named(terms: BoardOptions) -> tuple[str, ...]:
    return (*terms.members, *terms.maintainers, *terms.teams, *(each.user for each in terms.extensions))


def _task_of(board: CreatedBoard, person: BoardUser) -> Task:
    """Return the task of a leaderboard with the user's own deadline."""
    import dataclasses

    deadline = board.options.deadline_of(person.name, person.groups)
    return board.task if deadline == board.task.deadline else dataclasses.replace(board.task, deadline=deadline)


def _late_seconds(words: str) -> int | None:
    """Return the time for late submissions in words such as "+2d"; None for "any", 0 for "none".

    Raises:
        InputError: it is invalid.
    """
    if words in ("any", "none"):
        return None if words == "any" else 0
    try:
        return int(span_of(words.removeprefix("+")).total_seconds())
    except (ValueError, OverflowError) as error:
        raise InputError(
            f'invalid time for late submissions "{one_line(words, 80)}".',
            hint='Use --late with a time after the deadline, such as "+2d", "any" or "none".',
        ) from error


def _freeze_at(words: str, deadline: datetime | None, now: datetime) -> datetime | None:
    """Return the time that `words` name, "-24h" from this deadline; None for "none".

    Raises:
        InputError: they name none, or the board lacks a deadline.
    """
    try:
        if not words.startswith("-"):
            return deadline_of(words, now)
        span = span_of(words.removeprefix("-"))
        if deadline is not None:
            return deadline - span
    except (ValueError, OverflowError) as error:
        raise InputError(
            f'invalid freeze "{one_line(words, 80)}".',
            hint=f'Use --freeze with a time before the deadline such as "-24h", {DEADLINE_WORDS}.',
        ) from error
    raise InputError("a board without a deadline has no time before it.", hint="Add --deadline, or freeze at a time.")


def _extensions(
    before: tuple[Extension, ...], requested: Sequence[str], deadline: datetime | None
) -> tuple[Extension, ...]:
    """Return the extensions of a leaderboard with this deadline after the requested changes.

    Raises:
        InputError: one is invalid.
    """
    found = {each.user: each for each in before}
    for each in requested:
        user, _, words = each.partition(":")
        if not re.fullmatch(ACCOUNT_PATTERN, user):
            raise InputError(f'"{one_line(each, 80)}" is not a valid extension.', hint=_EXTENSION_WORDS)
        if deadline is None:
            raise InputError("a board without a deadline has no extensions.", hint="Add --deadline.")
        found.pop(user, None)
        try:
            until = deadline_of(words, deadline)
        except ValueError as error:
            raise InputError(f'"{one_line(each, 80)}" is not a valid extension.', hint=_EXTENSION_WORDS) from error
        if until is not None and until <= deadline:
            raise InputError(
                f"the extension of {user} until {moment_words(until)} is not after the deadline, "
                f"{moment_words(deadline)}.",
                hint=_EXTENSION_WORDS,
            )
        if until is not None:
            found[user] = Extension(user, until)
    return tuple(found.values())


def synced(
    boards: LeaderboardEditor,
    competition: Catalog,
    options: RequestedOptions,
    of_settings: Catalog,
    *,
    force: bool,
    now: datetime,
) -> Iterator[Synced]:
    """Yield, task by task, the changes that make the leaderboards equal to `competition` at the time `now`.

    Raises:
        InputError: the deadline in `options`, which wins over those of the competition, is none or has passed.
    """
    _deadline(None, options.deadline, now)
    for task in competition.tasks:
        try:
            terms = competition.competitions.get(task.name)
            plan = boards.of_competition(task, options, of_settings, now, terms)
        except InputError as error:
            yield Synced(task.name, "skipped", one_line(error.message, 500))
            continue
        if plan.action is Action.CREATE:
            yield Synced(task.name, "created", _opening(task, plan), plan)
        elif not plan.differences:
            yield Synced(task.name, "unchanged", plan=plan)
        elif plan.needs_force and not force:
            yield Synced(task.name, "skipped", f"{loss(plan.name, plan.reset_by, plan.left)} --force updates it", plan)
        else:
            yield Synced(task.name, "updated", _changes(plan), plan)
    # The name of a task with faults is unknown.
    for plan in () if competition.faults else boards.left_competitions(competition):
        yield Synced(plan.name, "updated", _changes(plan), plan)
    for fault in competition.faults:
        yield Synced(_of_fault(fault), "error", fault.message)


def _opening(task: Task, plan: Plan) -> str:
    deadline = plan.options.deadline
    until = "" if deadline is None else f", until {moment_words(deadline)}"
    judge = ", judged by its own eval" if task.harness == OWN else ""
    unfit = f"; {plan.unfit_gpus}" if plan.unfit_gpus else ""
    return f"on {', '.join(map(one_line, plan.options.gpus)) or 'every GPU'}{until}{judge}{unfit}"


def _changes(plan: Plan) -> str:
    what = ", ".join(difference.what for difference in plan.differences)
    return f"{what}; the standings are reset" if plan.reset_by else what


def _of_fault(fault: DocumentError) -> str:
    path = Path(fault.file)
    return one_line(path.parent.name if path.name == "task.yml" else path.name)
