"""The catalog: the tasks of a board by name, and the faults of task folders."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from hpc_board.domain.board_options import CompetitionTerms
from hpc_board.errors import DocumentError, InputError
from hpc_board.model.names import suggestion
from hpc_board.model.task import Task
from hpc_board.model.text import one_line


class Catalog(msgspec.Struct, frozen=True):
    """The tasks of a board by name, and the faults of folders without a readable one.

    `replaced` are the names of tasks in folders that leaderboards of users have, too. `competitions` has the terms of
    each task of a competition, by its name; `warnings` are those of its file.
    """

    tasks: tuple[Task, ...]
    faults: tuple[DocumentError, ...] = ()
    replaced: tuple[str, ...] = ()
    competitions: Mapping[str, CompetitionTerms] = {}
    warnings: tuple[str, ...] = ()

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
        near = f" `hpc-board run {name}` shows a run." if name.isdecimal() else suggestion(name, names)
        broken = f" {len(self.faults)} more cannot be read: hpc-board list" if self.faults else ""
        every = "`hpc-board list` lists the tasks." if near else f"Tasks: {', '.join(names) or 'none'}.{broken}"
        raise InputError(f'unknown task "{one_line(name, 80)}".{near}', hint=every)


def require_texts(task: Task) -> None:
    """Require the texts of a task's files.

    Raises:
        InputError: the task comes from a service, which keeps them.
    """
    if task.published_version:
        raise InputError(
            f"the service does not send the files of task {task.name}.",
            hint=f"`hpc-board task {task.name}` shows the description and the cases; the task's author has the files.",
        )
