"""Leaderboards that users created: history, creation, change and deletion."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path, PurePosixPath

import msgspec

from hpc_board.board.context import Context
from hpc_board.board.tasks import Tasks
from hpc_board.boards.editor import chosen_task, not_a_board, synced, unknown_users
from hpc_board.domain.clock import utc_now
from hpc_board.domain.moderation import Limits, limits_for
from hpc_board.domain.roles import Role
from hpc_board.domain.user_board import BoardChange, BoardRequest, CreatedBoard, PackedSource, Plan, Synced, SyncRequest
from hpc_board.errors import InputError, StorageError
from hpc_board.files import temporary_folder, write_whole
from hpc_board.model.task import Task
from hpc_board.model.text import one_line

_EXPORTS = "exports"
"""The folder in which a board archives deleted leaderboards."""

_FILE_NAME_MAX = 200


class Leaderboards:
    """The leaderboards that users created and that are visible to the user.

    A method that changes the leaderboard `name` raises InputError if none has it, and Refused if it is another user's.
    """

    def __init__(self, context: Context, tasks: Tasks) -> None:
        self._context = context
        self._tasks = tasks

    def get(self, name: str) -> CreatedBoard | None:
        """Return the created leaderboard called `name`; None for a task of the settings, or if it is hidden."""
        return self._context.editor.board(name)

    def manages(self, name: str) -> bool:
        """Return whether the user has the rights of an admin on the leaderboard or task of this name."""
        return self._context.manages(name)

    def list(self) -> tuple[CreatedBoard, ...]:
        """Return the created leaderboards that are visible to the user, by name."""
        return self._context.editor.visible()

    def limits(self, board: str) -> tuple[Limits, ...]:
        """Return the numbers of submissions that the user may send to a task, by period; admins may send any."""
        if not self._context.has_database() or board in self._context.editor.hidden():
            return ()
        found = [limits for decision, limits in self._context.store.moderation.limits() if decision.subject == board]
        return limits_for(found, self._context.user, self._context.role)

    def history(self, name: str) -> tuple[BoardChange, ...]:
        """Return the changes of the leaderboards of this name, also of deleted ones, oldest first.

        Raises:
            InputError: no user created a leaderboard of this name, or it is invisible to the user.
        """
        found = self._context.editor.history(name)
        if not found:
            raise not_a_board(name, self._context.editor.visible(), self._tasks.of_settings())
        return found

    def plan(self, request: BoardRequest) -> tuple[Plan, ...]:
        """Plan the creation of leaderboards, or the change of one; nothing is stored.

        Raises:
            InputError: no such leaderboard exists, or the source, a name or an option is invalid.
            Refused: the user is not a creator, or the leaderboard belongs to another user.
        """
        plans = self._planned(request)
        for plan in plans:
            if unknown := unknown_users(plan):
                self._context.warn(f"{plan.name}: unknown on this machine: {', '.join(unknown)}.")
        return plans

    def _planned(self, request: BoardRequest) -> tuple[Plan, ...]:
        editor, now = self._context.editor, utc_now()
        with _unpack_source(request.source) as source:
            if request.update:
                board = self.own(request.name or "")
                tasks = None if source is None else self._tasks_of(source, _format_of(request))
                task = board.task if tasks is None else chosen_task(board.name, tasks, str(source))
                return (editor.update(board, task, request.options, now),)
            self._context.require(Role.CREATOR, "create boards")
            tasks = self._tasks_of(source or "", _format_of(request))
            if request.name is not None:
                tasks = (replace(chosen_task(request.name, tasks, str(source)), name=request.name),)
            return editor.creation(tasks, request.options, self._tasks.of_settings(), now)

    def plan_sync(self, request: SyncRequest) -> tuple[Synced, ...]:
        """Plan the changes that make the leaderboards equal to a competition; nothing is stored.

        Raises:
            InputError: the competition cannot be read, or lacks the problem set, or the deadline is invalid.
            Refused: the user is not an admin.
        """
        found, warnings = self._synced(request)
        for warning in warnings:
            self._context.warn(warning)
        return found

    def _synced(self, request: SyncRequest) -> tuple[tuple[Synced, ...], Sequence[str]]:
        """Return the changes of `plan_sync`, and the warnings about the files of the competitions."""
        from hpc_board.catalog import sources as task_sources

        self._context.require(Role.ADMIN, "synchronize the boards with a competition")
        with _unpack_source(request.source) as source:
            if isinstance(source, str) and self._context.installation.served:
                raise InputError("no competition was sent.", hint="Send its folder or its file.")
            path, of_settings, now = Path(source or ""), self._tasks.of_settings(), utc_now()
            competition = task_sources.read(path, request.problem_set, _format_of(request))
            found = synced(
                self._context.editor, competition, request.options, of_settings, force=request.force, now=now
            )
            unpacked = "" if isinstance(request.source, str) else f"{path.parent}/"
            plans = tuple(msgspec.structs.replace(each, reason=each.reason.replace(unpacked, "")) for each in found)
            return plans, competition.warnings

    def carry_out(
        self,
        request: BoardRequest | SyncRequest,
        changes: Mapping[str, int],
        *,
        force: bool = False,
        reason: str = "",
    ) -> tuple[Plan, ...]:
        """Plan anew, and carry out the plans that `changes` names, each with its `after_change`, in one transaction.

        Returns:
            The plans with the number of users who lost a rank.

        Raises:
            InputError: another user has changed a leaderboard since it was planned, or the reason is invalid.
            Refused: the user's role is too low, or users would lose their ranks and `force` is false.
        """
        if not changes:
            return ()
        if isinstance(request, SyncRequest):
            synced_now, _ = self._synced(request)
            plans = tuple(each.plan for each in synced_now if each.plan is not None and each.stored)
        else:
            plans = self._planned(request)
        chosen = [plan for plan in plans if plan.name in changes]
        if {plan.name: plan.after_change for plan in chosen} != dict(changes):
            raise InputError("a board changed after the plan was made.", hint="Review the new plan and retry.")
        context = self._context
        return context.editor.carry_out(chosen, force=force, reason=reason, at=utc_now(), store=context.store)

    def plan_deletion(self, name: str) -> Plan:
        """Plan the deletion of the leaderboard `name`."""
        return self._context.editor.deletion(self.own(name))

    def delete(self, name: str, *, reason: str = "") -> Path:
        """Delete the leaderboard `name`; return the file with its archived standings and definition.

        Runs in flight continue, and all results stay in the database.

        Raises:
            InputError: another user has changed it meanwhile.
            StorageError: the archive cannot be written; nothing is deleted.
        """
        plan, now = self.plan_deletion(name), utc_now()
        file = self._archive(plan, now, reason)
        try:
            self._context.editor.carry_out([plan], force=True, reason=reason, at=now, store=self._context.store)
        except BaseException:
            file.unlink(missing_ok=True)
            raise
        return file

    def _archive(self, plan: Plan, now: datetime, reason: str) -> Path:
        """Write the standings, the definition and the changes of a leaderboard into a file, before its deletion.

        Raises:
            StorageError: the file cannot be written.
        """
        version = (plan.before.change.task_version if plan.before else None) or ""
        document = {
            "board": plan.name,
            "deleted_at": now,
            "deleted_by": self._context.user,
            "reason": reason,
            "terms": plan.options,
            "task": plan.before and plan.before.task,
            "history": self._context.editor.history(plan.name),
            "standings": {
                each.gpu: self._context.store.standings.list(plan.name, version, each.gpu) for each in plan.left
            },
        }
        folder = self._context.settings.board / _EXPORTS
        file = folder / f"{plan.name}-{now:%Y%m%dT%H%M%S.%fZ}.json"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            write_whole(file, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
        except OSError as error:
            raise StorageError(
                f"{file}: the archive of the board cannot be written: {error.strerror or error}",
                hint="The board was not deleted. Free disk space, or correct the folder's permissions.",
            ) from error
        return file

    def own(self, name: str) -> CreatedBoard:
        """Return the leaderboard called `name` if the user may change it."""
        board = self._context.editor.board(name)
        if board is None:
            raise not_a_board(name, self._context.editor.visible(), self._tasks.of_settings())
        self._context.editor.require_change(board)
        return board

    def _tasks_of(self, source: str | Path, format_name: str | None) -> tuple[Task, ...]:
        """Return the tasks in the folder or file `source`, or the task of that name: the settings' own first.

        If the board is served, a text is only a name: the service's folder is not that of the user who gave the text.
        """
        from hpc_board.catalog import sources as task_sources

        if isinstance(source, Path):
            return task_sources.tasks_without_faults(source, format_name)
        if not self._context.installation.served and task_sources.names_a_path(source):
            return task_sources.tasks_without_faults(Path(source))
        of_settings = self._tasks.of_settings().tasks if source not in self._context.editor.hidden() else ()
        task = next((task for task in of_settings if task.name == source), None) or self._tasks.get(source)
        if task.hidden_tests or task.hidden_benchmarks:
            # Limits on ranked runs, which protect them, are those of each board.
            self._context.require_manager([task.name], f"copy the hidden cases of {task.name}")
        return (task,)


def _format_of(request: BoardRequest | SyncRequest) -> str | None:
    return request.source.format if isinstance(request.source, PackedSource) else None


@contextmanager
def _unpack_source(source: PackedSource | str | None) -> Iterator[Path | str | None]:
    """Yield the path of a file with a packed source, or the name of a task; faults are told of the file's name."""
    if not isinstance(source, PackedSource):
        yield source
        return
    from hpc_board.catalog import competition, sources

    name = PurePosixPath(source.file_name).name
    if not name or name != source.file_name or not name.isprintable() or len(name) > _FILE_NAME_MAX:
        raise InputError(f"invalid file name {one_line(source.file_name, 80)}.", hint="Use a name without a folder.")
    if name.endswith(competition.ENDINGS):
        # A lone one may name files of the folders above it, which other accounts write.
        raise InputError(f"{name} is not a folder, a zip or a reference file.", hint="Send its folder as a zip.")
    with temporary_folder("hpc-board-source-") as folder:
        (folder / name).write_bytes(source.data)
        with sources.told_as(f"{folder}/", ""):
            yield folder / name
