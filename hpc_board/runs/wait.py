"""Waiting for runs: yielded changes, reported problems, and the time-out."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from hpc_board.domain.run import Run
from hpc_board.errors import WaitExpired

if TYPE_CHECKING:
    from hpc_board.runs.reconciler import Pass

_PAUSE_SECONDS_MIN = 0.05


def changes(
    run_pass: "Callable[[], Pass | None]",
    look: Callable[[], tuple[list[Run], object]],
    *,
    timeout_seconds: float | None,
    poll_seconds: float,
    say: Callable[[str], object],
) -> Iterator[list[Run]]:
    """Yield some runs whenever they change, until all have ended.

    `run_pass` advances them, `look` returns them with a value that changes with their progress. The pauses between
    passes grow to `poll_seconds`: a run at a runner takes less. A silent scheduler ends nothing: `say` receives its
    problem once, and again after an answer, unless the status of such a run shows it.

    Raises:
        WaitExpired: `timeout_seconds` have passed; the runs continue.
    """
    began = time.monotonic()
    deadline = None if timeout_seconds is None else began + timeout_seconds
    seen: object = None
    told: set[str] = set()
    while True:
        pass_ = run_pass()
        now = look()
        runs = now[0]
        if pass_ is not None and pass_.errors:
            problem = pass_.errors[0].message
            shown = {words for run in runs if run.blocked_by for words in (run.status.reason, run.status.source)}
            if problem not in told | shown:
                say(problem)
            told.add(problem)
        elif pass_ is not None and pass_.asked:
            told.clear()
        if now != seen:
            seen = now
            yield runs
        if all(run.state.ended for run in runs):
            return
        if deadline is not None and time.monotonic() >= deadline:
            raise expired([run for run in runs if not run.state.ended], timeout_seconds)
        time.sleep(min(poll_seconds, _PAUSE_SECONDS_MIN + (time.monotonic() - began) / 10))


def expired(going: Sequence[Run], timeout_seconds: float | None, *, served: bool = False) -> WaitExpired:
    """Return the error of a wait that timed out; unsent runs need a client to continue, unless a service sends them."""
    sent = [str(run.id) for run in going if not run.state.unsent]
    if served or len(sent) == len(going):
        goes_on = "The runs continue. "
    else:
        goes_on = f"Already on the cluster: {', '.join(sent)}. " if sent else ""
    return WaitExpired(
        f"not finished after {timeout_seconds:g} s: run {', '.join(str(run.id) for run in going)}",
        hint=f"{goes_on}`hpc-board runs` shows them, `hpc-board watch ID` follows one.",
    )
