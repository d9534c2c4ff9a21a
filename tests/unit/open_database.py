"""A database that a test has opened itself, to trace or to count what the store's gateways ask of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpc_board.store.database import DatabaseFile
from hpc_board.store.sqlite import Database


class OpenDatabase(DatabaseFile):
    """A door to a database that is open already; its transactions are its owner's."""

    def __init__(self, db: Database) -> None:
        super().__init__(Path())
        self.db = db

    @contextmanager
    def reading(self) -> Iterator[Database]:
        yield self.db

    @contextmanager
    def writing(self) -> Iterator[Database]:
        yield self.db
