"""Submissions: drafts, dispatch to the clusters, code and notes."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from hpc_board.board.context import Context, harness_sha256
from hpc_board.board.moderation import best_candidates, named_candidates
from hpc_board.board.runs import Runs, readable, unquoted
from hpc_board.board.tasks import Tasks
from hpc_board.domain.budget import Budget, BudgetLeft
from hpc_board.domain.clock import utc_now
from hpc_board.domain.draft import Draft, Preview, RerunCandidate, Source, SubmissionRequest
from hpc_board.domain.gpus import allowed_gpus
from hpc_board.domain.job_options import JobOptions, OptionRules
from hpc_board.domain.moderation import CONFIRMING_RUNS, Rerun, Sender, may_read_code
from hpc_board.domain.origin import Origin
from hpc_board.domain.roles import Role
from hpc_board.domain.run import Run, RunState
from hpc_board.domain.runner import Runner
from hpc_board.domain.submission import Submission, unknown_submission
from hpc_board.errors import BoardError, InputError, Refused, SchedulerRefused, StorageError
from hpc_board.model.task import Mode, Task
from hpc_board.runs.dispatch import DispatchPlan, Sent, new_submissions
from hpc_board.runs.drafts import (
    check_key,
    check_no_milestone,
    check_note,
    check_owner,
    check_source,
    draft,
    is_over,
    milestone_draft,
    mode_called,
    named_gpus,
    request_sha256,
)
from hpc_board.store.listing import RunQuery
from hpc_board.store.submissions import AlreadyStored, NewSubmission, SubmissionKey

if TYPE_CHECKING:
    from hpc_board.domain.comparison import Compared
    from hpc_board.domain.near_copies import NearCopy


REQUESTS_MAX = 1_000
"""The maximum number of files submitted at once: each takes a check, a script and a folder."""

UNFINISHED_MAX = 1_000
"""The maximum number of a user's unfinished runs on a served board: each pass looks at all of them."""


class Submissions:
    """Submissions of the user: drafts, dispatch, code and notes.

    A method that takes the number of a submission or a run raises InputError if none has it.
    """

    def __init__(self, context: Context, tasks: Tasks) -> None:
        self._context = context
        self._tasks = tasks

    def _drafts(self, requests: Sequence[SubmissionRequest]) -> list[Draft]:
        """Return a checked draft of each request.

        The order of the checks is: the number of requests; whether the board takes submissions, and the user's; the
        names and texts of the files; of each its header, the task, the deadline, the GPUs.
        """
        if len(requests) > REQUESTS_MAX:
            raise InputError(
                f"too many files: {len(requests):,} (limit {REQUESTS_MAX:,}).", hint="Submit them in several parts."
            )
        self._check_open()
        for each in requests:
            check_source(each.source)
        find_task, now = cache(self._tasks.get), utc_now()
        rules = self.option_rules()
        drafts = [
            draft(
                each,
                rules=rules,
                find_task=find_task,
                gpus=self._context.settings.gpus,
                now=now,
                closes_at=self._closes_at,
                served=self._context.installation.served,
                user=self._context.user,
            )
            for each in requests
        ]
        for parent in dict.fromkeys(each.origin.parent for each in drafts if each.origin.parent is not None):
            self._check_parent(parent)
        for task_name in dict.fromkeys(each.task.name for each in drafts if is_over(each.task, now)):
            if self._context.editor.board(task_name) is not None:
                self._context.warn(f"the deadline of {task_name} has passed; the submission is late and gets no rank.")
            else:
                self._context.warn(f"the deadline of {task_name} has passed; you may submit as an admin.")
        return drafts

    def _closes_at(self, task: Task) -> datetime | None:
        """Return the last moment at which the user may submit to a task; None without an end, as for an admin."""
        if self._context.is_admin:
            return None
        board, person = self._context.editor.board(task.name), self._context.person()
        return task.deadline if board is None else board.options.closes_at(person.name, person.groups)

    def _check_parent(self, number: int) -> None:
        if not self._context.has_database():
            raise unknown_submission(number)
        check_owner(self.get(number), self._context.user)

    def _check_open(self) -> None:
        self._context.require(Role.PARTICIPANT, "submit to this board")
        if not self._context.has_database():
            return
        user, admin = self._context.user, self._context.is_admin
        if self._context.store.moderation.check_open(user, utc_now(), admin=admin) is not None:
            self._context.warn("The board is closed to submissions; yours are accepted because you are an admin.")

    def option_rules(self) -> OptionRules:
        """Return the rules for the options of jobs that users set."""
        return self._context.settings.option_rules(served=self._context.installation.served)

    def again(self, run: int, *, mode: str | None = None, entrant: str = "") -> SubmissionRequest:
        """Return the request for an earlier run of the user again: same file, task, GPU, job options and origin.

        It has the run's mode, or `mode`, and the run's entrant, or `entrant`.

        Raises:
            InputError: it measures a milestone, or no mode has this name.
            Refused: the run belongs to another user, or the user may not submit now.
        """
        self._check_open()
        found = Runs(self._context).get(run)
        check_owner(found, self._context.user)
        check_no_milestone(found)
        file_name, code = self.code(run)
        new_mode = mode_called(mode or str(found.mode))
        options = found.options.in_mode(new_mode)
        source = Source(file_name, code.decode())
        origin = msgspec.structs.replace(found.origin, entrant=entrant or found.origin.entrant)
        return SubmissionRequest(source, found.task, (found.gpu,), str(new_mode), found.note, options, origin)

    def preview(self, requests: Sequence[SubmissionRequest], *, array: bool | None = None) -> list[Preview]:
        """Return the batch script and the command for each GPU of each request; nothing is stored or sent.

        `array` is that of `submit`, and so are the errors of the checks.
        """
        drafts = self._drafts(requests)
        deleted = self._context.editor.deleted
        plan = self._plan(drafts, array)
        own: list[Runner] = []
        if self._context.has_database():
            new = self._new([Sent(draft, self._context.user) for draft in drafts], plan)
            self._context.store.submissions.check(new, sender=self._context.sender, deleted=deleted)
            whose = self._context.user, harness_sha256()
            live = self._context.reading.runners.live()
            own = [each for each in live if (each.user, each.harness_sha256) == whose and each.takes_runs]
        return plan.previews(self._context.editor.closed(), own)

    def _plan(self, drafts: Sequence[Draft], array: bool | None) -> DispatchPlan:
        # An array goes whole, so a larger one would exceed the limit of the fair queue.
        return DispatchPlan(drafts, self._context.clusters, array, self._context.installation.runs_per_user)

    def submit(
        self,
        requests: Sequence[SubmissionRequest],
        *,
        array: bool | None = None,
        fresh: bool = False,
        key: str = "",
        if_new: bool = False,
        budget: Budget | None = None,
    ) -> list[Run]:
        """Check and store submissions, send one job for each of their GPUs, and return the runs in that order.

        Jobs with equal scheduler options form a job array where the scheduler supports arrays: from two jobs on if
        `array` is true, never if it is false, from ARRAY_LEAST on if it is None. A run goes to its user's runner with
        its request and enough time, unless `fresh` demands a job of its own.

        The runs are stored before the first job is sent: if this process dies, any client carries them on. A repeated
        call with the same `key` returns the same runs. With `if_new`, a run that has an identical one, which has a
        verdict on its kernel or is in flight, is that one. Runs that were stored before are `reused`. A `budget` binds
        admins, too; it counts the runs of the entrant, or all of the user's without one or with several.

        Raises:
            InputError: a file, a task, a GPU, a mode or the key is invalid, the key belongs to other contents, or a
                batch script cannot be rendered; nothing is stored.
            Refused: the board takes no submissions or none of the user's, a rate limit is reached, the leaderboard was
                deleted, its deadline has passed, another process serves the board, the user has too many unfinished
                runs on a served board, or the budget has no room; nothing is stored.
            StorageError: the board cannot be written; the hint tells whether the submissions are stored.
            SchedulerRefused: the scheduler refused every job.
        """
        if key and if_new:
            raise InputError("a submission has either a key or `if-new`.", hint="Each can be repeated as it is.")
        while not key:
            # Another process may store an identical run meanwhile.
            with suppress(AlreadyStored):
                return self._submit_drafts(requests, array, fresh=fresh, if_new=if_new, budget=budget)
        check_key(key)
        user_key = SubmissionKey(
            self._context.user, key, request_sha256(requests, self._context.settings.gpus, self._context.user)
        )
        # Before the checks: since the first call a deadline may have passed, or a limit been reached.
        if known := self._keyed(user_key):
            return known
        try:
            return self._submit_drafts(requests, array, fresh=fresh, if_new=False, key=user_key, budget=budget)
        except AlreadyStored:
            return self._keyed(user_key)

    def _keyed(self, key: SubmissionKey) -> list[Run]:
        """Return the runs of the submissions with this key, once those are sent that another process left unsent."""
        runs = self._context.store.submissions.keyed(key) if self._context.has_database() else ()
        if new := [run for run in runs if run.state is RunState.CREATED]:
            self._context.installation.require_unserved("sends jobs")
            self._context.installation.launch(new)
        now = self._context.store.runs.numbered([run.id for run in runs])
        return [msgspec.structs.replace(now[run.id], reused=True) for run in runs]

    def _submit_drafts(
        self,
        requests: Sequence[SubmissionRequest],
        array: bool | None,
        *,
        fresh: bool,
        if_new: bool,
        key: SubmissionKey | None = None,
        budget: Budget | None = None,
    ) -> list[Run]:
        drafts = self._drafts(requests)
        deleted = self._context.editor.deleted
        sender = self._context.sender
        known = self._identical(drafts) if if_new else {}
        new = _each_once(drafts, known) if if_new else drafts
        if sender.is_bound and self._context.installation.served:
            self._check_room(sum(len(each.gpus) for each in new))
        sent = [Sent(each, self._context.user) for each in new if each.gpus]
        runs: list[Run] = []
        if sent:
            runs = self._submit(
                sent, array, sender=sender, deleted=deleted, fresh=fresh, key=key, if_new=if_new, budget=budget
            )
        if not if_new:
            return runs
        known |= zip((_identity(each, gpu.name) for each in new for gpu in each.gpus), runs, strict=True)
        return [known[_identity(each, gpu.name)] for each in drafts for gpu in each.gpus]

    def _identical(self, drafts: Sequence[Draft]) -> "dict[_Identity, Run]":
        """Return the user's runs of identical files."""
        if not self._context.has_database():
            return {}
        return {
            _identity(each, gpu): msgspec.structs.replace(run, reused=True)
            for each in drafts
            for gpu, run in self._context.store.submissions.identical(self._context.user, each).items()
        }

    def near_copies(self, tasks: Sequence[str] = (), share: float | None = None) -> "tuple[NearCopy, ...]":
        """Return similar ranked files of different users on each of `tasks`, the most similar first: a hint.

        Without `tasks`, they are the boards that users created and that this one manages. At least `share` of the
        fingerprints of one file is in the other; those of the task's own files and templates do not count.

        Raises:
            InputError: no board is left, a task is unknown, or the share is not from 0 to 1.
            Refused: the user does not manage one of the tasks.
        """
        from hpc_board.board.near_copies import copies_of
        from hpc_board.domain.near_copies import SHARE

        least = SHARE if share is None else share
        if not 0 <= least <= 1:
            raise InputError(f"invalid share {least:g}.", hint="Use a number from 0 to 1.")
        created = (board.name for board in self._context.editor.visible())
        chosen = dict.fromkeys(tasks or filter(self._context.manages, created))
        if not chosen:
            raise InputError(
                "you have no boards with files to compare.",
                hint="`--task TASK` compares those on a task of the settings.",
            )
        self._context.require_manager(chosen, "compare files of users")
        return tuple(each for name in chosen for each in copies_of(self._tasks.get(name), self._context.store, least))

    def rerun_plan(
        self,
        task: str,
        *,
        top: int = 100,
        gpus: Sequence[str] = (),
        submissions: Sequence[int] = (),
        confirm: bool = False,
    ) -> list[RerunCandidate]:
        """Return the submissions that `rerun` would send again: given ones, or the best of the task's previous version.

        The best are those of each of the `top` users, on `gpus` or on each GPU that the task allows; to `confirm` them,
        those of the present version. A submission that cannot be sent again is included with the reason.

        Raises:
            InputError: no task, GPU or submission has this name or number, a submission measures a milestone, or no
                user was ranked at the previous version.
            Refused: the user does not manage the task's leaderboard.
        """
        found = self._tasks.get(task)
        self._context.require_manager([found.name], "rerun submissions of others")
        for number in submissions:
            self.get(number)
        allowed = allowed_gpus(found, self._context.settings.gpus)
        wanted = named_gpus(gpus, found, self._context.settings.gpus)
        if submissions:
            return named_candidates(self._context.store, found, submissions, wanted, allowed=allowed, confirm=confirm)
        return best_candidates(self._context.store, found, wanted or allowed, top, confirm=confirm)

    def rerun(
        self,
        task: str,
        chosen: Sequence[int],
        *,
        top: int = 100,
        gpus: Sequence[str] = (),
        submissions: Sequence[int] = (),
        confirm: bool = False,
    ) -> list[Run]:
        """Send those of `rerun_plan` whose numbers are `chosen` again, ranked, by this account; return the runs.

        To `confirm` them, each is sent CONFIRMING_RUNS times. They go for the present version of the task. The rank
        belongs to the author of each submission. The runs are `verified`, except those of the caller's own submissions.

        Raises:
            InputError: one of them cannot be rerun, or another client sends it in this moment; nothing is stored.
            Refused: the user does not manage the task's leaderboard.
            BoardError: the other errors of `rerun_plan` and `submit`.
        """
        plan = self.rerun_plan(task, top=top, gpus=gpus, submissions=submissions, confirm=confirm)
        planned = {each.submission.id: each for each in plan}
        at, found, drafts = utc_now(), self._tasks.get(task), []
        for number in chosen:
            each = planned.get(number)
            if each is None or each.source is None:
                reason = "no longer among the best" if each is None else each.why
                raise InputError(
                    f"submission {number} cannot be rerun: {reason}.",
                    hint=f"Nothing was sent; `hpc-board admin rerun {task} --dry-run` shows what is left.",
                )
            rerun = Rerun(number, self._context.user, at)
            again = Draft(
                each.source,
                found,
                each.gpus,
                Mode.RANKED,
                each.submission.note,
                origin=Origin(each.submission.entrant),
            )
            sent = Sent(again, each.submission.user, rerun, each.unless_ranked)
            drafts += [sent] * (CONFIRMING_RUNS if confirm else 1)
        return self._submit(drafts, None, sender=None) if drafts else []

    def submit_milestones(self, task: str, gpus: Sequence[str] = ()) -> list[Run]:
        """Send each milestone of `task` as a ranked run to `gpus`, or to all GPUs that show it.

        Raises:
            InputError: the task has no milestones or none for these GPUs, or one of them cannot run there.
            Refused: the user is not a creator, or the board takes no submissions or none of theirs.
        """
        self._check_open()
        found = self._tasks.get(task)
        self._context.require(Role.CREATOR, f"measure the milestones of {found.name}")
        created = self._context.editor.board(found.name)
        if created is not None:
            self._context.editor.require_change(created)
        if not found.milestones:
            raise InputError(
                f"{found.name} has no milestones.", hint="Define them with `hpc_board.milestones` in its task.yml."
            )
        of_board = self._context.settings.gpus
        chosen = named_gpus(gpus, found, of_board) or allowed_gpus(found, of_board)
        shown = [(each, [gpu for gpu in chosen if each.shown_on(gpu.name)]) for each in found.milestones]
        drafts = [milestone_draft(each, found, on) for each, on in shown if on]
        if not drafts:
            raise InputError(
                f"no milestone of {found.name} is shown on {', '.join(gpu.name for gpu in chosen) or 'any GPU here'}.",
                hint=f"`hpc-board task {found.name}` lists its GPUs, and those that each milestone excludes.",
            )
        return self._submit([Sent(draft, self._context.user) for draft in drafts], None, sender=None)

    def _check_room(self, more: int) -> None:
        unfinished = self._context.store.runs.unfinished_of(self._context.user)
        if unfinished + more > UNFINISHED_MAX:
            raise Refused(
                f"too many unfinished runs: {unfinished:,} (limit {UNFINISHED_MAX:,}).",
                hint="Wait for some of them to end, or cancel them.",
            )

    def _submit(
        self,
        sent: Sequence[Sent],
        array: bool | None,
        *,
        sender: Sender | None,
        deleted: Collection[str] = (),
        fresh: bool = False,
        key: SubmissionKey | None = None,
        if_new: bool = False,
        budget: Budget | None = None,
    ) -> list[Run]:
        self._context.installation.require_unserved("sends jobs")
        # A submission whose script cannot be rendered must not be stored.
        plan = self._plan([each.draft for each in sent], array)
        new = self._new(sent, plan, fresh=fresh)
        # In one transaction: a client that sees some runs of an array has to see all of them.
        stored = self._context.store.submissions.add_all(
            new, sender=sender, deleted=deleted, key=key, if_new=if_new, clock=utc_now, budget=budget
        )
        runs = [run for _, added in stored for run in added]
        try:
            errors = self._context.installation.launch(runs)
        except StorageError as error:
            raise self._with_hint(error, runs) from error
        refusals = [error for error in errors if isinstance(error, SchedulerRefused | InputError)]
        if runs and len(refusals) == len(runs):
            raise self._with_hint(_joint_refusal(refusals), runs)
        now = self._context.store.runs.numbered([run.id for run in runs])
        return [now[run.id] for run in runs]

    def _new(self, sent: Sequence[Sent], plan: DispatchPlan, *, fresh: bool = False) -> list[NewSubmission]:
        return new_submissions(
            sent,
            plan.tokens(),
            plan.scripts(),
            account=self._context.installation.account,
            served=self._context.installation.served,
            harness_sha256=harness_sha256(),
            at=utc_now(),
            fresh=fresh,
        )

    def _with_hint(self, error: BoardError, runs: Sequence[Run]) -> BoardError:
        """Add to `error` that runs are stored although they could not be sent for want of space or rights."""
        if isinstance(error, StorageError):
            ids = ", ".join(str(run.id) for run in runs)
            error.hint += (
                f" The submission is stored (run {ids}) and continues once the board can be written; or cancel it."
            )
        return error

    def budget_left(self, budget: Budget, entrant: str = "") -> BudgetLeft:
        """Return the rest of a budget of the user, or of one of their entrants."""
        return self._context.store.submissions.budget_left(budget, self._context.user, entrant, utc_now())

    def entrants(self, user: str | None = None) -> tuple[str, ...]:
        """Return the entrants of `user`, by default of this one, by name."""
        owner = user or self._context.user
        if owner != self._context.user:
            self._context.require(Role.PARTICIPANT, "see the submissions of others")
        return self._context.store.submissions.entrants(owner) if self._context.has_database() else ()

    def code(self, run: int) -> tuple[str, bytes]:
        """Return the name and the contents of the file of the user's own run, or of one on a board that they manage.

        Other participants may read it after the deadline if the leaderboard's terms promised so at its submission.

        Raises:
            Refused: it belongs to another user.
        """
        found = Runs(self._context).get(run)
        user, manages = self._context.user, self._context.manages(found.task)
        shown = self._context.editor.shows_code(found.task, self._first_sent_at(found), utc_now())
        if not may_read_code(user, found.user, manages=manages, shown_to_others=shown):
            check_owner(found, user)
        return found.file_name, self._context.store.submissions.code(found.code_sha256)

    def _first_sent_at(self, run: Run) -> datetime:
        """Return the moment of the author's own submission behind a run that an admin sent again."""
        while (rerun := run.remarks.rerun) is not None and rerun.of_submission < run.submission:
            (run,) = self._context.store.runs.list(RunQuery(submission=rerun.of_submission), limit=1)
        return run.created_at

    def note(self, submission: int, text: str) -> None:
        """Append a note to the user's own submission.

        Raises:
            InputError: the text is empty, too long or not one line, or the submission has too many notes.
            Refused: it belongs to another user.
        """
        found, user = self.get(submission), self._context.user
        check_owner(found, user)
        if not text.strip():
            raise InputError("the note is empty.", hint="Enter a text.")
        check_note(text)
        self._context.store.moderation.add_note(found.id, text.strip(), user, utc_now())

    def compare(self, one: int, other: int, gpus: Sequence[str] = ()) -> "list[Compared]":
        """Compare the file of the older of two runs with that of the newer one on `gpus`.

        The default is the GPU of both runs if it is the same one, else each GPU with times of both files.

        Raises:
            InputError: they cannot be compared, for the reason in the message.
        """
        from hpc_board.boards.comparison import compare

        first, second = Runs(self._context).get_each(sorted((one, other)))
        names = dict.fromkeys(self._context.gpu(name).name for name in gpus)
        return [self._readable(each) for each in compare(self._context.store, first, second, [*names])]

    def _readable(self, compared: "Compared") -> "Compared":
        """Return a comparison whose results have the logs that the user may read."""
        (one, other), (result, other_result) = compared.runs, compared.results
        results = readable(self._context, one, result), readable(self._context, other, other_result)
        user, manages = self._context.user, self._context.manages
        runs = unquoted(one, user, manages), unquoted(other, user, manages)
        return msgspec.structs.replace(compared, runs=runs, results=results)

    def get(self, number: int) -> Submission:
        """Return the submission with this number.

        Raises:
            InputError: it is hidden from the user.
            Refused: it belongs to another user, and this one is not a participant.
        """
        found = self._context.store.submissions.get(number)
        if found.user != self._context.user:
            self._context.require(Role.PARTICIPANT, "see the submissions of others")
            if found.task in self._context.editor.hidden():
                raise unknown_submission(number)
        return found


_Identity = tuple[str, str, Mode, JobOptions, str, str]
"""The task, the text, the mode, the options, the entrant and the GPU of a user's identical runs."""


def _identity(new: Draft, gpu: str) -> _Identity:
    return new.task.name, new.source.text, new.mode, new.options, new.origin.entrant, gpu


def _each_once(drafts: Sequence[Draft], known: Collection[_Identity]) -> list[Draft]:
    """Return the drafts with those of their GPUs on which no identical run is `known` or of an earlier draft."""
    seen, new = {*known}, list[Draft]()
    for each in drafts:
        gpus = tuple(gpu for gpu in each.gpus if _identity(each, gpu.name) not in seen)
        seen.update(_identity(each, gpu.name) for gpu in gpus)
        new.append(msgspec.structs.replace(each, gpus=gpus))
    return new


def _joint_refusal(refusals: Sequence[BoardError]) -> BoardError:
    """Return one error with the reason and the hint of each of these, every one once."""
    messages = list(dict.fromkeys(error.message for error in refusals))
    hints = dict.fromkeys(error.hint for error in refusals if error.hint)
    return refusals[0] if len(messages) == 1 else SchedulerRefused("\n".join(messages), hint="\n".join(hints))
