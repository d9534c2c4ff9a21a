"""The board's memory: submissions, runs, events and results in SQLite, and the standings that follow from them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from hpc_board.model.result import Case, Result
from hpc_board.model.run import Run, Status
from hpc_board.model.standings import Standing
from hpc_board.model.submission import Submission
from hpc_board.model.task import Mode, Task
from hpc_board.store import ranking, runs, submissions
from hpc_board.store.database import DatabaseFile
from hpc_board.store.journal import MOUNTS
from hpc_board.store.submissions import NewRun, NewSubmission

if TYPE_CHECKING:
    from hpc_board.store.backup import Contents

__all__ = ["NewRun", "NewSubmission", "Store"]


class Store:
    """Everything that a board remembers, in one database file.

    Facts are appended and never changed: a run's state is its newest event, a rank is a query. Every call opens the
    database, does its work in one transaction and closes it, so a store may be used from any thread and costs
    nothing until it is asked. Every method may raise StorageError.
    """

    def __init__(self, path: Path, *, mounts: Path = MOUNTS) -> None:
        self._file = DatabaseFile(path, mounts)

    def add_submission(
        self,
        *,
        task: Task,
        user: str,
        file_name: str,
        code: bytes,
        mode: Mode,
        note: str,
        at: datetime,
        runs: Sequence[NewRun],
    ) -> tuple[Submission, tuple[Run, ...]]:
        """Store a submission with its code, its version of the task and its runs, or nothing of it."""
        return self.add_submissions([NewSubmission(task, user, file_name, code, mode, note, at, runs)])[0]

    def add_submissions(self, new: Sequence[NewSubmission]) -> tuple[tuple[Submission, tuple[Run, ...]], ...]:
        """Store several submissions as `add_submission` does, or nothing of any."""
        with self._file.writing() as db:
            return tuple(submissions.add(db, each) for each in new)

    def record(self, run: int, status: Status) -> bool:
        """Append a status, and say whether it was stored: a run that has ended takes no more.

        Raises:
            InputError: there is no such run.
            ValueError: the status is `finished`, which goes with a result: use `finish`.
        """
        return self.record_each({run: status}) == {run}

    def record_each(self, statuses: Mapping[int, Status]) -> set[int]:
        """Append a status to each of these runs as `record` does, or to none of them; the runs that took it."""
        with self._file.writing() as db:
            return {run for run, status in statuses.items() if runs.record(db, run, status)}

    def finish(
        self,
        run: int,
        status: Status,
        result: Result,
        score_s: float | None,
        ended_at: datetime | None = None,
    ) -> bool:
        """Append the status `finished` with its result, and say whether they were stored: a run ends once.

        `ended_at` is when its job ended, where that is known.

        Raises:
            InputError: there is no such run.
            ResultError: the result is too large to be stored.
            ValueError: the status is not `finished`, the result is another run's, or the score is no positive number.
        """
        with self._file.writing() as db:
            return runs.finish(db, run, status, result, score_s, ended_at)

    def stop(self, run: int, status: Status, partial: Result) -> bool:
        """Append the end of a run that was stopped, with what it had come to, and say whether they were stored.

        Raises:
            InputError: there is no such run.
            ResultError: the partial result is too large to be stored.
            ValueError: the status is no end or needs a whole result, or the partial one is another run's or whole.
        """
        with self._file.writing() as db:
            return runs.stop(db, run, status, partial)

    def run(self, run: int) -> Run:
        """The run with this number, as it stands now.

        Raises:
            InputError: there is none.
        """
        with self._file.reading() as db:
            return runs.run(db, run)

    def runs(
        self,
        *,
        user: str | None = None,
        task: str | None = None,
        submission: int | None = None,
        limit: int | None = None,
    ) -> tuple[Run, ...]:
        """The runs that fit every filter that is given, newest first."""
        with self._file.reading() as db:
            return runs.runs(db, user=user, task=task, submission=submission, limit=limit)

    def in_flight(self, among: Collection[int] | None = None, *, user: str | None = None) -> tuple[Run, ...]:
        """The runs that have not ended, all or those `among` these, of one user if one is given, oldest first."""
        with self._file.reading() as db:
            return runs.in_flight(db, among, user=user)

    def result(self, run: int) -> Result | None:
        """What the run came to, with all samples and logs, or had come to when it was stopped; else None.

        Raises:
            InputError: there is no such run.
        """
        with self._file.reading() as db:
            return runs.result(db, run)

    def cases(self, run: int) -> tuple[Case, ...]:
        """The cases of a finished run, without samples and without reading its whole result; else none.

        Raises:
            InputError: there is no such run.
        """
        with self._file.reading() as db:
            return runs.cases(db, run)

    def history(self, run: int) -> tuple[Status, ...]:
        """Every status that the run was in, in the order in which they were stored.

        Raises:
            InputError: there is no such run.
        """
        with self._file.reading() as db:
            return runs.history(db, run)

    def submission(self, submission: int) -> Submission:
        """The submission with this number.

        Raises:
            InputError: there is none.
        """
        with self._file.reading() as db:
            return submissions.submission(db, submission)

    def task(self, name: str, version: str) -> Task:
        """The task called `name` as it was at `version`, for which somebody has submitted.

        Raises:
            InputError: nobody has.
        """
        with self._file.reading() as db:
            return submissions.task(db, name, version)

    def code(self, sha256: str) -> bytes:
        """The submitted file with this sha256.

        Raises:
            InputError: no such file was submitted.
        """
        with self._file.reading() as db:
            return submissions.code(db, sha256)

    def standings(self, task: str, task_version: str, gpu: str) -> tuple[Standing, ...]:
        """The best passing ranked run of each user on one board, best first."""
        with self._file.reading() as db:
            return ranking.standings(db, task, task_version, gpu)

    def personal(self, task: str, task_version: str, gpu: str, user: str) -> tuple[Standing, ...]:
        """All passing ranked runs of one user on one board, ranked among themselves, best first."""
        with self._file.reading() as db:
            return ranking.personal(db, task, task_version, gpu, user)

    def backup(self, target: Path, *, force: bool = False) -> "Contents":
        """Write a copy of everything to `target`, as it is at one moment, whatever others write meanwhile.

        Raises:
            InputError: `target` is there and `force` is not given, or cannot be written.
        """
        from hpc_board.store.backup import backup

        return backup(self._file, target, force=force)

    def restore(self, source: Path, kept: Path, *, force: bool = False) -> "tuple[Contents, Contents]":
        """Put a backup in the place of everything, after a copy of that to `kept`; what there was and what there is.

        Numbers that were given before are not given again.

        Raises:
            InputError: `source` is no backup, or `kept` is there already.
            Refused: the backup does not know runs that are in flight, and `force` is not given.
        """
        from hpc_board.store.backup import restore

        return restore(self._file, source, kept, force=force)

    def rank(self, run: Run) -> int | None:
        """The rank that the run holds on its board; None unless it is its user's best passing ranked run there."""
        with self._file.reading() as db:
            return ranking.rank(db, run)
