"""The board's memory: submissions, runs, events and results in SQLite, and the standings that follow from them."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from hpc_board.domain.admin_views import HourCount
from hpc_board.domain.feed import FeedEntry
from hpc_board.domain.moderation import Decision, Limits
from hpc_board.domain.run import Run, RunState, Status
from hpc_board.domain.standing import Place, Placing, Rows, Standing, Version
from hpc_board.domain.submission import Submission
from hpc_board.domain.user_board import BoardChange, Entries
from hpc_board.model.result import Case, Result, Verdict
from hpc_board.model.score import Interval
from hpc_board.model.task import Mode, Task
from hpc_board.store import admin_views, boards, decisions, feed, listing, ranking, remarks, runs, submissions
from hpc_board.store.boards import NewChange, Newest
from hpc_board.store.database import DatabaseFile
from hpc_board.store.journal import MOUNTS
from hpc_board.store.runs import WholeRun
from hpc_board.store.submissions import NewRun, NewSubmission

if TYPE_CHECKING:
    from hpc_board.domain.statistics import Statistics
    from hpc_board.store.backup import Contents
    from hpc_board.store.batches import RunSelection
    from hpc_board.store.export import Best, RankedBoard
    from hpc_board.store.row_reader import Row

__all__ = ["NewChange", "NewRun", "NewSubmission", "Newest", "Store", "WholeRun"]


class Store:
    """Everything that a board remembers, in one database file.

    Facts are appended and never changed: a run's state is its newest event, a rank is a query. Every call opens the
    database, does its work in one transaction and closes it, so a store may be used from any thread and costs
    nothing until it is asked. Every method may raise StorageError.
    """

    def __init__(self, path: Path, *, mounts: Path = MOUNTS) -> None:
        self._file = DatabaseFile(path, mounts)

    def is_there(self) -> bool:
        """Whether there is a database, as far as this user can see; none is made."""
        return self._file.is_there()

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

    def add_submissions(
        self, new: Sequence[NewSubmission], *, by_rules: bool = False
    ) -> tuple[tuple[Submission, tuple[Run, ...]], ...]:
        """Store several submissions as `add_submission` does, or nothing of any.

        Where it goes `by_rules`, as for everybody but admins, they are stored only if the rules of the board allow all
        of them at this moment.

        Raises:
            Refused: they don't.
        """
        with self._file.writing() as db:
            if by_rules:
                decisions.check_all(db, new)
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

    def wish_end(self, run: int, reason: str) -> bool:
        """Store that `run` shall be ended, whatever its status is by now, and say whether it could still be wished.

        Raises:
            InputError: there is no such run.
        """
        with self._file.writing() as db:
            return runs.wish_end(db, run, reason)

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
        """Append the status `finished` with its result, and say whether they were stored: a run ends once.

        `ended_at` is when its job ended, where that is known; `interval` is that of the score, where it has one.

        Raises:
            InputError: there is no such run.
            ResultError: the result is too large to be stored.
            ValueError: the status is not `finished`, the result is another run's, or the score is no positive number.
        """
        with self._file.writing() as db:
            return runs.finish(db, run, status, result, score_s, ended_at, interval)

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

    def runs_numbered(self, numbers: Collection[int]) -> dict[int, Run]:
        """Those of these runs that there are, by their numbers."""
        with self._file.reading() as db:
            return runs.numbered(db, numbers)

    def runs(
        self,
        *,
        user: str | None = None,
        task: str | None = None,
        submission: int | None = None,
        limit: int | None = None,
        before: int | None = None,
        note: str = "",
        words: str = "",
        hidden: Collection[str] = (),
        unless_by: str = "",
        gpu: str | None = None,
        mode: Mode | None = None,
        outcome: RunState | Verdict | None = None,
    ) -> tuple[Run, ...]:
        """The runs that fit every filter that is given, newest first; see `listing.Wanted`."""
        wanted = listing.Wanted(user, task, submission, before, note, words, hidden, unless_by, gpu, mode, outcome)
        with self._file.reading() as db:
            return listing.runs(db, wanted, limit)

    def started(self, among: Collection[int]) -> dict[int, datetime]:
        """Since when each of these runs was last seen running; those that never were are left out."""
        with self._file.reading() as db:
            return runs.started(db, among)

    def in_flight(self, among: Collection[int] | None = None, *, account: str | None = None) -> tuple[Run, ...]:
        """The runs that have not ended, all or those `among` these, of one account if one is given, oldest first."""
        with self._file.reading() as db:
            return runs.in_flight(db, among, account=account)

    def followed(self, user: str, known: Collection[int], limit: int) -> tuple[Run, ...]:
        """A user's runs that have not ended, the newest `limit` of them, and all of `known`, ended or not."""
        with self._file.reading() as db:
            return runs.followed(db, user, known, limit)

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

    def whole_run(self, run: int) -> WholeRun:
        """The run with this number and all that is stored of it, as of one moment.

        Raises:
            InputError: there is none.
        """
        with self._file.reading() as db:
            return runs.whole_run(db, run)

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
        """The task called `name` as it was at `version`, for which somebody has submitted or made a board.

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

    def standings(
        self, task: str, task_version: str, gpu: str, *, limit: int | None = None, offset: int = 0
    ) -> tuple[Standing, ...]:
        """The best passing ranked run of each user on one board, best first; `limit` of them from `offset` on."""
        with self._file.reading() as db:
            return ranking.standings(db, task, task_version, gpu, limit=limit, offset=offset)

    def personal(
        self, task: str, task_version: str, gpu: str, user: str, *, limit: int | None = None, offset: int = 0
    ) -> tuple[Standing, ...]:
        """The passing ranked runs of one user on one board, ranked among themselves; a page as of `standings`."""
        with self._file.reading() as db:
            return ranking.personal(db, task, task_version, gpu, user, limit=limit, offset=offset)

    def listed(
        self,
        task: str,
        task_version: str,
        gpu: str,
        rows: Rows,
        user: str,
        *,
        limit: int | None = None,
        offset: int = 0,
    ) -> tuple[ranking.Listed, tuple[Case, ...]]:
        """A page of one board as `user` reads it, and the cases of the run that leads the board; see ranking.Listed."""
        board = ranking.BoardKey(task, task_version, gpu)
        with self._file.reading() as db:
            found = ranking.listed(db, board, rows, user, limit=limit, offset=offset)
            return found, runs.cases(db, found.leading.run) if found.leading else ()

    def at_rank(self, task: str, task_version: str, gpu: str, rank: int) -> tuple[Standing, ...]:
        """Those who have this rank on one board; nobody where a tie leaves a gap there, or it is too large."""
        with self._file.reading() as db:
            return ranking.at_rank(db, task, task_version, gpu, rank)

    def count_users(self, task: str, task_version: str, gpu: str) -> int:
        """How many users are on one board."""
        with self._file.reading() as db:
            return ranking.count_users(db, task, task_version, gpu)

    def versions(self, task: str) -> tuple[Version, ...]:
        """Every version of a task for which somebody has submitted, the one that came last first."""
        with self._file.reading() as db:
            return ranking.versions(db, task)

    def placing(self, run: Run) -> Placing | None:
        """What the run means on its board; None where it does not count there."""
        with self._file.reading() as db:
            return ranking.placing(db, run)

    def feed(
        self,
        *,
        task: str | None = None,
        gpu: str | None = None,
        user: str | None = None,
        before: int | None = None,
        limit: int = 50,
        among: Collection[str] | None = None,
    ) -> tuple[FeedEntry, ...]:
        """What runs have changed on the boards, newest first, as far as they still count.

        `before` is the number of an entry; those older than it are found. `among` are the only tasks to tell of.
        """
        with self._file.reading() as db:
            return feed.feed(db, task=task, gpu=gpu, user=user, before=before, limit=limit, among=among)

    def check_open(self, user: str, now: datetime, *, admin: bool) -> Decision | None:
        """Pass if `user` may submit at all at the time `now`; a stop not meant for them, an `admin`, is returned.

        Raises:
            Refused: the board takes no submissions, or none of theirs.
        """
        with self._file.reading() as db:
            return decisions.check_open(db, user, now, admin=admin)

    def check_limit(self, user: str, task: str, mode: Mode, new: int, now: datetime) -> None:
        """Pass if `user` may send `new` more submissions in this mode to the board of `task` at the time `now`.

        Raises:
            Refused: they have sent too many within the hour.
        """
        with self._file.reading() as db:
            decisions.check_limit(db, user, task, mode, new, now)

    def switch(self, decision: Decision) -> bool:
        """Append a decision to ban, unban, stop or start, and say whether it was stored: what holds already is not."""
        with self._file.writing() as db:
            return decisions.switch(db, decision)

    def bans(self, now: datetime) -> tuple[Decision, ...]:
        """The bans that hold at the time `now`, by user."""
        with self._file.reading() as db:
            return decisions.bans(db, now)

    def knows_user(self, user: str) -> bool:
        """Whether `user` has ever submitted."""
        with self._file.reading() as db:
            return decisions.knows(db, user)

    def nearest_user(self, user: str) -> str:
        """A sentence that offers the participant whose name is most like `user`; empty where none is."""
        with self._file.reading() as db:
            return decisions.nearest_user(db, user)

    def limits(self) -> tuple[tuple[Decision, Limits], ...]:
        """The boards that have limits, by name, each with the decision that gave it them."""
        with self._file.reading() as db:
            return decisions.limits(db)

    def set_limits(self, board: str, change: Callable[[Limits], Limits], by_user: str, at: datetime) -> Limits:
        """Give a board the limits that `change` makes of those that it has, and return them."""
        with self._file.writing() as db:
            return decisions.set_limits(db, board, change, by_user, at)

    def remove(self, numbers: Collection[int], by_user: str, at: datetime, reason: str) -> None:
        """Take submissions out of the standings, all of them or none.

        Raises:
            InputError: there is no such submission, or one is removed already.
        """
        with self._file.writing() as db:
            decisions.remove(db, numbers, by_user, at, reason)

    def readmit(self, numbers: Collection[int], by_user: str, at: datetime, reason: str) -> None:
        """Put removed submissions back into the standings, all of them or none.

        Raises:
            InputError: there is no such submission, or one is not removed.
        """
        with self._file.writing() as db:
            decisions.readmit(db, numbers, by_user, at, reason)

    def decisions(
        self,
        *,
        user: str | None,
        board: str | None,
        limit: int,
        before: int | None = None,
        words: Sequence[str] = (),
    ) -> tuple[Decision, ...]:
        """What was decided, newest first: by or about `user` or their submissions, and about `board`.

        `before` is the number of a decision; those older than it are found. All of `words` are somewhere in them.
        """
        with self._file.reading() as db:
            return decisions.log(db, user=user, board=board, limit=limit, before=before, words=words)

    def stopped(self) -> Decision | None:
        """The decision to take no submissions, if it holds."""
        with self._file.reading() as db:
            return decisions.stopped(db)

    def names_of_people(self, *, after: str, limit: int, part: str) -> tuple[str, ...]:
        """Who has submitted or was decided about, by name: at most `limit` that come after `after` and have `part`."""
        with self._file.reading() as db:
            return admin_views.names(db, after=after, limit=limit, part=part)

    def standing_of_people(
        self, users: Collection[str], now: datetime
    ) -> dict[str, tuple[Decision | None, datetime | None]]:
        """The ban of each of these users that holds at the time `now`, and when they submitted last."""
        with self._file.reading() as db:
            return {user: admin_views.standing_of(db, user, now) for user in users}

    def sent_since(self, since: datetime, users: Collection[str] | None = None) -> tuple[HourCount, ...]:
        """What was sent after `since`, by everybody or by these `users`, to each board."""
        with self._file.reading() as db:
            return admin_views.sent_since(db, since, users)

    def add_note(self, submission: int, text: str, by_user: str, at: datetime) -> None:
        """Append a note to those of a submission.

        Raises:
            InputError: it has as many as it may have.
        """
        with self._file.writing() as db:
            remarks.add_note(db, submission, text, by_user, at)

    def removed_runs(self, task: str, task_version: str, gpu: str, user: str) -> tuple[Run, ...]:
        """The passing ranked runs of `user` on one board that do not count because they were removed, newest first."""
        with self._file.reading() as db:
            return ranking.removed_runs(db, task, task_version, gpu, user)

    def version_before(self, task: str, version: str) -> str | None:
        """The version of a task, other than this one, in which somebody was ranked last; None where there is none."""
        with self._file.reading() as db:
            return ranking.version_before(db, task, version)

    def ranked_files(self, task: str, version: str, gpu: str) -> frozenset[tuple[str, str]]:
        """Whose files, by their sha256, have passed ranked on one board or are on their way to."""
        with self._file.reading() as db:
            return ranking.ranked_files(db, task, version, gpu)

    def reruns_in_flight(self, task: str, version: str) -> frozenset[tuple[int, str]]:
        """The submissions that were sent again at this version and have not ended, each with the GPU it was sent to."""
        with self._file.reading() as db:
            return submissions.reruns_in_flight(db, task, version)

    def places(self, user: str) -> tuple[Place, ...]:
        """Where a user stands on every board that has a passing ranked run of theirs, of whatever version."""
        with self._file.reading() as db:
            return ranking.places(db, user)

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

    def boards(self, known: Mapping[int, Newest] | None = None) -> dict[int, Newest]:
        """What became of each board that somebody made, by the number of its newest change, in the order of names.

        Of a deleted one it is the change that deleted it. What is `known` from before is not read again. No database
        is made.
        """
        with self._file.looking() as connection:
            return {} if connection is None else boards.newest(connection, known or {})

    def board_changes(self, name: str) -> tuple[BoardChange, ...]:
        """Everything that was done to the boards of this name, oldest first; no database is made."""
        with self._file.looking() as connection:
            return () if connection is None else boards.changes(connection, name)

    def entries(self, task: str, version: str) -> tuple[Entries, ...]:
        """How many users have a rank for this version of a task, by GPU; no database is made."""
        if not self._file.is_there():
            return ()
        with self._file.reading() as db:
            return boards.entries(db, task, version)

    def change_boards(self, new: Sequence[NewChange]) -> None:
        """Store changes of several boards, or none of them.

        Raises:
            InputError: somebody else has changed one since its author looked at it.
            Refused: users are on standings that one leaves, as its `leave` says.
        """
        with self._file.writing() as db:
            for each in new:
                boards.add(db, each)

    def ranked_boards(self, chosen: "RunSelection") -> "tuple[RankedBoard, ...]":
        """Every chosen board on which somebody is, by the task's name, its versions in the order in which they came."""
        from hpc_board.store.export import ranked_boards

        with self._file.reading() as db:
            return ranked_boards(db, chosen)

    def bests_by_day(self, task: str, task_version: str, gpu: str) -> "tuple[Best, ...]":
        """The best time that each day brought to this board, days without any left out, in their order."""
        from hpc_board.store.export import bests_by_day

        with self._file.reading() as db:
            return bests_by_day(db, task, task_version, gpu)

    def exported_runs(self, chosen: "RunSelection", *, with_code: bool = False) -> "Iterator[Row]":
        """Every chosen run with all that is told of it outside, oldest first, read in many short transactions."""
        from hpc_board.store.export import runs as exported

        for page in exported(self._file, chosen, with_code=with_code):
            yield from page

    def statistics(self, chosen: "RunSelection") -> "Statistics":
        """How much was submitted and run, by GPU and by user, read in many short transactions."""
        from hpc_board.store.statistics import statistics

        return statistics(self._file, chosen)

    def knows_task(self, task: str) -> bool:
        """Whether somebody has submitted for a task of this name, or made a board of it; no database is made."""
        if not self._file.is_there():
            return False
        from hpc_board.store.export import knows_task

        with self._file.reading() as db:
            return knows_task(db, task)
