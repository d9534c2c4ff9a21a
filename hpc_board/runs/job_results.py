"""Results of jobs: read from the job folders, checked, scored and stored."""

from collections.abc import Callable, Sequence

import msgspec

from hpc_board.domain.clock import utc_now
from hpc_board.domain.result_checks import ended_at, result_faults
from hpc_board.domain.result_json import ResultError, decode_result
from hpc_board.domain.run import Run, RunState, Status, since_created
from hpc_board.domain.score_interval import score_interval
from hpc_board.model.files import NotRegularFileError
from hpc_board.model.result import RESULT_BYTES_MAX, Result, Verdict
from hpc_board.model.score import reference_score_s, score_s
from hpc_board.model.task import Mode, Task
from hpc_board.model.text import one_line
from hpc_board.runs import job_folder
from hpc_board.runs.clusters import ClusterTable, last_words, writing
from hpc_board.store import Store


class Leftover(msgspec.Struct, frozen=True):
    """The files that a job left in place of its result: a partial result, a `whole` one, or none, and the reason.

    `unreadable` means that the folder cannot be read at the moment.
    """

    partial: Result | None = None
    whole: bool = False
    result_problem: str = ""
    unreadable: bool = False


class JobResults(msgspec.Struct, frozen=True):
    """The results in the job folders of `clusters`; `harness_sha256` returns that of this version's harness."""

    store: Store
    clusters: ClusterTable
    harness_sha256: Callable[[], str]

    def read_all(self, cluster: str, runs: Sequence[Run], *, watched: bool) -> None:
        """Read new results from the folders of a cluster's runs; folders on another machine are read at intervals."""
        if not self.clusters.is_far(cluster):
            for run in runs:
                self.read(run)
            return
        backoff = self.clusters.folder_backoff(cluster, watched=watched)
        if not runs or not backoff.due(utc_now()):
            return
        with writing(self.clusters.folder):
            backoff.begin(utc_now())
        for run in runs:
            self.read(run)
        with writing(self.clusters.folder):
            backoff.settle(news=any(self.store.runs.get(run.id).state is not run.state for run in runs))

    def read(self, run: Run) -> None:
        """Read the run's result if it exists; else notice the start of its job."""
        folders = self.clusters.folders_of(run)
        try:
            data = folders.read(run, job_folder.RESULT, RESULT_BYTES_MAX)
        except FileNotFoundError:
            data = b""
        except NotRegularFileError as error:
            self.store.runs.move(run, RunState.ERROR, reason=f"the result is not accepted: {error}")
            return
        except OSError:
            # The run's other records mention it: alternating rows of two sources would add a row in each pass.
            return
        if not data:
            # A name without its contents is a network file system that lags behind.
            begun = run.state is RunState.QUEUED and folders.files.is_file(folders.of(run) / job_folder.PROGRESS)
            if begun and not self._ran_before(run):
                self.store.runs.move(run, RunState.RUNNING, source="progress file found")
            return
        self._take_result(run, data)

    def _ran_before(self, run: Run) -> bool:
        """Return whether a queued run ran before: its job was requeued, and the old files prove nothing."""
        return any(status.state is RunState.RUNNING for status in since_created(self.store.runs.history(run.id)))

    def left(self, run: Run) -> Leftover:
        """Return the files in place of the run's result."""
        try:
            data = self.clusters.folders_of(run).read(run, job_folder.RESULT, RESULT_BYTES_MAX)
        except FileNotFoundError:
            return Leftover()
        except NotRegularFileError:
            return Leftover(whole=True)
        except OSError as error:
            return Leftover(
                result_problem=f"{job_folder.RESULT} cannot be read at the moment: {error.strerror}", unreadable=True
            )
        if not data:
            return Leftover(result_problem=f"{job_folder.RESULT} is empty")
        try:
            result = self._parse_result(run, self.store.submissions.task(run.task, run.task_version), data)
        except ResultError:
            return Leftover(whole=True)
        return Leftover(partial=result) if result.interrupted else Leftover(whole=True)

    def _take_result(self, run: Run, data: bytes) -> None:
        task = self.store.submissions.task(run.task, run.task_version)
        try:
            result = self._parse_result(run, task, data)
        except ResultError as error:
            self.store.runs.move(run, RunState.ERROR, reason=f"the result is not accepted: {error}")
            return
        if result.interrupted:
            # The scheduler tells the reason of the job's end.
            return
        if result.verdict in (Verdict.INFRA_ERROR, Verdict.CRASH) and run.cluster in self.clusters.clusters:
            # A scheduler that kills a step for its memory leaves the batch script, which accounts for the judge's end.
            log = self.clusters.log_end(run)
            if exceeded := self.clusters.kind(run.cluster).memory_exceeded(log):
                self.store.runs.move(
                    run, RunState.OUT_OF_MEMORY, reason=exceeded, source=last_words(log).removeprefix("; ")
                )
                return
        whole = sum(case.phase == "benchmark" for case in result.cases) == len(
            task.case_texts("benchmark", ranked=run.mode is Mode.RANKED)
        )
        scored = whole and result.verdict is Verdict.PASS and run.mode in (Mode.BENCHMARK, Mode.RANKED)
        node = one_line(str(result.provenance.get("node") or result.provenance.get("host", "")), 120)
        job_id, runner = run.status.job_id or result.job_id, run.status.runner
        status = Status(RunState.FINISHED, utc_now(), job_id, node, runner=runner)
        score = score_s(result.cases, task.ranking_by) if scored else None
        interval = score_interval(result.cases, task.ranking_by) if scored else None
        reference_s = reference_score_s(result.cases, task.ranking_by) if scored else None
        end = ended_at(result, run, status.at)
        try:
            self.store.runs.finish(run.id, status, result, score, end, interval=interval, reference_s=reference_s)
        except ResultError as error:
            self.store.runs.move(run, RunState.ERROR, reason=f"the result is not accepted: {error}")

    def _parse_result(self, run: Run, task: Task, data: bytes) -> Result:
        """Parse `data` as the result of `run`.

        Raises:
            ResultError: the data is not a result, or belongs to another run.
        """
        result, gpu = decode_result(data), self.clusters.gpus.get(run.gpu)
        faults = result_faults(result, run, task, gpu.device if gpu else None, self.harness_sha256())
        if faults:
            raise ResultError("; ".join(faults[:5]))
        return result
