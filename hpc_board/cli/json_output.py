"""The JSON that scripts read. Keys are added, never renamed or removed; times are ISO 8601 UTC, scores seconds."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hpc_board.board import Board
from hpc_board.domain.board_options import BoardOptions
from hpc_board.domain.comparison import Difference
from hpc_board.domain.feed import Entry, FeedEntry
from hpc_board.domain.moderation import NO_LIMITS, REASON_CHARACTERS_MAX, Category, Decision, Limits, Removal
from hpc_board.domain.run import Run, Status
from hpc_board.domain.standing import Mark, Page, Placing, Standing, Version, verdict_line
from hpc_board.domain.submission import NOTE_CHARACTERS_MAX
from hpc_board.domain.user_board import BoardChange, CreatedBoard, Entries, Plan
from hpc_board.domain.user_board import Difference as TermDifference
from hpc_board.model.gpu import Gpu, GpuStatus
from hpc_board.model.lint import PROBES, Probe, accepted_formats
from hpc_board.model.result import Case, Log, Result, case_share, device_peak
from hpc_board.model.score import Interval
from hpc_board.model.task import Task
from hpc_board.model.text import one_line, printable
from hpc_board.report.diagnostics import diagnostic_object, finding_object
from hpc_board.report.feeds import feed_line
from hpc_board.report.histories import bests
from hpc_board.report.standing_columns import Document, Line, Value, values
from hpc_board.runs.dispatch import Preview
from hpc_board.store import WholeRun

if TYPE_CHECKING:
    from hpc_board.admin.probe import Checked as CheckedGpu
    from hpc_board.boards.comparison import Compared
    from hpc_board.boards.editor import Synced
    from hpc_board.boards.moderation import RerunCandidate
    from hpc_board.task_check.lint import Checked
    from hpc_board.task_check.try_out import Trial

_MESSAGE_MAX = 16_384


def submission_object(board: Board, runs: Sequence[Run]) -> dict[str, Any]:
    """One submission with its runs, at least one."""
    first = runs[0]
    return {
        "submission": first.submission,
        "task": first.task,
        "mode": str(first.mode),
        "runs": [run_details(board.runs.whole(run.id)) for run in runs],
    }


def run_object(board: Board, run: Run) -> dict[str, Any]:
    """One run with its cases; what a list of runs holds, so it does not read whole results."""
    return _run(run, board.standings.placing(run), list(map(_case, board.runs.cases(run.id))))


def _run(run: Run, placing: Placing | None, cases: list[dict[str, Any]]) -> dict[str, Any]:
    """One run; `verdict_line` says what it has come to on its board, null where it does not count there."""
    line = None if placing is None or run.score_s is None else verdict_line(run.gpu, run.score_s, placing, run.interval)
    return {
        "id": run.id,
        "gpu": run.gpu,
        "state": str(run.state),
        "verdict": None if run.verdict is None else str(run.verdict),
        "score_s": run.score_s,
        "rank": None if placing is None else placing.rank,
        "job": {
            "cluster": run.cluster,
            "id": run.status.job_id or None,
            "partition": run.partition or None,
            "node": run.status.node or None,
        },
        "cases": cases,
        "message": printable(run.explanation if run.state.ended else run.message, _MESSAGE_MAX),
        "task": run.task,
        "mode": str(run.mode),
        "submission": run.submission,
        "user": one_line(run.user),
        "file_name": one_line(run.file_name),
        "submitted_at": moment(run.created_at),
        "state_since": moment(run.status.at),
        "ended_at": moment(run.ended_at),
        "reason": one_line(run.status.reason, 500),
        "expected_start": moment(run.status.expected_start),
        "trust": run.trust,
        "emulated": run.emulated,
        "note": one_line(run.note, NOTE_CHARACTERS_MAX),
        "verdict_line": line,
        "milestone": one_line(run.milestone) or None,
        "account": one_line(run.account) or None,
        **_remarks(run),
        **_interval(run.interval),
    }


def _interval(interval: Interval | None) -> dict[str, float | None]:
    return {
        "score_low_s": None if interval is None else interval.low_s,
        "score_high_s": None if interval is None else interval.high_s,
    }


def _remarks(run: Run) -> dict[str, Any]:
    """What was said of a run's submission since it was sent; `note` is what was said then."""
    said = run.remarks
    return {
        "notes": [
            {"text": one_line(note.text, NOTE_CHARACTERS_MAX), "by": one_line(note.by_user), "at": moment(note.at)}
            for note in said.notes
        ],
        "rerun": None
        if said.rerun is None
        else {
            "of_submission": said.rerun.of_submission,
            "by": one_line(said.rerun.by_user),
            "at": moment(said.rerun.at),
        },
        "removed": None if said.removal is None else _removal(said.removal),
    }


def _removal(removal: Removal) -> dict[str, Any]:
    reason = one_line(removal.reason, REASON_CHARACTERS_MAX)
    return {"by": one_line(removal.by_user), "at": moment(removal.at), "reason": reason}


def limits_object(board: str, limits: Limits, decision: Decision | None = None) -> dict[str, Any]:
    """The limits of a board for each user and hour, null for none, and who gave it them where that is asked for."""
    given = {} if decision is None else {"by": one_line(decision.by_user), "at": moment(decision.known_at)}
    return {"board": one_line(board), **{str(each): limits.of(each) for each in Category}, **given}


def decision_object(decision: Decision) -> dict[str, Any]:
    """One row of the audit log; `kind` is user, board, submission, or empty for everything."""
    return {
        "at": moment(decision.known_at),
        "by": one_line(decision.by_user),
        "action": one_line(decision.action),
        "kind": one_line(decision.kind),
        "subject": one_line(decision.subject),
        "detail": one_line(decision.detail, 500),
        "reason": one_line(decision.reason, REASON_CHARACTERS_MAX),
    }


def again_object(again: "RerunCandidate") -> dict[str, Any]:
    """A submission that is to be sent again, on which GPUs; `left_out` says why it is not."""
    return {
        "submission": again.submission.id,
        "user": one_line(again.submission.user),
        "file_name": one_line(again.submission.file_name),
        "gpus": [gpu.name for gpu in again.gpus],
        "left_out": one_line(again.why, 500),
    }


def removed_object(run: Run) -> dict[str, Any]:
    """A passing ranked run that does not count, and why."""
    return {"run": run.id, "submission": run.submission, "score_s": run.score_s, **_remarks(run)["removed"]}


def run_details(whole: WholeRun, *, samples: bool = False) -> dict[str, Any]:
    """One run with its cases, its history, where it ran and what it printed; `samples` adds every timed call.

    `stopped` says what a run had come to that was told to end; its cases are those of until then.
    """
    result = whole.result
    return {
        **_run(whole.run, whole.placing, _result_cases(result, samples=samples) if result else []),
        "stopped": printable(result.message, _MESSAGE_MAX) if result and result.interrupted else "",
        "profile": _log(result.profile) if result else "",
        "history": [_status(status) for status in whole.history],
        "provenance": dict(result.provenance) if result else {},
        "build": _log(result.build) if result else "",
        "stdout": _log(result.stdout) if result else "",
        "stderr": _log(result.stderr) if result else "",
    }


def task_object(task: Task, gpus: Sequence[Gpu], board: CreatedBoard | None = None) -> dict[str, Any]:
    """One task of the list; `gpus` are those on which it may run here, `board` is it where somebody made one of it."""
    return {
        "name": task.name,
        "language": str(task.language),
        "deadline": moment(task.deadline),
        "gpus": [gpu.name for gpu in gpus],
        "description": printable(task.description),
        "languages": [str(language) for language in task.accepted],
        "board": None if board is None else _terms(board.terms),
    }


def task_details(
    task: Task, gpus: Sequence[Gpu], board: CreatedBoard | None = None, limits: Limits = NO_LIMITS
) -> dict[str, Any]:
    """One task with its rules, cases and the names of its files."""
    return {
        **task_object(task, gpus, board),
        "version": task.version,
        "ranking_by": str(task.ranking_by),
        "harness": task.harness,
        "timeouts_s": {
            "test": task.timeouts.test_seconds,
            "benchmark": task.timeouts.benchmark_seconds,
            "ranked": task.timeouts.ranked_seconds,
        },
        "limits": dict(task.limits),
        "submissions_per_hour": {"ranked": limits.ranked, "other": limits.other},
        "flags": list(task.flags),
        "libraries": list(task.libraries),
        "tests": [dict(case) for case in task.tests],
        "benchmarks": [dict(case) for case in task.benchmarks],
        "templates": list(task.templates),
        "files": [file.name for file in task.files],
        "submission_name": task.submission_name,
        "milestones": [
            {
                "name": one_line(each.name),
                "description": one_line(each.description, 500),
                "exclude_gpus": list(each.exclude_gpus),
            }
            for each in task.milestones
        ],
    }


def check_object(checked: "Checked") -> dict[str, Any]:
    """A checked task: every answer that its judge gave, and what is wrong."""
    task, found = checked.task, checked.lint
    accepted = accepted_formats(task.accepts)
    return {
        "task": task.name,
        "version": task.version,
        "harness": task.harness,
        "sound": checked.sound,
        "functions": list(checked.functions),
        "accepts": list(task.accepts),
        "findings": [finding_object(finding) for finding in checked.findings],
        "cases": [
            {
                "phase": case.phase,
                "index": case.index,
                "case": printable(case.spec),
                "largest_error": case.margin,
                "probes": [
                    {
                        "probe": probed.probe,
                        "expected": _expected(PROBES[probed.probe], accepted),
                        "verdict": one_line(probed.verdict),
                        "right_answer": probed.same,
                        "message": printable(probed.message, _MESSAGE_MAX),
                    }
                    for probed in case.probed
                    if probed.probe in PROBES
                ],
                "complete": not (case.unfinished or case.failure),
            }
            for case in found.cases
        ],
        "left_out": [{"phase": each.phase, "index": each.index, "why": one_line(each.why)} for each in found.left_out],
    }


def trial_object(trial: "Trial", version: str) -> dict[str, Any]:
    """What came of a submission that was tried on this machine, under the keys that a run has for it."""
    run, result = trial.run, trial.result
    return {
        "task": run.task,
        "version": version,
        "file_name": one_line(run.file_name),
        "mode": str(run.mode),
        "gpu": run.gpu,
        "verdict": str(result.verdict),
        "score_s": result.score_s,
        "cases": [_case(case, samples=True) for case in result.cases],
        "message": printable(result.message, _MESSAGE_MAX),
        "provenance": dict(result.provenance),
        "profile": _log(result.profile),
        "build": _log(result.build),
        "stdout": _log(result.stdout),
        "stderr": _log(result.stderr),
    }


def _expected(probe: Probe, accepted: Sequence[str]) -> str:
    if probe.right:
        return "pass"
    return "any" if probe.acceptable_as in accepted else "refused"


def comparison_object(found: "Compared") -> dict[str, Any]:
    """Two runs on one GPU: times in seconds, how many times as fast the second is, with the bounds of 95 %."""
    one, other = found.runs
    comparison = found.comparison
    return {
        "gpu": found.gpu,
        "runs": [one.id, other.id],
        "submissions": [one.submission, other.submission],
        "verdicts": [None if run.verdict is None else str(run.verdict) for run in found.runs],
        "cases": [
            {"index": case.index, "case": printable(case.spec), **_difference(case.difference)}
            for case in comparison.cases
        ],
        "score": None if comparison.score is None else _difference(comparison.score),
        "reference_ratio": comparison.reference,
        "emulated": one.emulated or other.emulated,
    }


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "times_s": [difference.one_ns / 1e9, difference.other_ns / 1e9],
        "speedup": difference.speedup,
        "speedup_low": difference.low,
        "speedup_high": difference.high,
        "shown": difference.shown,
        "between_processes": difference.repeated,
        "text": difference.text,
    }


def gpu_object(status: GpuStatus) -> dict[str, Any]:
    """One GPU; numbers are null where the scheduler does not say, and `problem` tells why."""
    gpu, available = status.gpu, status.availability
    return {
        "gpu": gpu.name,
        "cluster": gpu.cluster.name,
        "partition": gpu.partition or None,
        "device": str(gpu.device),
        "emulated": gpu.emulated,
        "free": available.free,
        "total": available.total,
        "queued": available.queued,
        "state": one_line(available.state),
        "asked_at": moment(status.asked_at),
        "problem": printable(status.problem),
        "warning": one_line(status.warning),
    }


def board_object(page: Page) -> dict[str, Any]:
    """A page of a board: its rows, best first, and what stands beside the ranks.

    `total` is how many rows the whole has, `own` the reader's own row wherever it is; `speedup` is over the reference.
    """
    return {
        "gpu": page.gpu,
        "rows": [standing_object(row, page) for row in page.rows],
        "version": page.version,
        "offset": page.offset,
        "total": page.total,
        "own": None if page.own is None else standing_object(page.own, page),
        "marks": [_mark(mark, page) for mark in page.marks],
    }


def plan_object(plan: Plan, *, stored: bool) -> dict[str, Any]:
    """What a change does to a board; `left` and `joined` are the users on the standings of the two versions."""
    return {
        "name": plan.name,
        "action": str(plan.action),
        "stored": stored,
        "version": None if plan.task is None else plan.task.version,
        "terms": _terms(plan.terms),
        "changes": [{"what": each.what, **_sides(each, plan), "restarts": each.restarts} for each in plan.differences],
        "left": _entries(plan.left),
        "joined": _entries(plan.joined),
    }


def _sides(difference: TermDifference, plan: Plan) -> dict[str, str | None]:
    """What was and what is, in words; a deadline as a moment, which is the same for every reader."""
    if difference.what == "deadline" and plan.before is not None:
        return {"before": moment(plan.before.terms.deadline), "after": moment(plan.terms.deadline)}
    return {"before": difference.before, "after": difference.after}


def board_change_object(change: BoardChange) -> dict[str, Any]:
    """One change of a board; `version` is null for the one that deleted it."""
    return {
        "name": change.name,
        "action": str(change.action),
        "by": one_line(change.by_user),
        "at": moment(change.at),
        "version": change.task_version,
        "terms": _terms(change.terms),
        "reason": one_line(change.reason, 500),
    }


def synced_object(done: "Synced") -> dict[str, Any]:
    """What became of one task of a competition."""
    return {
        "name": done.name,
        "result": done.result,
        "reason": printable(done.reason, _MESSAGE_MAX),
        "changes": [] if done.plan is None else plan_object(done.plan, stored=done.stored)["changes"],
    }


def _terms(terms: BoardOptions) -> dict[str, Any]:
    return {
        "creator": one_line(terms.creator),
        "deadline": moment(terms.deadline),
        "gpus": [one_line(name) for name in terms.gpus],
        "visibility": str(terms.visibility),
        "members": [one_line(name) for name in terms.members],
        "code_shown": str(terms.code_shown),
    }


def _entries(entries: Sequence[Entries]) -> list[dict[str, Any]]:
    return [{"gpu": one_line(each.gpu), "users": each.users} for each in entries]


def standing_object(row: Standing, page: Page) -> dict[str, Any]:
    """A row of a board."""
    return _written(values(Line(row, page), Document.SHOW))


def _mark(mark: Mark, page: Page) -> dict[str, Any]:
    about = {"kind": str(mark.kind), "name": one_line(mark.name)}
    return {**about, **_written(values(Line(mark, page), Document.MARKS))}


def _written(found: Mapping[str, Value]) -> dict[str, Any]:
    """Values as scripts read them: moments to the second, texts printable."""
    return {
        key: moment(value) if isinstance(value, datetime) else one_line(value) if isinstance(value, str) else value
        for key, value in found.items()
    }


def version_object(version: Version, present: str) -> dict[str, Any]:
    """One version of a task; `present` is the one that submissions go to."""
    return {
        "version": version.version,
        "first_submission_at": moment(version.added_at),
        "entries": version.entries,
        "present": version.version == present,
    }


def history_object(page: Page) -> dict[str, Any]:
    """The runs of one user on a board in the order of their submissions; `best` where one is faster than all before."""
    runs = sorted(page.rows, key=lambda row: (row.submitted_at, row.run))
    rows = [
        {
            "run": row.run,
            "submission": row.submission,
            "score_s": row.score_s,
            "submitted_at": moment(row.submitted_at),
            "file_name": one_line(row.file_name),
            "best": best,
        }
        for row, best in zip(runs, bests(runs), strict=True)
    ]
    about = {"gpu": page.gpu, "version": page.version, "total": page.total, "reference_s": page.reference_s}
    return {**about, "runs": rows}


def feed_object(entry: FeedEntry) -> dict[str, Any]:
    """What a run changed on its board, as it was at that moment; `id` goes on from there with `--before`."""
    news = entry.news
    return {
        "id": entry.id,
        "at": moment(entry.at),
        "kind": str(news.kind),
        "task": entry.task,
        "version": entry.task_version,
        "gpu": entry.gpu,
        "user": one_line(entry.user),
        "submission": entry.submission,
        "run": entry.run,
        "rank": news.rank,
        "score_s": news.score_s,
        "former_rank": news.former_rank,
        "former_s": news.former_s,
        "beaten": None if news.beaten is None else _entry(news.beaten),
        "fallen": [_entry(each) for each in news.fallen],
        "emulated": entry.emulated,
        "text": feed_line(entry),
    }


def _entry(entry: Entry) -> dict[str, Any]:
    return {"user": one_line(entry.user), "score_s": entry.score_s}


def preview_object(preview: Preview) -> dict[str, Any]:
    """What would be sent for one GPU; the script is byte for byte what the job would be.

    `array` is the script of the job array that runs it together with others, null where it has a job of its own.
    """
    return {
        "file_name": one_line(preview.file_name),
        "gpu": preview.gpu.name,
        "script": preview.script,
        "command": list(preview.command),
        "array": preview.array or None,
    }


def moment(at: datetime | None) -> str | None:
    """A moment in ISO 8601, UTC, to the second."""
    return None if at is None else at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _status(status: Status) -> dict[str, Any]:
    return {
        "state": str(status.state),
        "at": moment(status.at),
        "job_id": status.job_id or None,
        "node": status.node or None,
        "reason": one_line(status.reason, 500),
        "evidence": one_line(status.source, 500),
    }


def _case(case: Case, *, samples: bool = False) -> dict[str, Any]:
    timing = case.timing
    numbers: dict[str, Any] = {}
    if timing:
        numbers = {
            "runs": timing.runs,
            "mean_ns": timing.mean_ns,
            "median_ns": timing.median_ns,
            "std_ns": timing.std_ns,
            "err_ns": timing.err_ns,
            "best_ns": timing.best_ns,
            "worst_ns": timing.worst_ns,
            "baseline_ns": timing.baseline_ns,
            "noisy": timing.noisy,
            "low_ns": timing.low_ns,
            "high_ns": timing.high_ns,
            "least_ns": timing.least_ns,
            "claimed_ns": timing.claimed_ns,
            "busy_processors": timing.busy_processors,
            "speedup": timing.speedup,
        }
        if samples:
            numbers["samples_ns"] = list(timing.samples_ns)
            numbers["worker_runs"] = list(timing.worker_runs)
    return {
        "phase": case.phase,
        "index": case.index,
        "spec": one_line(case.spec, 500),
        "verdict": str(case.verdict),
        "message": printable(case.message, _MESSAGE_MAX),
        **numbers,
    }


def _result_cases(result: Result, *, samples: bool) -> list[dict[str, Any]]:
    """The cases of a result, with `of_peak` where it is known how near a case comes to what its device can do."""
    peak = device_peak(result)
    cases = []
    for case in result.cases:
        share = case_share(case, peak)
        known = {} if share is None else {"of_peak": asdict(share)}
        cases.append({**_case(case, samples=samples), **known})
    return cases


def _log(log: Log) -> str:
    return printable(log.text, len(log.text))


def gpu_check_object(checked: "CheckedGpu") -> dict[str, Any]:
    """A GPU of the settings, what was looked at, and what its probe job reported."""
    return {
        "gpu": checked.gpu.name,
        "cluster": checked.gpu.cluster.name,
        "proven": checked.proven,
        "lines": [diagnostic_object(each) for each in checked.diagnostics],
        "node": None if checked.inspection is None else _safe(asdict(checked.inspection)),
    }


def _safe(value: Any) -> Any:
    """A value from outside with all its texts made printable."""
    if isinstance(value, str):
        return one_line(value, 2000)
    if isinstance(value, dict):
        return {one_line(str(key)): _safe(each) for key, each in value.items()}
    return [_safe(each) for each in value] if isinstance(value, list | tuple) else value
