"""A client that kills itself at one point of a submission; run by test_killed_client as a process of its own."""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from hpc_board import settings
from hpc_board.board import Board
from hpc_board.domain.run import JobStatus, Run, RunState, Status
from hpc_board.domain.submission import Submission
from hpc_board.model.result import Result
from hpc_board.model.score import Interval
from hpc_board.runs import job_folder
from hpc_board.schedulers import Arrays, Job, JobKey, Scheduler
from hpc_board.store import NewSubmission, Store

POINTS = ("before the row", "after the row", "after the folder", "during sbatch", "after sbatch", "at the job's end")


def die() -> None:
    """End this process as nothing can prepare for."""
    os.kill(os.getpid(), signal.SIGKILL)


class DeadlyStore(Store):
    """A store whose client dies before or after one of its writes."""

    point = ""

    def add_submissions(
        self, new: Sequence[NewSubmission], *, by_rules: bool = False
    ) -> tuple[tuple[Submission, tuple[Run, ...]], ...]:
        if self.point == "before the row":
            die()
        added = super().add_submissions(new, by_rules=by_rules)
        if self.point == "after the row":
            die()
        return added

    def record_each(self, statuses: Mapping[int, Status]) -> set[int]:
        sent = [run for run, status in statuses.items() if status.state is RunState.SUBMITTING]
        if self.point == "after the folder" and sent:
            folders = job_folder.Folders(Path(os.environ["BOARD_FOLDER"]))
            assert all(folders.of(self.run(run)).is_dir() for run in sent)
            die()
        return super().record_each(statuses)

    def finish(
        self,
        run: int,
        status: Status,
        result: Result,
        score_s: float | None,
        ended_at: datetime | None = None,
        *,
        interval: Interval | None = None,
    ) -> bool:
        if self.point == "at the job's end":
            die()
        return super().finish(run, status, result, score_s, ended_at, interval=interval)


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

    def find_each(self, names: Sequence[str], submitted_at: datetime) -> Mapping[str, str]:
        assert isinstance(self._inner, Arrays)
        return self._inner.find_each(names, submitted_at)


def main() -> None:
    """Submit a file so many times for every GPU named, wait for the end, and die at the point named."""
    settings_file, kernel, count, point, *gpus = sys.argv[1:]
    board = Board(settings.load(Path(settings_file), os.environ))
    os.environ["BOARD_FOLDER"] = str(board.settings.board)
    drafts = [board.draft(Path(kernel), gpus=gpus, mode="ranked") for _ in range(int(count))]
    store = DeadlyStore(board.settings.board / "board.db")
    store.point = point
    board.settings.board.mkdir(parents=True, exist_ok=True)
    board.__dict__["_store"] = store
    deadly = {
        name: (DeadlyArrays if isinstance(inner, Arrays) else DeadlyScheduler)(inner, point)
        for name, inner in board._clusters.schedulers.items()
    }
    board._clusters.__dict__["schedulers"] = deadly
    runs = board.submit(*drafts)
    for _ in board.wait([run.id for run in runs], timeout_seconds=60):
        pass


if __name__ == "__main__":
    main()
