"""The workers of the benchmarks: those of the submission, one after the other, and the trusted one beside them."""

from contextlib import AbstractContextManager
from functools import partial
from typing import Generic, TypeVar

from hpc_board.harness.launcher import Processes
from hpc_board.harness.measure.worker_handle import Worker
from hpc_board.harness.processes.calls import CallFailed, TimeBudget
from hpc_board.harness.processes.child import Child
from hpc_board.model.limits import Limits
from hpc_board.model.result import Verdict

AnyWorker = TypeVar("AnyWorker", bound=Worker)


def worker_in(
    kind: type[AnyWorker], child: Child, processes: Processes, limits: Limits, allowance: TimeBudget
) -> AnyWorker:
    """Return the worker in the process `child` of a submission."""
    return kind(child, limits, allowance, partial(processes.siblings, child), device=processes.device)


class Crew(Generic[AnyWorker]):
    """The workers of a phase, all of one kind; those of the submission have `seconds` together.

    The trusted worker has as much: it calls the task's reference, or no function if the task has none.
    """

    def __init__(
        self, kind: type[AnyWorker], processes: Processes, judge: Child, limits: Limits, seconds: float
    ) -> None:
        self.has_reference = processes.has_baseline
        self._kind = kind
        self._processes = processes
        self._judge = judge
        self._limits = limits
        self._seconds = seconds
        self._allowance = TimeBudget(seconds)
        self._trusted: Child | None = None

    def worker(self, child: Child | None = None) -> AnyWorker:
        """Return a worker that has imported the submission, in a new process without a `child`."""
        return self._worker(child or self._processes.loaded_worker(), self._allowance)

    def waiting_worker(self) -> AnyWorker:
        """Return a worker that waits before it imports the submission; until then its time is the harness's own."""
        self.check_gone()
        return self._worker(self._processes.waiting_worker(), TimeBudget(self._seconds))

    def load(self, worker: AnyWorker) -> None:
        """Have a waiting worker import the submission, whose time it spends from here on."""
        worker.allowance = self._allowance
        self._processes.import_submission(worker.child)

    def dismiss(self, worker: AnyWorker) -> None:
        """End a worker, and all processes that it has left."""
        self._processes.dismiss(worker.child)

    def trusted_worker(self) -> AnyWorker:
        """Start the trusted worker."""
        self._trusted = child = self._processes.baseline(reference=self.has_reference)
        return self._kind(child, self._limits, TimeBudget(self._seconds), device=self._processes.device)

    def alone(self) -> AbstractContextManager[None]:
        """Stop, within this context, all processes but judge and trusted worker."""
        return self._processes.alone(self._judge, self._trusted)

    def others(self) -> int:
        """Return the number of processes besides judge and trusted worker, whatever their parents are by now."""
        return self._processes.others(self._judge, self._trusted)

    def check_gone(self) -> None:
        """Check that no process of the submission is left, which could use the GPU beside a window."""
        left = self._processes.left_processes
        if left:
            message = f"{left} processes of the submission could not be killed, and may still use the GPU"
            raise CallFailed(Verdict.INFRA_ERROR, message, worker_lost=True)

    def _worker(self, child: Child, allowance: TimeBudget) -> AnyWorker:
        return worker_in(self._kind, child, self._processes, self._limits, allowance)
