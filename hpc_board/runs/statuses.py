"""Changes of runs' statuses, stored in the order in which they happen."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import takewhile

from msgspec.structs import replace

from hpc_board.domain.clock import utc_now
from hpc_board.domain.run import NOT_ACCEPTED, Run, RunState, Status
from hpc_board.store import Store


def record(
    store: Store,
    run: Run,
    state: RunState,
    *,
    reason: str = "",
    source: str = "",
    unanswered: bool = False,
) -> Run:
    """Store that a run is in `state`, and return it."""
    changed = moved(run, state, reason=reason, source=source, unanswered=unanswered)
    return store_status(store, run, changed.status)


def store_status(store: Store, run: Run, status: Status) -> Run:
    """Store the status of a run if it is a new one, and return the run."""
    if status != run.status:
        store.runs.record(run.id, status)
    return replace(run, status=status)


def store_each(store: Store, runs: Iterable[Run]) -> list[Run]:
    """Store the statuses of all these runs in one transaction."""
    stored = list(runs)
    store.runs.record_each({run.id: run.status for run in stored})
    return stored


def moved(
    run: Run,
    state: RunState,
    *,
    job_id: str = "",
    reason: str = "",
    source: str = "",
    unanswered: bool = False,
) -> Run:
    """Return `run` in `state`."""
    status = replace(
        run.status.moved(state, utc_now()),
        job_id=job_id or run.status.job_id,
        reason=reason,
        source=source,
        unanswered=unanswered,
    )
    return replace(run, status=status)


def attempted(run: Run, attempt: int, now: datetime) -> Run:
    """Return `run` with another attempt to send its job, which begins `now`."""
    status = moved(run, RunState.SUBMITTING).status
    return replace(run, status=replace(status, at=now, attempt=attempt))


def together(runs: Iterable[Run]) -> Iterable[list[Run]]:
    """Group the runs by array; every other run is a group of its own."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.array or run.token, []).append(run)
    return groups.values()


def has_no_room(run: Run) -> bool:
    """Return whether the scheduler accepted no job of an unsent run when it was last tried, or said so at first."""
    return run.state.unsent and run.status.reason.startswith(NOT_ACCEPTED)


def since_created(history: Sequence[Status]) -> Iterator[Status]:
    """Yield the statuses since the run was last known to have no job, newest first."""
    return takewhile(lambda status: status.state is not RunState.CREATED, reversed(history))
