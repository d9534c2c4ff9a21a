"""Standings: ranks on the leaderboards, the meaning of runs there, and the feed of changes."""

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from hpc_board.accounts import members_of, unknown_accounts
from hpc_board.board.runs import Runs
from hpc_board.board.tasks import Tasks
from hpc_board.domain.board_options import BoardOptions
from hpc_board.domain.clock import utc_now
from hpc_board.domain.gpus import allowed_gpus
from hpc_board.domain.grading import (
    Grade,
    Grades,
    Overall,
    PointsRule,
    TaskGrade,
    best_results,
    late_results,
    overall_rows,
    points_rule,
    scoring,
    total,
)
from hpc_board.domain.origin import By, author_of
from hpc_board.domain.roles import ACCOUNT_PATTERN, ACCOUNT_PATTERN_WORDS, GROUP
from hpc_board.domain.run import Run
from hpc_board.domain.standing import Page, Place, Placing, Record, Rows, Standing, Version
from hpc_board.domain.user_page import UserPage
from hpc_board.errors import BoardError, InputError
from hpc_board.model.names import listed, suggestion
from hpc_board.model.result import Result
from hpc_board.model.task import Mode, Task
from hpc_board.model.text import one_line

if TYPE_CHECKING:
    from hpc_board.board import Board
    from hpc_board.board.context import Context
    from hpc_board.domain.comparison import LeaderRun
    from hpc_board.domain.feed import FeedEntry

_NEWEST_RUNS = 10
"""The number of runs on a user's page."""

_USERS_MAX = 10_000
"""The most users among whom the nearest name is looked for."""


class Standings:
    """The standings on the leaderboards that are visible to the user.

    A method that takes the name of a task, a GPU or a version raises InputError for an unknown one.
    """

    def __init__(self, context: "Context", tasks: Tasks, runs: Runs) -> None:
        self._context = context
        self._tasks = tasks
        self._runs = runs

    def uncounted(self, task: str, gpu: str, version: str | None = None) -> tuple[Run, ...]:
        """Return the user's passing ranked runs on this leaderboard that were removed or are late, newest first.

        `version` is a full version of the task; None is the present one.
        """
        return self._context.store.standings.uncounted(
            task, version or self._tasks.get(task).version, self._context.gpu(gpu).name, self._context.user
        )

    def pages(
        self,
        task: str,
        gpus: Sequence[str],
        *,
        version: str | None = None,
        rows: Rows = Rows.USERS,
        limit: int | None = None,
        offset: int = 0,
        user: str | None = None,
    ) -> Sequence[Page]:
        """Return a page of the leaderboard of `task` on each of `gpus`: `limit` rows from `offset` on.

        `version` is a version, its beginning, or "previous"; None is the present one. `user` is the owner of the row
        `own` and of the runs of Rows.OWN and Rows.NEWEST; None is the user.
        """
        from hpc_board.boards.pages import definition, page, version_called, with_terms

        found = self._tasks.get(task)
        store = self._context.store
        wanted = definition(store, found, version_called(version, found, store))
        names = dict.fromkeys(self._context.gpu(gpu).name for gpu in gpus)
        reader = user or self._context.user
        pages = [page(store, found, wanted, name, reader, rows=rows, limit=limit, offset=offset) for name in names]
        if rows is Rows.NEWEST:
            changes = self._context.installation.changes
            pages = [replace(each, rows=tuple(changes.of_newest(wanted, each.rows))) for each in pages]
        if (board := self._context.editor.board(found.name)) is not None:
            now = utc_now()
            pages = [with_terms(each, board.options, now) for each in pages]
        manages = self._context.manages(found.name)
        return [replace(each, manages=manages) for each in pages]

    def records(self, task: str, gpu: str, *, version: str | None = None) -> tuple[Record, ...]:
        """Return the newest runs that were the fastest of this leaderboard at their time, the oldest one first."""
        from hpc_board.boards.pages import version_called

        found = self._tasks.get(task)
        store = self._context.store
        wanted = version_called(version, found, store)
        return store.standings.records(task, wanted, self._context.gpu(gpu).name)

    def at_rank(self, task: str, gpu: str, rank: int, *, version: str | None = None) -> tuple[Standing, ...]:
        """Return the standings with this rank; several after a tie, none in the gap below it or past the end."""
        from hpc_board.boards.pages import definition, version_called

        found = self._tasks.get(task)
        store = self._context.store
        wanted = definition(store, found, version_called(version, found, store))
        rows = self._context.store.standings.at_rank(task, wanted.version, self._context.gpu(gpu).name, rank)
        return tuple(replace(row, harness=wanted.harness) for row in rows)

    def versions(self, task: str) -> tuple[Version, ...]:
        """Return every version of `task` with submissions, the latest first."""
        return self._context.store.standings.versions(self._tasks.get(task).name)

    def feed(
        self,
        *,
        task: str | None = None,
        gpu: str | None = None,
        user: str | None = None,
        before: int | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> "tuple[FeedEntry, ...]":
        """Return the changes by runs on the visible leaderboards, newest first, older than the entry `before`.

        These are `limit` ones from `offset` on.
        """
        known = self._tasks.catalog()
        name = None if task is None else known.task(task).name
        among = [each.name for each in known.tasks]
        on = None if gpu is None else self._context.gpu(gpu).name
        entries = self._context.store.standings.feed(
            task=name, gpu=on, user=user, before=before, limit=limit, offset=offset, among=among
        )
        own, teams = self._context.user, self._context.store.standings.own_teams(self._context.user)
        seen = [entry.seen_by({own, teams.get(entry.task, own)}) for entry in entries]
        return self._context.installation.changes.of_feed(seen)

    def grades(
        self,
        members: Sequence[str] = (),
        *,
        tasks: Sequence[str] = (),
        gpus: Sequence[str] = (),
        points: str = "",
    ) -> Grades:
        """Return the best results of each of `members`, users and groups with a `@`, also of those without any.

        Without members, they are those of the boards, and all users with submissions to them who do not manage these;
        without `tasks`, the boards that users created and that this one manages. On a task with several of `gpus` the
        one with the most points counts, by the rule `points`. The users are in the order of their names.

        Raises:
            InputError: the rule, a member or a group is invalid, or no board is left.
            Refused: the user does not manage one of the tasks.
        """
        rule = points_rule(points) if points else None
        manages, created = self._context.manages, {board.name: board for board in self._context.editor.visible()}
        chosen = dict.fromkeys(tasks or filter(manages, created))
        if not chosen:
            raise InputError("you have no boards to grade.", hint="`--task TASK` grades a task of the settings.")
        self._context.require_manager(chosen, "grade submissions")
        by_task = {name: self._task_grades(self._tasks.get(name), gpus, rule) for name in chosen}
        known = {user for of_task in by_task.values() for user in of_task}
        if members:
            users = self._expanded(listed(members), known)
        else:
            options = {name: created[name].options if name in created else BoardOptions("") for name in chosen}
            of_boards = {name for each in options.values() for name in each.members}
            if unknown := unknown_accounts({name for name in of_boards if name.startswith(GROUP)}):
                self._context.warn(f"unknown on this machine: {', '.join(unknown)}.")
            groups, role_of, users = self._context.installation.groups, self._context.role_of, set[str]()
            for task, of_task in by_task.items():
                named = self._expanded([name for name in options[task].members if name not in unknown], known)
                users |= {
                    user
                    for user in named.union(of_task)
                    if not options[task].managed_by(user, groups.of(user), role_of(user))
                }
        rows = []
        for user in sorted(users):
            graded = tuple(of_task.get(user) or TaskGrade(task) for task, of_task in by_task.items())
            earned = None if rule is None else total([each.points for each in graded if each.points is not None])
            rows.append(Grade(user, graded, earned))
        return Grades(tuple(chosen), tuple(rows))

    def _task_grades(self, task: Task, gpus: Sequence[str], rule: PointsRule | None) -> dict[str, TaskGrade]:
        """Return the results on a task of each user with submissions, and of each member of a team: the team's."""
        pages = self._whole_pages(task, gpus)
        best, late = best_results(task.name, pages, rule), late_results(pages)
        standings = self._context.store.standings
        sent = {each.user: each for each in standings.submitters(task.name, task.version)}
        teams = standings.teams(task.name)

        def grade(user: str) -> TaskGrade:
            team = teams.get(user, "")
            result = best.get(team or user)
            return TaskGrade(
                task.name,
                result,
                late.get(team or user),
                None if rule is None or result is None else rule.of(result),
                sent[user].first_pass_at if user in sent else None,
                sent[user].last_submitted_at if user in sent else None,
                team,
            )

        alone = (name for name in (*best, *late) if not name.startswith(GROUP))
        return {user: grade(user) for user in {*sent, *teams, *alone}}

    def _whole_pages(self, task: Task, gpus: Sequence[str] = ()) -> Sequence[Page]:
        """Return all rows of the leaderboards of a task, on each of `gpus` or on all."""
        allowed = [gpu.name for gpu in allowed_gpus(task, self._context.settings.gpus)]
        chosen = {self._context.gpu(name).name for name in gpus}
        return self.pages(task.name, [name for name in allowed if not gpus or name in chosen])

    def competitions(self) -> dict[str, tuple[str, ...]]:
        """Return the competitions with visible leaderboards by name, each with the names of these."""
        found: dict[str, tuple[str, ...]] = {}
        for board in self._context.editor.visible():
            if (terms := board.options.competition) is not None:
                found[terms.name] = (*found.get(terms.name, ()), board.name)
        return dict(sorted(found.items()))

    def overall(self, competition: str, *, limit: int | None = None) -> Overall:
        """Return the overall standings of a competition over its visible leaderboards, at most `limit` rows.

        The newest change of a leaderboard of the competition has its rules.

        Raises:
            InputError: no competition with a visible leaderboard has this name; the hint offers the nearest one.
        """
        boards = [
            (board, terms)
            for board in self._context.editor.visible()
            if (terms := board.options.competition) is not None and terms.name == competition
        ]
        if not boards:
            names = self.competitions()
            raise InputError(
                f'unknown competition "{one_line(competition, 80)}".{suggestion(competition, names)}',
                hint=f"Competitions: {', '.join(map(one_line, names)) or 'none'}; `hpc-board admin sync` makes them.",
            )
        _, terms = max(boards, key=lambda each: each[0].change.id)
        rules = scoring(terms.score, terms.points)
        pages = {board.name: self._whole_pages(board.task) for board, _ in boards}
        rows = overall_rows([best_results(name, each, rules.points) for name, each in pages.items()], rules)
        own = {page.own.user for each in pages.values() for page in each if page.own}
        frozen = (name for name, each in pages.items() if any(page.frozen_at and not page.manages for page in each))
        return Overall(
            terms.name, terms.title, rules, tuple(pages), rows[:limit], len(rows), frozenset(own), tuple(frozen)
        )

    def _expanded(self, names: Collection[str], known: Collection[str]) -> set[str]:
        """Return the users among `names`, and those in the groups there, also `known` ones whom no group lists.

        Raises:
            InputError: a name is invalid, or a group is unknown.
        """
        users = set[str]()
        for name in dict.fromkeys(names):
            if not re.fullmatch(ACCOUNT_PATTERN, name):
                raise InputError(
                    f'"{one_line(name, 80)}" is not a valid member.', hint=f"Give {ACCOUNT_PATTERN_WORDS}."
                )
            if not name.startswith(GROUP):
                users.add(name)
                continue
            if unknown_accounts([name]):
                raise InputError(f"unknown group {name}.", hint="`getent group NAME` shows the members of a group.")
            groups = self._context.installation.groups
            group = name.removeprefix(GROUP)
            users |= members_of(group) | {user for user in known if group in groups.of(user)}
        return users

    def places(self) -> tuple[Place, ...]:
        """Return the user's ranks on all leaderboards, also for old versions of tasks."""
        return self._context.store.standings.places(self._context.user)

    def of_user(self, user: str, by: By = By.ACCOUNT) -> UserPage:
        """Return the ranks of a user, or of each of their entrants, and the newest runs that the reader may see.

        A user such as "ada/agent-b" is one entrant.

        Raises:
            InputError: neither a rank nor a run of such a user is visible; the hint offers the nearest name.
        """
        tasks, gpus = self._tasks.catalog().tasks, self._context.settings.gpus
        allowed = {(task.name, gpu.name) for task in tasks for gpu in allowed_gpus(task, gpus)}
        standings, (account, entrant) = self._context.store.standings, author_of(user)
        by = by if entrant is None else By.ENTRANT
        ranks = (standings.of_user if by is By.ACCOUNT else standings.of_entrants)(account, tasks)
        found = UserPage(
            user,
            tuple(rank for rank in ranks if (rank.task, rank.gpu) in allowed and entrant in (None, rank.row.entrant)),
            self._runs.list(user=user, limit=_NEWEST_RUNS),
            by,
        )
        if not (found.ranks or found.runs or user == self._context.user):
            raise InputError(
                f'unknown user "{one_line(user, 80)}".{suggestion(user, self.users(limit=_USERS_MAX))}',
                hint="`hpc-board show NAME --top all` lists the users of a leaderboard.",
            )
        return found

    def users(self, part: str = "", limit: int = 1_000) -> tuple[str, ...]:
        """Return the users with a rank on a leaderboard whose names contain `part`, by name, at most `limit`."""
        tasks = [task.name for task in self._tasks.catalog().tasks]
        return self._context.store.standings.users(tasks, part, limit)

    def placing(self, run: Run) -> Placing | None:
        """Return the effect of this run on its leaderboard; None if it does not count there."""
        # The stored run counts: the fields of `run` may be another process's invention.
        stored = self._runs.get(run.id)
        placing = self._context.store.standings.placing(stored)
        return self._context.installation.changes.of_placing(stored, placing, self._context.reading)

    def placing_each(self, runs: Sequence[int]) -> tuple[Placing | None, ...]:
        """Return the effect of each of these runs, as `placing` does."""
        return tuple(self.placing(self._runs.get(number)) for number in runs)


def leader_of(board: "Board", run: Run, result: Result | None, placing: Placing | None = None) -> "LeaderRun | None":
    """Return the run of rank 1 on the leaderboard of a run with times, or in flight, if it is another one.

    Without a ranked run there it is the best one before of the run's user, by `placing`.
    """
    # The standings have no need of it.
    from hpc_board.domain.comparison import LeaderRun

    if run.mode is Mode.TEST or (run.state.ended and not any(case.timing for case in (result.cases if result else ()))):
        return None
    try:
        pages = board.standings.pages(run.task, [run.gpu], version=run.task_version, limit=1)
        row = next((row for page in pages for row in page.rows[:1] if row.run != run.id), None)
        if row is None and placing is not None and not placing.users:
            return LeaderRun(placing.best_run, run.user, board.runs.cases(placing.best_run), "best before")
        return LeaderRun(row.run, row.user, board.runs.cases(row.run)) if row else None
    except BoardError:
        return None
