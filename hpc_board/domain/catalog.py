"""The catalog: the tasks of a board by name, and the faults of task folders."""

from pathlib import Path

import msgspec

from hpc_board.errors import DocumentError, InputError
from hpc_board.model.names import suggestion
from hpc_board.model.task import Task
from hpc_board.model.text import one_line


class Catalog(msgspec.Struct, frozen=True):
    """The tasks of a board by name, and the faults of folders without a readable one.

    `replaced` are the names of tasks in folders that leaderboards of users have, too.
    """

    tasks: tuple[Task, ...]
    faults: tuple[DocumentError, ...] = ()
    replaced: tuple[str, ...] = ()

    def task(self, name: str) -> Task:
        """Return the task called `name`.

        Raises:
            DocumentError: the folder of that name has faults.
            InputError: no such task exists; the message offers the nearest name.
        """
        for task in self.tasks:
            if task.name == name:
                return task
        for error in self.faults:
            if Path(error.file).parent.name == name:
                raise error
        names = [task.name for task in self.tasks]
        broken = f" {len(self.faults)} more cannot be read: hpc-board list" if self.faults else ""
        raise InputError(
            f'unknown task "{one_line(name, 80)}".{suggestion(name, names)}',
            hint=f"Tasks: {', '.join(names) or 'none'}.{broken}",
        )
