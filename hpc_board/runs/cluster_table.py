"""The clusters of the settings as the reconciliation of runs uses them: schedulers, job folders, and pauses."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from hpc_board.domain.clock import utc_now
from hpc_board.domain.run import Run
from hpc_board.errors import StorageError
from hpc_board.model.gpu import Cluster, Gpu
from hpc_board.model.text import one_line
from hpc_board.runs import job_folder
from hpc_board.runs.backoff import PAUSE_FACTOR, SCAN_PAUSE_FACTOR, SCAN_PAUSE_SECONDS, Backoff
from hpc_board.schedulers import AnyKind, Arrays, JobKey, Scheduler, kind_of

_LAST_WORDS_BYTES = 4096
_LAST_WORDS_MAX = 160


class ClusterTable(msgspec.Struct, frozen=True):
    """The clusters by name, as `Reconciler` has them."""

    folder: Path
    schedulers: Mapping[str, Scheduler]
    clusters: Mapping[str, Cluster]
    gpus: Mapping[str, Gpu]
    folders: Mapping[str, job_folder.Folders]

    def settle(self, cluster: str, *, news: bool) -> None:
        """Note an answer of a scheduler; after news, the next pauses are the shortest."""
        with writing(self.folder):
            self.backoff(cluster).settle(news=news)
            if news and self.is_far(cluster):
                self.folder_backoff(cluster, watched=False).settle(news=True)
                self.folder_backoff(cluster, watched=True).settle(news=True)

    def note_silence(self, cluster: str, seconds: float) -> None:
        """Note that a scheduler did not answer for so long."""
        with writing(self.folder):
            self.backoff(cluster).fail(utc_now(), seconds)

    def backoff(self, cluster: str) -> Backoff:
        """Return the back-off of questions to a scheduler."""
        settings = self.clusters[cluster]
        pause_factor = PAUSE_FACTOR if self.kind(cluster).shared else 1.0
        return Backoff(self.folder / f"asked-{cluster}", settings.poll_seconds, pause_factor=pause_factor)

    def kind(self, cluster: str) -> AnyKind:
        """Return the kind of a cluster's scheduler."""
        return kind_of(self.clusters[cluster])

    def is_far(self, cluster: str) -> bool:
        """Return whether the job folders of a cluster lie on another machine."""
        return cluster in self.folders and self.folders[cluster].elsewhere

    def folder_backoff(self, cluster: str, *, watched: bool) -> Backoff:
        """Return the back-off of scans of a cluster's folders, for all runs or for the watched ones."""
        return Backoff(
            self.folder / f"looked-{cluster}{'.watched' * watched}", SCAN_PAUSE_SECONDS, pause_factor=SCAN_PAUSE_FACTOR
        )

    def folders_of(self, run: Run) -> job_folder.Folders:
        """Return the job folders of a run's cluster."""
        return self.folders_on(run.cluster)

    def folders_on(self, cluster: str) -> job_folder.Folders:
        """Return the job folders of a cluster, also of one that has left the settings."""
        return self.folders.get(cluster) or job_folder.Folders(self.folder)

    def log_end(self, run: Run) -> str:
        """Return the end of the job's output; empty without output."""
        name = self.kind(run.cluster).log_name(run.status.job_id)
        try:
            return self.folders_of(run).read(run, name, _LAST_WORDS_BYTES, end=True).decode(errors="replace")
        except OSError:
            return ""

    def retries(self, run: Run) -> int:
        """Return how often a run may be sent again."""
        gpu = self.gpus.get(run.gpu)
        return 0 if gpu is None else kind_of(gpu.cluster).with_job_options(gpu, run.options).retries

    def cancel(self, runs: Sequence[Run]) -> None:
        """Cancel the jobs of `runs`, which are all of one cluster.

        Raises:
            SchedulerError: the scheduler did not answer.
        """
        self.schedulers[runs[0].cluster].cancel([job_key(run) for run in runs])

    def job_ids(self, runs: Sequence[Run]) -> dict[int, str]:
        """Return the scheduler's job ids of `runs`, which are all of one cluster, by run number.

        Raises:
            SchedulerError: the scheduler did not answer.
        """
        scheduler = self.schedulers[runs[0].cluster]
        if not isinstance(scheduler, Arrays):
            ids = {run.id: scheduler.find(run.token, run.created_at) for run in runs}
            return {run: job_id for run, job_id in ids.items() if job_id is not None}
        found = scheduler.find_each([run.token for run in runs], min(run.created_at for run in runs))
        return {run.id: found[run.token] for run in runs if run.token in found}


def job_key(run: Run) -> JobKey:
    """Return the key of a run's job."""
    return JobKey(run.token, run.status.job_id, run.created_at)


def last_words(log: str) -> str:
    """Return the last line of a job's output as evidence; empty without output."""
    last = next((line for line in reversed(log.splitlines()) if line.strip()), "")
    return f'; its output ends with "{one_line(last, _LAST_WORDS_MAX)}"' if last else ""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Translate errors of writing to `path`."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{path}: cannot be written or locked: {error.strerror or error}",
            hint="Check that you may write the board's folder, that its disk is not full, and that it can lock files.",
        ) from error
