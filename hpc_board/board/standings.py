"""Standings: ranks of users on the leaderboards, what runs mean there, and the feed of changes."""

from collections.abc import Sequence

from msgspec.structs import replace

from hpc_board.board.context import Context
from hpc_board.board.gpus import Gpus
from hpc_board.board.runs import Runs
from hpc_board.board.tasks import Tasks
from hpc_board.boards import pages as viewing
from hpc_board.domain.feed import FeedEntry
from hpc_board.domain.run import Run
from hpc_board.domain.standing import Page, Place, Placing, Rows, Standing, Version


class Standings:
    """The standings on the leaderboards that the user sees."""

    def __init__(self, context: Context, tasks: Tasks, gpus: Gpus, runs: Runs) -> None:
        self._context = context
        self._tasks = tasks
        self._gpus = gpus
        self._runs = runs

    def list(self, task: str, gpu: str) -> tuple[Standing, ...]:
        """The board of `task` at its present version on `gpu`, best first."""
        found = self._tasks.get(task)
        rows = self._context.store.standings.list(task, found.version, self._gpus.get(gpu).name)
        return tuple(replace(row, harness=found.harness) for row in rows)

    def personal(self, task: str, gpu: str) -> tuple[Standing, ...]:
        """Every passing ranked run of the user on this board, best first, ranked among themselves."""
        found = self._tasks.get(task)
        rows = self._context.store.standings.personal(task, found.version, self._gpus.get(gpu).name, self._context.user)
        return tuple(replace(row, harness=found.harness) for row in rows)

    def removed(self, task: str, gpu: str, version: str | None = None) -> tuple[Run, ...]:
        """The user's passing ranked runs on this board that do not count, since they were removed; newest first.

        `version` is a whole one of the task; else it is the present one.
        """
        return self._context.store.standings.removed_runs(
            task, version or self._tasks.get(task).version, self._gpus.get(gpu).name, self._context.user
        )

    def pages(
        self,
        task: str,
        gpus: Sequence[str],
        *,
        version: str | None = None,
        rows: Rows = Rows.USERS,
        limit: int | None = None,
        offset: int = 0,
        user: str | None = None,
    ) -> Sequence[Page]:
        """A part of the board of `task` on each of `gpus`: `limit` rows from the place `offset` on, and their company.

        `version` is what `versions` or a beginning of one has, or "previous"; else it is the present one. `user` is
        whose row is `own`, and whose runs Rows.OWN and Rows.NEWEST have; else the user's own.

        Raises:
            InputError: there is no such task, GPU or version.
        """
        found = self._tasks.get(task)
        store = self._context.store
        wanted = viewing.definition(store, found, viewing.version_called(version, found, store))
        names = [self._gpus.get(gpu).name for gpu in gpus]
        reader = user or self._context.user
        return [
            viewing.page(self._context.store, found, wanted, name, reader, rows=rows, limit=limit, offset=offset)
            for name in names
        ]

    def at_rank(self, task: str, gpu: str, rank: int, *, version: str | None = None) -> tuple[Standing, ...]:
        """Those who have this rank on a board; nobody where a tie leaves a gap there, or it is too large.

        Raises:
            InputError: there is no such task, GPU or version.
        """
        found = self._tasks.get(task)
        store = self._context.store
        wanted = viewing.definition(store, found, viewing.version_called(version, found, store))
        rows = self._context.store.standings.at_rank(task, wanted.version, self._gpus.get(gpu).name, rank)
        return tuple(replace(row, harness=wanted.harness) for row in rows)

    def versions(self, task: str) -> tuple[Version, ...]:
        """Every version of `task` for which somebody has submitted, the one that came last first."""
        return self._context.store.standings.versions(self._tasks.get(task).name)

    def feed(
        self,
        *,
        task: str | None = None,
        gpu: str | None = None,
        user: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> tuple[FeedEntry, ...]:
        """What runs have changed on the boards that are here, newest first, older than the entry `before` if given.

        Raises:
            InputError: there is no such task or GPU.
        """
        known = self._tasks.catalog()
        name = None if task is None else known.task(task).name
        among = [each.name for each in known.tasks]
        on = None if gpu is None else self._gpus.get(gpu).name
        return self._context.store.standings.feed(task=name, gpu=on, user=user, before=before, limit=limit, among=among)

    def places(self) -> tuple[Place, ...]:
        """Where the user stands on every board with a passing ranked run of theirs, old versions of tasks included."""
        return self._context.store.standings.places(self._context.user)

    def rank(self, run: Run) -> int | None:
        """The rank that this run holds on its board; None unless it is its user's best.

        Raises:
            InputError, Refused: as of `run`.
        """
        return self._context.store.standings.rank(self._runs.seen(run))

    def placing(self, run: Run) -> Placing | None:
        """What this run means on its board; None where it does not count there.

        Raises:
            InputError, Refused: as of `run`.
        """
        return self._context.store.standings.placing(self._runs.seen(run))
