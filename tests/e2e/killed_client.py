"""A client that kills itself at one point of a submission; run by test_killed_client as a process of its own."""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from hpc_board import settings
from hpc_board.board import Board
from hpc_board.domain.run import JobStatus, Run, RunState, Status
from hpc_board.domain.score_interval import Interval
from hpc_board.domain.submission import Submission
from hpc_board.model.result import Result
from hpc_board.runs import job_folder
from hpc_board.schedulers import Arrays, Job, JobKey, Scheduler
from hpc_board.store import Store
from hpc_board.store.runs import RunGateway
from hpc_board.store.submissions import NewSubmission, SubmissionGateway
from tests.harness.harness_file import send_with_byte_code
from tests.values import requested

POINTS = ("before the row", "after the row", "after the folder", "during sbatch", "after sbatch", "at the job's end")


def die() -> None:
    """End this process as nothing can prepare for."""
    os.kill(os.getpid(), signal.SIGKILL)


class DeadlySubmissions(SubmissionGateway):
    """Submissions whose client dies before or after they are stored."""

    point = ""

    def add_all(self, new: Sequence[NewSubmission], **rules: Any) -> tuple[tuple[Submission, tuple[Run, ...]], ...]:
        if self.point == "before the row":
            die()
        added = super().add_all(new, **rules)
        if self.point == "after the row":
            die()
        return added


class DeadlyRuns(RunGateway):
    """Runs whose client dies before one of its writes."""

    point = ""

    def record_each(self, statuses: Mapping[int, Status]) -> set[int]:
        sent = [run for run, status in statuses.items() if status.state is RunState.SUBMITTING]
        if self.point == "after the folder" and sent:
            folders = job_folder.Folders(Path(os.environ["BOARD_FOLDER"]))
            assert all(folders.of(self.get(run)).is_dir() for run in sent)
            die()
        return super().record_each(statuses)

    def finish(
        self,
        number: int,
        status: Status,
        result: Result,
        score_s: float | None,
        ended_at: datetime | None = None,
        *,
        interval: Interval | None = None,
        reference_s: float | None = None,
    ) -> bool:
        if self.point == "at the job's end":
            die()
        return super().finish(number, status, result, score_s, ended_at, interval=interval, reference_s=reference_s)


class DeadlyScheduler:
    """A scheduler whose client dies just before or just after a job was handed over."""

    def __init__(self, inner: Scheduler, point: str) -> None:
        self._inner = inner
        self._point = point

    def command(self, job: Job) -> Sequence[str]:
        return self._inner.command(job)

    def submit(self, job: Job) -> str:
        if self._point == "during sbatch":
            die()
        job_id = self._inner.submit(job)
        if self._point == "after sbatch":
            die()
        return job_id

    def poll(self, keys: Sequence[JobKey]) -> Mapping[str, JobStatus]:
        return self._inner.poll(keys)


class DeadlyArrays(DeadlyScheduler):
    """The same of a scheduler that takes arrays."""

    def array_size(self) -> int:
        assert isinstance(self._inner, Arrays)
        return self._inner.array_size()

    def find_each(self, jobs: Sequence[JobKey]) -> Mapping[str, str]:
        assert isinstance(self._inner, Arrays)
        return self._inner.find_each(jobs)


def main() -> None:
    """Submit a file so many times, wait for the end, and die at the point named."""
    settings_file, kernel, count, point = sys.argv[1:]
    # The client that carries on has to have the same harness.
    send_with_byte_code()
    board = Board(settings.load(Path(settings_file), os.environ))
    os.environ["BOARD_FOLDER"] = str(board.settings.board)
    drafts = [requested(Path(kernel), gpus=["CPU"], mode="ranked") for _ in range(int(count))]
    store = Store(board.settings.board / "board.db")
    store.submissions, store.runs = DeadlySubmissions(store.file), DeadlyRuns(store.file)
    store.submissions.point = store.runs.point = point
    board.settings.board.mkdir(parents=True, exist_ok=True)
    board.context.installation.__dict__["store"] = store
    deadly = {
        name: (DeadlyArrays if isinstance(inner, Arrays) else DeadlyScheduler)(inner, point)
        for name, inner in board.context.clusters.schedulers.items()
    }
    board.context.clusters.__dict__["schedulers"] = deadly
    runs = board.submissions.submit(drafts, key="killed")
    for _ in board.runs.wait([run.id for run in runs], timeout_seconds=60):
        pass


if __name__ == "__main__":
    main()
