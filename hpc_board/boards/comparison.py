"""Comparison of two submissions: their comparable runs and the differences of their times."""

from collections.abc import Collection, Mapping, Sequence

from hpc_board.domain.comparison import Compared, compared
from hpc_board.domain.run import Run
from hpc_board.domain.submission import Submission
from hpc_board.errors import InputError
from hpc_board.model.result import Result
from hpc_board.store import RunQuery, Store

_HINT = "Modes benchmark and ranked measure times; `hpc-board runs --all --task NAME` lists what has run."


def compare(store: Store, one: Submission, other: Submission, gpus: Sequence[str] = ()) -> list[Compared]:
    """Compare two submissions to one version of a task on `gpus`, or on each GPU with times of both.

    Raises:
        InputError: their tasks or versions differ, or one of them has no times on a requested GPU.
    """
    if (one.task, one.task_version) != (other.task, other.task_version):
        kinds = "tasks" if one.task != other.task else f"versions of {one.task}"
        raise InputError(
            f"submissions {one.id} and {other.id} are for different {kinds}, so their times cannot be compared",
            hint=f"`hpc-board runs --all --task {one.task}` lists what has run for the task of the first.",
        )
    first, second = (_timed_runs(store, each) for each in (one, other))
    chosen = gpus or [gpu for gpu in first if gpu in second]
    if not chosen or not set(chosen) <= set(first) & set(second):
        raise InputError(_missing((one, other), (first, second), gpus), hint=_HINT)
    ranking_by = store.submissions.task(one.task, one.task_version).ranking_by
    found = []
    for gpu in chosen:
        (run, result), (other_run, other_result) = first[gpu], second[gpu]
        difference = compared(result.cases, other_result.cases, ranking_by)
        found.append(Compared((run, other_run), (result, other_result), difference))
    return found


def _timed_runs(store: Store, submission: Submission) -> dict[str, tuple[Run, Result]]:
    """Return the newest run with times of a submission on each GPU."""
    timed: dict[str, tuple[Run, Result]] = {}
    for run in reversed(store.runs.list(RunQuery(submission=submission.id))):
        result = store.runs.result(run.id) if run.verdict is not None else None
        if result is not None and any(case.timing for case in result.cases if case.phase == "benchmark"):
            timed[run.gpu] = run, result
    return timed


def _missing(submissions: Sequence[Submission], timed: Sequence[Mapping[str, object]], gpus: Collection[str]) -> str:
    parts = []
    for submission, of in zip(submissions, timed, strict=True):
        lacking = sorted(set(gpus) - set(of))
        if lacking:
            parts.append(f"submission {submission.id} has no times on {', '.join(lacking)}")
        elif not gpus:
            parts.append(f"submission {submission.id} has times on {', '.join(of) or 'no GPU'}")
    return "there is nothing to compare: " + "; ".join(parts)
