"""A Slurm cluster whose queue is read through pyslurm, in a process of its own; the rest goes by the commands."""

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from hpc_board.domain.pause import Pause
from hpc_board.errors import SchedulerError
from hpc_board.model.gpu import Cluster
from hpc_board.model.text import one_line
from hpc_board.schedulers.slurm import cluster_options
from hpc_board.schedulers.slurm.client import TIMEOUT_SECONDS, Listing, SlurmScheduler
from hpc_board.schedulers.slurm.outputs import QueueRow, epoch, job_ids
from hpc_board.transport import Host
from hpc_board.transport.conversation import Conversation, ConversationOver
from hpc_board.transport.time_budget import is_out_of_time

HELPER: Final = Path(__file__).with_name("pyslurm_helper.py")

START_SECONDS: Final = 15.0
"""The time-out of the import of pyslurm: without a readable slurm.conf it blocks for a minute."""

ANSWER_SECONDS: Final = 30.0
"""The time-out of an answer: Slurm's own time-out of a message is 10 seconds by default."""

PAUSE_SECONDS: Final = 30.0
"""The time that the commands alone are used after a failure; doubled after each further one in a row."""

PAUSE_SECONDS_MAX: Final = 1800.0
"""The longest time that the commands alone are used."""

_COLUMNS = 8
_CONTROLLER_ERRORS: Final = frozenset(
    {
        *range(1001, 1005),  # SLURM_COMMUNICATIONS_..._ERROR
        *range(1800, 1806),  # SLURMCTLD_COMMUNICATIONS_...
        *range(5003, 5006),  # Slurm's errors of sockets, "timed out" among them
        *(104, 110, 111, 113),  # ECONNRESET, ETIMEDOUT, ECONNREFUSED, EHOSTUNREACH
    }
)
"""Error numbers of a controller that cannot be reached: the commands would only ask it again."""


class ConversingHost(Host, Protocol):
    """A machine on which commands run, and programs that stay."""

    def converse(self, argv: Sequence[str]) -> Conversation:
        """Start `argv` as a program that answers lines."""


class _HelperFailedError(Exception):
    """The helper gave no answer that can be used; the message says why, in the middle of a sentence."""


class _ControllerError(Exception):
    """Slurm's controller cannot be reached; the message is Slurm's own."""


class PyslurmScheduler(SlurmScheduler):
    """A Slurm cluster, asked about its queue through pyslurm and by its commands on `host`.

    If pyslurm fails to answer, the commands ask the question; `warn` gets the first failure, from any thread.
    `helper` is the command of the program that has pyslurm, by default `pyslurm_helper.py` under the cluster's Python.
    """

    def __init__(
        self,
        cluster: Cluster,
        host: ConversingHost,
        *,
        warn: Callable[[str], object],
        helper: Sequence[str] = (),
        start_seconds: float = START_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        super().__init__(cluster, host, timeout_seconds=timeout_seconds)
        self._python = cluster_options(cluster).pyslurm_python or sys.executable
        self._warn = warn
        self._warned = False
        self._answer_seconds = answer_seconds
        command = helper or [self._python, "-B", str(HELPER), f"{start_seconds:g}"]
        addressed = [*self._host.prefix(), *command]
        self._helper = _Helper(lambda: host.converse(addressed), start_seconds, clock)

    def _queue(self, names: Sequence[str]) -> Listing:
        try:
            rows = self._helper.ask({"ask": "jobs", "names": list(names)}, self._answer_seconds)
        except _ControllerError as error:
            raise SchedulerError(
                f"pyslurm failed: {error}",
                hint=f"Slurm on cluster {self._cluster.name} may be busy or down; nothing has changed, try later.",
            ) from error
        except _HelperFailedError as error:
            if is_out_of_time():
                raise SchedulerError(
                    f"pyslurm {error}",
                    hint=f"Slurm on cluster {self._cluster.name} may be busy; nothing has changed, try later.",
                ) from error
            self._tell(str(error))
            return super()._queue(names)
        return Listing("pyslurm", rows)

    def _tell(self, reason: str) -> None:
        """Warn once with the reason why the commands are used."""
        if self._warned:
            return
        self._warned = True
        self._warn(
            f"Cluster {self._cluster.name} is asked by Slurm's commands, as pyslurm under {self._python} {reason}. "
            f"Set clusters.{self._cluster.name}.pyslurm_python to a Python whose pyslurm works, or client to cli."
        )


class _Helper:
    """The process that has pyslurm: started when it is needed, and again after it failed, though not at once."""

    def __init__(self, start: Callable[[], Conversation], start_seconds: float, clock: Callable[[], float]) -> None:
        self._start = start
        self._start_seconds = start_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._conversation: Conversation | None = None
        self._questions = 0
        self._pause = Pause()
        self._last_failure = ""

    def ask(self, question: Mapping[str, Any], timeout_seconds: float) -> list[QueueRow]:
        """Return the rows that answer `question`.

        Raises:
            _ControllerError: Slurm's controller cannot be reached.
            _HelperFailedError: the helper does not work.
        """
        with self._lock:
            if not self._pause.is_over(self._clock()):
                raise _HelperFailedError(self._last_failure)
            try:
                found = self._ask(question, timeout_seconds)
            except _HelperFailedError as error:
                self._end()
                self._pause = self._pause.longer(self._clock(), PAUSE_SECONDS, PAUSE_SECONDS_MAX)
                self._last_failure = str(error)
                raise
            except BaseException:
                # The controller's address may have changed, or the answer to an interrupted question has no reader.
                self._end()
                raise
            self._pause = Pause()
            return found

    def _ask(self, question: Mapping[str, Any], timeout_seconds: float) -> list[QueueRow]:
        if self._conversation is None:
            self._conversation = self._start_helper()
        self._questions += 1
        request = {"id": self._questions, **question, "seconds": timeout_seconds + 1}
        answer = self._exchange(self._conversation, json.dumps(request), timeout_seconds)
        if answer.get("id") != self._questions:
            raise _HelperFailedError("answered another question than it was asked")
        if "error" in answer:
            message = one_line(str(answer["error"]), 200)
            if answer.get("errno") in _CONTROLLER_ERRORS:
                raise _ControllerError(message)
            raise _HelperFailedError(f"failed: {message}")
        return _rows(answer.get("ok"))

    def _start_helper(self) -> Conversation:
        try:
            conversation = self._start()
        except ConversationOver as error:
            raise _HelperFailedError(f"cannot be used: {error}") from error
        try:
            hello = self._exchange(conversation, "", self._start_seconds)
            if "ok" not in hello:
                reason = one_line(str(hello.get("error")), 200)
                raise _HelperFailedError(f"cannot be imported: {reason}")
        except BaseException:
            conversation.close()
            raise
        return conversation

    def _exchange(self, conversation: Conversation, line: str, timeout_seconds: float) -> dict[str, Any]:
        try:
            answer = json.loads(conversation.ask(line, timeout_seconds=timeout_seconds))
        except ConversationOver as error:
            said = one_line(conversation.complaints, 200)
            raise _HelperFailedError(f"{error}" + (f" ({said})" if said else "")) from error
        except (ValueError, RecursionError) as error:
            raise _HelperFailedError("answered something that is no JSON") from error
        if not isinstance(answer, dict):
            raise _HelperFailedError("answered something that was not asked for")
        return answer

    def _end(self) -> None:
        if self._conversation is not None:
            self._conversation.close()
            self._conversation = None


def _rows(value: object) -> list[QueueRow]:
    """Return the jobs in an answer, each waiting task of an array on its own.

    Raises:
        _HelperFailedError: it is no list of jobs.
    """
    if not isinstance(value, list) or not all(isinstance(row, list) and len(row) == _COLUMNS for row in value):
        raise _HelperFailedError("answered something else than a list of jobs")
    rows = []
    for job_id, name, state, submitted, start, node, reason, restarts in value:
        texts = (job_id, name, state, node or "", reason or "None")
        if not all(isinstance(text, str) for text in texts) or type(restarts) is not int:
            raise _HelperFailedError("answered something else than a list of jobs")
        times = epoch(str(submitted)), epoch(str(start))
        rows += [
            QueueRow(each, name, state, *times, node or "", reason or "None", restarts) for each in job_ids(job_id)
        ]
    return rows
