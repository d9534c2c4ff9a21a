"""The board's memory: submissions, runs, events and results in SQLite, and the standings that follow from them."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from hpc_board.store.database import BUSY_TIMEOUT_SECONDS, MOUNTS, DatabaseFile

if TYPE_CHECKING:
    from hpc_board.store.additions import AdditionGateway
    from hpc_board.store.boards import BoardGateway
    from hpc_board.store.export import ExportGateway
    from hpc_board.store.moderation import ModerationGateway
    from hpc_board.store.readers import Reader
    from hpc_board.store.runners import RunnerGateway
    from hpc_board.store.runs import RunGateway
    from hpc_board.store.sqlite import Database
    from hpc_board.store.standings import StandingsGateway
    from hpc_board.store.submissions import SubmissionGateway


class Store:
    """All data of a board, in one database file at a path or behind a door, with one gateway for each kind of fact.

    Facts are appended and never changed: a run's state is its newest event, a rank is a query. Every call is one
    transaction. It opens the database and closes it, or takes the connection of its thread's `file.session()`; so a
    store works in any thread and costs nothing until its first call. A gateway is imported at its first use. Every
    method of a gateway may raise StorageError.
    """

    def __init__(
        self, file: Path | DatabaseFile, *, mounts: Path = MOUNTS, busy_timeout_seconds: float = BUSY_TIMEOUT_SECONDS
    ) -> None:
        self.file = DatabaseFile(file, mounts, busy_timeout_seconds) if isinstance(file, Path) else file

    def read_by(self, reader: "Callable[[Database], Reader]") -> "Store":
        """Return the same store as the reader may see it whom `reader` returns within each transaction."""
        from hpc_board.store.readers import ReaderFile

        return Store(ReaderFile(self.file, reader))

    @cached_property
    def runs(self) -> "RunGateway":
        """Runs with their events and results."""
        from hpc_board.store.runs import RunGateway

        return RunGateway(self.file)

    @cached_property
    def runners(self) -> "RunnerGateway":
        """Runners with the states of their jobs."""
        from hpc_board.store.runners import RunnerGateway

        return RunnerGateway(self.file)

    @cached_property
    def submissions(self) -> "SubmissionGateway":
        """Submissions with their files."""
        from hpc_board.store.submissions import SubmissionGateway

        return SubmissionGateway(self.file)

    @cached_property
    def standings(self) -> "StandingsGateway":
        """Standings, ranks and marks."""
        from hpc_board.store.standings import StandingsGateway

        return StandingsGateway(self.file)

    @cached_property
    def moderation(self) -> "ModerationGateway":
        """Limits, bans, removals and notes."""
        from hpc_board.store.moderation import ModerationGateway

        return ModerationGateway(self.file)

    @cached_property
    def boards(self) -> "BoardGateway":
        """Leaderboards that users made."""
        from hpc_board.store.boards import BoardGateway

        return BoardGateway(self.file)

    @cached_property
    def additions(self) -> "AdditionGateway":
        """The rows that are new since a mark."""
        from hpc_board.store.additions import AdditionGateway

        return AdditionGateway(self.file)

    @cached_property
    def export(self) -> "ExportGateway":
        """The gateway of exports."""
        from hpc_board.store.export import ExportGateway

        return ExportGateway(self.file)
