"""The runs of a board: advancing and reading them."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

import msgspec

from hpc_board.domain.origin import Tags, author_of
from hpc_board.domain.result_json import times_of
from hpc_board.domain.roles import Role
from hpc_board.domain.run import Cancellation, Progress, Run, RunState, TimeSoFar, WholeRun, unknown_run
from hpc_board.domain.run_files import FILE_BYTES_MAX, PART_BYTES, RunFile, RunFiles, within_bounds
from hpc_board.domain.run_order import NEWEST_FIRST, RunOrder, RunPosition
from hpc_board.errors import BoardError, InputError, Refused, SchedulerError, StorageError
from hpc_board.model.job_environment import log_name
from hpc_board.model.profile_files import FOLDER as PROFILE_FOLDER
from hpc_board.model.profile_files import is_profile_file
from hpc_board.model.result import TIME_NS_MAX, TIME_NS_MIN, Case, Log, Result, Verdict
from hpc_board.model.task import Mode, Task, case_text, hidden_case_text
from hpc_board.model.text import one_line, printable

if TYPE_CHECKING:
    from hpc_board.board.context import Context
    from hpc_board.runs.backoff import ProgressCache
    from hpc_board.runs.reconciler import Pass
    from hpc_board.store.listing import RunQuery

LOG_BYTES_MAX = 256 * 1024

FOLLOWED_MAX = 1_000
"""The number of a user's runs in flight that the app starts to follow at once; each is followed to its end."""

_CASES_MAX = 1_000_000
"""Limit of the numbers of cases in the progress of a job, which may write anything."""


class Runs:
    """The runs that are visible to the user.

    A method that takes the number of a run raises InputError if no run has it, or its leaderboard is hidden from the
    user; and Refused if it belongs to another user, and this one is not a participant.
    """

    def __init__(self, context: "Context") -> None:
        self._context = context

    @cached_property
    def _far_progress(self) -> "ProgressCache":
        from hpc_board.runs.backoff import ProgressCache

        return ProgressCache()

    def advance(self, watched: Collection[int] | None = None, *, within_seconds: float | None = None) -> bool:
        """Advance the runs in flight, unless a service does; return False if another client is doing so.

        A front end that calls this repeatedly passes the runs that it shows as `watched`: the others are then scanned
        at growing intervals, so that their number costs little. `within_seconds` limits the time of all questions to
        schedulers; waiting runs are then sent only after an answer.

        Raises:
            SchedulerError: a scheduler did not answer.
        """
        # The machinery is imported for runs that need it.
        if self._context.installation.served or self._context.installation.served_by_another():
            return True
        if not self._context.store.runs.has_in_flight():
            return True
        if within_seconds is None:
            return self._context.reconciler(watched)
        from hpc_board.transport.time_budget import time_budget

        with time_budget(within_seconds):
            return self._context.reconciler(watched)

    def wait(
        self,
        ids: Sequence[int],
        *,
        timeout_seconds: float | None = None,
        poll_seconds: float = 0.5,
        say: Callable[[str], object] = lambda _: None,
    ) -> Iterator[list[Run]]:
        """Yield the runs whenever they change, until all have ended.

        A silent scheduler does not end the wait: `say` receives the problem, unless it concerns only one of these
        runs, whose status then shows it.

        Raises:
            WaitExpired: `timeout_seconds` have passed; the runs continue.
        """
        from hpc_board.runs.wait import changes

        def look() -> tuple[list[Run], list[int]]:
            runs = self.get_each(ids)
            self._context.store.file.rest()
            return runs, [len(self._progress(run)) for run in runs if not run.state.ended]

        run_pass = partial(self._run_pass, ids)
        return changes(run_pass, look, timeout_seconds=timeout_seconds, poll_seconds=poll_seconds, say=say)

    def _run_pass(self, watched: Collection[int]) -> "Pass | None":
        from hpc_board.runs.reconciler import Pass

        if self._context.installation.served_by_another():
            return None
        try:
            return self._context.reconciler.run_pass(watched)
        except (SchedulerError, StorageError) as error:
            return Pass(errors=(error,))

    def cancel_each(self, runs: Sequence[int]) -> tuple[Cancellation, ...]:
        """Request the cancellation of runs, and return the answers in the order of the runs.

        A user may cancel the own runs, those that the user sent again, and those that this account sends. Each
        cluster's scheduler is asked once for all of its runs.

        Raises:
            Refused: another process serves the board.
        """
        self._context.installation.require_unserved("cancels runs")
        found: dict[int, Run] = {}
        errors: dict[int, BoardError] = {}
        stored = self._context.store.runs.numbered(dict.fromkeys(runs))
        for number in dict.fromkeys(runs):
            try:
                found[number] = self._cancellable(number, stored.get(number))
            except (InputError, Refused) as error:
                errors[number] = error
        if found:
            errors |= self._context.reconciler.cancel(list(found.values()), self._context.user)
        now = self._context.store.runs.numbered([number for number in found if number not in errors])
        return tuple(
            Cancellation(error=errors[number])
            if number in errors
            else Cancellation(now[number], ended_before=found[number].state.ended)
            for number in runs
        )

    def _cancellable(self, number: int, run: Run | None) -> Run:
        """Return the run with this number, which is None if there is no such run.

        Raises:
            InputError: no run has this number.
            Refused: the user may not cancel it.
        """
        from hpc_board.runs.drafts import check_owner

        if run is None:
            raise unknown_run(number)
        self.seen(run)
        installation = self._context.installation
        # The jobs of a served board may have another account than the one that sends them.
        sender = installation.account if installation.served else run.account
        is_sender_of_rerun = run.remarks.rerun is not None and run.remarks.rerun.by_user == self._context.user
        if not is_sender_of_rerun and (run.trust != "verified" or self._context.user != sender):
            check_owner(run, self._context.user)
        return run

    def asked_at(self, cluster: str) -> datetime | None:
        """Return the time of any client's last query to a cluster's scheduler; None before the first."""
        return self._context.reconciler.asked_at(cluster)

    def silent_since(self, cluster: str) -> datetime | None:
        """Return the time of the first unanswered query since the last answer; None after an answer."""
        return self._context.reconciler.silent_since(cluster)

    def get(self, run: int) -> Run:
        """Return the run with this number."""
        return self.seen(self._context.store.runs.get(run))

    def get_each(self, runs: Sequence[int]) -> list[Run]:
        """Return the runs with these numbers, as `get` does."""
        found = self._context.store.runs.numbered(runs)
        return [self.seen(found[number]) if number in found else self.get(number) for number in runs]

    def whole(self, run: int, *, hidden: bool = False) -> WholeRun:
        """Return the run with this number and all its rows, read in one transaction.

        The logs of the result are empty for users other than the run's own and those who manage its leaderboard. With
        `hidden`, the texts of hidden cases have their arguments.

        Raises:
            Refused: hidden cases are requested, and the user does not manage the leaderboard.
        """
        found = self._context.store.runs.whole(run)
        run_seen = self.seen(found.run)
        placing = self._context.installation.changes.of_placing(found.run, found.placing, self._context.reading)
        result = found.result and readable(self._context, found.run, found.result)
        if hidden:
            self._context.require_manager([found.run.task], "see the arguments of hidden cases")
            task = self._context.store.submissions.task(found.run.task, found.run.task_version)
            result = result and _with_hidden_arguments(result, task)
        return msgspec.structs.replace(found, run=run_seen, placing=placing, result=result)

    def seen(self, run: Run) -> Run:
        """Return `run` if it is visible to the user, without a message that quotes code which the user may not read."""
        if not self._sees(run):
            self._context.require(Role.PARTICIPANT, "see the runs of others")
            raise unknown_run(run.id)
        return unquoted(run, self._context.user, self._context.manages)

    def list(
        self,
        *,
        everyone: bool = False,
        user: str | None = None,
        task: str | None = None,
        limit: int = 50,
        before: int | None = None,
        key: str = "",
        note: str = "",
        words: str = "",
        entrant: str | None = None,
        tags: Tags = (),
        gpu: str | None = None,
        mode: Mode | None = None,
        state: RunState | None = None,
        verdict: Verdict | None = None,
        job: str | None = None,
        submission: int | None = None,
        order: RunOrder = NEWEST_FIRST,
        behind: RunPosition | None = None,
        offset: int = 0,
    ) -> tuple[Run, ...]:
        """Return runs in an order, by default the newest first: own ones, those of another `user`, or `everyone`'s.

        The user may be one with an entrant, as in "ada/agent-b"; `entrant` is the name alone, and `tags` are those of
        the submission.

        Each has `note` in one of its notes, and each of `words` in one of its fields. `before` is the number of a run;
        only older ones are returned. These are the first `limit` ones `behind` a position, without the first `offset`
        ones. `key`, `gpu`, `mode`, `state` or `verdict`, `job` and `submission` restrict the selection; `job` is the
        scheduler's number of a job, or of a whole array or runner.

        Raises:
            Refused: others' runs are requested, and the user is not a participant.
        """
        query = self._visible(user, everyone=everyone)
        found = self._context.store.runs.list(
            msgspec.structs.replace(
                query,
                task=task,
                key=key,
                note=note,
                words=words,
                entrant=query.entrant if entrant is None else entrant,
                tags=tags,
                gpu=gpu,
                mode=mode,
                outcome=verdict or state,
                job=job,
                submission=submission,
                order=order,
                behind=behind if before is None else RunPosition(before),
                offset=offset,
            ),
            limit=limit,
        )
        # To know the boards that a user manages takes the database.
        manages = cache(self._context.manages)
        return tuple(unquoted(run, self._context.user, manages) for run in found)

    def count(
        self,
        *,
        everyone: bool = False,
        user: str | None = None,
        gpu: str | None = None,
        mode: Mode | None = None,
        words: str = "",
    ) -> int:
        """Return the number of runs that `list` returns without a limit.

        Raises:
            Refused: others' runs are requested, and the user is not a participant.
        """
        query = self._visible(user, everyone=everyone)
        return self._context.store.runs.count(msgspec.structs.replace(query, gpu=gpu, mode=mode, words=words))

    def _visible(self, user: str | None, *, everyone: bool) -> "RunQuery":
        """Return the query for the visible runs of `user`, by default own ones, or `everyone`'s."""
        from hpc_board.store.listing import RunQuery

        entrant = None
        if user is None and not everyone:
            user = self._context.user
        elif user is not None:
            user, entrant = author_of(user)
        if user == self._context.user:
            return RunQuery(user=user, entrant=entrant)
        self._context.require(Role.PARTICIPANT, "see the runs of others")
        return RunQuery(user=user, entrant=entrant, hidden=self._context.editor.hidden(), unless_by=self._context.user)

    def started(self, runs: Collection[int]) -> dict[int, datetime]:
        """Return the time since which each of these runs was last seen running, by the run's number.

        Runs that never ran, or are invisible to the user, are left out.
        """
        found = self._context.store.runs.started(runs)
        everyone, hidden = others = self._seen_of_others()
        if everyone and not hidden:
            return found
        stored = self._context.store.runs
        return {number: at for number, at in found.items() if self._sees(stored.get(number), others)}

    def _seen_of_others(self) -> tuple[bool, frozenset[str]]:
        """Return whether the user sees others' runs, and the names of hidden leaderboards."""
        return self._context.role.may_act_as(Role.PARTICIPANT), self._context.editor.hidden()

    def _sees(self, run: Run, others: tuple[bool, Collection[str]] | None = None) -> bool:
        """Return whether the run is visible to the user; `others` are `_seen_of_others`, if they are known."""
        if run.user == self._context.user:
            return True
        everyone, hidden = others or self._seen_of_others()
        return everyone and run.task not in hidden

    def in_flight(self) -> tuple[Run, ...]:
        """Return the unfinished runs that are visible to the user, oldest first."""
        others = self._seen_of_others()
        return tuple(run for run in self._context.store.runs.in_flight() if self._sees(run, others))

    def followed(self, known: Collection[int] = ()) -> tuple[Run, ...]:
        """Return the user's own runs: the newest FOLLOWED_MAX unfinished ones, and all of `known`."""
        return self._context.store.runs.followed(self._context.user, known, FOLLOWED_MAX)

    def cases(self, run: int) -> tuple[Case, ...]:
        """Return the cases of a finished run without their samples; cheaper than the whole result."""
        found = self.get(run)
        cases, may_read = self._context.store.runs.cases(run), _may_read(self._context, found)
        return cases if may_read else tuple(map(_unquoted_case, cases))

    def cases_each(self, runs: Sequence[int]) -> tuple[tuple[Case, ...], ...]:
        """Return the cases of each of these runs, as `cases` does."""
        return tuple(map(self.cases, runs))

    def progress(self, run: int) -> Sequence[Progress]:
        """Return the progress lines of the harness, oldest first; malformed lines are skipped.

        Those in a folder of another account or machine may be some seconds old.
        """
        return self._progress(self.get(run))

    def _progress(self, run: Run) -> Sequence[Progress]:
        from hpc_board.runs.job_folder import PROGRESS

        if self._context.clusters.folders_on(run.cluster).elsewhere:
            data = self._far_progress.at(run.id, lambda: self._job_file(run, PROGRESS))
        else:
            data = self._job_file(run, PROGRESS)
        return [line for line in map(_progress, data.splitlines()) if line is not None]

    def log(self, run: int) -> str:
        """Return the end of the job's output, safe to print; empty before the job starts.

        It is empty, too, for users other than the run's own and those who manage its leaderboard.
        """
        found = self.get(run)
        if not _may_read(self._context, found):
            return ""
        data = self._job_file(found, log_name(found.status.job_id), end=True)
        if not data and found.state.ended and (pruned := self._context.store.runs.pruned(found.id)):
            return printable(pruned.log, LOG_BYTES_MAX)
        return printable(data.decode(errors="replace"), LOG_BYTES_MAX)

    def files(self, run: int) -> RunFiles:
        """Return the files in the job folder that the job's output and a profiler wrote, within bounds.

        Raises:
            InputError: the folder is gone.
            Refused: the run is another user's.
            BoardError: the folder cannot be read at the moment.
        """
        found = self._own(run)
        folders = self._context.clusters.folders_on(found.cluster)
        with self._folder_errors(found):
            sizes = folders.sizes(found)
            log = log_name(found.status.job_id)
            files = [RunFile(log, sizes[log])] if log in sizes else []
            with suppress(FileNotFoundError):
                sizes = folders.sizes(found, PROFILE_FOLDER) if _may_have_profile(found) else {}
                files += [RunFile(name, sizes[name]) for name in sorted(filter(is_profile_file, sizes))]
        return within_bounds(files)

    def file_part(self, run: int, name: str, start: int) -> bytes:
        """Return the next PART_BYTES of one of the `files` from `start` on; b"" at its end.

        Raises:
            InputError, BoardError: as of `files`; or the run has no such file.
        """
        found = self._own(run)
        of_log = name == log_name(found.status.job_id)
        of_profile = is_profile_file(name) and _may_have_profile(found)
        if not (of_log or of_profile) or not 0 <= start <= FILE_BYTES_MAX:
            raise InputError(
                f"run {found.id} has no file {one_line(name, 80)!r} with more than {start} bytes.",
                hint=f"`hpc-board run {found.id} --files` fetches those that exist.",
            )
        folders, below = self._context.clusters.folders_on(found.cluster), "" if of_log else PROFILE_FOLDER
        with self._folder_errors(found):
            return folders.read_part(found, below, name, start, min(PART_BYTES, FILE_BYTES_MAX - start))

    def _own(self, number: int) -> Run:
        """Return a run whose files the user may read.

        Raises:
            Refused: it is another user's.
        """
        run = self.get(number)
        if not _may_read(self._context, run):
            raise Refused(
                f"only {run.user}, the board's creator and admins may read the files of run {run.id}.",
                hint="`hpc-board runs` lists your runs.",
            )
        return run

    @contextmanager
    def _folder_errors(self, run: Run) -> Iterator[None]:
        """Translate the failures to read the job folder of a run.

        Raises:
            InputError: it is not there.
            BoardError: it cannot be read at the moment.
        """
        try:
            yield
        except FileNotFoundError as error:
            if pruned := self._context.store.runs.pruned(run.id):
                at = f"{pruned.at:%Y-%m-%d %H:%M} UTC"
                raise InputError(
                    f"the job folder of run {run.id} was removed at {at}, along with its files.",
                    hint=f"`hpc-board run {run.id}` and `hpc-board run {run.id} --log` show what the board keeps.",
                ) from error
            raise InputError(
                f"the job folder of run {run.id}, or a file in it, is missing.",
                hint=f"`hpc-board run {run.id}` shows the state of the run.",
            ) from error
        except OSError as error:
            raise BoardError(
                f"the job folder of run {run.id} cannot be read at the moment: "
                f"{one_line(error.strerror or str(error))}",
                hint="Try again later; nothing was changed.",
            ) from error

    def _job_file(self, run: Run, name: str, *, end: bool = False) -> bytes:
        try:
            return self._context.clusters.folders_on(run.cluster).read(run, name, LOG_BYTES_MAX, end=end)
        except OSError:
            return b""


def readable(context: "Context", run: Run, result: Result) -> Result:
    """Return a result, without all that quotes the code, if the user may not read that.

    These are logs, kernels, loops, and messages such as a traceback.
    """
    if _may_read(context, run):
        return result
    from dataclasses import replace

    message = "" if result.verdict.quotes_code else result.message
    cases = tuple(map(_unquoted_case, result.cases))
    # A hash of the file tells who else has sent it, also where its author has a pseudonym.
    hashes = ("submission_sha256", "library_sha256")
    provenance = {name: fact for name, fact in result.provenance.items() if name not in hashes}
    result = replace(result, message=message, cases=cases, provenance=provenance)
    result = replace(result, stdout=Log(), stderr=Log(), build=Log(), profile=Log())
    return replace(result, kernels=(), findings=(), loops=(), remarks=())


def _with_hidden_arguments(result: Result, task: Task) -> Result:
    from dataclasses import replace

    hidden = {"test": task.hidden_tests, "benchmark": task.hidden_benchmarks}
    texts = {
        (phase, hidden_case_text(number)): f"{hidden_case_text(number)}: {case_text(case)}"
        for phase, cases in hidden.items()
        for number, case in enumerate(cases)
    }
    cases = tuple(replace(case, spec=texts.get((case.phase, case.spec), case.spec)) for case in result.cases)
    return replace(result, cases=cases)


def unquoted(run: Run, user: str, manages: Callable[[str], bool]) -> Run:
    """Return a run, without a message that may quote the code unless it is the user's, or on a board that they manage.

    `manages` is that of the context.
    """
    quotes = run.message and run.verdict is not None and run.verdict.quotes_code
    if not quotes or run.user == user or manages(run.task):
        return run
    return msgspec.structs.replace(run, message="")


def _unquoted_case(case: Case) -> Case:
    from dataclasses import replace

    return replace(case, message="") if case.verdict.quotes_code else case


def _may_read(context: "Context", run: Run) -> bool:
    return run.user == context.user or context.manages(run.task)


def _may_have_profile(run: Run) -> bool:
    """Return whether the harness may have written files of a profile; others in their place stay where they are."""
    return run.mode is not Mode.RANKED


def _progress(line: bytes) -> Progress | None:
    import json

    try:
        value: Any = json.loads(line)
        case, of = value["case"], value["of"]
        if not all(number is None or (type(number) is int and 0 <= number <= _CASES_MAX) for number in (case, of)):
            return None
        texts = (str(value[key])[:500] for key in ("at", "phase", "message"))
        at, phase, message = (printable(text) for text in texts)
        return Progress(at, phase, case, of, message, _time_so_far(value["timed"]) if "timed" in value else None)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _time_so_far(value: Any) -> TimeSoFar:
    """Return a time that a job reports.

    Raises:
        ValueError: no case has it.
    """
    found = times_of(dict(value))
    case, times = found["case"], [found["time_ns"]]
    times += [] if found["reference_ns"] is None else [found["reference_ns"]]
    is_time = all(type(each) in (int, float) and TIME_NS_MIN <= each <= TIME_NS_MAX for each in times)
    if type(case) is not int or not 0 < case <= _CASES_MAX or not is_time:
        raise ValueError
    return TimeSoFar(case, *map(float, times))
