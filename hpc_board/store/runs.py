"""Runs: the events that they went through, what they came to, and where they stand now."""

import json
import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from hpc_board.domain.run import Run, RunState, Status
from hpc_board.domain.standing import Placing
from hpc_board.errors import InputError
from hpc_board.model.result import Case, Result, ResultError
from hpc_board.model.score import Interval
from hpc_board.store import feed, ranking
from hpc_board.store.row_reader import RowReader, unreadable
from hpc_board.store.rows import (
    case_row,
    case_value,
    event_row,
    optional_time_text,
    plain_text,
    result_document,
    row_id,
    run_value,
    status_value,
)

if TYPE_CHECKING:
    from sqlite_utils import Database


@dataclass(frozen=True)
class WholeRun:
    """A run as it stands, what it means on its board, all that it came to, and what it went through, oldest first."""

    run: Run
    placing: Placing | None
    result: Result | None
    history: tuple[Status, ...]


def record(db: "Database", number: int, status: Status) -> bool:
    """Append an event, and say whether it was stored: a run that has ended takes no more.

    Raises:
        InputError: there is no such run.
        ValueError: the status is `finished`, which goes with a result.
    """
    if status.state is RunState.FINISHED:
        raise ValueError("a run finishes together with its result")
    if not _is_in_flight(db, number):
        return False
    _append(db, number, status)
    return True


def wish_end(db: "Database", number: int, reason: str) -> bool:
    """Append the newest event once more with the wish to end the run, and say whether it was stored.

    A run that has ended takes no wish. Nothing but the wish and its reason is changed: whoever carries the run on may
    have gone further with it since the caller last looked.

    Raises:
        InputError: there is no such run.
    """
    if not _is_in_flight(db, number):
        return False
    wish = replace(_newest(db, number), reason=reason, cancel_requested=True)
    db.table("events").insert(event_row(number, wish))
    return True


def finish(
    db: "Database",
    number: int,
    status: Status,
    result: Result,
    score_s: float | None,
    ended_at: datetime | None,
    interval: Interval | None = None,
) -> bool:
    """Append the last event with the result, and say whether they were stored: a run ends once.

    A run that counts enters its board in the same transaction.

    Raises:
        InputError: there is no such run.
        ResultError: the result is too large to be stored.
        ValueError: the status is not `finished`, the result is another run's, or the score is no positive number.
    """
    if status.state is not RunState.FINISHED:
        raise ValueError(f"a run with a result is finished, not {status.state}")
    if result.run != number:
        raise ValueError(f"the result of run {result.run} does not belong to run {number}")
    if score_s is not None and not (math.isfinite(score_s) and score_s > 0):
        raise ValueError(f"{score_s} is no score")
    if not _is_in_flight(db, number):
        return False
    document = result_document(result)
    _append(db, number, status)
    db.table("results").insert(
        {
            "run": number,
            "verdict": result.verdict.value,
            "message": plain_text(result.message),
            "score_s": score_s,
            "score_low_s": interval and interval.low_s,
            "score_high_s": interval and interval.high_s,
            "ended_at": optional_time_text(ended_at),
        }
    )
    db.table("documents").insert({"run": number, "document": document})
    db.table("cases").insert_all(case_row(number, index, case) for index, case in enumerate(result.cases))
    counted = ranking.score(db, number)
    if counted is not None:
        feed.enter(db, counted, status.at)
    return True


def stop(db: "Database", number: int, status: Status, partial: Result) -> bool:
    """Append the last event of a run that was stopped, with what it had come to, and say whether they were stored.

    Raises:
        InputError: there is no such run.
        ResultError: the partial result is too large to be stored.
        ValueError: the status is no end or needs a whole result, or the partial one is another run's or a whole one.
    """
    if not status.state.ended or status.state is RunState.FINISHED:
        raise ValueError(f"a run that was stopped is not {status.state}")
    if partial.run != number or not partial.interrupted:
        raise ValueError(f"this is not what run {number} had come to when it was stopped")
    if not _is_in_flight(db, number):
        return False
    document = result_document(partial)
    _append(db, number, status)
    db.table("partials").insert({"run": number, "document": document})
    return True


def _is_in_flight(db: "Database", number: int) -> bool:
    if db.table("in_flight").count_where("run = ?", [row_id(number)]):
        return True
    _require(db, number)
    return False


def _append(db: "Database", number: int, status: Status) -> None:
    if not status.cancel_requested and not status.state.ended and _newest(db, number).cancel_requested:
        # Somebody who may not send the job's commands has wished so since its account last looked.
        status = replace(status, cancel_requested=True)
    db.table("events").insert(event_row(number, status))
    if status.state.ended:
        db.table("in_flight").delete(number)


def _newest(db: "Database", number: int) -> Status:
    for newest in db.table("events").rows_where("run = ?", [number], order_by="id desc", limit=1):
        return status_value(newest)
    raise unreadable("runs", str(number), "`events` has no row of it")


def _require(db: "Database", number: int) -> None:
    if not db.table("runs").count_where("id = ?", [row_id(number)]):
        raise _missing(number)


def _missing(number: int) -> InputError:
    return InputError(f"there is no run {number}", hint="`hpc-board runs` lists your runs.")


def run(db: "Database", number: int) -> Run:
    """The run with this number, as it stands now.

    Raises:
        InputError: there is none.
    """
    for row in db.view("run_details").rows_where("id = ?", [row_id(number)]):
        return run_value(row)
    raise _missing(number)


def whole_run(db: "Database", number: int) -> WholeRun:
    """The run with this number, and all that is stored of it.

    Raises:
        InputError: there is none.
        StorageError: what is stored as its result is none.
    """
    found = run(db, number)
    return WholeRun(found, ranking.placing(db, found), result(db, number), history(db, number))


def numbered(db: "Database", numbers: Collection[int]) -> dict[int, Run]:
    """Those of these runs that there are, by their numbers."""
    where = "id IN (SELECT value FROM json_each(:numbers))"
    rows = db.view("run_details").rows_where(where, {"numbers": json.dumps([*numbers])})
    return {run.id: run for run in map(run_value, rows)}


def started(db: "Database", numbers: Collection[int]) -> dict[int, datetime]:
    """Since when each of these runs was last seen running; those that never were are left out."""
    rows = db.query(
        "select run, max(at) as at from events where state = :running and run in (select value from json_each(:runs)) "
        "group by run",
        {"running": RunState.RUNNING.value, "runs": json.dumps([*numbers])},
    )
    return {row["run"]: RowReader(row, "events of run", "run").moment("at") for row in rows}


def in_flight(db: "Database", among: Collection[int] | None = None, *, account: str | None = None) -> tuple[Run, ...]:
    """The runs that have not ended, all or those `among` these, of one account if one is given, oldest first."""
    where = (
        "id in (select run from in_flight where :among is null or run in (select value from json_each(:among))) "
        "and (:account is null or :account = case account when '' then user else account end)"
    )
    given = {"account": account, "among": None if among is None else json.dumps([*among])}
    rows = db.view("run_details").rows_where(where, given, order_by="id")
    return tuple(run_value(row) for row in rows)


def followed(db: "Database", user: str, known: Collection[int], limit: int) -> tuple[Run, ...]:
    """A user's runs that have not ended, the newest `limit` of them, and all of `known`, ended or not; newest first."""
    view = db.view("run_details")
    going = view.rows_where(
        "id in (select run from in_flight) and user = :user", {"user": user}, order_by="id desc", limit=limit
    )
    found = {run.id: run for run in map(run_value, going)}
    others = view.rows_where(
        "id in (select value from json_each(:known)) and user = :user",
        {"user": user, "known": json.dumps([number for number in known if number not in found])},
    )
    found |= {run.id: run for run in map(run_value, others)}
    return tuple(found[number] for number in sorted(found, reverse=True))


def result(db: "Database", number: int) -> Result | None:
    """What the run came to, with all samples and logs, or had come to when it was stopped; None if nothing is known.

    Raises:
        InputError: there is no such run.
        StorageError: what is stored is no result.
    """
    _require(db, number)
    for table in ("documents", "partials"):
        for row in db.table(table).rows_where("run = ?", [number]):
            try:
                return Result.from_json(RowReader(row, table, "run").text("document").encode())
            except ResultError as error:
                raise unreadable(table, str(number), f"it is no result: {error}") from error
    return None


def cases(db: "Database", number: int) -> tuple[Case, ...]:
    """The cases of a finished run without their samples; none of a run that is not finished.

    Raises:
        InputError: there is no such run.
    """
    _require(db, number)
    return tuple(case_value(row) for row in db.table("cases").rows_where("run = ?", [number], order_by="number"))


def history(db: "Database", number: int) -> tuple[Status, ...]:
    """Every status that the run was in, in the order in which they were stored.

    Raises:
        InputError: there is no such run.
    """
    _require(db, number)
    return tuple(status_value(row) for row in db.table("events").rows_where("run = ?", [number], order_by="id"))
