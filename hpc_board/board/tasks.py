"""The tasks of a board: those of the settings' folders, and of the leaderboards that its users created."""

from typing import TYPE_CHECKING

from hpc_board.domain.catalog import Catalog
from hpc_board.domain.roles import Role
from hpc_board.model.task import Task

if TYPE_CHECKING:
    from hpc_board.board.context import Context


class Tasks:
    """The tasks that are visible to the user."""

    def __init__(self, context: "Context") -> None:
        self._context = context

    def catalog(self) -> Catalog:
        """Return every task of the settings' folders and every visible leaderboard, and the faults of folders.

        Raises:
            Refused: the user is not a participant.
            StorageError: the database exists, and cannot be read.
        """
        self._context.require(Role.PARTICIPANT, "see the tasks of this board")
        return self._context.editor.catalog(self.of_settings())

    def get(self, name: str) -> Task:
        """Return the task called `name`; if a folder has this name, no other folder is read.

        Raises:
            InputError: no task has this name, or it has faults.
            Refused: the user is not a participant.
        """
        from hpc_board.catalog import known_tasks

        context = self._context
        context.require(Role.PARTICIPANT, "see the tasks of this board")
        found = context.editor.task(
            name, lambda name: known_tasks.task_called(name, context.settings.tasks, context.installation.known_tasks)
        )
        return self.catalog().task(name) if found is None else found

    def of_settings(self) -> Catalog:
        """Return the tasks of the settings' folders, without the leaderboards of users."""
        from hpc_board.catalog import known_tasks

        return known_tasks.tasks(self._context.settings.tasks, self._context.installation.known_tasks)
