"""Runners in words: the GPU that each holds, and its cost."""

from collections.abc import Sequence
from datetime import datetime

from hpc_board.domain.clock import span_words
from hpc_board.domain.run import RunState
from hpc_board.domain.runner import Runner
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Facts
from hpc_board.report.formatting import count_text, moment_text
from hpc_board.report.run_words import start_text, state_text

_REASON_CHARACTERS_MAX = 500


def runners_facts(runners: Sequence[Runner], now: datetime) -> Facts:
    """Return a line for each runner, by its number."""
    return Facts(tuple((f"runner {runner.id}", runner_text(runner, now)) for runner in runners))


def held_facts(runner: Runner, now: datetime) -> Facts:
    """Return the facts about a runner for its user: its GPU, state, end and job."""
    expected, idle = runner.status.expected_start, span_words(runner.idle_seconds)
    latest = f"{span_words(runner.seconds)} after its start"
    if runner.ends_at is not None:
        latest = f"{moment_text(runner.ends_at)} ({left_text(runner, now)} left)"
    rows = (
        ("runner", str(runner.id)),
        ("GPU", one_line(runner.gpu)),
        ("state", "holds the GPU" if runner.started_at else _because(_queue_state(runner), runner)),
        ("expected start", start_text(expected, now) if expected and runner.started_at is None else ""),
        ("ends", f"at the latest {latest}, or after {idle} without a run"),
        ("job", place_text(runner).removeprefix("job ")),
    )
    return Facts(tuple(row for row in rows if row[1]))


def runner_text(runner: Runner, now: datetime) -> str:
    """Return the GPU of a runner, its time and its runs: "H100 held, 24 min left, 7 runs, job 4711 on node n3"."""
    if runner.state.ended:
        return _ended_text(runner, now)
    waits = runner.started_at is None
    parts = _waiting_parts(runner, now) if waits else _held_parts(runner, now)
    runs = "" if waits and not runner.runs else count_text(runner.runs, "run")
    return ", ".join(filter(None, (*parts, runs, place_text(runner))))


def cost_text(runner: Runner, now: datetime) -> str:
    """Return the time for which a runner has held its GPU, and its runs: "held H100 for 24 min 3 s, 17 runs"."""
    if runner.started_at is None:
        return f"never held {one_line(runner.gpu)}"
    held = span_words(runner.held_seconds(now))
    return f"held {one_line(runner.gpu)} for {held}, {count_text(runner.runs, 'run')}"


def released_text(runner: Runner, now: datetime) -> str:
    """Return the answer to a release: the cost of the runner, and whether it ends later."""
    if runner.state.ended:
        return f"Runner {runner.id} {runner_text(runner, now)}."
    if runner.started_at is None:
        return f"Runner {runner.id}: release requested; its job has not started, and will be cancelled."
    return f"Runner {runner.id}: release requested; it {cost_text(runner, now)}, and ends after its current run."


def unqueued_text(runner: Runner, *, served: bool) -> str:
    """Return the lines about a runner without a job in the queue: the reason, and the program that goes on with it."""
    goes_on = "will send it" if runner.state is RunState.CREATED else "will look for its job, which may exist"
    return (
        f"{_because(f'Runner {runner.id} on {one_line(runner.gpu)} is not queued yet', runner)}\n"
        f"Stored; {'the service' if served else '`hpc-board poll` or the app'} {goes_on}."
    )


def left_text(runner: Runner, now: datetime) -> str:
    """Return the time until the latest end of a runner, in whole minutes: "24 min"."""
    seconds = int(runner.left_seconds(now))
    return span_words(seconds if seconds < 60 else seconds // 60 * 60)


def reason_text(runner: Runner) -> str:
    """Return the reason for the state of a runner's job, by hpc-board or else by the scheduler."""
    reason = runner.status.reason or (runner.status.source if runner.state.unsent else "")
    return one_line(reason, _REASON_CHARACTERS_MAX)


def place_text(runner: Runner) -> str:
    """Return the job of a runner, "job 4711 on node n3"; empty before the job is known."""
    if not runner.status.job_id:
        return ""
    node = f" on node {one_line(runner.status.node)}" if runner.status.node else ""
    return f"job {one_line(runner.status.job_id)}{node}"


def _waiting_parts(runner: Runner, now: datetime) -> tuple[str, ...]:
    expected = runner.status.expected_start
    return (
        f"{one_line(runner.gpu)} requested for {span_words(runner.seconds)}",
        _because("ending" if runner.is_ending else _queue_state(runner), runner),
        f"expected start {start_text(expected, now)}" if expected and runner.state is RunState.QUEUED else "",
    )


def _queue_state(runner: Runner) -> str:
    return "not queued yet" if runner.state.unsent else state_text(runner.state)


def _held_parts(runner: Runner, now: datetime) -> tuple[str, ...]:
    gpu = one_line(runner.gpu)
    if runner.takes_runs:
        return f"{gpu} held", f"{left_text(runner, now)} left"
    return (_because(f"{gpu} held, ending", runner),)


def _ended_text(runner: Runner, now: datetime) -> str:
    wanted = runner.state is RunState.CANCELLED and runner.status.cancel_requested
    end = "ended" if wanted or runner.state is RunState.FINISHED else state_text(runner.state)
    return f"{cost_text(runner, now)}; {_because(end, runner)}"


def _because(words: str, runner: Runner) -> str:
    reason = reason_text(runner)
    return f"{words}: {reason}" if reason else words
