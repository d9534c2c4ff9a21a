"""Administration: exports, statistics, backups, diagnosis and probe jobs."""

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from hpc_board.board.context import Context, PublicContext, harness
from hpc_board.board.runs import Runs
from hpc_board.board.tasks import Tasks
from hpc_board.domain.clock import in_utc, utc_now
from hpc_board.domain.export import HTML, JSON, OVERALL, RUNS
from hpc_board.domain.origin import By
from hpc_board.domain.roles import Role
from hpc_board.domain.user_board import CreatedBoard
from hpc_board.errors import Refused
from hpc_board.store.folder import make_board_folder

if TYPE_CHECKING:
    from hpc_board.admin import probe
    from hpc_board.admin.export import Export
    from hpc_board.domain.diagnostic import Diagnostic
    from hpc_board.domain.node_checks import NodeCheck
    from hpc_board.domain.pruned import Pruned
    from hpc_board.domain.statistics import Statistics
    from hpc_board.model.gpu import Gpu
    from hpc_board.store.backup import Contents
    from hpc_board.store.export import RunSelection


PRUNE_DAYS = 30
"""The age at which `admin prune` removes the job folders of ended runs, unless the settings or the user set another."""


class Restored(msgspec.Struct, frozen=True):
    """The contents of the database before and after a restore, and the path of the copy of the former."""

    before: "Contents"
    now: "Contents"
    kept: Path


class Administration:
    """Administration of the whole board, for admins; exports and statistics also for those who manage their tasks.

    All but exports of own runs, diagnoses and checks raise Refused for others.
    """

    def __init__(self, context: Context, tasks: Tasks, runs: Runs) -> None:
        self._context = context
        self._tasks = tasks
        self._runs = runs

    def export(
        self,
        form: str,
        *,
        what: str = RUNS,
        own: bool = False,
        tasks: Sequence[str] = (),
        gpus: Sequence[str] = (),
        since: datetime | None = None,
        ended_only: bool = False,
        with_code: bool = False,
        with_output: bool = False,
        anonymous: bool = False,
    ) -> "Export":
        """Return an export: the table `what` of all runs, or of the user's `own`, or the standings as `html`.

        The tables are `runs`, their `cases`, the `samples` of these, the `tasks`, and the `overall` standings of the
        competitions of which the user manages each leaderboard; the formats are `csv`, `jsonl`, `parquet` and, for
        runs, `traces` and `json`. The HTML page is public: closed leaderboards are on it only if `tasks` names them.

        Raises:
            InputError: the table, the format, a task or a GPU is unknown, the format does not have the table, the table
                does not have the selection, the time has no zone, or the format needs a library that is not installed.
            Refused: the export is not of the user's own runs, and the user does not manage all of its leaderboards.
        """
        from hpc_board.admin.export import Export
        from hpc_board.board import Board

        is_page = form == HTML
        public = PublicContext(self._context.installation, self._context.warn) if is_page else self._context
        standings = Board.within(public).standings
        competitions, required = standings.competitions(), tasks
        if what == OVERALL and not own and not tasks:
            manages = self._context.manages
            competitions = {name: boards for name, boards in competitions.items() if all(map(manages, boards))}
            required = [board for boards in competitions.values() for board in boards]
        if not own:
            self._context.require_manager(required, "export the board")
        user = self._context.user if own else None
        chosen = self._run_selection(tasks, gpus, since, user)
        export = Export(
            public.store,
            {task.name: task for task in self._tasks.catalog().tasks} if is_page else {},
            form,
            replace(chosen, user=user, ended_only=ended_only),
            utc_now(),
            what=what,
            with_code=with_code,
            with_output=with_output,
            is_anonymous=anonymous,
            references=not own or self._context.is_admin,
            kept_back=self._context.editor.closed().difference(tasks),
            terms={board.name: board.options for board in self._context.editor.visible()} if is_page else {},
        )
        export.check()
        if what == OVERALL or (form in (HTML, JSON) and not (tasks or gpus or since)):
            return replace(export, competitions=tuple(map(standings.overall, competitions)))
        return export

    def statistics(
        self, *, tasks: Sequence[str] = (), since: datetime | None = None, by: By = By.ACCOUNT
    ) -> "Statistics":
        """Count submissions and runs by GPU, and by user or entrant.

        Raises:
            InputError: no task has one of the names, or the time has no zone.
        """
        from hpc_board.store.statistics import statistics

        self._context.require_manager(tasks, "see the board's statistics")
        return statistics(self._context.store.file, self._run_selection(tasks, (), since), by)

    def _run_selection(
        self, tasks: Sequence[str], gpus: Sequence[str], since: datetime | None, user: str | None = None
    ) -> "RunSelection":
        from hpc_board.store.export import RunSelection

        for name in tasks:
            # A task that has left the settings may still have runs; a mistyped name has none.
            known = self._context.store.submissions.knows_task(name)
            if not (known if user is None else self._runs.list(task=name, limit=1)):
                self._tasks.get(name)
        moment = None if since is None else in_utc(since)
        return RunSelection(tuple(tasks), tuple(self._context.gpu(name).name for name in gpus), moment)

    def prune(self, before: datetime | None = None, *, dry_run: bool = False) -> "Pruned":
        """Remove the job folders of runs that ended `before` that time, and unused files of the harness.

        Without a time, it is that of `prune_days` in the settings, else PRUNE_DAYS ago. A `dry_run` only counts.

        Raises:
            InputError: the time has no zone.
            Refused: a service owns the board.
            StorageError: the database cannot be read.
        """
        from datetime import timedelta

        self._context.require(Role.ADMIN, "remove the board's job folders")
        if not dry_run:
            self._context.installation.require_unserved("removes job folders")
        days = self._context.settings.prune_days or PRUNE_DAYS
        moment = utc_now() - timedelta(days=days) if before is None else in_utc(before)
        return self._context.reconciler.prune(moment, dry_run=dry_run)

    def backup(self, target: Path, *, force: bool = False) -> "Contents":
        """Write a copy of the database to `target`, also while others write, and return its contents.

        Raises:
            InputError: `target` exists and `force` is false, or it cannot be written.
        """
        from hpc_board.store.backup import backup

        self._context.require(Role.ADMIN, "copy the board's database")
        return backup(self._context.store.file, target, force=force)

    def restore(self, source: Path, *, force: bool = False) -> "Restored":
        """Replace the database by a backup, and keep a copy of the present one in the board's folder.

        Raises:
            InputError: `source` is not a backup.
            Refused: the backup lacks runs in flight, and `force` is false; or a
                service owns the board.
            StorageError: the database cannot be written, or other clients keep it locked.
        """
        from hpc_board.store.backup import restore

        self._context.require(Role.ADMIN, "restore the board's database")
        if self._context.installation.served_by_another():
            raise Refused(
                f"{self._context.settings.board} is served by `hpc-board serve`, which has the database open.",
                hint="Stop the service first: `hpc-board admin doctor` shows its process.",
            )
        kept = self._context.settings.board / f"board.db.before-{utc_now():%Y%m%dT%H%M%S.%fZ}"
        with self._context.reconciler.locks.all():
            before, now = restore(self._context.store.file, source, kept, force=force)
        return Restored(before, now, kept)

    def diagnose(self, origin: str, say: Callable[[str], object] = lambda _: None) -> "list[Diagnostic]":
        """Return the diagnostics of this installation; `origin` tells how the settings file was chosen.

        `say` is called before each question that may take long.
        """
        from hpc_board.admin import doctor
        from hpc_board.transport.this_host import ThisHost

        count = self._runs.in_flight
        tasks = self._tasks.of_settings()
        host, hosts = ThisHost(), self._context.clusters.hosts
        installation = doctor.Installation(
            self._context.settings, origin, tasks, count, host, hosts=hosts, count_boards=self._count_boards, say=say
        )
        return list(doctor.diagnose(installation))

    def _count_boards(self) -> int:
        return sum(isinstance(each, CreatedBoard) for each in self._context.reading.boards.newest().values())

    def check_nodes(
        self,
        names: Sequence[str] = (),
        *,
        timeout_seconds: float | None = None,
        at_once: int | None = None,
        say: Callable[[str], object] = lambda _: None,
    ) -> "list[NodeCheck]":
        """Check each node of these GPUs of the settings, or of all, by `at_once` probe jobs at a time.

        A GPU whose options the scheduler refuses has a check without a node. No run is stored, and nothing remains in
        the board's folder but the peaks of CPUs.

        Raises:
            InputError: no GPU has one of the names, or no cluster lists its nodes.
            StorageError: the board's folder cannot be written.
        """
        from hpc_board.admin import each_node

        plan = replace(self._plan(timeout_seconds, say), at_once=at_once or each_node.AT_ONCE, benchmark=True)
        return each_node.check_nodes(self._gpus_called(names), plan)

    def check_gpus(
        self,
        names: Sequence[str] = (),
        *,
        send: bool = True,
        timeout_seconds: float | None = None,
        say: Callable[[str], object] = lambda _: None,
    ) -> "list[probe.Checked]":
        """Check these GPUs of the settings, or all: a dry run by the scheduler, then a probe job on each.

        Without `send` no job is sent. No run is stored, and nothing remains in the board's folder but the CPUs' peaks.

        Raises:
            InputError: no GPU has one of the names.
            StorageError: the board's folder cannot be written.
        """
        from hpc_board.admin import probe
        from hpc_board.admin.doctor import diagnose_root

        plan = replace(self._plan(timeout_seconds, say), starters=probe.bundled_starters())
        checked = probe.check(self._gpus_called(names), plan, send=send)
        return [replace(each, diagnostics=(*diagnose_root(each.gpu.cluster), *each.diagnostics)) for each in checked]

    def _gpus_called(self, names: Sequence[str]) -> "list[Gpu]":
        return [self._context.gpu(name) for name in names] or list(self._context.settings.gpus)

    def _plan(self, timeout_seconds: float | None, say: Callable[[str], object]) -> "probe.Plan":
        from hpc_board.admin import probe

        make_board_folder(self._context.settings.board)
        return probe.Plan(
            folders=self._context.clusters.folders,
            tasks=self._tasks.catalog().tasks,
            schedulers=self._context.clusters.schedulers,
            harness=harness,
            timeout_seconds=probe.TIMEOUT_SECONDS if timeout_seconds is None else timeout_seconds,
            say=say,
        )
