"""How the values of the model become rows, and rows become values again."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from datetime import UTC, datetime
from typing import Any

from hpc_board.model.result import RESULT_BYTES_MAX, Case, Result, ResultError, Timing, Verdict
from hpc_board.model.rules import NOTE, RERUN, TAG, UNTAG, Decision, Remark, Remarks, Removal, Rerun
from hpc_board.model.run import Run, RunState, Status
from hpc_board.model.standings import Mark, MarkKind, Standing
from hpc_board.model.submission import Submission
from hpc_board.model.task import CaseValue, Language, Milestone, Mode, Ranking, Task, TaskFile, Timeouts

Row = Mapping[str, Any]


def time_text(at: datetime) -> str:
    """A moment as UTC text of fixed width, which sorts as the moments do.

    Raises:
        ValueError: the time has no zone.
    """
    if at.tzinfo is None:
        raise ValueError(f"{at} has no time zone")
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def optional_time_text(at: datetime | None) -> str | None:
    """A moment as `time_text` writes it; None where there is none."""
    return None if at is None else time_text(at)


def plain_text(text: str) -> str:
    """The text without lone surrogates, which file names and JSON can hold and a database cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")


def row_id(number: int) -> int:
    """The number as SQLite can compare it: 0, which no row has, for one that no row can have."""
    return number if 0 < number < 2**63 else 0


def task_definition(task: Task) -> str:
    """All of the task as JSON, to explain its standings once its files have changed."""
    return json.dumps(_as_json(task))


def task_value(definition: str) -> Task:
    """The task that `task_definition` wrote."""
    value = json.loads(definition)
    return Task(
        **{
            **value,
            "language": Language(value["language"]),
            "files": tuple(TaskFile(**file) for file in value["files"]),
            "tests": tuple(map(_case, value["tests"])),
            "benchmarks": tuple(map(_case, value["benchmarks"])),
            "timeouts": Timeouts(**value["timeouts"]),
            "ranking_by": Ranking(value["ranking_by"]),
            "libraries": tuple(value["libraries"]),
            "gpus": tuple(value["gpus"]),
            "deadline": _optional_time(value["deadline"]),
            "accepts": tuple(value.get("accepts", ())),
            "warnings": tuple(value["warnings"]),
            "languages": tuple(map(Language, value.get("languages", ()))),
            "flags": tuple(value.get("flags", ())),
            "milestones": tuple(
                Milestone(**{**each, "exclude_gpus": tuple(each["exclude_gpus"])})
                for each in value.get("milestones", ())
            ),
        }
    )


def _case(case: dict[str, Any]) -> dict[str, CaseValue]:
    return {key: _frozen(value) for key, value in case.items()}


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _as_json(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _as_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_as_json(item) for item in value]
    return time_text(value) if isinstance(value, datetime) else value


def event_row(run: int, status: Status) -> dict[str, Any]:
    """The row of `events` that says that `run` is in this status."""
    return {
        "run": run,
        "state": status.state.value,
        "at": time_text(status.at),
        "job_id": plain_text(status.job_id),
        "node": plain_text(status.node),
        "reason": plain_text(status.reason),
        "evidence": plain_text(status.evidence),
        "expected_start": optional_time_text(status.expected_start),
        "ended_in_queue_at": optional_time_text(status.ended_in_queue_at),
        "unanswered": status.unanswered,
        "cancel_requested": status.cancel_requested,
    }


def result_document(result: Result) -> str:
    """All of the result as JSON that `Result.from_json` reads again.

    Raises:
        ResultError: it is larger than a result may be.
    """
    document = json.dumps(asdict(result), allow_nan=False, separators=(",", ":"))
    if len(document) > RESULT_BYTES_MAX:
        raise ResultError(f"the result takes {len(document)} bytes to store, more than {RESULT_BYTES_MAX}")
    return document


def case_row(run: int, number: int, case: Case) -> dict[str, Any]:
    """The row of `cases` for the case at position `number` of the run's result."""
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
    }


def status_value(row: Row) -> Status:
    """The status in a row of `events` or `run_details`."""
    return Status(
        state=RunState(row["state"]),
        at=datetime.fromisoformat(row["at"]),
        job_id=row["job_id"],
        node=row["node"],
        reason=row["reason"],
        evidence=row["evidence"],
        expected_start=_optional_time(row["expected_start"]),
        ended_in_queue_at=_optional_time(row["ended_in_queue_at"]),
        unanswered=bool(row["unanswered"]),
        cancel_requested=bool(row["cancel_requested"]),
    )


def run_value(row: Row) -> Run:
    """The run in a row of `run_details`."""
    return Run(
        id=row["id"],
        submission=row["submission"],
        task=row["task"],
        task_version=row["task_version"],
        user=row["user"],
        file_name=row["file_name"],
        gpu=row["gpu"],
        cluster=row["cluster"],
        partition=row["partition"],
        mode=Mode(row["mode"]),
        token=row["token"],
        nonce=row["nonce"],
        trust=row["trust"],
        emulated=bool(row["emulated"]),
        created_at=datetime.fromisoformat(row["created_at"]),
        status=status_value(row),
        code_sha256=row["code_sha256"],
        harness_sha256=row["harness_sha256"],
        note=row["note"],
        milestone=row["milestone"],
        verdict=None if row["verdict"] is None else Verdict(row["verdict"]),
        message=row["message"] or "",
        score_s=row["score_s"],
        ended_at=_optional_time(row["ended_at"]),
        account=row["account"],
        remarks=remarks_value(row),
    )


def remarks_value(row: Row) -> Remarks:
    """What was said of a run's submission, in a row of `run_details`; words of an unknown kind are left out."""
    notes: list[Remark] = []
    tags: dict[str, None] = {}
    rerun: Rerun | None = None
    for action, text, by_user, at in json.loads(row["remarks"]):
        if action == NOTE:
            notes.append(Remark(text, by_user, datetime.fromisoformat(at)))
        elif action == TAG:
            tags[text] = None
        elif action == UNTAG:
            tags.pop(text, None)
        elif action == RERUN and text.isdecimal():
            rerun = Rerun(int(text), by_user, datetime.fromisoformat(at))
    return Remarks(tuple(notes), tuple(tags), rerun, _removal_value(row["removal"]))


def _removal_value(removal: str | None) -> Removal | None:
    if removal is None:
        return None
    by_user, at, reason = json.loads(removal)
    return Removal(by_user, datetime.fromisoformat(at), reason)


def decision_row(decision: Decision) -> dict[str, Any]:
    """The row of `decisions` that says what was decided."""
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
    """The decision in a row of `decisions`."""
    return Decision(
        action=row["action"],
        kind=row["kind"],
        subject=row["subject"],
        by_user=row["by_user"],
        at=datetime.fromisoformat(row["at"]),
        reason=row["reason"],
        detail=row["detail"],
    )


def case_value(row: Row) -> Case:
    """The case in a row of `cases`, whose timing has no samples."""
    return Case(
        phase=row["phase"],
        index=row["case_index"],
        spec=row["spec"],
        verdict=Verdict(row["verdict"]),
        message=row["message"],
        timing=None if row["timed_calls"] is None else _timing(row),
    )


def _timing(row: Row) -> Timing:
    return Timing(
        runs=row["timed_calls"],
        mean_ns=row["mean_ns"],
        median_ns=row["median_ns"],
        std_ns=row["std_ns"],
        err_ns=row["err_ns"],
        best_ns=row["best_ns"],
        worst_ns=row["worst_ns"],
        samples_ns=(),
        baseline_ns=row["baseline_ns"],
        noisy=bool(row["noisy"]),
    )


def submission_value(row: Row) -> Submission:
    """The submission in a row of `submissions`."""
    return Submission(
        id=row["id"],
        task=row["task"],
        task_version=row["task_version"],
        user=row["user"],
        file_name=row["file_name"],
        code_sha256=row["code_sha256"],
        mode=Mode(row["mode"]),
        note=row["note"],
        milestone=row["milestone"],
        submitted_at=datetime.fromisoformat(row["submitted_at"]),
    )


def standing_value(row: Row, rank: int) -> Standing:
    """The standing in a row of a board that has this rank."""
    return Standing(
        rank=rank,
        user=row["user"],
        score_s=row["score_s"],
        submission=row["submission"],
        run=row["run"],
        submitted_at=datetime.fromisoformat(row["submitted_at"]),
        file_name=row["file_name"],
        trust=row["trust"],
        emulated=bool(row["emulated"]),
    )


def mark_value(row: Row) -> Mark:
    """The milestone in a row that has its submission, run and score."""
    return Mark(
        kind=MarkKind.MILESTONE,
        name=row["milestone"],
        score_s=row["score_s"],
        submission=row["submission"],
        run=row["run"],
        submitted_at=datetime.fromisoformat(row["submitted_at"]),
        file_name=row["file_name"],
        trust=row["trust"],
        emulated=bool(row["emulated"]),
    )


def _optional_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
