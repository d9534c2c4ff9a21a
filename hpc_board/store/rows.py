"""Conversion of values to database rows and back."""

import json
from collections.abc import Sequence
from typing import Any

from hpc_board.domain.job_options import NO_OPTIONS, JobOptions, check
from hpc_board.domain.moderation import Decision, Remark, Remarks, Removal, Rerun
from hpc_board.domain.origin import Origin, Tags
from hpc_board.domain.reference import Reference
from hpc_board.domain.result_json import ResultError, times_of
from hpc_board.domain.run import Run, Status
from hpc_board.domain.score_interval import Interval, overlaps
from hpc_board.domain.standing import Mark, MarkKind, Standing
from hpc_board.errors import InputError
from hpc_board.model.result import RESULT_BYTES_MAX, Case, Result, Timing, Verdict
from hpc_board.store.row_values import (
    UndecodableError,
    decoded,
    decoded_json,
    encoded_json,
    optional_time_text,
    plain_text,
    time_text,
)
from hpc_board.store.sqlite import Row

_SAMPLES = ("samples_ns", "worker_samples")


def row_id(number: int) -> int:
    """Return the number in SQLite's range: 0, which no row has, for one outside of it."""
    return number if 0 < number < 2**63 else 0


def options_text(options: JobOptions) -> str:
    """Return the text of `runs.options` for these options, empty for none."""
    return encoded_json(options) if options.given else ""


def _options(text: str) -> JobOptions:
    """Return the options in a text; they become lines of a job's script, so each value is checked."""
    if not text:
        return NO_OPTIONS
    options = decoded_json(JobOptions, text)
    try:
        check(options, "options")
    except InputError as error:
        raise UndecodableError(error.message) from error
    return options


def event_row(run: int, status: Status) -> dict[str, Any]:
    """Return the row of `events` for this status of `run`."""
    return {"run": run, **status_row(status)}


def status_row(status: Status) -> dict[str, Any]:
    """Return the columns of a status."""
    return {
        "state": status.state.value,
        "at": time_text(status.at),
        "job_id": plain_text(status.job_id),
        "node": plain_text(status.node),
        "reason": plain_text(status.reason),
        "evidence": plain_text(status.source),
        "expected_start": optional_time_text(status.expected_start),
        "ended_in_queue_at": optional_time_text(status.ended_in_queue_at),
        "unanswered": status.unanswered,
        "cancel_requested": status.cancel_requested,
        "attempt": status.attempt,
        "runner": status.runner,
    }


def status_value(row: Row) -> Status:
    """Return the status in the columns of `status_row`."""
    return decoded(Status, {**row, "source": row["evidence"]})


def result_document(result: Result) -> str:
    """Return all of the result as JSON that `decode_result` reads again.

    Raises:
        ResultError: it is larger than a result may be.
    """
    from dataclasses import asdict

    document = json.dumps(asdict(result), allow_nan=False, separators=(",", ":"))
    if len(document) > RESULT_BYTES_MAX:
        raise ResultError(f"the result takes {len(document)} bytes to store, more than {RESULT_BYTES_MAX}")
    return document


_StoredCase = tuple[str, int, str, Verdict, str, dict[str, int | float | bool | None] | None]
"""A case as JSON. As `Case`, msgspec would read it by `dataclasses`, which takes 10 ms to import."""


def cases_document(cases: Sequence[Case]) -> str:
    """Return cases without their samples as JSON, which `cases_value` reads."""
    stored: list[_StoredCase] = []
    for case in cases:
        timing: dict[str, Any] | None = None
        if case.timing is not None:
            # An object that msgspec made has no attribute of its own for a default.
            timing = {name: getattr(case.timing, name) for name in Timing.__match_args__ if name not in _SAMPLES}
        texts = plain_text(case.spec), case.verdict, plain_text(case.message)
        stored.append((case.phase, case.index, *texts, timing))
    return encoded_json(stored)


def cases_value(text: str) -> tuple[Case, ...]:
    """Return the cases in a text of `cases_document`."""
    try:
        return tuple(
            Case(phase, index, spec, verdict, message, Timing(samples_ns=(), **times_of(numbers)) if numbers else None)
            for phase, index, spec, verdict, message, numbers in decoded_json(list[_StoredCase], text)
        )
    except TypeError as error:
        raise UndecodableError(f"cases: {error}") from error


def run_value(row: Row) -> Run:
    """Return the run in a row of `run_details`."""
    found = {
        **row,
        "message": row["message"] or "",
        "status": status_value(row),
        "interval": interval_value(row),
        "reference": reference_value(row),
        "options": _options(row["options"]),
        "remarks": remarks_value(row),
        "origin": origin_value(row),
    }
    return decoded(Run, found)


def reference_value(row: Row) -> Reference | None:
    """Return the reference in the columns of `run_details`; None without one."""
    return None if row["median_s"] is None else decoded(Reference, {**row, "runs": row["reference_runs"]})


def interval_value(row: Row) -> Interval | None:
    """Return the interval of a score; None without one."""
    low_s, high_s = row["score_low_s"], row["score_high_s"]
    return None if low_s is None or high_s is None else Interval(low_s, high_s)


def origin_value(row: Row) -> Origin:
    """Return the origin of a submission from the columns of `run_details` about it."""
    return Origin(row["entrant"], decoded_json(Tags, row["tags"]), row["parent"])


def remarks_value(row: Row) -> Remarks:
    """Return the remarks on a submission from the columns of `run_details` about them."""
    return Remarks(
        decoded_json(tuple[Remark, ...], row["notes"]),
        decoded_json(Rerun, row["rerun"]) if row["rerun"] else None,
        decoded_json(Removal, row["removal"]) if row["removal"] else None,
    )


def decision_row(decision: Decision) -> dict[str, Any]:
    """Return the row of `decisions` for a decision."""
    return {
        "action": decision.action,
        "kind": decision.kind,
        "subject": plain_text(decision.subject),
        "detail": plain_text(decision.detail),
        "by_user": plain_text(decision.by_user),
        "at": time_text(decision.at),
        "reason": plain_text(decision.reason),
    }


def standing_value(row: Row, rank: int) -> Standing:
    """Return the standing with this rank from a row of a leaderboard."""
    found = {
        **row,
        "rank": rank,
        "interval": interval_value(row),
        "overlaps_above": overlaps_above(row),
        "members": decoded_json(tuple[str, ...], row["members"]),
    }
    return decoded(Standing, found)


def overlaps_above(row: Row) -> bool:
    """Return whether a row's score interval overlaps that of the one above, if both are known."""
    low_s, above_high_s = row["score_low_s"], row["above_high_s"]
    return low_s is not None and above_high_s is not None and overlaps(low_s, above_high_s)


def mark_value(row: Row) -> Mark:
    """Return the milestone in a row that has its submission, run and score."""
    return decoded(Mark, {**row, "kind": MarkKind.MILESTONE, "name": row["milestone"]})
