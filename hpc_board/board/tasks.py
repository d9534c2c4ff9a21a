"""The tasks of a board: those of the settings' folders, and of the leaderboards that its users made."""

from hpc_board.board.context import Context
from hpc_board.catalog import folders
from hpc_board.domain.roles import Role
from hpc_board.model.task import Task


class Tasks:
    """The tasks that the user sees."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def catalog(self) -> folders.Catalog:
        """Every task of the settings' folders and every board that the user sees, and the faults of folders.

        Raises:
            Refused: the user is no participant.
            StorageError: there is a database, and it cannot be read.
        """
        self._context.require(Role.PARTICIPANT, "see the tasks of this board")
        self._context.tell_hindrance()
        return self._context.editor.catalog(self.of_settings())

    def get(self, name: str) -> Task:
        """Return the task called `name`, for which no other folder is read where its own has its name.

        Raises:
            InputError: there is none, or it has faults.
            Refused: the user is no participant.
        """
        self._context.require(Role.PARTICIPANT, "see the tasks of this board")
        self._context.tell_hindrance()
        context = self._context
        found = context.editor.task(
            name, lambda name: folders.task_called(name, context.settings.tasks, context.known_tasks)
        )
        return self.catalog().task(name) if found is None else found

    def of_settings(self) -> folders.Catalog:
        """Return the tasks of the settings' folders, whatever leaderboards there are."""
        return folders.tasks(self._context.settings.tasks, self._context.known_tasks)
