"""Leaderboards that users made: their history, and what it takes to make, change and delete one."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from hpc_board.board.context import Context, utc_now
from hpc_board.board.tasks import Tasks
from hpc_board.boards.editor import (
    UNCHANGED,
    BoardArchive,
    RequestedOptions,
    Synced,
    archive,
    archived,
    chosen_task,
    not_a_board,
    synced,
    unknown_members,
)
from hpc_board.domain.moderation import NO_LIMITS, Limits
from hpc_board.domain.roles import Role
from hpc_board.domain.user_board import BoardChange, CreatedBoard, Plan
from hpc_board.model.task import Task


class Leaderboards:
    """The leaderboards that users made, as far as the user sees them and may change them."""

    def __init__(self, context: Context, tasks: Tasks) -> None:
        self._context = context
        self._tasks = tasks

    def get(self, name: str) -> CreatedBoard | None:
        """The board of this name that somebody made; None where it is a task of the settings, or the user sees none."""
        return self._context.editor.board(name)

    def list(self) -> tuple[CreatedBoard, ...]:
        """The boards that somebody made and that the user sees, by name."""
        return self._context.editor.visible()

    def limits(self, board: str) -> Limits:
        """How much each user may send to the board of a task within an hour, none where nothing was decided."""
        if not self._context.has_database():
            return NO_LIMITS
        found = (limits for decision, limits in self._context.rules.limits() if decision.subject == board)
        return next(found, NO_LIMITS)

    def history(self, name: str) -> tuple[BoardChange, ...]:
        """What was done to the boards of this name, deleted ones among them, oldest first.

        Raises:
            InputError: nobody made one, or none that the user sees.
        """
        found = self._context.editor.history(name)
        if not found:
            raise not_a_board(name, self._context.editor.visible(), self._tasks.of_settings())
        return found

    def plan_creation(
        self, source: str, name: str | None = None, options: RequestedOptions = UNCHANGED
    ) -> tuple[Plan, ...]:
        """How boards of the tasks in `source` would be made, or one called `name`; nothing is stored.

        `source` is what tasks are read from, or the name of a task that there is.

        Raises:
            InputError: the source, a name or a wish cannot be; all that is wrong is said.
            Refused: the user is no creator.
        """
        self._context.require(Role.CREATOR, "create boards")
        tasks = self._offered(source)
        if name is not None:
            tasks = (replace(chosen_task(name, tasks, source), name=name),)
        return self._context.editor.creation(tasks, options, self._tasks.of_settings(), utc_now())

    def plan_update(self, name: str, source: str | None = None, options: RequestedOptions = UNCHANGED) -> Plan:
        """What would become of the board `name` with the task in `source`, else its own, and as is wished.

        Raises:
            InputError: there is no such board, or the source or a wish cannot be.
            Refused: it is somebody else's.
        """
        board = self.own(name)
        task = board.task if source is None else chosen_task(name, self._offered(source), source)
        return self._context.editor.update(board, task, options, utc_now())

    def plan_sync(self, source: Path, problem_set: str | None = None, *, force: bool = False) -> tuple[Synced, ...]:
        """What has to be done for the boards to be those of a competition; nothing is stored.

        Raises:
            InputError: it cannot be read, or has no such set.
            Refused: the user is no admin.
        """
        from hpc_board.catalog import sources as task_sources

        self._context.require(Role.ADMIN, "have the boards be those of a competition")
        competition = task_sources.read(source, problem_set)
        return tuple(synced(self._context.editor, competition, self._tasks.of_settings(), force=force, now=utc_now()))

    def carry_out(self, plans: Sequence[Plan], *, force: bool = False, reason: str = "") -> tuple[Plan, ...]:
        """Create and update boards as planned: all of them, or none; the plans, with those counted who lost a rank.

        Raises:
            InputError: somebody else has changed one meanwhile, or the reason cannot be.
            Refused: the user may not, or others would lose their ranks and `force` is not given.
        """
        if any(plan.before is None for plan in plans):
            self._context.require(Role.CREATOR, "create boards")
        for plan in plans:
            if unknown := unknown_members(plan):
                self._context.warn(f"{plan.name}: this machine does not know {', '.join(unknown)}.")
        context = self._context
        return context.editor.carry_out(plans, force=force, reason=reason, at=utc_now(), store=context.store)

    def plan_deletion(self, name: str) -> Plan:
        """What would be deleted with the board `name`.

        Raises:
            InputError: there is no such board.
            Refused: it is somebody else's.
        """
        return self._context.editor.deletion(self.own(name))

    def delete(self, name: str, *, reason: str = "") -> Path:
        """Delete the board `name`; the file in which its standings and what it was are kept.

        Runs in flight go on, and all results stay in the database.

        Raises:
            InputError: there is no such board, or somebody else has changed it meanwhile.
            Refused: it is somebody else's.
            StorageError: what is kept cannot be written; nothing is deleted.
        """
        plan, now = self.plan_deletion(name), utc_now()
        file = archive(self._kept(plan, now, reason), self._context.settings.board)
        try:
            self._context.editor.carry_out([plan], force=True, reason=reason, at=now, store=self._context.store)
        except BaseException:
            file.unlink(missing_ok=True)
            raise
        return file

    def _kept(self, plan: Plan, now: datetime, reason: str) -> BoardArchive:
        version = (plan.before.change.task_version if plan.before else None) or ""
        standings = {
            each.gpu: archived(self._context.store.standings.list(plan.name, version, each.gpu)) for each in plan.left
        }
        history = [
            {
                "action": str(change.action),
                "by": change.by_user,
                "at": change.at.isoformat(),
                "task_version": change.task_version,
                "reason": change.reason,
            }
            for change in self._context.editor.history(plan.name)
        ]
        return BoardArchive(plan, now, self._context.user, reason, standings, history)

    def own(self, name: str) -> CreatedBoard:
        """The board of this name, if the user may change it.

        Raises:
            InputError: there is none.
            Refused: it is somebody else's.
        """
        board = self._context.editor.board(name)
        if board is None:
            raise not_a_board(name, self._context.editor.visible(), self._tasks.of_settings())
        self._context.editor.require_change(board)
        return board

    def _offered(self, source: str) -> tuple[Task, ...]:
        """The tasks in the folder or file `source`, or the one of that name: the settings' own before a board's."""
        from hpc_board.catalog import sources as task_sources
        from hpc_board.files import is_folder

        path = Path(source)
        if "/" in source or is_folder(path) or path.suffix in task_sources.ENDINGS:
            return task_sources.sound_tasks(path)
        for task in self._tasks.of_settings().tasks:
            if task.name == source and source not in self._context.editor.hidden():
                return (task,)
        return (self._tasks.get(source),)
