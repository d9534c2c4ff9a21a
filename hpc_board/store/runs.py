"""Runs: their statuses as events, their results, and lists of them."""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from hpc_board.domain.pruned import PrunedRun
from hpc_board.domain.result_json import ResultError, decode_result
from hpc_board.domain.run import Retry, Run, RunState, Status, WholeRun, unknown_run
from hpc_board.domain.score_interval import Interval
from hpc_board.model.result import Case, Result
from hpc_board.store import ranking, usage
from hpc_board.store.database import DatabaseFile
from hpc_board.store.listing import EVERY_RUN, RunQuery, count, select
from hpc_board.store.row_values import (
    UndecodableError,
    decoded,
    moment,
    optional_time_text,
    plain_text,
    time_text,
)
from hpc_board.store.rows import (
    cases_document,
    cases_value,
    event_row,
    result_document,
    row_id,
    run_value,
    status_value,
)
from hpc_board.store.sqlite import Database

_IN_FLIGHT = "id in (select run from in_flight where :among is null or run in (select value from json_each(:among)))"

_UNFINISHED_OF = """
SELECT count(*) AS count
  FROM in_flight
  JOIN runs ON runs.id = in_flight.run
  JOIN submissions ON submissions.id = runs.submission
 WHERE submissions.user = ?
"""

_TOLD_STARTS = """
SELECT run_details.id AS run, created_at, coalesce(ended_at, at) AS ended_at,
       json_extract(document, '$.started_at') AS started_at
  FROM documents JOIN run_details ON run_details.id = documents.run
 WHERE documents.run IN (SELECT value FROM json_each(:runs))
"""
"""The starts of jobs by their own clocks."""


_STATES_IN_FLIGHT = """
SELECT submissions.task, events.state, submissions.submitted_at
  FROM in_flight
 CROSS JOIN runs ON runs.id = in_flight.run
 CROSS JOIN submissions ON submissions.id = runs.submission
 CROSS JOIN events ON events.id = (SELECT MAX(newest.id) FROM events AS newest WHERE newest.run = in_flight.run)
"""


_CHILDREN = """
SELECT id FROM (SELECT id FROM submissions WHERE parent = ? ORDER BY id DESC LIMIT 100) ORDER BY id
"""


class InFlight(msgspec.Struct, frozen=True):
    """The runs in flight: their number by state, and the submission of the oldest that does not run yet."""

    by_state: dict[RunState, int]
    oldest_waiting: datetime | None


class RunGateway:
    """The runs of a board: their statuses, which are only appended, and their results.

    A method that takes the number of a run raises InputError if no run has it.
    """

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file

    # Writing

    def record(self, number: int, status: Status) -> bool:
        """Append a status. Return False, without a change, if the run has ended.

        Raises:
            ValueError: the status is `finished`, which goes with a result: use `finish`.
        """
        return self.record_each({number: status}) == {number}

    def record_each(self, statuses: Mapping[int, Status]) -> set[int]:
        """Append a status to each run as `record` does, or to none. Return the runs that took theirs."""
        if any(status.state is RunState.FINISHED for status in statuses.values()):
            raise ValueError("a run finishes together with its result")
        with self._file.writing() as db:
            going = {number: status for number, status in statuses.items() if _is_in_flight(db, number)}
            for number, status in going.items():
                _append(db, number, status)
            return set(going)

    def move(self, run: Run, state: RunState, *, reason: str = "", source: str = "", unanswered: bool = False) -> Run:
        """Store that a run is in `state`, if it is a new status, and return the run."""
        moved = run.moved(state, reason=reason, source=source, unanswered=unanswered)
        if moved.status != run.status:
            self.record(run.id, moved.status)
        return moved

    def retry_each(self, retries: Mapping[int, Retry]) -> set[int]:
        """Append a retry and its status to each of these runs, or to none; return the runs that took theirs.

        A run that has ended, or is to be cancelled, takes none.
        """
        with self._file.writing() as db:
            going = {
                number: retry
                for number, retry in retries.items()
                if _is_in_flight(db, number) and not _newest(db, number).cancel_requested
            }
            for number, retry in going.items():
                before = db.count("retries", "run = ?", [number])
                status = event_row(number, retry.status)
                db.insert(
                    "retries",
                    {
                        "run": number,
                        "number": before + 1,
                        "token": retry.token,
                        "nonce": retry.nonce,
                        "at": status["at"],
                        "failed": retry.failed,
                    },
                )
                db.insert("events", status)
            return set(going)

    def request_end(self, numbers: Collection[int], reason: str) -> Sequence[int]:
        """Append the newest status of each run once more, with the request to end it; return those that have not ended.

        Only the request and its reason change: another process may have moved a run since the caller last read it.
        """
        with self._file.writing() as db:
            going = [number for number in numbers if _is_in_flight(db, number)]
            for number in going:
                wish = replace(_newest(db, number), reason=reason, cancel_requested=True)
                db.insert("events", event_row(number, wish))
            return going

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
        """Append the status `finished` with the run's result. Return False, without a change, if it has ended.

        A run that counts enters its leaderboard in the same transaction. `ended_at` is the end of its job, if known;
        `interval` is that of the score, if it has one; `reference_s` is the score of the task's reference in the run,
        if it was timed.

        Raises:
            ResultError: the result is too large to be stored.
            ValueError: the status is not `finished`, the result is another run's, or the score is not positive.
        """
        from hpc_board.store import feed

        if status.state is not RunState.FINISHED:
            raise ValueError(f"a run with a result is finished, not {status.state}")
        if result.run != number:
            raise ValueError(f"the result of run {result.run} does not belong to run {number}")
        if score_s is not None and not (math.isfinite(score_s) and score_s > 0):
            raise ValueError(f"{score_s} is not a score")
        with self._file.writing() as db:
            if not _is_in_flight(db, number):
                return False
            document = result_document(result)
            _append(db, number, status, result, ended_at)
            row = {
                "run": number,
                "verdict": result.verdict.value,
                "message": plain_text(result.message),
                "score_s": score_s,
                "score_low_s": interval and interval.low_s,
                "score_high_s": interval and interval.high_s,
                "ended_at": optional_time_text(ended_at),
                "reference_s": reference_s,
            }
            db.insert("results", row)
            db.insert("documents", {"run": number, "document": document})
            db.insert("cases", {"run": number, "cases": cases_document(result.cases)})
            ranking.enter_reference(db, number)
            counted = ranking.score(db, number)
            if counted is not None:
                feed.enter(db, counted, status.at)
            return True

    def stop(self, number: int, status: Status, partial: Result) -> bool:
        """Append the end of a run that was stopped, with its partial result. Return False if it has ended already.

        Raises:
            ResultError: the partial result is too large to be stored.
            ValueError: the status is not an end or needs a whole result, or the partial one is another run's or whole.
        """
        if not status.state.ended or status.state is RunState.FINISHED:
            raise ValueError(f"a run that was stopped is not {status.state}")
        if partial.run != number or not partial.interrupted:
            raise ValueError(f"this is not a partial result of run {number}")
        with self._file.writing() as db:
            if not _is_in_flight(db, number):
                return False
            document = result_document(partial)
            _append(db, number, status, partial, usage.told_moment(db, number, partial.ended_at, status.at))
            db.insert("documents", {"run": number, "document": document})
            return True

    def prune(self, logs: Mapping[int, str]) -> None:
        """Record that the job folders of these runs are removed, each with the end of its job's output.

        A run that was recorded before keeps its row.

        Raises:
            ValueError: a run has not ended.
        """
        at = time_text(datetime.now(UTC))
        with self._file.writing() as db:
            if any(_is_in_flight(db, number) for number in logs):
                raise ValueError("a run in flight keeps its job folder")
            rows = ({"run": number, "at": at, "log": plain_text(log)} for number, log in logs.items())
            db.insert("pruned", *rows, ignore=True)

    # One run

    def pruned(self, number: int) -> PrunedRun | None:
        """Return the record of a run whose job folder was removed by pruning; None for other runs."""
        with self._file.reading() as db:
            row = db.row("pruned", "run = ?", [row_id(number)])
            return None if row is None else decoded(PrunedRun, row)

    def get(self, number: int) -> Run:
        """Return a run as it is now."""
        with self._file.reading() as db:
            return stored_run(db, number)

    def whole(self, number: int) -> WholeRun:
        """Return a run with all that is stored of it, as of one moment."""
        with self._file.reading() as db:
            found = stored_run(db, number)
            children = tuple(row["id"] for row in db.query(_CHILDREN, [found.submission]))
            return WholeRun(found, ranking.placing(db, found), _result(db, number), _history(db, number), children)

    def result(self, number: int) -> Result | None:
        """Return the result of a run with all samples and logs, the partial one if it was stopped, else None."""
        with self._file.reading() as db:
            return _result(db, number)

    def cases(self, number: int) -> tuple[Case, ...]:
        """Return the cases of a run without samples, which spares reading its whole result; none until it finishes."""
        with self._file.reading() as db:
            _require(db, number)
            return stored_cases(db, number)

    def history(self, number: int) -> tuple[Status, ...]:
        """Return every status of a run, oldest first."""
        with self._file.reading() as db:
            return _history(db, number)

    # Several runs

    def list(self, query: RunQuery = EVERY_RUN, limit: int | None = None) -> tuple[Run, ...]:
        """Return the first `limit` runs that fit the query, in its order."""
        with self._file.reading() as db:
            return select(db, query, limit)

    def count(self, query: RunQuery = EVERY_RUN) -> int:
        """Return the number of runs that fit the query."""
        with self._file.reading() as db:
            return count(db, query)

    def numbered(self, numbers: Collection[int]) -> dict[int, Run]:
        """Return these runs by their numbers, without the numbers that no run has."""
        where = "id IN (SELECT value FROM json_each(:numbers))"
        with self._file.reading() as db:
            rows = db.rows("run_details", where, {"numbers": json.dumps([*numbers])})
            return {run.id: run for run in map(run_value, rows)}

    def best_of_user(self, run: Run) -> Run | None:
        """Return the best earlier run of all benchmarks by the user and entrant of `run` on its board."""
        where = (
            "user = :user AND task = :task AND task_version = :task_version AND gpu = :gpu "
            "AND verdict = 'pass' AND score_s IS NOT NULL AND id < :id AND entrant = :entrant "
            "AND coalesce(json_extract(nullif(options, ''), '$.case'), '') = ''"
        )
        key = {name: getattr(run, name) for name in ("id", "user", "task", "task_version", "gpu")}
        key["entrant"] = run.origin.entrant
        with self._file.reading() as db:
            return next(map(run_value, db.rows("run_details", where, key, order="score_s, id", limit=1)), None)

    def of_array(self, array: str) -> tuple[Run, ...]:
        """Return the runs with a job in the array of this name."""
        where = (
            "id IN (SELECT id FROM runs WHERE token > :array || '.' AND token < :array || '/' "
            "UNION SELECT run FROM retries WHERE token > :array || '.' AND token < :array || '/')"
        )
        with self._file.reading() as db:
            return tuple(map(run_value, db.rows("run_details", where, {"array": array}, order="id")))

    def tokens(self, numbers: Collection[int]) -> dict[int, tuple[str, ...]]:
        """Return the tokens of all jobs of each of these runs, oldest first."""
        statement = (
            "SELECT id AS run, 0 AS number, token FROM runs WHERE id IN (SELECT value FROM json_each(:runs)) "
            "UNION SELECT run, number, token FROM retries WHERE run IN (SELECT value FROM json_each(:runs)) "
            "ORDER BY run, number"
        )
        found: dict[int, tuple[str, ...]] = {}
        with self._file.reading() as db:
            for row in db.query(statement, {"runs": json.dumps([*numbers])}):
                found[row["run"]] = (*found.get(row["run"], ()), row["token"])
        return found

    def started(self, numbers: Collection[int]) -> dict[int, datetime]:
        """Return the moment since which each of these runs was last seen running, without runs that never ran.

        For a job that began and ended between two looks, it is the start by the job's own clock, if that is plausible.
        """
        from hpc_board.domain.result_checks import plausible_moment

        statement = (
            "select run, max(at) as at from events where state = :running "
            "and run in (select value from json_each(:runs)) group by run"
        )
        given = {"running": RunState.RUNNING.value, "runs": json.dumps([*numbers])}
        with self._file.reading() as db:
            found = {row["run"]: moment(row["at"]) for row in db.query(statement, given)}
            unseen = json.dumps([number for number in numbers if number not in found])
            for row in db.query(_TOLD_STARTS, {"runs": unseen}):
                told = plausible_moment(str(row["started_at"]), moment(row["created_at"]), moment(row["ended_at"]))
                if told is not None:
                    found[row["run"]] = told
            return found

    def in_flight(
        self,
        among: Collection[int] | None = None,
        *,
        cluster: str | None = None,
        outside: Collection[str] = (),
    ) -> tuple[Run, ...]:
        """Return the runs that have not ended, all or those `among` these, oldest first.

        `cluster` limits them to those of a cluster, and the clusters of `outside` are left out.
        """
        given = {
            "among": None if among is None else json.dumps([*among]),
            "cluster": cluster,
            "outside": json.dumps([*outside]),
        }
        condition = _IN_FLIGHT
        if cluster is not None:
            condition += " and cluster = :cluster"
        if outside:
            condition += " and cluster not in (select value from json_each(:outside))"
        with self._file.reading() as db:
            return tuple(map(run_value, db.rows("run_details", condition, given, order="id")))

    def has_in_flight(self) -> bool:
        """Return whether any run or runner has not ended."""
        with self._file.reading() as db:
            return any(db.row(table, "TRUE", ()) is not None for table in ("in_flight", "live_runners"))

    def counts_in_flight(self, *, hidden: Collection[str]) -> InFlight:
        """Count the runs in flight, except for those of the tasks in `hidden`."""
        by_state: dict[RunState, int] = {}
        waiting: list[datetime] = []
        with self._file.reading() as db:
            for row in db.query(_STATES_IN_FLIGHT):
                if row["task"] in hidden:
                    continue
                state = decoded(RunState, row["state"])
                by_state[state] = by_state.get(state, 0) + 1
                if state.unsent or state is RunState.QUEUED:
                    waiting.append(moment(row["submitted_at"]))
        return InFlight(by_state, min(waiting, default=None))

    def unfinished_of(self, user: str) -> int:
        """Return the number of a user's runs that have not ended."""
        with self._file.reading() as db:
            return int(db.value(_UNFINISHED_OF, [user]))

    def followed(self, user: str, known: Collection[int], limit: int) -> tuple[Run, ...]:
        """Return a user's newest `limit` runs in flight and all of `known`, ended or not, newest first."""
        with self._file.reading() as db:
            going = "id in (select run from in_flight) and user = :user"
            newest = db.rows("run_details", going, {"user": user}, order="id desc", limit=limit)
            others = "id in (select value from json_each(:known)) and user = :user"
            asked = db.rows("run_details", others, {"user": user, "known": json.dumps([*known])})
            found = {run.id: run for run in map(run_value, (*newest, *asked))}
            return tuple(found[number] for number in sorted(found, reverse=True))


# Within a transaction


def stored_run(db: Database, number: int) -> Run:
    """Return a run as `RunGateway.get` does."""
    row = db.row("run_details", "id = ?", [row_id(number)])
    if row is None:
        raise unknown_run(number)
    return run_value(row)


def stored_cases(db: Database, number: int) -> tuple[Case, ...]:
    """Return the cases of a run, which is there, as `RunGateway.cases` does."""
    row = db.row("cases", "run = ?", [number])
    return () if row is None else cases_value(row["cases"])


def _result(db: Database, number: int) -> Result | None:
    _require(db, number)
    row = db.row("documents", "run = ?", [number])
    if row is None:
        return None
    try:
        return decode_result(row["document"].encode())
    except ResultError as error:
        raise UndecodableError(f"result of run {number}: {error}") from error


def _history(db: Database, number: int) -> tuple[Status, ...]:
    _require(db, number)
    return tuple(map(status_value, db.rows("events", "run = ?", [number], order="id")))


def _is_in_flight(db: Database, number: int) -> bool:
    if db.count("in_flight", "run = ?", [row_id(number)]):
        return True
    _require(db, number)
    return False


def _append(
    db: Database, number: int, status: Status, result: Result | None = None, ended_at: datetime | None = None
) -> None:
    """Append a status; an end comes with the result, and with the time of the job's end by its own clock."""
    if not status.cancel_requested and not status.state.ended and _newest(db, number).cancel_requested:
        # Another process may have requested it since this one last looked.
        status = replace(status, cancel_requested=True)
    db.insert("events", event_row(number, status))
    if status.state.ended:
        db.delete("in_flight", "run = ?", [number])
        usage.enter(db, number, status.runner, result, ended_at)


def _newest(db: Database, number: int) -> Status:
    row = db.row("events", "run = ?", [number], order="id desc")
    if row is None:
        raise UndecodableError(f"run {number} has no state")
    return status_value(row)


def _require(db: Database, number: int) -> None:
    if not db.count("runs", "id = ?", [row_id(number)]):
        raise unknown_run(number)
