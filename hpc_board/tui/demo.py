"""A board of its own, on this machine and for one submission: what the tour shows, and nobody else sees."""

import importlib.util
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from hpc_board import settings
from hpc_board.board import Board
from hpc_board.catalog.template import starter
from hpc_board.domain.run import Progress, Run
from hpc_board.errors import BoardError, StorageError

TASK = "identity_py"
GPU = "CPU"
_NEEDED = "torch"


def is_possible() -> bool:
    """Whether this Python has what the task of the tour needs."""
    return importlib.util.find_spec(_NEEDED) is not None


class Rehearsal:
    """A submission to the embedded scheduler, in a folder that is removed afterwards."""

    def __init__(self) -> None:
        self._run: int | None = None

    @cached_property
    def _folder(self) -> Path:
        try:
            return Path(tempfile.mkdtemp(prefix="hpc-board-tour-"))
        except OSError as error:
            raise StorageError(
                f"no temporary folder can be made: {error.strerror}", hint="Free some space, or set TMPDIR."
            ) from error

    @cached_property
    def _board(self) -> Board:
        return Board(settings.load(None, {**os.environ, "XDG_DATA_HOME": str(self._folder)}))

    def code(self) -> str:
        """The file that is submitted: the task's own starter.

        Raises:
            InputError: the task that ships with hpc-board cannot be read.
        """
        return starter(_embedded().task(TASK))

    def send(self) -> Run:
        """Submit the file, in mode ranked, to this machine.

        Raises:
            BoardError: it cannot be sent.
        """
        file = self._folder / "kernel.py"
        try:
            file.write_text(self.code(), encoding="utf-8")
        except OSError as error:
            raise StorageError(f"{file}: cannot be written: {error.strerror}", hint="Free some space.") from error
        (run,) = self._board.submit(self._board.draft(file, task=TASK, gpus=[GPU], mode="ranked"))
        self._run = run.id
        return run

    def look(self) -> tuple[Run, list[Progress], int | None]:
        """The run, carried on as far as it goes; what it has said; and its rank.

        Raises:
            BoardError: nothing has been sent, or it cannot be found out.
        """
        if self._run is None:
            raise BoardError("the tour has sent nothing yet", hint="Press Enter to send the file.")
        self._board.advance([self._run])
        run = self._board.run(self._run)
        return run, self._board.progress(self._run), self._board.rank(run)

    def close(self) -> None:
        """End what still runs, and remove every trace."""
        if "_folder" not in self.__dict__:
            return
        if self._run is not None:
            with suppress(BoardError):
                self._board.cancel(self._run)
        shutil.rmtree(self._folder, ignore_errors=True)


def _embedded() -> Board:
    """The board of the embedded default, to read its tasks; nothing is written for it."""
    return Board(settings.load(None, os.environ))
