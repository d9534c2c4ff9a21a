"""Short texts for a run's progress and times."""

from datetime import datetime, timedelta

from hpc_board.domain.run import Progress, Run, RunState
from hpc_board.model.task import Mode
from hpc_board.model.text import one_line
from hpc_board.report.formatting import span_text

MODE_WORDS = {Mode.TEST: "test", Mode.BENCHMARK: "bench", Mode.PROFILE: "prof", Mode.RANKED: "ranked"}
_SHORT_PHASES = {"benchmark": "bench", "profile": "prof"}


def why(run: Run) -> str:
    """Return the reason for a run's state: the judge's message, or the scheduler's."""
    if run.message or run.status.reason:
        return run.message or run.status.reason
    if run.state.ended or run.state is RunState.SUBMITTING:
        return run.status.source
    return f"on {run.status.node}" if run.status.node else ""


def step(progress: Progress) -> str:
    """Return the current step of a running harness: "bench 2/3", "build"."""
    phase = one_line(_SHORT_PHASES.get(progress.phase, progress.phase), 20)
    return phase if progress.case is None or progress.of is None else f"{phase} {progress.case}/{progress.of}"


def why_now(run: Run, progress: Progress | None) -> str:
    """Return a run's current step, if any, and the reason for its state."""
    return why(run) if progress is None else " · ".join(filter(None, (step(progress), why(run))))


def waited(run: Run, started: datetime | None, now: datetime) -> timedelta | None:
    """Return a run's waiting time before its start; None if its start is unknown."""
    if run.state.unsent or run.state is RunState.QUEUED:
        return now - run.created_at
    return None if started is None else max(timedelta(0), started - run.created_at)


def ran(run: Run, started: datetime | None, now: datetime) -> timedelta | None:
    """Return a run's time on its node; None if its start is unknown."""
    if run.state is RunState.RUNNING:
        return now - (started or run.status.at)
    if started is None or run.state.unsent or run.state is RunState.QUEUED:
        return None
    return max(timedelta(0), (run.ended_at or run.status.at) - started)


def span(length: timedelta | None) -> str:
    """Return a duration in its largest unit, empty for None."""
    return "" if length is None else span_text(length)


def times(run: Run, started: datetime | None, now: datetime) -> str:
    """Return a run's waiting and running time in one line: "waits 3 min", "waited 4 s · ran 12 s"."""
    wait, time = waited(run, started, now), ran(run, started, now)
    waits = run.state.unsent or run.state is RunState.QUEUED
    parts = [
        f"{'waits' if waits else 'waited'} {span(wait)}" if wait is not None else "",
        f"{'ran' if run.state.ended else 'has run'} {span(time)}" if time is not None else "",
    ]
    return " · ".join(filter(None, parts))


def start_text(at: datetime, now: datetime) -> str:
    """Return an expected start: "in 12 min", "05-18 09:00" for a distant one, "soon" for a past one."""
    if at <= now:
        return "soon"
    if at - now < timedelta(hours=12):
        return f"in {span_text(at - now)}"
    return f"{at.astimezone():%m-%d %H:%M}"


def age(run: Run, now: datetime) -> str:
    """Return the time since a run's last change of state, or since the end of its job."""
    return span_text(now - (run.ended_at or run.status.at))


def trust(run: Run) -> str:
    """Return the trust in a time: "self-run", "verified, emulated"."""
    return ", ".join(filter(None, (run.trust, "emulated" if run.emulated else "")))
