"""Submissions: drafts, dispatch to the clusters, code and notes."""

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hpc_board.board.context import Context, harness
from hpc_board.board.runs import readable
from hpc_board.board.tasks import Tasks
from hpc_board.boards.moderation import best_candidates, named_candidates
from hpc_board.domain.clock import utc_now
from hpc_board.domain.draft import NO_CHOICES, Draft, DraftRequest, Preview, RerunCandidate, Source, SubmissionRequest
from hpc_board.domain.gpus import allowed_gpus
from hpc_board.domain.job_options import NOTHING_GIVEN, GivenOptions, OptionRules
from hpc_board.domain.moderation import Rerun
from hpc_board.domain.roles import Role
from hpc_board.domain.run import Run
from hpc_board.domain.submission import Directives, Submission, unknown_submission
from hpc_board.errors import BoardError, InputError, Refused, SchedulerRefused, StorageError
from hpc_board.model.task import Mode, Task
from hpc_board.runs.dispatch import DispatchPlan, Sent, new_submissions
from hpc_board.runs.drafts import (
    check_no_milestone,
    check_owner,
    check_source,
    draft,
    header,
    is_over,
    milestone_draft,
    mode_called,
    named_gpus,
    read_source,
)
from hpc_board.store import RunQuery

if TYPE_CHECKING:
    from hpc_board.domain.comparison import Compared


SOURCES_MAX = 1_000
"""The maximum number of files in one question to a service, each of which takes a check, a script and a folder."""

UNFINISHED_MAX = 1_000
"""The maximum number of a user's unfinished runs on a served board: each pass looks at all of them."""


class Submissions:
    """Submissions of the user: drafts, dispatch, code and notes."""

    def __init__(self, context: Context, tasks: Tasks) -> None:
        self._context = context
        self._tasks = tasks

    def header(self, file: Path) -> Directives:
        """Parse the header of the submission in `file`.

        Raises:
            InputError: the file cannot be read, or its header has an unknown directive.
        """
        return header(read_source(file))

    def draft(
        self,
        file: Path,
        *,
        task: str | None = None,
        gpus: Sequence[str] = (),
        mode: str | None = None,
        note: str = "",
        options: GivenOptions = NOTHING_GIVEN,
    ) -> Draft:
        """Return a checked draft of `file`; task and GPUs that are not given come from its header.

        `options` are those for the jobs, which the settings may permit; the header may have others.

        Raises:
            InputError: the file, the task, a GPU or the mode is invalid.
            Refused: the board takes no submissions or none of the user's, a rate limit is reached, the deadline has
                passed, or the user is no participant.
        """
        return self.drafts([file], DraftRequest(task, tuple(gpus), mode, note, options))[0]

    def drafts(self, files: Sequence[Path], request: DraftRequest = NO_CHOICES) -> list[Draft]:
        """Return a checked draft of each of `files`, as `draft` does; each task is read once.

        The order of the checks is: whether the board takes submissions, and the user's; the file's name and extension;
        its header; the task; the user's rate limit; the deadline; the GPUs.
        """
        self._check_open()
        return self._drafts([read_source(file) for file in files], request)

    def draft_sources(
        self,
        sources: Sequence[Source],
        *,
        task: str | None = None,
        gpus: Sequence[str] = (),
        mode: str | None = None,
        note: str = "",
        options: GivenOptions = NOTHING_GIVEN,
    ) -> list[Draft]:
        """Return a checked draft of each of `sources`, as `drafts` does of files."""
        return self._drafts_of_sources(sources, DraftRequest(task, tuple(gpus), mode, note, options))

    def _drafts_of_sources(self, sources: Sequence[Source], request: DraftRequest, *, warn: bool = True) -> list[Draft]:
        """Return the drafts of sources whose names and number are unchecked."""
        _check_number(sources)
        self._check_open(warn=warn)
        for source in sources:
            check_source(source)
        return self._drafts(sources, request, warn=warn)

    def _drafts_of_requests(self, requests: Sequence[SubmissionRequest]) -> list[Draft]:
        """Return the checked drafts of requests; those with equal choices count as one batch.

        The user has had the warnings when the drafts of these requests were made.
        """
        _check_number(requests)
        alike: dict[DraftRequest, list[int]] = {}
        for index, each in enumerate(requests):
            alike.setdefault(each.choices, []).append(index)
        drafts: dict[int, Draft] = {}
        for request, indexes in alike.items():
            made = self._drafts_of_sources([requests[index].source for index in indexes], request, warn=False)
            drafts |= zip(indexes, made, strict=True)
        return [drafts[index] for index in range(len(requests))]

    def preview_requests(self, requests: Sequence[SubmissionRequest], *, array: bool | None = None) -> list[Preview]:
        """Check requests as `drafts` does, and return their previews as `preview` does."""
        return self.preview(*self._drafts_of_requests(requests), array=array)

    def submit_requests(self, requests: Sequence[SubmissionRequest], *, array: bool | None = None) -> list[Run]:
        """Check requests as `drafts` does, and submit them as `submit` does."""
        return self.submit(*self._drafts_of_requests(requests), array=array)

    def _drafts(self, sources: Sequence[Source], request: DraftRequest, *, warn: bool = True) -> list[Draft]:
        find_task, now, admit = cache(self._tasks.get), utc_now(), self._admission()
        late = self._context.role is Role.ADMIN
        rules = self.option_rules()
        drafts = [
            draft(
                source,
                request,
                rules=rules,
                find_task=find_task,
                gpus=self._context.settings.gpus,
                now=now,
                after_deadline=late,
                admit=admit,
                served=self._context.installation.served,
            )
            for source in sources
        ]
        late_for = dict.fromkeys(each.task.name for each in drafts if is_over(each.task, now))
        for task_name in late_for if warn else ():
            self._context.warn(f"the deadline of {task_name} has passed; you may submit as an admin.")
        return drafts

    def _check_standings(self, chosen: Draft) -> None:
        """Require that no ranked run of an emulated GPU comes beside those of the GPU itself.

        Raises:
            InputError: the standings of this name have runs of the other kind.
        """
        for each in chosen.gpus if chosen.mode is Mode.RANKED else ():
            task, standings = chosen.task, self._context.reading.standings
            first = standings.list(task.name, task.version, each.name, limit=1)
            if first and first[0].emulated is not each.emulated:
                there, here = ("emulated runs", "not emulated") if first[0].emulated else ("real runs", "emulated")
                raise InputError(
                    f"{each.name} is {here} here, but its standings for {task.name} contain {there}.",
                    hint="Choose another mode, or ask the admin to rename the entry.",
                )

    def _check_open(self, *, warn: bool = True) -> None:
        self._context.require_participant()
        stop = self._context.moderation.check_open() if self._context.has_database() else None
        if stop is not None and warn:
            self._context.warn("The board takes no submissions at present; yours are taken, since you are an admin.")

    def _admission(self) -> Callable[[Task, Mode], None]:
        return self._context.moderation.admission() if self._context.has_database() else lambda _task, _mode: None

    def option_rules(self) -> OptionRules:
        """Return the rules for the options of jobs that users set."""
        return self._context.settings.option_rules(served=self._context.installation.served)

    def draft_again(self, run: int, *, mode: str | None = None) -> Draft:
        """Return a new draft of an earlier run of the user: same file, task, GPU and job options.

        It has the run's mode, or `mode`.

        Raises:
            InputError: no run has this number, it measures a milestone, or the task, the GPU or the mode has become
                invalid.
            Refused: the run belongs to another user, or the user may not submit now; see `draft`.
        """
        self._check_open()
        found = self._run(run)
        check_owner(found, self._context.user)
        check_no_milestone(found)
        file_name, code = self.code(found.submission)
        source = Source(file_name, code.decode())
        given = GivenOptions(command=found.options.in_mode(mode_called(mode or str(found.mode))))
        request = DraftRequest(found.task, (found.gpu,), mode or str(found.mode), found.note, given)
        return self._drafts([source], request)[0]

    def preview(self, *drafts: Draft, array: bool | None = None) -> list[Preview]:
        """Return the batch script and the command for each GPU of each draft; nothing is stored or sent.

        `array` is that of `submit`.
        """
        return self._plan(drafts, array).previews(self._context.editor.closed())

    def _plan(self, drafts: Sequence[Draft], array: bool | None) -> DispatchPlan:
        for each in drafts if self._context.has_database() else ():
            self._check_standings(each)
        # An array goes whole, so a larger one would exceed the limit of the fair queue.
        return DispatchPlan(drafts, self._context.clusters, array, self._context.installation.runs_per_user)

    def submit(self, *drafts: Draft, array: bool | None = None) -> list[Run]:
        """Store `drafts`, send one job for each of their GPUs, and return the runs in that order.

        Jobs with equal scheduler options form a job array where the scheduler supports arrays: from two jobs on if
        `array` is true, never if it is false, from ARRAY_LEAST on if it is None.

        The runs are stored before the first job is sent: if this process dies, any client carries them on.

        Raises:
            InputError: a batch script cannot be rendered; nothing is stored.
            Refused: the board takes no submissions or none of the user's, a rate limit is reached, the leaderboard was
                deleted, its deadline has passed, another process serves the board, or the user has too many unfinished
                runs on a served board; nothing is stored.
            StorageError: the board cannot be written; the hint tells whether the submissions are stored.
            SchedulerRefused: the scheduler refused every job.
        """
        self._context.require_participant()
        by_rules = not self._context.role.may_act_as(Role.ADMIN)
        if by_rules and self._context.installation.served:
            self._check_room(sum(len(draft.gpus) for draft in drafts))
        return self._submit([Sent(draft, self._context.user) for draft in drafts], array, by_rules=by_rules)

    def rerun_plan(
        self, task: str, *, top: int = 100, gpus: Sequence[str] = (), submissions: Sequence[int] = ()
    ) -> list[RerunCandidate]:
        """Return the submissions that `rerun` would send again: given ones, or the best of the task's previous version.

        The best are those of each of the `top` users, on `gpus` or on each GPU that the task allows. A submission that
        cannot be sent again is included with the reason.

        Raises:
            InputError: no task, GPU or submission has this name or number, a submission measures a milestone, or no
                user was ranked at the previous version.
            Refused: the user is no admin.
        """
        self._context.require(Role.ADMIN, "send submissions of others again")
        found = self._tasks.get(task)
        allowed = allowed_gpus(found, self._context.settings.gpus)
        wanted = named_gpus(gpus, found, self._context.settings.gpus)
        if submissions:
            return named_candidates(self._context.store, found, submissions, wanted, allowed=allowed)
        return best_candidates(self._context.store, found, wanted or allowed, top)

    def rerun(self, plan: Sequence[RerunCandidate]) -> list[Run]:
        """Send submissions again, ranked, at the present version of their task, by this account; return the runs.

        The rank belongs to the author of each submission. The runs are `verified`, except those of the caller's own
        submissions.

        Raises:
            InputError: another client has sent one of them since the plan was made; nothing is stored.
            Refused: the user is no admin.
            BoardError: the other errors of `submit`.
        """
        self._context.require(Role.ADMIN, "send submissions of others again")
        at, tasks = utc_now(), self._tasks.catalog()
        drafts = [
            Sent(
                Draft(each.source, tasks.task(each.submission.task), each.gpus, Mode.RANKED, each.submission.note),
                each.submission.user,
                Rerun(each.submission.id, self._context.user, at),
                each.unless_ranked,
            )
            for each in plan
            if each.source is not None
        ]
        return self._submit(drafts, None, by_rules=False) if drafts else []

    def rerun_chosen(
        self,
        task: str,
        chosen: Sequence[int],
        *,
        top: int = 100,
        gpus: Sequence[str] = (),
        submissions: Sequence[int] = (),
    ) -> list[Run]:
        """Plan reruns as `rerun_plan` does, and carry out those of the submissions `chosen`, as `rerun` does."""
        plan = self.rerun_plan(task, top=top, gpus=gpus, submissions=submissions)
        return self.rerun([each for each in plan if each.submission.id in chosen])

    def submit_milestones(self, task: str, gpus: Sequence[str] = ()) -> list[Run]:
        """Send each milestone of `task` as a ranked run to `gpus`, or to all GPUs that show it.

        Raises:
            InputError: the task has no milestones or none for these GPUs, or one of them cannot run there.
            Refused: the user is no creator, or the board takes no submissions or none of theirs.
        """
        self._check_open()
        found = self._tasks.get(task)
        self._context.require(Role.CREATOR, f"measure the milestones of {found.name}")
        created = self._context.editor.board(found.name)
        if created is not None:
            self._context.editor.require_change(created)
        if not found.milestones:
            raise InputError(
                f"{found.name} has no milestones.", hint="`hpc_board.milestones` in its task.yml has them."
            )
        of_board = self._context.settings.gpus
        chosen = named_gpus(gpus, found, of_board) or allowed_gpus(found, of_board)
        shown = [(each, [gpu for gpu in chosen if each.shown_on(gpu.name)]) for each in found.milestones]
        drafts = [milestone_draft(each, found, on) for each, on in shown if on]
        if not drafts:
            raise InputError(
                f"no milestone of {found.name} is shown on {', '.join(gpu.name for gpu in chosen) or 'any GPU here'}.",
                hint=f"`hpc-board task {found.name}` lists its GPUs, and those that each milestone leaves out.",
            )
        return self._submit([Sent(draft, self._context.user) for draft in drafts], None, by_rules=False)

    def _check_room(self, more: int) -> None:
        unfinished = self._context.store.runs.unfinished_of(self._context.user)
        if unfinished + more > UNFINISHED_MAX:
            raise Refused(
                f"you have {unfinished:,} runs that have not ended, and a service takes at most {UNFINISHED_MAX:,}.",
                hint="Wait for some of them, or cancel them.",
            )

    def _submit(self, sent: Sequence[Sent], array: bool | None, *, by_rules: bool) -> list[Run]:
        self._context.installation.require_unserved("sends jobs")
        # A submission whose script cannot be rendered must not be stored.
        tokens = self._plan([each.draft for each in sent], array).tokens()
        names = {each.draft.task.name for each in sent}
        new = new_submissions(
            sent,
            tokens,
            account=self._context.installation.account,
            served=self._context.installation.served,
            harness_sha256=hashlib.sha256(harness()).hexdigest(),
            of_settings=self._context.editor.left_to_settings(names, self._tasks.of_settings),
            at=utc_now(),
        )
        # In one transaction: a client that sees some runs of an array has to see all of them.
        stored = self._context.store.submissions.add_all(new, by_rules=by_rules)
        runs = [run for _, added in stored for run in added]
        try:
            errors = self._context.installation.launch(runs)
        except StorageError as error:
            raise self._with_hint(error, runs) from error
        refusals = [error for error in errors if isinstance(error, SchedulerRefused | InputError)]
        if runs and len(refusals) == len(runs):
            raise self._with_hint(_joint_refusal(refusals), runs)
        return [self._context.store.runs.get(run.id) for run in runs]

    def _with_hint(self, error: BoardError, runs: Sequence[Run]) -> BoardError:
        """Add to `error` that runs are stored although they could not be sent for want of space or rights."""
        if isinstance(error, StorageError):
            ids = ", ".join(str(run.id) for run in runs)
            error.hint += (
                f" The submission is stored (run {ids}) and goes on when the board can be written; or cancel it."
            )
        return error

    def code(self, submission: int) -> tuple[str, bytes]:
        """Return the file name and the contents of the user's own submission; admins may read every submission.

        Other participants may read it after the deadline if the leaderboard's terms promised so at its submission.

        Raises:
            InputError: no submission has this number.
            Refused: it belongs to another user.
        """
        found = self.get(submission)
        self._context.moderation.check_reader(found, shown_to_others=self._shown_to_others(found))
        return found.file_name, self._context.store.submissions.code(found.code_sha256)

    def _shown_to_others(self, submission: Submission) -> bool:
        return self._context.editor.shows_code(submission.task, self._first_sent(submission).submitted_at, utc_now())

    def _first_sent(self, submission: Submission) -> Submission:
        """Return the author's own submission behind one that an admin sent again."""
        runs = self._context.store.runs.list(RunQuery(submission=submission.id), limit=1)
        rerun = next((run.remarks.rerun for run in runs), None)
        if rerun is None or rerun.of_submission >= submission.id:
            return submission
        return self._first_sent(self._context.store.submissions.get(rerun.of_submission))

    def note(self, submission: int, text: str) -> None:
        """Append a note to the user's own submission.

        Raises:
            InputError: no submission has this number, or the text is invalid.
            Refused: it belongs to another user.
        """
        self._context.moderation.note(self.get(submission), text)

    def compare(self, one: int, other: int, gpus: Sequence[str] = ()) -> "list[Compared]":
        """Compare two submissions on `gpus`, or on each GPU with times of both.

        Raises:
            InputError: they cannot be compared, for the reason in the message.
        """
        from hpc_board.boards.comparison import compare

        first, second = self.get(one), self.get(other)
        try:
            names = dict.fromkeys(self._context.gpu(name).name for name in gpus)
            found = compare(self._context.store, first, second, [*names])
        except StorageError:
            raise
        except InputError as error:
            meant = filter(None, map(self._hint_for_run, dict.fromkeys((one, other))))
            raise InputError(error.message, hint=" ".join((*meant, error.hint))) from error
        return [self._readable(each) for each in found]

    def _readable(self, compared: "Compared") -> "Compared":
        """Return a comparison whose results have the logs that the user may read."""
        (one, other), (result, other_result) = compared.runs, compared.results
        results = readable(self._context, one, result), readable(self._context, other, other_result)
        return msgspec.structs.replace(compared, results=results)

    def get(self, number: int) -> Submission:
        """Return the submission with this number.

        Raises:
            InputError: no submission has this number, or it is hidden from the user.
            Refused: it belongs to another user, and this one is no participant.
        """
        try:
            found = self._context.store.submissions.get(number)
            if found.user != self._context.user:
                self._context.require(Role.PARTICIPANT, "see the submissions of others")
            if found.user != self._context.user and found.task in self._context.editor.hidden():
                raise unknown_submission(number)
        except StorageError:
            raise
        except InputError as error:
            raise InputError(error.message, hint=self._hint_for_run(number) or error.hint) from error
        return found

    def _run(self, number: int) -> Run:
        """Return a run that is visible to the user; few calls need the part of the board that has runs."""
        from hpc_board.board.runs import Runs

        return Runs(self._context).get(number)

    def _hint_for_run(self, number: int) -> str:
        """Return a hint if `number` is that of one of the user's runs; else an empty text."""
        try:
            run = self._run(number)
        except StorageError:
            raise
        except (InputError, Refused):
            return ""
        if run.user != self._context.user or run.submission == number:
            return ""
        return f"Run {run.id} belongs to submission {run.submission}: give that number."


def _joint_refusal(refusals: Sequence[BoardError]) -> BoardError:
    """Return one error with the reason and the hint of each of these, every one once."""
    messages = list(dict.fromkeys(error.message for error in refusals))
    hints = dict.fromkeys(error.hint for error in refusals if error.hint)
    return refusals[0] if len(messages) == 1 else SchedulerRefused("\n".join(messages), hint="\n".join(hints))


def _check_number(sources: Sequence[object]) -> None:
    if len(sources) > SOURCES_MAX:
        raise InputError(
            f"these are {len(sources):,} files; a service takes at most {SOURCES_MAX:,} at once.",
            hint="Send them in several parts.",
        )
