"""The product on one page: everything that a front end may do. Both front ends hold one Board."""

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpc_board import settings as config
from hpc_board.accounts import Groups, user_name
from hpc_board.boards import pages as viewing
from hpc_board.boards.admin_views import AdminViews
from hpc_board.boards.editor import (
    UNCHANGED,
    BoardArchive,
    Boards,
    Person,
    RequestedOptions,
    Synced,
    archive,
    chosen_task,
    not_a_board,
    synced,
    unknown_members,
)
from hpc_board.boards.moderation import RerunCandidate, Rules, best_of_before, named
from hpc_board.catalog import folders
from hpc_board.domain.feed import FeedEntry
from hpc_board.domain.moderation import NO_LIMITS, Limits, Rerun
from hpc_board.domain.roles import Role
from hpc_board.domain.run import Progress, Run, RunState, Status
from hpc_board.domain.standing import Page, Place, Placing, Rows, Standing, Version
from hpc_board.domain.submission import Directives, Submission
from hpc_board.domain.user_board import BoardChange, CreatedBoard, Plan
from hpc_board.errors import (
    BoardError,
    InputError,
    Refused,
    SchedulerError,
    SchedulerRefused,
    StorageError,
)
from hpc_board.model.gpu import Gpu, GpuStatus
from hpc_board.model.result import Case, Result, Verdict
from hpc_board.model.task import Mode, Task
from hpc_board.model.text import printable
from hpc_board.runs import drafts as intake
from hpc_board.runs import job_folder
from hpc_board.runs import wait as waiting
from hpc_board.runs.backoff import ProgressCache
from hpc_board.runs.clusters import Clusters
from hpc_board.runs.dispatch import DispatchPlan, Preview, Sent, new_submissions
from hpc_board.runs.reconciler import Pass, Reconciler
from hpc_board.store import RunQuery, Store, WholeRun
from hpc_board.store.sharing import hindrance, is_shared, make_own_folder, own_folder

if TYPE_CHECKING:
    from hpc_board.admin import probe
    from hpc_board.admin.export import Export
    from hpc_board.boards.comparison import Compared
    from hpc_board.domain.diagnostic import Diagnostic
    from hpc_board.domain.statistics import Statistics
    from hpc_board.store.backup import Contents
    from hpc_board.store.batches import RunSelection

LOG_BYTES_MAX = 256 * 1024

FOLLOWED_MAX = 1_000
"""How many runs of one user in flight are begun to be followed at once; each is followed to its end."""


@dataclass(frozen=True)
class Restored:
    """What the database held before a backup took its place, what it holds now, and where the former is kept."""

    before: "Contents"
    now: "Contents"
    kept: Path


class Board:
    """Tasks, GPUs, submissions, runs and standings under one folder.

    Every method may be called from any thread, opens what it needs, and raises BoardError for what a user can mend.
    `warn` is told, from any thread, what works although not as the settings say; a front end may put its own there.
    """

    def __init__(
        self, settings: config.Settings, *, user: str | None = None, warn: Callable[[str], object] = lambda _: None
    ) -> None:
        self.settings = settings
        self.user = user or user_name(os.geteuid())
        self.warn = warn
        self._clusters = Clusters(settings, self._warn)
        self._far_progress = ProgressCache()
        self._groups = Groups()
        self._known_tasks = folders.TaskCache()
        self._told_hindrance = False

    @classmethod
    def open(
        cls,
        explicit: Path | None = None,
        environ: Mapping[str, str] = os.environ,
        *,
        warn: Callable[[str], object] = lambda _: None,
    ) -> "Board":
        """The board that the settings found for this user describe.

        Raises:
            InputError: the settings file is missing or has faults.
        """
        try:
            here = Path.cwd()
        except FileNotFoundError:
            here = Path("/")  # the working folder was removed, so no settings lie in it
        file = config.find(explicit, environ, here)
        return cls(config.load(file, environ), warn=warn)

    def session(self) -> AbstractContextManager[None]:
        """Keep the database open for the calls of this thread, which else open it for each transaction."""
        return self._looking.file.session()

    # People

    @cached_property
    def role(self) -> Role:
        """What the user may do here, by the settings' `roles` and who owns the board's folder."""
        return self._role_of(self.user)

    def _role_of(self, user: str) -> Role:
        roles = self.settings.roles
        groups = self._groups.of(user) if roles.name_groups else frozenset()
        return roles.role(user, groups, owner=self._owns_folder(user))

    def require(self, least: Role, what: str) -> None:
        """Pass if the user may act as `least`; `what` completes "you may not ...".

        Raises:
            Refused: they may not.
        """
        if not self.role.may_act_as(least):
            raise Refused(
                f"you may not {what}: that takes the role {least}, and {self.user}'s is {self.role}.",
                hint="The settings' `roles` say who has which.",
            )

    def _require_participant(self) -> None:
        self.require(Role.PARTICIPANT, "submit to this board")

    def _owns_folder(self, user: str) -> bool:
        try:
            owner = self.settings.board.stat().st_uid
        except OSError:
            return user == self.user  # whoever makes the folder will own it
        return user == user_name(owner)

    # Tasks and GPUs

    def tasks(self) -> folders.Catalog:
        """Every task of the settings' folders and every board that the user sees, and the faults of folders.

        Raises:
            Refused: the user is no participant.
            StorageError: there is a database, and it cannot be read.
        """
        self.require(Role.PARTICIPANT, "see the tasks of this board")
        self._tell_hindrance()
        return self._boards.catalog(self._tasks_of_settings())

    def _tasks_of_settings(self) -> folders.Catalog:
        return folders.tasks(self.settings.tasks, self._known_tasks)

    def task(self, name: str) -> Task:
        """Return the task called `name`, for which no other folder is read where its own has its name.

        Raises:
            InputError: there is none, or it has faults.
            Refused: the user is no participant.
        """
        self.require(Role.PARTICIPANT, "see the tasks of this board")
        self._tell_hindrance()
        found = self._boards.task(name, lambda name: folders.task_called(name, self.settings.tasks, self._known_tasks))
        return self.tasks().task(name) if found is None else found

    def allowed_gpus(self, task: Task) -> tuple[Gpu, ...]:
        """The GPUs of the settings on which `task` may run."""
        return intake.allowed_gpus(task, self.settings.gpus)

    def gpus(self) -> list[GpuStatus]:
        """Every GPU of the settings with what is free of it; a cluster that does not answer says why.

        A cluster is asked at most every `poll_seconds` for all clients of the board together.
        """
        return self._clusters.gpu_statuses()

    def check_gpus(
        self,
        names: Sequence[str] = (),
        *,
        send: bool = True,
        timeout_seconds: float | None = None,
        say: Callable[[str], object] = lambda _: None,
    ) -> "list[probe.Checked]":
        """Prove these GPUs of the settings, or all: what Slurm says to their jobs, and what a probe job of each finds.

        Without `send` no job is sent. No run is stored, and nothing is left in the board's folder.

        Raises:
            InputError: there is no such GPU.
            StorageError: the board's folder cannot be written.
        """
        from hpc_board.admin import probe

        gpus = [self.gpu(name) for name in names] or list(self.settings.gpus)
        make_own_folder(self.settings.board)
        plan = probe.Plan(
            folders=self._clusters.folders,
            tasks=self._tasks_of_settings().tasks,
            schedulers=self._clusters.schedulers,
            harness=_harness,
            timeout_seconds=probe.TIMEOUT_SECONDS if timeout_seconds is None else timeout_seconds,
            say=say,
        )
        return probe.check(gpus, plan, send=send)

    def diagnose(self, origin: str) -> "list[Diagnostic]":
        """Return the diagnostics of this installation; `origin` says how the settings file was named."""
        from hpc_board.admin import doctor
        from hpc_board.transport.this_host import ThisHost

        count = self.in_flight
        tasks = self._tasks_of_settings()
        host, logins = ThisHost(), self._clusters.logins
        return list(doctor.diagnose(doctor.Installation(self.settings, origin, tasks, count, host, logins=logins)))

    def header(self, file: Path) -> Directives:
        """What the header of a submission asks for, before anything else about the file is decided.

        Raises:
            InputError: the file cannot be read, or its header has a directive that is none.
        """
        return intake.header(intake.read_source(file))

    def gpu(self, name: str) -> Gpu:
        """The GPU of the settings called `name`, however it is capitalized.

        Raises:
            InputError: there is none; the nearest name is offered.
        """
        return intake.gpu(name, self.settings.gpus)

    # Boards that people make

    def created(self, name: str) -> CreatedBoard | None:
        """The board of this name that somebody made; None where it is a task of the settings, or the user sees none."""
        return self._boards.board(name)

    def created_boards(self) -> tuple[CreatedBoard, ...]:
        """The boards that somebody made and that the user sees, by name."""
        return self._boards.visible()

    def shows_code(self, submission: Submission) -> bool:
        """Whether participants may read a submission of somebody else at this moment, by the terms of its board."""
        return self._boards.shows_code(submission.task, self._first_sent(submission).submitted_at, _now())

    def _first_sent(self, submission: Submission) -> Submission:
        """The submission, or the one that its author sent where an admin sent it again."""
        rerun = next(
            (run.remarks.rerun for run in self._store.runs.list(RunQuery(submission=submission.id), limit=1)), None
        )
        if rerun is None or rerun.of_submission >= submission.id:
            return submission
        return self._first_sent(self._store.submissions.get(rerun.of_submission))

    def board_history(self, name: str) -> tuple[BoardChange, ...]:
        """What was done to the boards of this name, deleted ones among them, oldest first.

        Raises:
            InputError: nobody made one, or none that the user sees.
        """
        found = self._boards.history(name)
        if not found:
            raise not_a_board(name, self._boards.visible(), self._tasks_of_settings())
        return found

    def plan_creation(
        self, source: str, name: str | None = None, wishes: RequestedOptions = UNCHANGED
    ) -> tuple[Plan, ...]:
        """How boards of the tasks in `source` would be made, or one called `name`; nothing is stored.

        `source` is what tasks are read from, or the name of a task that there is.

        Raises:
            InputError: the source, a name or a wish cannot be; all that is wrong is said.
            Refused: the user is no creator.
        """
        self.require(Role.CREATOR, "create boards")
        tasks = self._offered(source)
        if name is not None:
            tasks = (replace(chosen_task(name, tasks, source), name=name),)
        return self._boards.creation(tasks, wishes, self._tasks_of_settings(), _now())

    def plan_update(self, name: str, source: str | None = None, wishes: RequestedOptions = UNCHANGED) -> Plan:
        """What would become of the board `name` with the task in `source`, else its own, and as is wished.

        Raises:
            InputError: there is no such board, or the source or a wish cannot be.
            Refused: it is somebody else's.
        """
        board = self._own_board(name)
        task = board.task if source is None else chosen_task(name, self._offered(source), source)
        return self._boards.update(board, task, wishes, _now())

    def plan_sync(self, source: Path, problem_set: str | None = None, *, force: bool = False) -> tuple[Synced, ...]:
        """What has to be done for the boards to be those of a competition; nothing is stored.

        Raises:
            InputError: it cannot be read, or has no such set.
            Refused: the user is no admin.
        """
        from hpc_board.catalog import sources as task_sources

        self.require(Role.ADMIN, "have the boards be those of a competition")
        competition = task_sources.read(source, problem_set)
        return tuple(synced(self._boards, competition, self._tasks_of_settings(), force=force, now=_now()))

    def carry_out(self, plans: Sequence[Plan], *, force: bool = False, reason: str = "") -> tuple[Plan, ...]:
        """Create and update boards as planned: all of them, or none; the plans, with those counted who lost a rank.

        Raises:
            InputError: somebody else has changed one meanwhile, or the reason cannot be.
            Refused: the user may not, or others would lose their ranks and `force` is not given.
        """
        if any(plan.before is None for plan in plans):
            self.require(Role.CREATOR, "create boards")
        for plan in plans:
            if unknown := unknown_members(plan):
                self.warn(f"{plan.name}: this machine does not know {', '.join(unknown)}.")
        return self._boards.carry_out(plans, force=force, reason=reason, at=_now(), store=self._store)

    def plan_deletion(self, name: str) -> Plan:
        """What would be deleted with the board `name`.

        Raises:
            InputError: there is no such board.
            Refused: it is somebody else's.
        """
        return self._boards.deletion(self._own_board(name))

    def delete_board(self, name: str, *, reason: str = "") -> Path:
        """Delete the board `name`; the file in which its standings and what it was are kept.

        Runs in flight go on, and all results stay in the database.

        Raises:
            InputError: there is no such board, or somebody else has changed it meanwhile.
            Refused: it is somebody else's.
            StorageError: what is kept cannot be written; nothing is deleted.
        """
        plan, now = self.plan_deletion(name), _now()
        file = archive(self._kept(plan, now, reason), self.settings.board)
        try:
            self._boards.carry_out([plan], force=True, reason=reason, at=now, store=self._store)
        except BaseException:
            file.unlink(missing_ok=True)
            raise
        return file

    def _kept(self, plan: Plan, now: datetime, reason: str) -> BoardArchive:
        version = (plan.before.change.task_version if plan.before else None) or ""
        rows = {each.gpu: self._store.standings.list(plan.name, version, each.gpu) for each in plan.left}
        standings = {
            gpu: [
                {
                    "rank": row.rank,
                    "user": row.user,
                    "score_s": row.score_s,
                    "submission": row.submission,
                    "run": row.run,
                    "submitted_at": row.submitted_at.isoformat(),
                    "file_name": row.file_name,
                }
                for row in found
            ]
            for gpu, found in rows.items()
        }
        history = [
            {
                "action": str(change.action),
                "by": change.by_user,
                "at": change.at.isoformat(),
                "task_version": change.task_version,
                "reason": change.reason,
            }
            for change in self._boards.history(plan.name)
        ]
        return BoardArchive(plan, now, self.user, reason, standings, history)

    def _own_board(self, name: str) -> CreatedBoard:
        """The board of this name, if the user may change it.

        Raises:
            InputError: there is none.
            Refused: it is somebody else's.
        """
        board = self._boards.board(name)
        if board is None:
            raise not_a_board(name, self._boards.visible(), self._tasks_of_settings())
        self._boards.require_change(board)
        return board

    def _offered(self, source: str) -> tuple[Task, ...]:
        """The tasks in the folder or file `source`, or the one of that name: the settings' own before a board's."""
        from hpc_board.catalog import sources as task_sources
        from hpc_board.files import is_folder

        path = Path(source)
        if "/" in source or is_folder(path) or path.suffix in task_sources.ENDINGS:
            return task_sources.sound_tasks(path)
        for task in self._tasks_of_settings().tasks:
            if task.name == source and source not in self._boards.hidden():
                return (task,)
        return (self.task(source),)

    # Submitting

    def draft(
        self,
        file: Path,
        *,
        task: str | None = None,
        gpus: Sequence[str] = (),
        mode: str | None = None,
        note: str = "",
    ) -> intake.Draft:
        """A checked submission of `file`, ready to be previewed or sent; options left out come from its header.

        Raises:
            InputError: the file, the task, a GPU or the mode cannot be used.
            Refused: the board takes no submissions, not the user's or not so many; the deadline has passed; or the user
                is no participant.
        """
        return self.drafts([file], task=task, gpus=gpus, mode=mode, note=note)[0]

    def drafts(
        self,
        files: Sequence[Path],
        *,
        task: str | None = None,
        gpus: Sequence[str] = (),
        mode: str | None = None,
        note: str = "",
    ) -> list[intake.Draft]:
        """A submission of each of `files`, checked as `draft` does; the folders of tasks are read once for all.

        What is checked comes in this order: whether the board takes submissions, and the user's; the file's name and
        ending; its header; the task; the user's rate limit; the deadline; the GPUs.
        """
        self._check_open()
        return self._drafts([intake.read_source(file) for file in files], task, gpus, mode, note)

    def _drafts(
        self, sources: Sequence[intake.Source], task: str | None, gpus: Sequence[str], mode: str | None, note: str
    ) -> list[intake.Draft]:
        find_task, now, admit = cache(self.task), _now(), self._admission()
        late = self.role is Role.ADMIN
        drafts = [
            intake.draft(
                source,
                task_name=task,
                gpu_names=gpus,
                mode_name=mode,
                note=note,
                find_task=find_task,
                gpus=self.settings.gpus,
                now=now,
                after_deadline=late,
                admit=admit,
            )
            for source in sources
        ]
        for task_name in dict.fromkeys(each.task.name for each in drafts if intake.is_over(each.task, now)):
            self.warn(f"the deadline of {task_name} has passed; you may submit as an admin.")
        return drafts

    def _check_open(self) -> None:
        self._require_participant()
        stop = self.rules.check_open() if self._has_database() else None
        if stop is not None:
            self._warn("The board takes no submissions at present; yours are taken, since you are an admin.")

    def _admission(self) -> Callable[[Task, Mode], None]:
        return self.rules.admission() if self._has_database() else lambda _task, _mode: None

    def _has_database(self) -> bool:
        """Whether there is anything to ask; what only looks makes no database."""
        return self._looking.file.is_there()

    def draft_again(self, run: int, *, mode: str | None = None) -> intake.Draft:
        """The same file for the same task and GPU as an earlier run of one's own, checked anew; in its mode, or `mode`.

        Raises:
            InputError: there is no such run, it measures a milestone, or the task, the GPU or the mode cannot be used
                any more.
            Refused: the run belongs to somebody else, or the user may not submit now; see `draft`.
        """
        self._check_open()
        found = self.run(run)
        intake.check_owner(found, self.user)
        intake.check_no_milestone(found)
        file_name, code = self.code(found.submission)
        source = intake.Source(file_name, code.decode())
        return self._drafts([source], found.task, [found.gpu], mode or str(found.mode), found.note)[0]

    def preview(self, *drafts: intake.Draft, array: bool | None = None) -> list[Preview]:
        """The batch script and the command for each GPU of each of `drafts`; nothing is stored or sent.

        `array` is that of `submit`.
        """
        return DispatchPlan(drafts, self._clusters, array).previews()

    def submit(self, *drafts: intake.Draft, array: bool | None = None) -> list[Run]:
        """Store `drafts` and send one job for each of their GPUs; the runs, in that order.

        Jobs that differ in nothing that the scheduler is told go as one job array, where it takes arrays: two and more
        if `array`, none if not; where that is None, as many as make it worth its while (ARRAY_LEAST).

        Once this has returned, or even died halfway, the runs are in the database and any client carries them on.

        Raises:
            InputError: a batch script cannot be rendered; nothing is stored.
            Refused: the board takes no submissions, not the user's or not so many; the task's was deleted, or its
                deadline has passed; nothing is stored.
            StorageError: the board cannot be written; the hint says if the submissions are stored nevertheless.
            SchedulerRefused: the scheduler refused every one of the jobs.
        """
        self._require_participant()
        by_rules = not self.role.may_act_as(Role.ADMIN)
        return self._submit([Sent(draft, self.user) for draft in drafts], array, by_rules=by_rules)

    def rerun_plan(
        self, task: str, *, top: int = 100, gpus: Sequence[str] = (), submissions: Sequence[int] = ()
    ) -> list[RerunCandidate]:
        """What `rerun` would send again for `task`: those named, else the best of the version before this one.

        That is of each of the `top` users, for `gpus` or for each that the task may run on. What cannot be sent again
        is there too, and says why.

        Raises:
            InputError: there is no such task, GPU or submission, a submission measures a milestone, or nobody was
                ranked before.
            Refused: the user is no admin.
        """
        self.require(Role.ADMIN, "send submissions of others again")
        found = self.task(task)
        allowed = self.allowed_gpus(found)
        wanted = intake.named_gpus(gpus, found, self.settings.gpus)
        if submissions:
            return named(self._store, found, submissions, wanted, allowed=allowed)
        return best_of_before(self._store, found, wanted or allowed, top)

    def rerun(self, plan: Sequence[RerunCandidate]) -> list[Run]:
        """Send submissions again, ranked, at the present version of their task, by this account; the runs.

        They stay their authors': who is ranked and shown is the submission's user. As nobody runs their own here, they
        are `verified`, but for those of the caller's own.

        Raises:
            InputError: somebody else has sent one of them since the plan was made; nothing is stored.
            Refused: the user is no admin.
            The rest as of `submit`.
        """
        self.require(Role.ADMIN, "send submissions of others again")
        at, tasks = _now(), self.tasks()
        drafts = [
            Sent(
                intake.Draft(
                    each.source, tasks.task(each.submission.task), each.gpus, Mode.RANKED, each.submission.note
                ),
                each.submission.user,
                Rerun(each.submission.id, self.user, at),
                each.unless_ranked,
            )
            for each in plan
            if each.source is not None
        ]
        return self._submit(drafts, None, by_rules=False) if drafts else []

    def _submit(self, sent: Sequence[Sent], array: bool | None, *, by_rules: bool) -> list[Run]:
        # What cannot be rendered must not be stored.
        tokens = DispatchPlan([each.draft for each in sent], self._clusters, array).tokens()
        names = {each.draft.task.name for each in sent}
        new = new_submissions(
            sent,
            tokens,
            account=self.user,
            harness_sha256=hashlib.sha256(_harness()).hexdigest(),
            of_settings=self._boards.left_to_settings(names, self._tasks_of_settings),
            at=_now(),
        )
        # In one transaction: a client that sees some runs of an array has to see all of them.
        stored = self._store.submissions.add_all(new, by_rules=by_rules)
        runs = [run for _, added in stored for run in added]
        try:
            errors = self._advance.launch(runs)
        except StorageError as error:
            raise self._with_hint(error, runs) from error
        refusals = [error for error in errors if isinstance(error, SchedulerRefused | InputError)]
        if runs and len(refusals) == len(runs):
            raise self._with_hint(refusals[0], runs)
        return [self._store.runs.get(run.id) for run in runs]

    def _with_hint(self, error: BoardError, runs: Sequence[Run]) -> BoardError:
        """`error`, saying what became of runs that are stored but could not be sent for want of space or rights."""
        if isinstance(error, StorageError):
            ids = ", ".join(str(run.id) for run in runs)
            error.hint += (
                f" The submission is stored (run {ids}) and goes on when the board can be written; or cancel it."
            )
        return error

    # Following

    def advance(self, watched: Collection[int] | None = None) -> bool:
        """Carry the runs in flight as far as they go; False if another client is doing so at this moment.

        A front end that does so again and again names the runs that it shows: then the others are looked at only as
        often as costs little, however many there are.

        Raises:
            SchedulerError: a scheduler did not answer.
        """
        return self._advance(watched)

    def wait(
        self,
        ids: Sequence[int],
        *,
        timeout_seconds: float | None = None,
        poll_seconds: float = 0.5,
        say: Callable[[str], object] = lambda _: None,
    ) -> Iterator[list[Run]]:
        """The runs each time that something about them has changed, until all have ended.

        A scheduler that does not answer ends nothing: `say` is told, unless it hinders one of these runs alone, which
        then says so itself; and the waiting goes on.

        Raises:
            WaitExpired: `timeout_seconds` are over; the runs go on.
        """

        def look() -> tuple[list[Run], list[int]]:
            runs = [self.run(id_) for id_ in ids]
            self._store.file.rest()
            return runs, [len(self._progress(run)) for run in runs]

        turn = partial(self._turn, ids)
        return waiting.changes(turn, look, timeout_seconds=timeout_seconds, poll_seconds=poll_seconds, say=say)

    def _turn(self, watched: Collection[int]) -> Pass | None:
        try:
            return self._advance.turn(watched)
        except (SchedulerError, StorageError) as error:
            return Pass(frozenset(), (error,))

    def cancel(self, run: int) -> Run:
        """Ask for the end of a run of one's own, or of this account's; one that has ended is returned as it is.

        Raises:
            InputError: there is no such run.
            Refused: it belongs to somebody else.
            SchedulerError: the scheduler did not answer.
        """
        found = self.run(run)
        if found.account != self.user:
            intake.check_owner(found, self.user)
        self._advance.cancel(found, self.user)
        return self._store.runs.get(run)

    def asked_at(self, cluster: str) -> datetime | None:
        """When a cluster's scheduler was last asked by any client; None if never."""
        return self._advance.asked_at(cluster)

    def silent_since(self, cluster: str) -> datetime | None:
        """When this cluster's scheduler was first asked in vain since it last answered; None where it last answered."""
        return self._advance.silent_since(cluster)

    # Runs

    def run(self, run: int) -> Run:
        """The run with this number.

        Raises:
            InputError: there is none.
            Refused: it is somebody else's, and the user is no participant.
        """
        return self._seen(self._store.runs.get(run))

    def whole_run(self, run: int) -> WholeRun:
        """The run with this number and all that is stored of it, as of one moment.

        Raises:
            InputError, Refused: as of `run`.
        """
        found = self._store.runs.whole(run)
        self._seen(found.run)
        return found

    def _seen(self, run: Run) -> Run:
        """`run`, if the user may see it.

        Raises:
            InputError: they are not to know of it.
            Refused: it is somebody else's, and they are no participant.
        """
        if run.user != self.user:
            self.require(Role.PARTICIPANT, "see the runs of others")
            if run.task in self._boards.hidden():
                raise InputError(f"there is no run {run.id}", hint="`hpc-board runs` lists your runs.")
        return run

    def runs(
        self,
        *,
        everyone: bool = False,
        user: str | None = None,
        task: str | None = None,
        limit: int = 50,
        before: int | None = None,
        note: str = "",
        words: str = "",
        gpu: str | None = None,
        mode: Mode | None = None,
        outcome: RunState | Verdict | None = None,
    ) -> tuple[Run, ...]:
        """Return the newest runs first: the user's own, those of another `user`, or `everyone`'s.

        They have `note` in one of their notes, and each of `words` in any of their fields. With `before` they are older
        than that run; `gpu`, `mode` and `outcome`, a state or a verdict, take one kind of them.

        Raises:
            Refused: others' runs are asked for, and the user is no participant.
        """
        if user is None and not everyone:
            user = self.user
        if user != self.user:
            self.require(Role.PARTICIPANT, "see the runs of others")
        return self._store.runs.list(
            RunQuery(
                user=user,
                task=task,
                before=before,
                note=note,
                words=words,
                hidden=() if user == self.user else self._boards.hidden(),
                unless_by=self.user,
                gpu=gpu,
                mode=mode,
                outcome=outcome,
            ),
            limit=limit,
        )

    def started(self, runs: Collection[int]) -> dict[int, datetime]:
        """Since when each of these runs was last seen running; those that never were are left out.

        So are those that the user may not see.
        """
        found = self._store.runs.started(runs)
        everyone, hidden = self._seen_of_others()
        if everyone and not hidden:
            return found
        return {
            number: at for number, at in found.items() if self._sees(self._store.runs.get(number), everyone, hidden)
        }

    def _seen_of_others(self) -> tuple[bool, frozenset[str]]:
        """Whether the user sees runs of others, and the boards of which those are hidden."""
        return self.role.may_act_as(Role.PARTICIPANT), self._boards.hidden()

    def _sees(self, run: Run, everyone: bool, hidden: Collection[str]) -> bool:
        return run.user == self.user or (everyone and run.task not in hidden)

    def in_flight(self) -> tuple[Run, ...]:
        """The runs that have not ended, oldest first: everybody's, as far as the user may see them."""
        everyone, hidden = self._seen_of_others()
        return tuple(run for run in self._store.runs.in_flight() if self._sees(run, everyone, hidden))

    def followed(self, known: Collection[int] = ()) -> tuple[Run, ...]:
        """The user's own runs: of those that have not ended the newest FOLLOWED_MAX, and all of `known`."""
        return self._store.runs.followed(self.user, known, FOLLOWED_MAX)

    def result(self, run: int) -> Result | None:
        """What the harness found out, or had found when the run was stopped; None unless there is such a thing.

        Raises:
            InputError, Refused: as of `run`.
        """
        return self._store.runs.result(self.run(run).id)

    def cases(self, run: int) -> tuple[Case, ...]:
        """The cases of a finished run without their samples, none while it is not; cheaper than its whole result.

        Raises:
            InputError, Refused: as of `run`.
        """
        return self._store.runs.cases(self.run(run).id)

    def history(self, run: int) -> tuple[Status, ...]:
        """Every status that the run went through, oldest first.

        Raises:
            InputError, Refused: as of `run`.
        """
        return self._store.runs.history(self.run(run).id)

    def progress(self, run: int) -> list[Progress]:
        """What the harness has said so far, oldest first; lines that are none are left out.

        Over SSH it may be what it had said some seconds ago.
        """
        return self._progress(self.run(run))

    def _progress(self, run: Run) -> list[Progress]:
        if self._clusters.folders_on(run.cluster).elsewhere:
            data = self._far_progress.at(run.id, lambda: self._job_file(run, job_folder.PROGRESS))
        else:
            data = self._job_file(run, job_folder.PROGRESS)
        return [line for line in map(_progress, data.splitlines()) if line is not None]

    def log(self, run: int) -> str:
        """The end of the job's own output, safe to print; empty before the job has started."""
        found = self.run(run)
        job_id = found.status.job_id
        names = self._clusters.log_names(found.cluster, job_id) if job_id else []
        data = next(filter(None, (self._job_file(found, name, end=True) for name in names)), b"")
        return printable(data.decode(errors="replace"), LOG_BYTES_MAX)

    def code(self, submission: int) -> tuple[str, bytes]:
        """File name and contents of a submission of one's own; an admin may read everybody's.

        So may all others once the deadline has passed, where the board's terms said so when it was submitted.

        Raises:
            InputError: there is no such submission.
            Refused: it belongs to somebody else.
        """
        found = self._submission(submission)
        self.rules.check_reader(found, shown_to_others=self.shows_code(found))
        return found.file_name, self._store.submissions.code(found.code_sha256)

    def _submission(self, number: int) -> Submission:
        try:
            found = self._store.submissions.get(number)
            if found.user != self.user:
                self.require(Role.PARTICIPANT, "see the submissions of others")
            if found.user != self.user and found.task in self._boards.hidden():
                raise InputError(f"there is no submission {number}")
        except StorageError:
            raise
        except InputError as error:
            raise InputError(error.message, hint=self._hint_for_run(number) or error.hint) from error
        return found

    def _hint_for_run(self, number: int) -> str:
        """What to ask for instead where `number` is that of a run of the user's own; empty where it is not."""
        try:
            run = self.run(number)
        except StorageError:
            raise
        except (InputError, Refused):
            return ""
        if run.user != self.user or run.submission == number:
            return ""
        return f"Run {run.id} belongs to submission {run.submission}: give that number."

    # Rules of play

    @cached_property
    def rules(self) -> Rules:
        """Limits, bans, removals, the audit log and notes, each as far as the user may have to do with it."""
        return Rules(self._store, self.user, self.role.may_act_as(Role.ADMIN), self.require, self._boards.hidden)

    @cached_property
    def oversight(self) -> AdminViews:
        """How boards stand, and people with what holds for them, as far as the user may look after them."""
        return AdminViews(
            self._store,
            self.user,
            self.role,
            self.settings.roles,
            self.require,
            self.tasks,
            self._boards.visible,
            self._role_of,
        )

    def limits(self, board: str) -> Limits:
        """How much each user may send to the board of a task within an hour, none where nothing was decided."""
        if not self._has_database():
            return NO_LIMITS
        return next((limits for decision, limits in self.rules.limits() if decision.subject == board), NO_LIMITS)

    def note(self, submission: int, text: str) -> None:
        """Put a note on a submission of one's own, after those that it has.

        Raises:
            InputError: there is no such submission, or the text cannot be kept with it.
            Refused: it belongs to somebody else.
        """
        self.rules.note(self._submission(submission), text)

    # Standings

    def standings(self, task: str, gpu: str) -> tuple[Standing, ...]:
        """The board of `task` at its present version on `gpu`, best first."""
        found = self.task(task)
        rows = self._store.standings.list(task, found.version, self.gpu(gpu).name)
        return tuple(replace(row, harness=found.harness) for row in rows)

    def personal(self, task: str, gpu: str) -> tuple[Standing, ...]:
        """Every passing ranked run of the user on this board, best first, ranked among themselves."""
        found = self.task(task)
        rows = self._store.standings.personal(task, found.version, self.gpu(gpu).name, self.user)
        return tuple(replace(row, harness=found.harness) for row in rows)

    def removed(self, task: str, gpu: str, version: str | None = None) -> tuple[Run, ...]:
        """The user's passing ranked runs on this board that do not count, since they were removed; newest first.

        `version` is a whole one of the task; else it is the present one.
        """
        return self._store.standings.removed_runs(
            task, version or self.task(task).version, self.gpu(gpu).name, self.user
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
    ) -> list[Page]:
        """A part of the board of `task` on each of `gpus`: `limit` rows from the place `offset` on, and their company.

        `version` is what `versions` or a beginning of one has, or "previous"; else it is the present one. `user` is
        whose row is `own`, and whose runs Rows.OWN and Rows.NEWEST have; else the user's own.

        Raises:
            InputError: there is no such task, GPU or version.
        """
        found = self.task(task)
        wanted = viewing.definition(self._store, found, viewing.version_called(version, found, self._store))
        names = [self.gpu(gpu).name for gpu in gpus]
        reader = user or self.user
        return [
            viewing.page(self._store, found, wanted, name, reader, rows=rows, limit=limit, offset=offset)
            for name in names
        ]

    def at_rank(self, task: str, gpu: str, rank: int, *, version: str | None = None) -> tuple[Standing, ...]:
        """Those who have this rank on a board; nobody where a tie leaves a gap there, or it is too large.

        Raises:
            InputError: there is no such task, GPU or version.
        """
        found = self.task(task)
        wanted = viewing.definition(self._store, found, viewing.version_called(version, found, self._store))
        rows = self._store.standings.at_rank(task, wanted.version, self.gpu(gpu).name, rank)
        return tuple(replace(row, harness=wanted.harness) for row in rows)

    def versions(self, task: str) -> tuple[Version, ...]:
        """Every version of `task` for which somebody has submitted, the one that came last first."""
        return self._store.standings.versions(self.task(task).name)

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
        known = self.tasks()
        name = None if task is None else known.task(task).name
        among = [each.name for each in known.tasks]
        on = None if gpu is None else self.gpu(gpu).name
        return self._store.standings.feed(task=name, gpu=on, user=user, before=before, limit=limit, among=among)

    def submit_milestones(self, task: str, gpus: Sequence[str] = ()) -> list[Run]:
        """Send each milestone of `task` as a ranked run to `gpus`, or to all that it may be shown on.

        Raises:
            InputError: the task has no milestones or none for these GPUs, or one of them cannot be run there.
            Refused: the user may not, or the board takes no submissions, or not the user's.
        """
        self._check_open()
        found = self.task(task)
        self.require(Role.CREATOR, f"measure the milestones of {found.name}")
        if self.created(found.name) is not None:
            self._own_board(found.name)
        if not found.milestones:
            raise InputError(
                f"{found.name} has no milestones.", hint="`hpc_board.milestones` in its task.yml has them."
            )
        chosen = intake.named_gpus(gpus, found, self.settings.gpus) or self.allowed_gpus(found)
        shown = [(each, [gpu for gpu in chosen if each.shown_on(gpu.name)]) for each in found.milestones]
        drafts = [intake.milestone_draft(each, found, on) for each, on in shown if on]
        if not drafts:
            raise InputError(
                f"No milestone of {found.name} is shown on {', '.join(gpu.name for gpu in chosen) or 'any GPU here'}.",
                hint=f"`hpc-board task {found.name}` lists its GPUs, and those that each milestone leaves out.",
            )
        return self._submit([Sent(draft, self.user) for draft in drafts], None, by_rules=False)

    def places(self) -> tuple[Place, ...]:
        """Where the user stands on every board with a passing ranked run of theirs, old versions of tasks included."""
        return self._store.standings.places(self.user)

    def rank(self, run: Run) -> int | None:
        """The rank that this run holds on its board; None unless it is its user's best.

        Raises:
            InputError, Refused: as of `run`.
        """
        return self._store.standings.rank(self._seen(run))

    def placing(self, run: Run) -> Placing | None:
        """What this run means on its board; None where it does not count there.

        Raises:
            InputError, Refused: as of `run`.
        """
        return self._store.standings.placing(self._seen(run))

    def compare(self, one: int, other: int, gpus: Sequence[str] = ()) -> "list[Compared]":
        """Two submissions beside each other, on `gpus` or on each GPU where both were timed.

        Raises:
            InputError: they cannot be compared: the message says why.
        """
        from hpc_board.boards.comparison import compare

        first, second = self._submission(one), self._submission(other)
        try:
            return compare(self._store, first, second, [self.gpu(name).name for name in gpus])
        except StorageError:
            raise
        except InputError as error:
            meant = filter(None, map(self._hint_for_run, dict.fromkeys((one, other))))
            raise InputError(error.message, hint=" ".join((*meant, error.hint))) from error

    # Data

    def export(
        self,
        form: str,
        *,
        tasks: Sequence[str] = (),
        gpus: Sequence[str] = (),
        since: datetime | None = None,
        with_code: bool = False,
    ) -> "Export":
        """What leaves the board: `csv`, `json` and `parquet` have a row for each run, `html` has the standings.

        The page is for everybody: closed boards are on it only where they are among `tasks`.

        Raises:
            InputError: the form, a task or a GPU is none, or the form needs a library that is not here.
            Refused: the user is no admin.
        """
        from hpc_board.admin.export import Export

        self.require(Role.ADMIN, "export the board")
        known = {task.name: task for task in self.tasks().tasks}
        kept_back = self._boards.closed().difference(tasks)
        export = Export(self._store, known, form, self._chosen(tasks, gpus, since), with_code, _now(), kept_back)
        export.check()
        return export

    def statistics(self, *, tasks: Sequence[str] = (), since: datetime | None = None) -> "Statistics":
        """How much was submitted and run, by GPU and by user.

        Raises:
            InputError: there is no such task.
            Refused: the user is no admin.
        """
        from hpc_board.store.statistics import statistics

        self.require(Role.ADMIN, "see the board's statistics")
        return statistics(self._store.file, self._chosen(tasks, (), since))

    def _chosen(self, tasks: Sequence[str], gpus: Sequence[str], since: datetime | None) -> "RunSelection":
        from hpc_board.store.batches import RunSelection

        for name in tasks:
            # One that has left the settings may still have runs; a mistyped name has none.
            if not self._store.submissions.knows_task(name):
                self.task(name)
        return RunSelection(tuple(tasks), tuple(self.gpu(name).name for name in gpus), since)

    # Copies

    def backup(self, target: Path, *, force: bool = False) -> "Contents":
        """Write a copy of the database to `target`, while others may go on writing; what it holds.

        Raises:
            InputError: `target` is there and `force` is not given, or cannot be written.
            Refused: the user is no admin.
        """
        from hpc_board.store.backup import backup

        self.require(Role.ADMIN, "copy the board's database")
        return backup(self._store.file, target, force=force)

    def restore(self, source: Path, *, force: bool = False) -> "Restored":
        """Put a backup in the database's place, and keep a copy of the present one in the board's folder.

        Raises:
            InputError: `source` is no backup.
            Refused: the user is no admin; or the backup does not know runs in flight, and `force` is not given.
            StorageError: the database cannot be written, or other clients don't let go of it.
        """
        from hpc_board.store.backup import restore

        self.require(Role.ADMIN, "restore the board's database")
        kept = self.settings.board / f"board.db.before-{_now():%Y%m%dT%H%M%S.%fZ}"
        with self._advance.alone():
            before, now = restore(self._store.file, source, kept, force=force)
        return Restored(before, now, kept)

    # Parts

    @cached_property
    def _own_folder(self) -> Path:
        return own_folder(self.settings.board)

    @cached_property
    def _looking(self) -> Store:
        """The store, without the folder that writing to it needs."""
        return Store(self.settings.board / "board.db")

    @cached_property
    def _store(self) -> Store:
        make_own_folder(self.settings.board)
        return self._looking

    @cached_property
    def _boards(self) -> Boards:
        return Boards(self._looking, self._person, self.settings.gpus)

    def _person(self) -> Person:
        return Person(self.user, self._groups.of(self.user), self.role)

    @cached_property
    def _advance(self) -> Reconciler:
        return Reconciler(
            folder=self._own_folder,
            store=self._store,
            schedulers=self._clusters.schedulers,
            clusters={cluster.name: cluster for cluster in self.settings.clusters},
            gpus={gpu.name: gpu for gpu in self.settings.gpus},
            harness=_harness,
            folders=self._clusters.folders,
            user=self.user if is_shared(self.settings.board) else None,
        )

    def _tell_hindrance(self) -> None:
        """Say once that boards are missing from the lists of somebody who is kept out of the folder that has them."""
        if not self._told_hindrance and (found := hindrance(self.settings.board)):
            self._told_hindrance = True
            self._warn(f"{found}. Only the tasks of the settings can be seen.")

    def _warn(self, text: str) -> None:
        self.warn(text)

    def _job_file(self, run: Run, name: str, *, end: bool = False) -> bytes:
        try:
            return self._clusters.folders_on(run.cluster).read(run, name, LOG_BYTES_MAX, end=end)
        except OSError:
            return b""


@cache
def _harness() -> bytes:
    from hpc_board.harness.bundle import harness_bytes

    return harness_bytes()


def _progress(line: bytes) -> Progress | None:
    try:
        value: Any = json.loads(line)
        case, of = value["case"], value["of"]
        if not all(number is None or isinstance(number, int) for number in (case, of)):
            return None
        texts = (str(value[key])[:500] for key in ("at", "phase", "message"))
        at, phase, message = (printable(text) for text in texts)
        return Progress(at, phase, case, of, message)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _now() -> datetime:
    return datetime.now(UTC)
