"""A Slurm cluster whose queue is read through pyslurm, by a program of its own; the rest goes by the commands."""

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from hpc_board.domain.pause import Pause
from hpc_board.errors import SchedulerError
from hpc_board.model.gpu import Cluster
from hpc_board.model.text import one_line
from hpc_board.schedulers.slurm import cluster_options
from hpc_board.schedulers.slurm.client import TIMEOUT_SECONDS, Listing, SlurmScheduler
from hpc_board.schedulers.slurm.outputs import QueueRow, epoch, job_ids
from hpc_board.transport import CommandMissing, CommandTimeout, Host
from hpc_board.transport.time_budget import is_out_of_time, time_limit

HELPER: Final = Path(__file__).with_name("pyslurm_helper.py")

ANSWER_SECONDS: Final = 30.0
"""The time-out of an answer: Slurm's own time-out of a message is 10 seconds by default."""

PAUSE_SECONDS: Final = 30.0
"""The time that only the commands are used after a failure; doubled after each further one in a row."""

PAUSE_SECONDS_MAX: Final = 1800.0
"""The longest time that only the commands are used."""

_CONTROLLER_ERRORS: Final = frozenset(
    {
        *range(1001, 1005),  # SLURM_COMMUNICATIONS_..._ERROR
        *range(1800, 1806),  # SLURMCTLD_COMMUNICATIONS_...
        *range(5003, 5006),  # Slurm's errors of sockets, "timed out" among them
        *(104, 110, 111, 113),  # ECONNRESET, ETIMEDOUT, ECONNREFUSED, EHOSTUNREACH
    }
)
"""Error numbers of a controller that cannot be reached: the commands would only ask it again."""


class _Answer(msgspec.Struct, frozen=True):
    """The answer of the helper: the jobs in its own columns, or an error with Slurm's number."""

    jobs: list[tuple[str, str, str, int | None, int | None, str | None, str | None, int, str, str]] = []
    error: str = ""
    errno: int | None = None


class _HelperFailedError(Exception):
    """The helper gave no answer that can be used; the message says why, in the middle of a sentence."""


class PyslurmScheduler(SlurmScheduler):
    """A Slurm cluster, asked about its queue through pyslurm and by its commands on `host`.

    If pyslurm fails to answer, the commands ask the question; `warn` gets the first failure, from any thread.
    `helper` is the command of the program that has pyslurm, by default `pyslurm_helper.py` under the cluster's Python.
    """

    def __init__(
        self,
        cluster: Cluster,
        host: Host,
        *,
        warn: Callable[[str], object],
        helper: Sequence[str] = (),
        answer_seconds: float = ANSWER_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        super().__init__(cluster, host, timeout_seconds=timeout_seconds)
        self._python = cluster_options(cluster).pyslurm_python or sys.executable
        self._warn = warn
        self._warned = False
        self._answer_seconds = answer_seconds
        self._helper = [*(helper or [self._python, "-B", str(HELPER)]), f"{answer_seconds + 1:g}"]
        self._clock = clock
        self._pause = Pause()

    def _queue(self, ids: Callable[[], Iterable[str]]) -> Listing:
        if not self._pause.is_over(self._clock()):
            return super()._queue(ids)
        try:
            answer = self._ask_helper()
        except _HelperFailedError as error:
            if is_out_of_time():
                raise self._unanswered(str(error)) from error
            self._pause = self._pause.longer(self._clock(), PAUSE_SECONDS, PAUSE_SECONDS_MAX)
            self._tell(str(error))
            return super()._queue(ids)
        self._pause = Pause()
        if answer.error:
            raise self._unanswered(f"failed: {one_line(answer.error, 200)}")
        return Listing("pyslurm", [row for job in answer.jobs for row in _rows(*job)])

    def _ask_helper(self) -> _Answer:
        """Return this account's jobs, or the error of a controller that cannot be reached.

        Raises:
            _HelperFailedError: the helper does not work.
        """
        within_seconds = time_limit(self._answer_seconds)
        try:
            done = self._host.run(self._helper, timeout_seconds=self._answer_seconds)
        except CommandTimeout as error:
            raise _HelperFailedError(f"did not answer within {within_seconds:g} s") from error
        except CommandMissing as error:
            raise _HelperFailedError(f"cannot be used: {error}") from error
        if done.returncode != 0:
            told = one_line(done.stderr, 200)
            raise _HelperFailedError(f"exited with status {done.returncode}" + (f" ({told})" if told else ""))
        if done.truncated:
            raise _HelperFailedError("sent an answer that exceeds the limit")
        try:
            answer = msgspec.json.decode(done.stdout, type=_Answer)
        except (msgspec.DecodeError, RecursionError) as error:
            raise _HelperFailedError("answered with something other than a list of jobs") from error
        if answer.error and answer.errno not in _CONTROLLER_ERRORS:
            raise _HelperFailedError(f"failed: {one_line(answer.error, 200)}")
        return answer

    def _unanswered(self, words: str) -> SchedulerError:
        return SchedulerError(
            f"pyslurm {words}",
            hint=f"Slurm on cluster {self._cluster.name} may be busy or down; nothing was changed; try again later.",
        )

    def _tell(self, reason: str) -> None:
        """Warn once with the reason why the commands are used."""
        if self._warned:
            return
        self._warned = True
        self._warn(
            f"hpc-board uses Slurm's commands for cluster {self._cluster.name} because pyslurm under {self._python} "
            f"{reason}. "
            f"Set clusters.{self._cluster.name}.pyslurm_python to a Python whose pyslurm works, or client to cli."
        )


def _rows(
    job_id: str,
    name: str,
    state: str,
    submitted: int | None,
    start: int | None,
    node: str | None,
    reason: str | None,
    restarts: int,
    script: str,
    comment: str,
) -> list[QueueRow]:
    """Return a job of the helper's answer, each waiting task of an array on its own."""
    times = epoch(str(submitted)), epoch(str(start))
    return [
        QueueRow(each, name, state, *times, node or "", reason or "None", restarts, script, comment)
        for each in job_ids(job_id)
    ]
