"""Conversion of values to database rows and back."""

import json
from datetime import datetime
from typing import Any

import msgspec

from hpc_board.domain.job_options import JobOptions
from hpc_board.domain.moderation import NOTE, RERUN, UNKNOWN_MOMENT, Decision, Remark, Remarks, Removal, Rerun
from hpc_board.domain.run import Retry, Run, RunState, Status
from hpc_board.domain.score_interval import Interval, overlaps
from hpc_board.domain.standing import Mark, MarkKind, Standing
from hpc_board.domain.submission import Submission
from hpc_board.errors import UnreadableError
from hpc_board.model.result import RESULT_BYTES_MAX, Case, Result, ResultError, Timing, Verdict
from hpc_board.model.task import Mode
from hpc_board.model.text import one_line
from hpc_board.store.row_values import Row, RowReader, moment_of, optional_time_text, plain_text, time_text, unreadable

_NUMBERS = 2**63
"""More than any row is numbered with."""

_RUN_TABLES = {
    **dict.fromkeys(
        ("task", "task_version", "user", "file_name", "mode", "code_sha256", "note", "milestone", "created_at"),
        ("submissions", "submission"),
    ),
    **dict.fromkeys(
        (
            *("state", "at", "job_id", "node", "reason", "evidence"),
            *("expected_start", "ended_in_queue_at", "unanswered", "cancel_requested", "attempt"),
        ),
        ("events of run", "id"),
    ),
    **dict.fromkeys(("verdict", "message", "score_s", "score_low_s", "score_high_s", "ended_at"), ("results", "id")),
}
"""The tables of those columns of `run_details` that are not in `runs`."""

_STANDING_TABLES = {
    **dict.fromkeys(("user", "score_s", "submitted_at"), ("scores", "run")),
    **dict.fromkeys(("file_name", "milestone"), ("submissions", "submission")),
    **dict.fromkeys(("trust", "emulated"), ("runs", "run")),
    **dict.fromkeys(("score_low_s", "score_high_s", "above_high_s"), ("results", "run")),
}


def row_id(number: int) -> int:
    """Return the number in SQLite's range: 0, which no row has, for one outside of it."""
    return number if 0 < number < 2**63 else 0


def options_text(options: JobOptions) -> str:
    """Return the text of `runs.options` for these options, empty for none."""
    return msgspec.json.encode(options).decode() if options.given else ""


def event_row(run: int, status: Status) -> dict[str, Any]:
    """Return the row of `events` for this status of `run`."""
    return {
        "run": run,
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
    }


def retry_row(run: int, number: int, retry: Retry) -> dict[str, Any]:
    """Return the row of `retries` for this retry of `run`."""
    ended = event_row(run, retry.ended)
    return {
        "run": run,
        "number": number,
        "token": retry.token,
        "nonce": retry.nonce,
        "at": time_text(retry.status.at),
        **{column: ended[column] for column in ("state", "job_id", "node", "reason", "evidence")},
    }


def check_retry_row(row: Row) -> None:
    """Require that a row of `retries` has values that the store writes.

    Raises:
        DamagedRowError: it has others.
    """
    found = RowReader(row, "retries", "run")
    found.integer("number")
    found.token()
    for column in ("nonce", "node", "reason", "evidence"):
        found.text(column)
    found.moment("at")
    found.word(RunState, "state")
    found.job_id()


def result_document(result: Result) -> str:
    """Return all of the result as JSON that `Result.from_json` reads again.

    Raises:
        ResultError: it is larger than a result may be.
    """
    from dataclasses import asdict

    document = json.dumps(asdict(result), allow_nan=False, separators=(",", ":"))
    if len(document) > RESULT_BYTES_MAX:
        raise ResultError(f"the result takes {len(document)} bytes to store, more than {RESULT_BYTES_MAX}")
    return document


def case_row(run: int, number: int, case: Case) -> dict[str, Any]:
    """Return the row of `cases` for the case at position `number` of the run's result."""
    timing = case.timing
    return {
        "run": run,
        "number": number,
        "phase": case.phase,
        "case_index": case.index,
        "spec": plain_text(case.spec),
        "verdict": case.verdict.value,
        "message": plain_text(case.message),
        "timed_calls": timing and timing.runs,
        "mean_ns": timing and timing.mean_ns,
        "median_ns": timing and timing.median_ns,
        "std_ns": timing and timing.std_ns,
        "err_ns": timing and timing.err_ns,
        "best_ns": timing and timing.best_ns,
        "worst_ns": timing and timing.worst_ns,
        "baseline_ns": timing and timing.baseline_ns,
        "noisy": None if timing is None else int(timing.noisy),
        "low_ns": timing and timing.low_ns,
        "high_ns": timing and timing.high_ns,
        "least_ns": timing and timing.least_ns,
        "claimed_ns": timing and timing.claimed_ns,
        "busy_processors": timing and timing.busy_processors,
        "slack_ns": timing and timing.slack_ns,
    }


def status_value(row: Row) -> Status:
    """Return the status in a row of `events`."""
    return _status(RowReader(row, "events"))


def _status(found: RowReader) -> Status:
    return Status(
        state=found.word(RunState, "state"),
        at=found.moment("at"),
        job_id=found.job_id(),
        node=found.text("node"),
        reason=found.text("reason"),
        source=found.text("evidence"),
        expected_start=_optional_time(found, "expected_start"),
        ended_in_queue_at=_optional_time(found, "ended_in_queue_at"),
        unanswered=bool(found.integer("unanswered")),
        cancel_requested=bool(found.integer("cancel_requested")),
        attempt=found.integer("attempt"),
    )


def run_value(row: Row) -> Run:
    """Return the run in a row of `run_details`."""
    found = RowReader(row, "runs", tables=_RUN_TABLES)
    return Run(
        id=found.integer("id"),
        submission=found.integer("submission"),
        task=found.name("task"),
        task_version=found.text("task_version"),
        user=found.text("user"),
        file_name=found.file_name(),
        gpu=found.name("gpu"),
        cluster=found.name("cluster"),
        partition=found.text("partition"),
        mode=found.word(Mode, "mode"),
        token=found.token(),
        nonce=found.text("nonce"),
        trust=found.text("trust"),
        emulated=bool(found.integer("emulated")),
        created_at=found.moment("created_at"),
        status=_status(found),
        code_sha256=found.text("code_sha256"),
        harness_sha256=found.digest("harness_sha256"),
        note=found.text("note"),
        milestone=found.text("milestone"),
        verdict=found.word(Verdict, "verdict") if found.has("verdict") else None,
        message=found.text("message") if found.has("message") else "",
        score_s=found.score() if found.has("score_s") else None,
        interval=_interval(found),
        ended_at=_optional_time(found, "ended_at"),
        account=found.text("account"),
        options=found.job_options(),
        retry=found.integer("retry"),
        remarks=remarks_value(row),
    )


def _interval(found: RowReader) -> Interval | None:
    if not (found.has("score_low_s") and found.has("score_high_s")):
        return None
    return Interval(found.score("score_low_s"), found.score("score_high_s"))


def remarks_value(row: Row) -> Remarks:
    """Return the remarks on a submission from a row with its `remarks`; other kinds are left out.

    Databases of earlier versions have tags there too.
    """
    notes: list[Remark] = []
    rerun: Rerun | None = None
    for action, text, by_user, said_at in _lists(row, "remarks", 4):
        at = _remark_moment(row, "remarks", said_at)
        if action == NOTE:
            notes.append(Remark(text, by_user, at))
        elif action == RERUN and text.isdecimal() and int(text) < _NUMBERS:
            rerun = Rerun(int(text), by_user, at)
    return Remarks(tuple(notes), rerun, _removal_value(row))


def _removal_value(row: Row) -> Removal | None:
    if row["removal"] is None:
        return None
    by_user, at, reason = json.loads(row["removal"])
    return Removal(by_user, _remark_moment(row, "decisions", at), reason)


def _lists(row: Row, column: str, length: int) -> list[list[Any]]:
    """Read a list that SQLite aggregated from other rows: it has no column types, and SQLite refuses blobs."""
    return [each for each in json.loads(row[column]) if len(each) == length]


def _remark_moment(row: Row, table: str, at: object) -> datetime:
    found = moment_of(at)
    if found is None:
        raise unreadable(
            table, f"about submission {row['submission']}", f"its at is {one_line(repr(at), 60)}, which is no moment"
        )
    return found


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


def decision_value(row: Row) -> Decision:
    """Return the decision in a row of `decisions`, or of `boards` in the same columns, with the readable values."""
    found = RowReader(row, row.get("of_table", "decisions"))
    try:
        return Decision(
            action=found.text("action"),
            kind=found.text("kind"),
            subject=found.text("subject"),
            by_user=found.text("by_user"),
            at=found.moment("at"),
            reason=found.text("reason"),
            detail=found.text("detail"),
        )
    except UnreadableError as error:
        action, kind, subject, by_user, detail = (
            row[column] if isinstance(row[column], str) else ""
            for column in ("action", "kind", "subject", "by_user", "detail")
        )
        at = moment_of(row["at"]) or UNKNOWN_MOMENT
        return Decision(action, kind, subject, by_user, at, error.message, detail, readable=False)


def case_value(row: Row) -> Case:
    """Return the case in a row of `cases`, whose timing has no samples."""
    found = RowReader(row, "cases", "run")
    return Case(
        phase=found.text("phase"),
        index=found.integer("case_index"),
        spec=found.text("spec"),
        verdict=found.word(Verdict, "verdict"),
        message=found.text("message"),
        timing=_timing(found) if found.has("timed_calls") else None,
    )


def _timing(found: RowReader) -> Timing:
    return Timing(
        runs=found.integer("timed_calls"),
        mean_ns=found.time_ns("mean_ns"),
        median_ns=found.time_ns("median_ns"),
        std_ns=found.number("std_ns"),
        err_ns=found.number("err_ns"),
        best_ns=found.time_ns("best_ns"),
        worst_ns=found.time_ns("worst_ns"),
        samples_ns=(),
        baseline_ns=_time_ns(found, "baseline_ns"),
        noisy=bool(found.integer("noisy")),
        low_ns=_time_ns(found, "low_ns"),
        high_ns=_time_ns(found, "high_ns"),
        least_ns=_time_ns(found, "least_ns"),
        claimed_ns=_time_ns(found, "claimed_ns"),
        # A row from before the column says nothing of others.
        busy_processors=found.number("busy_processors") if found.has("busy_processors") else 0.0,
        slack_ns=_time_ns(found, "slack_ns"),
    )


def _time_ns(found: RowReader, column: str) -> float | None:
    return found.time_ns(column) if found.has(column) else None


def submission_value(row: Row) -> Submission:
    """Return the submission in a row of `submissions`."""
    found = RowReader(row, "submissions")
    return Submission(
        id=found.integer("id"),
        task=found.name("task"),
        task_version=found.text("task_version"),
        user=found.text("user"),
        file_name=found.file_name(),
        code_sha256=found.text("code_sha256"),
        mode=found.word(Mode, "mode"),
        note=found.text("note"),
        milestone=found.text("milestone"),
        submitted_at=found.moment("submitted_at"),
    )


def standing_value(row: Row, rank: int) -> Standing:
    """Return the standing with this rank from a row of a leaderboard."""
    found = RowReader(row, "scores", "run", _STANDING_TABLES)
    return Standing(
        rank=rank,
        user=found.text("user"),
        score_s=found.score(),
        submission=found.integer("submission"),
        run=found.integer("run"),
        submitted_at=found.moment("submitted_at"),
        file_name=found.file_name(),
        trust=found.text("trust"),
        emulated=bool(found.integer("emulated")),
        interval=_interval(found),
        overlaps_above=overlaps_above(found),
    )


def overlaps_above(found: RowReader) -> bool:
    """Return whether a row's score interval overlaps that of the one above, if both are known."""
    if not (found.has("score_low_s") and found.has("above_high_s")):
        return False
    return overlaps(found.score("score_low_s"), found.score("above_high_s"))


def mark_value(row: Row) -> Mark:
    """Return the milestone in a row that has its submission, run and score."""
    found = RowReader(row, "submissions", "submission", {**_STANDING_TABLES, "score_s": ("results", "run")})
    return Mark(
        kind=MarkKind.MILESTONE,
        name=found.text("milestone"),
        score_s=found.score(),
        submission=found.integer("submission"),
        run=found.integer("run"),
        submitted_at=found.moment("submitted_at"),
        file_name=found.file_name(),
        trust=found.text("trust"),
        emulated=bool(found.integer("emulated")),
    )


def _optional_time(found: RowReader, column: str) -> datetime | None:
    return found.moment(column) if found.has(column) else None
