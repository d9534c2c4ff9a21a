"""The board's memory: submissions, runs, events and results in SQLite, and the standings that follow from them."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from hpc_board.store.boards import BoardGateway, NewChange, Newest
from hpc_board.store.database import BUSY_TIMEOUT_SECONDS, DatabaseFile
from hpc_board.store.journal import MOUNTS
from hpc_board.store.listing import RunQuery
from hpc_board.store.moderation import ModerationGateway
from hpc_board.store.runs import RunGateway, WholeRun
from hpc_board.store.standings import StandingsGateway
from hpc_board.store.submissions import NewRun, NewSubmission, SubmissionGateway

if TYPE_CHECKING:
    from hpc_board.store.export import ExportGateway

__all__ = ["NewChange", "NewRun", "NewSubmission", "Newest", "RunQuery", "Store", "WholeRun"]


class Store:
    """Everything that a board remembers, in one database file, behind one gateway for each kind of fact.

    Facts are appended and never changed: a run's state is its newest event, a rank is a query. Every call is one
    transaction. It opens the database and closes it, or takes the connection of its thread's `file.session()`; so a
    store may be used from any thread and costs nothing until it is asked. Every method of a gateway may raise
    StorageError.
    """

    def __init__(
        self, path: Path, *, mounts: Path = MOUNTS, busy_timeout_seconds: float = BUSY_TIMEOUT_SECONDS
    ) -> None:
        self.file = DatabaseFile(path, mounts, busy_timeout_seconds)
        self.runs = RunGateway(self.file)
        self.submissions = SubmissionGateway(self.file)
        self.standings = StandingsGateway(self.file)
        self.moderation = ModerationGateway(self.file)
        self.boards = BoardGateway(self.file)

    @cached_property
    def export(self) -> "ExportGateway":
        """The tables that leave a board, which few commands need."""
        from hpc_board.store.export import ExportGateway

        return ExportGateway(self.file)
