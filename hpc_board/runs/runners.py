"""Runners on the login side: their jobs, the runs at them, and the runs that come back from there.

The caller of each method holds the lock of the cluster.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from hpc_board.domain.clock import utc_now
from hpc_board.domain.pause import Pause
from hpc_board.domain.result_checks import plausible_moment
from hpc_board.domain.run import (
    JobState,
    JobStatus,
    Retry,
    Run,
    RunState,
    Status,
    grouped_by_array,
    next_status,
    silence_words,
)
from hpc_board.domain.runner import LEAST_SECONDS, Runner
from hpc_board.domain.runner_rules import HoldTimes, RunnerRules
from hpc_board.errors import BoardError, InputError, SchedulerError, SchedulerRefused, StorageError
from hpc_board.model.gpu import Device, Gpu
from hpc_board.model.runner import DONE, QUEUE, TAKEN, WITHDRAWN, Entry, entry_name, modules_in
from hpc_board.runs import job_folder
from hpc_board.runs.clusters import ClusterTable
from hpc_board.runs.dispatch import drawn_nonce, drawn_tokens
from hpc_board.schedulers import Job, JobKey
from hpc_board.schedulers.runner_queue import RunnerQueue, job_state
from hpc_board.store import Store
from hpc_board.store.runners import NewRunner

if TYPE_CHECKING:
    from hpc_board.runs.launcher import PreparedJob

AUTO_LEAST = 3
"""The number of waiting runs from which a runner of the board costs less than their jobs."""

AUTO_IDLE_SECONDS = 60
"""The time after which a runner of the board ends without a run."""

AHEAD_MAX = 2
"""The number of runs that each runner of a served board has in hand and ahead, so that it never waits for a pass."""

_REFUSED_PAUSE_SECONDS, _NEVER_STARTS_PAUSE_SECONDS = 600.0, 3600.0
_LOOKED_AT = 20

_ENDS_IN_HAND = {
    RunState.CANCELLED: JobState.CANCELLED,
    RunState.TIMEOUT: JobState.TIMEOUT,
    RunState.OUT_OF_MEMORY: JobState.OUT_OF_MEMORY,
    RunState.NODE_FAIL: JobState.NODE_FAIL,
    RunState.PREEMPTED: JobState.PREEMPTED,
    RunState.LOST: JobState.MISSING,
}
"""The state of the run that a runner had in hand at such an end; after any other one it is ENDED."""


def new_runner(gpu: Gpu, user: str, account: str, times: HoldTimes, harness_sha256: str) -> NewRunner:
    """Return a runner to store, for the runs of `user`, whose job belongs to `account`.

    Raises:
        InputError: the batch script cannot be rendered.
    """
    (token,) = drawn_tokens([[0]]).values()
    return NewRunner(
        user=user,
        account="" if account == user else account,
        gpu=gpu.name,
        cluster=gpu.cluster.name,
        partition=gpu.partition,
        token=token,
        request=job_folder.runner_request(gpu),
        seconds=times.seconds,
        idle_seconds=times.idle_seconds,
        gpus=int(gpu.device is not Device.CPU),
        harness_sha256=harness_sha256,
        script=msgspec.json.encode(job_folder.runner_script(gpu, times.seconds)).decode(),
        at=utc_now(),
    )


class _Back(msgspec.Struct, frozen=True):
    """The reason for which a run comes back from a runner, and whether the runner may have begun it."""

    reason: str
    begun: bool = False


class RunnerJobs(msgspec.Struct, frozen=True):
    """The runners of the clusters; `ensure_harness` is that of `Launcher`, and `lookup_delay` that of `Reconciler`.

    `rules` bound those that the board itself starts, by turns of its users if it is `served`.
    """

    store: Store
    clusters: ClusterTable
    ensure_harness: Callable[[job_folder.Folders, str], None]
    lookup_delay: timedelta
    rules: RunnerRules
    served: bool

    # Jobs

    def advance(self, live: Sequence[Runner], *, asks: bool, sends: bool = True) -> list[BoardError]:
        """Send the jobs of new runners, and have those retire that are to end; return the errors.

        `asks` is whether the scheduler may be asked, and `sends` whether jobs may be sent now. After a silence the
        others wait for a later pass.
        """
        errors: list[BoardError] = []
        for runner in live:
            began = time.monotonic()
            try:
                self._advance(runner, asks=asks, sends=sends)
            except (SchedulerRefused, InputError) as error:
                errors.append(error)
            except SchedulerError as error:
                errors.append(error)
                self.clusters.note_silence(runner.cluster, time.monotonic() - began, [error])
                break
        return errors

    def _advance(self, runner: Runner, *, asks: bool, sends: bool) -> None:
        if runner.state is RunState.CREATED and runner.status.cancel_requested:
            self._move(runner, RunState.CANCELLED)
        elif runner.state is RunState.CREATED:
            backoff = self.clusters.backoff(runner.cluster)
            if backoff.rests(utc_now()):
                words = silence_words(runner.cluster, backoff.silent_since or utc_now())
                self._move(runner, RunState.CREATED, words)
            elif sends:
                self._send(runner)
        elif runner.state is RunState.SUBMITTING:
            if asks:
                self._look_up(runner)
        elif runner.status.cancel_requested:
            if asks:
                self._release(runner)
        elif runner.state is RunState.RUNNING and (asks or not self.clusters.is_far(runner.cluster)):
            self._note_retirement(runner)

    def _send(self, runner: Runner) -> None:
        state = RunState.CREATED
        try:
            gpu = self.clusters.gpus.get(runner.gpu)
            if gpu is None:
                raise InputError(f"GPU {runner.gpu} is no longer in the settings; hold another one")
            script = msgspec.json.decode(self.store.runners.script(runner.id), type=job_folder.Script)
            folders = self.clusters.folders_on(runner.cluster)
            self.ensure_harness(folders, runner.harness_sha256)
            folder = folders.write_runner(runner, gpu, script.text)
            job = Job(
                runner.token,
                folder,
                job_folder.SCRIPT,
                gpu,
                script.options,
                script.time_limit_seconds,
                comment=job_folder.comment(script, f"runner {runner.id}"),
            )
            state = RunState.SUBMITTING
            self._move(runner, state)
            job_id = self.clusters.schedulers[runner.cluster].submit(job)
        except StorageError as error:
            self._move(runner, state, error.message, error.hint)
            raise
        except (InputError, SchedulerRefused) as error:
            self._move(runner, RunState.ERROR, error.message, error.hint)
            raise
        except SchedulerError as error:
            words = error.message if state is RunState.CREATED else "the scheduler has not confirmed the job"
            self._move(runner, state, words, error.message)
            raise
        self._record(runner, Status(RunState.QUEUED, utc_now(), job_id))
        self.clusters.settle(runner.cluster, news=True)

    def _look_up(self, runner: Runner) -> None:
        """Look for the job of a runner whose submission had no clear answer."""
        job_id = self.clusters.schedulers[runner.cluster].find(self._key(runner))
        if job_id is not None:
            self._record(runner, replace(runner.status, state=RunState.QUEUED, at=utc_now(), job_id=job_id, reason=""))
        elif utc_now() - runner.status.at >= self.lookup_delay:
            self._move(runner, RunState.ERROR, "the scheduler has no job of the runner; hold the GPU again")

    def _release(self, runner: Runner) -> None:
        queue = self._queue(runner)
        try:
            queue.release()
            # The scheduler may have started the job since it was asked.
            hears = runner.state is not RunState.QUEUED or queue.has_begun()
        except FileNotFoundError:
            hears = False
        except OSError as error:
            if isinstance(error.__cause__, SchedulerError):
                raise error.__cause__ from None
            raise StorageError(f"runner {runner.id} cannot be told to end: {error.strerror or error}") from error
        if not hears:
            self.clusters.schedulers[runner.cluster].cancel([self._key(runner)])

    def _note_retirement(self, runner: Runner) -> None:
        """Record that a runner takes no more runs, if it has said so."""
        if retired := self._queue(runner).retired():
            self._move(runner, RunState.COLLECTING, retired)

    def keys(self, live: Sequence[Runner]) -> list[JobKey]:
        """Return the keys of the jobs of these runners."""
        return [self._key(runner) for runner in live if runner.status.job_id]

    def take_in(self, live: Sequence[Runner], news: Mapping[str, JobStatus]) -> bool:
        """Record the answer of the scheduler for these runners; return whether the state of any changed."""
        changed = False
        for runner in live:
            if runner.token in news:
                self._note_start(runner)
                status = self._status(runner, news[runner.token])
                if status != runner.status:
                    self._record(runner, status)
                if status.state.ended:
                    # A scheduler that finds processes by their parents may have missed the runner's.
                    with suppress(OSError):
                        self._queue(runner).release()
                changed = changed or status.state is not runner.state
        return changed

    def _note_start(self, runner: Runner) -> None:
        """Record the start of a runner by its own clock, if no client has seen it running."""
        told = self._queue(runner).state() if runner.state is RunState.QUEUED else None
        at = told and plausible_moment(told.started_at, runner.created_at, utc_now())
        if at:
            self._record(runner, replace(runner.status, state=RunState.RUNNING, at=at, reason=""))

    def _status(self, runner: Runner, news: JobStatus) -> Status:
        """Return the status of a runner after the answer `news`; one that has retired by itself is finished.

        A runner that is missing from one answer still takes runs. Where the scheduler never tells its end, it is lost
        after a while, if it has retired or is to end.
        """
        told = self._queue(runner).state() if news.state is not JobState.PENDING else None
        retired = "" if told is None else told.retired
        if news.unlisted and (retired or runner.status.cancel_requested):
            news = replace(news, state=JobState.MISSING)
        status = next_status(runner.status, news, utc_now(), result_grace=timedelta(0))
        if news.state is JobState.MISSING and not status.state.ended:
            status = replace(status, state=runner.state, at=runner.status.at, reason=runner.status.reason)
        if not runner.user and replace(runner, status=status).never_starts:
            # The runner of the board has no user who would cancel it.
            status = replace(status, cancel_requested=True)
        if told is None or not retired or news.state is JobState.UNKNOWN:
            return status
        if status.state is RunState.RUNNING:
            since = runner.status.at if runner.state is RunState.COLLECTING else utc_now()
            return replace(status, state=RunState.COLLECTING, at=since, reason=retired)
        finished = news.state in (JobState.ENDED, JobState.MISSING) and status.state.ended
        at = plausible_moment(told.at, runner.created_at, utc_now()) if status.state.ended else None
        return replace(
            status,
            state=RunState.FINISHED if finished else status.state,
            at=at or status.at,
            reason=retired,
            source=news.source,
        )

    def _key(self, runner: Runner) -> JobKey:
        script = self.clusters.folders_on(runner.cluster).of_runner(runner) / job_folder.SCRIPT
        return JobKey(runner.token, runner.status.job_id, runner.created_at, str(script))

    def _queue(self, runner: Runner) -> RunnerQueue:
        folders = self.clusters.folders_on(runner.cluster)
        return RunnerQueue(folders.files, folders.of_runner(runner))

    def _move(self, runner: Runner, state: RunState, reason: str = "", source: str = "") -> None:
        self._record(runner, replace(runner.status.moved(state, utc_now()), reason=reason, source=source))

    def _record(self, runner: Runner, status: Status) -> None:
        self.store.runners.record(runner.id, status)

    # The board's own

    def admit(self, runs: Sequence[Run]) -> list[Run]:
        """Start runners of the board for the unsent `runs` of a cluster, and return the runs that need not wait.

        A served board gives each of its runners few runs ahead, so that users keep their turns; the others wait.
        """
        live = self.store.runners.live(runs[0].cluster) if runs else ()
        held = {(runner.user, runner.gpu) for runner in live}
        waiting: dict[tuple[str, str, str], list[Run]] = {}
        for run in runs:
            if run.state is RunState.CREATED and not run.fresh and (run.user, run.gpu) not in held:
                waiting.setdefault((run.gpu, run.account or run.user, run.harness_sha256), []).append(run)
        behind: dict[int, str] = {}
        for (name, *_), members in waiting.items():
            gpu = self.clusters.gpus.get(name)
            if gpu is not None and self.clusters.kind(members[0].cluster).shared:
                request = job_folder.runner_request(gpu)
                fitting = self._with_request(gpu, request, members)
                behind |= self._wait_for(self._own_runners(gpu, request, live, fitting), fitting) if fitting else {}
        self.store.runs.record_each(
            {
                run.id: run.moved(run.state, reason=behind[run.id]).status
                for run in runs
                if run.id in behind and run.status.reason != behind[run.id]
            }
        )
        return [run for run in runs if run.id not in behind]

    def _with_request(self, gpu: Gpu, request: str, runs: Sequence[Run]) -> list[Run]:
        """Return those of `runs` that a runner on `gpu` may judge, and that have not come back from one."""
        requests: dict[str, str] = {}
        former = {number for number, _ in self.store.runners.former([run.id for run in runs])}
        scripts = self.store.submissions.scripts([run.id for run in runs])
        for text in set(scripts.values()):
            with suppress(msgspec.DecodeError, RecursionError):  # a damaged script is its run's error later
                requests[text] = job_folder.request(msgspec.json.decode(text, type=job_folder.Script), gpu)
        return [run for run in runs if run.id not in former and requests.get(scripts.get(run.id, "")) == request]

    def _own_runners(self, gpu: Gpu, request: str, live: Sequence[Runner], waiting: Sequence[Run]) -> list[Runner]:
        """Return the board's runners for these runs, after it has started those that are worth it."""
        account, harness = waiting[0].account or waiting[0].user, waiting[0].harness_sha256
        now = utc_now()

        def fits(runner: Runner) -> bool:
            found = runner.user, runner.account, runner.gpu, runner.request, runner.harness_sha256
            return found == ("", account, gpu.name, request, harness)

        own = [runner for runner in live if fits(runner) and not runner.is_ending and runner.has_time(now)]
        wanted = min(self.rules.auto, len(waiting) // AUTO_LEAST) - len(own)
        refused = [each for each in self.store.runners.newest(_LOOKED_AT) if fits(each) and self._was_refused(each)]
        for _ in range(0 if refused else wanted):
            times = HoldTimes(60 * self.rules.minutes, min(AUTO_IDLE_SECONDS, 60 * self.rules.idle_minutes))
            try:
                new = self.store.runners.add(new_runner(gpu, "", account, times, harness))
                self._send(new)
            except (SchedulerError, InputError):
                break  # the runner's row has the reason, and the runs go as jobs of their own
            own.append(self.store.runners.get(new.id))
        return [runner for runner in own if runner.takes_runs]

    def _was_refused(self, runner: Runner) -> bool:
        """Return whether the scheduler has lately refused a runner, or the start of its job."""
        # One that died has a job, and proves nothing about the next.
        has_no_job = runner.state is RunState.ERROR and not runner.status.job_id
        seconds = _NEVER_STARTS_PAUSE_SECONDS if runner.never_starts else _REFUSED_PAUSE_SECONDS
        is_over = Pause(runner.status.at.timestamp(), seconds).is_over(utc_now().timestamp())
        return (has_no_job or runner.never_starts) and not is_over

    def _wait_for(self, own: Sequence[Runner], waiting: Sequence[Run]) -> dict[int, str]:
        """Return the reason of each of these runs that waits until the board's runners have fewer ahead.

        Of several users each has a turn in which one run goes, also of a job array.
        """
        if not own or not self.served:
            return {}
        numbers = {runner.id for runner in own}
        going = self.store.runs.in_flight(cluster=own[0].cluster)
        turns = Counter(run.user for run in going if run.status.runner in numbers)
        places = max(0, AHEAD_MAX * len(own) - turns.total())
        order: list[tuple[int, int]] = []
        for run in sorted(waiting, key=lambda run: run.id):
            order.append((turns[run.user], run.id))
            turns[run.user] += 1
        names = ", ".join(str(runner.id) for runner in own)
        return {number: f"waits for a place at runner {names}" for _, number in sorted(order)[places:]}

    # Runs

    def give(self, runners: Sequence[Runner], works: "Sequence[PreparedJob]") -> tuple[set[int], list[BoardError]]:
        """Put those of these runs into queues that one of `runners` may judge; return their numbers, and errors.

        A run goes to the runner of its user that has its request and enough time, to the one with the fewest runs. It
        goes to none from which it came back. One of which a queue certainly has no entry, since its disk is full or its
        folder gone, is not among them.
        """
        given: dict[int, tuple[Run, PreparedJob, Runner]] = {}
        users = {"", *(work.run.user for work in works)}
        live = [
            runner
            for runner in runners
            # It may have retired since the last pass, and no client may wait for the next one.
            if runner.takes_runs and runner.user in users and not self._queue(runner).retired()
        ]
        former = self.store.runners.former([work.run.id for work in works]) if live else ()
        for work in works if live else ():
            runner = self._runner_for(work, [each for each in live if (work.run.id, each.id) not in former])
            if runner is not None:
                live = [replace(each, runs=each.runs + 1) if each.id == runner.id else each for each in live]
                given[work.run.id] = _at_runner(work, runner), work, runner
        if not given:
            return set(), []
        self.store.runs.record_each({number: run.status for number, (run, _, _) in given.items()})
        told: dict[int, Status] = {}
        errors: list[BoardError] = []
        for number, (run, work, runner) in given.items():
            device = str(work.gpu.device)
            texts = [work.parts.code.decode(errors="replace")]
            texts += [
                file.text for file in work.parts.task.files if file.text is not None and file.name.endswith(".py")
            ]
            seconds = work.script.time_limit_seconds
            least_seconds = min(seconds, LEAST_SECONDS)
            entry = Entry(work.path.name, run.status.job_id, seconds, least_seconds, modules_in(texts, device))
            queue, name = self._queue(runner), entry_name(number, work.path.name)
            try:
                queue.add(name, entry)
            except OSError as error:
                words = f"runner {runner.id} cannot take it: {error.strerror or error}"
                if queue.lacks(name):
                    told[number] = Status(RunState.CREATED, utc_now(), reason=words)
                else:
                    errors.append(StorageError(f"run {number} is not sent yet: {words}"))
            else:
                told[number] = run.moved(RunState.QUEUED, reason=f"waits at runner {runner.id}").status
        self.store.runs.record_each(told)
        return {number for number in given if number not in told or told[number].state is RunState.QUEUED}, errors

    def _runner_for(self, work: "PreparedJob", live: Sequence[Runner]) -> Runner | None:
        run = work.run
        if run.fresh:
            return None
        now, request = utc_now(), job_folder.request(work.script, work.gpu)
        fitting = [
            runner
            for runner in live
            if runner.user in (run.user, "")
            and (runner.account or runner.user, runner.harness_sha256) == (run.account or run.user, run.harness_sha256)
            and runner.fits(run.gpu, request, work.script.time_limit_seconds, now)
        ]
        return min(fitting, key=lambda runner: runner.runs, default=None)

    def look(self, runs: Sequence[Run]) -> tuple[dict[str, JobStatus], list[Run]]:
        """Return the statuses of runs at runners, by their tokens, and the runs that no runner will judge.

        The latter are recorded as runs without a job.
        """
        news, back = self._statuses(runs)
        came_back = [run for run in runs if run.id in back]
        self._take_back(came_back, back)
        return news, came_back

    def _statuses(self, runs: Sequence[Run]) -> tuple[dict[str, JobStatus], dict[int, "_Back"]]:
        """Return the statuses as `look` does, and the runs that come back, by their numbers.

        A run is in neither if its runner's folder, or its end there, cannot be read now: that tells nothing.
        """
        news: dict[str, JobStatus] = {}
        back: dict[int, _Back] = {}
        runners = self.store.runners.numbered({run.status.runner for run in runs if run.status.runner is not None})
        for runner in runners.values():
            queue = self._queue(runner)
            members = [run for run in runs if run.status.runner == runner.id]
            try:
                parts = queue.parts([*map(self._entry, members)])
            except OSError:
                continue
            for run in members:
                with suppress(OSError):
                    status = self._status_at(runner, queue, run, parts)
                    if isinstance(status, JobStatus):
                        news[run.token] = status
                    elif run.status.cancel_requested:
                        news[run.token] = JobStatus(JobState.CANCELLED, run.status.job_id)
                    else:
                        back[run.id] = status
        return news, back

    def _status_at(self, runner: Runner, queue: RunnerQueue, run: Run, parts: Mapping[str, str]) -> "JobStatus | _Back":
        """Return the status of a run at a runner, or the reason for which the run comes back."""
        name = self._entry(run)
        part = parts.get(name)
        at_runner = JobStatus(
            JobState.UNKNOWN, run.status.job_id, node=runner.status.node, source=f"runner {runner.id}"
        )
        in_hand = JobState.RUNNING
        how = "waits in vain" if runner.never_starts and not runner.state.ended else "ended before it"
        before_it = f"runner {runner.id} {how}: {runner.why}"
        if part == QUEUE:
            if not runner.takes_runs and queue.withdraw(name):
                return _Back(before_it)
            if not runner.state.ended:
                return replace(at_runner, state=JobState.PENDING, reason=f"waits at runner {runner.id}", node="")
        if part == WITHDRAWN:
            return _Back(f"taken out of the queue of runner {runner.id}")
        if part == DONE and (end := queue.end_of(name)) is not None:
            if end.state == "time_over":
                return _Back(f"the time of runner {runner.id} was over before the run ended", begun=True)
            if end.state != "runner_ended":
                return replace(at_runner, state=job_state(end), reason=end.reason)
            in_hand = JobState.COMPLETING
        if not runner.state.ended:
            return replace(at_runner, state=JobState.UNKNOWN if part is None else in_hand)
        grace = self.clusters.kind(run.cluster).result_grace
        if part in (None, QUEUE) and utc_now() - runner.status.at < grace:
            return at_runner  # a network file system may be late
        if part in (None, QUEUE) and run.state in (RunState.SUBMITTING, RunState.QUEUED):
            # A part of the folder is gone, and the runner with it. Another job folder keeps it apart in any case.
            return _Back(before_it, begun=True)
        state = _ENDS_IN_HAND.get(runner.state, JobState.ENDED)
        return replace(at_runner, state=state, reason=f"its runner ended: {runner.why}")

    def _take_back(self, runs: Sequence[Run], back: Mapping[int, "_Back"]) -> None:
        """Record that these runs have no job.

        A begun run gets another job folder, by another name; so do members of an array, since others of it may have
        jobs.
        """
        statuses = {run.id: Status(RunState.CREATED, utc_now(), reason=back[run.id].reason) for run in runs}
        renamed = [run for run in runs if run.array or back[run.id].begun]
        self.store.runs.record_each({run.id: statuses[run.id] for run in runs if run not in renamed})
        if renamed:
            tokens = drawn_tokens([run.id for run in group] for group in grouped_by_array(renamed))
            self.store.runs.retry_each(
                {number: Retry(token, drawn_nonce(), statuses[number], False) for number, token in tokens.items()}
            )

    def find(self, runs: Sequence[Run]) -> dict[int, str]:
        """Return the ids of those of these runs at runners that are in a queue or left it, by run number.

        Raises:
            StorageError: a queue cannot be read now.
        """
        news, back = self._statuses(runs)
        for run in runs:
            if run.token not in news and run.id not in back:
                raise StorageError(
                    f"the queue of runner {run.status.runner} cannot be read",
                    hint=f"Run {run.id} may be there; it is looked for again in the next pass.",
                )
        absent = JobState.UNKNOWN
        return {run.id: run.status.job_id for run in runs if run.token in news and news[run.token].state is not absent}

    def cancel(self, runs: Sequence[Run]) -> None:
        """Take runs out of the queues of their runners, or have the runners end them.

        Raises:
            SchedulerError: the machine of a queue did not answer, or the queue cannot be written.
        """
        runners = self.store.runners.numbered({run.status.runner for run in runs if run.status.runner is not None})
        errors: list[SchedulerError] = []
        for run in runs:
            runner = runners[run.status.runner or 0]
            queue, name = self._queue(runner), self._entry(run)
            try:
                if queue.withdraw(name):
                    self.store.runs.move(run, RunState.CANCELLED, reason=run.status.reason)
                elif queue.parts([name]).get(name) == TAKEN:
                    queue.stop(name)
            except OSError as error:
                words = f"the queue of runner {runner.id} cannot be written: {error.strerror or error}"
                cause = error.__cause__
                errors.append(cause if isinstance(cause, SchedulerError) else SchedulerError(words))
        if errors:
            raise errors[0]

    def _entry(self, run: Run) -> str:
        return entry_name(run.id, self.clusters.folders_of(run).of(run).name)


def _at_runner(work: "PreparedJob", runner: Runner) -> Run:
    """Return a run on its way to a runner: its job is the runner's, with its own number."""
    status = replace(
        work.run.moved(RunState.SUBMITTING).status,
        at=utc_now(),
        attempt=work.attempt,
        runner=runner.id,
        job_id=f"{runner.status.job_id}.{work.run.id}",
    )
    return replace(work.run, status=status)
