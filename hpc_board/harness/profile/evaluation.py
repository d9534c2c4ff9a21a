"""Mode `profile`: the benchmark cases once more under a profiler, after their outputs passed without one.

Nothing of it is ranked. A profiler that starts its target itself (ncu, nsys, rocprofv3) communicates with it by sockets
and shared files, so its worker runs without the system-call filter and without Landlock's scopes; Landlock for files,
limits and the scrubbed environment stay. perf and torch.profiler lift no restriction.
"""

import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpc_board.harness.confine import sandbox
from hpc_board.harness.confine.scratch import worker_home
from hpc_board.harness.files import keep
from hpc_board.harness.job_spec import JobSpec
from hpc_board.harness.launcher import Processes
from hpc_board.harness.measure.bench import CALL_STEP, Bench
from hpc_board.harness.measure.worker_handle import Worker
from hpc_board.harness.processes.calls import CallFailed, TimeBudget, secret_seed
from hpc_board.harness.processes.child import Child
from hpc_board.harness.processes.output import Printed
from hpc_board.harness.processes.spawn import NotForked
from hpc_board.harness.processes.tree import signal_all
from hpc_board.harness.profile.profilers import Profiled, Profiler, Session, Unusable
from hpc_board.model.kernels import Kernel
from hpc_board.model.limits import Limits
from hpc_board.model.result import Log
from hpc_board.model.score import duration_text
from hpc_board.model.task import case_text
from hpc_board.model.text import one_line, printable

_TEXT_MAX = 90_000
_KEPT_BYTES_MAX = 256 * 2**20
_CASE_TEXT_MIN = 4000
_STEP_CALLS = 3


class Workers:
    """The workers of the profilers, with the `limits` of a call and the `allowance` of all calls together.

    `facts` records the isolation of a worker that a profiler has started. `are_authors_own`: they run under the account
    of the submission's author, not under that of a service.
    """

    def __init__(
        self, processes: Processes, job: JobSpec, limits: Limits, allowance: TimeBudget, facts: dict[str, Any]
    ) -> None:
        self.limits = limits
        self.are_authors_own = not job.minimum_isolation
        self._minimum_isolation = "" if job.sandbox is not None else job.minimum_isolation
        self._processes = processes
        self._allowance = allowance
        self._facts = facts
        self._children: list[Child] = []

    def folders(self) -> tuple[Path, Path]:
        """Return a folder for the next worker, and one for its profiler."""
        scratch = self._processes.scratch
        return worker_home(scratch, "profile"), Path(tempfile.mkdtemp(prefix="profiler-", dir=scratch))

    def forked(self, how: str, home: Path) -> Worker:
        """Return a worker whose calls are profiled within it; see Session."""
        child = self._processes.worker(home=home, profile=how)
        return self._loaded(child, lambda: self._processes.siblings(child))

    def started(
        self,
        command: Sequence[str],
        home: Path,
        folder: Path,
        printed: Printed,
        *,
        traced: bool = True,
        marks: str = "nvtx",
    ) -> Worker:
        """Return a worker started by a profiler's command, which writes into `folder`; its output goes to `printed`.

        The command needs a worker with fewer restrictions if that is `traced`; `marks` are those of its calls.

        Raises:
            Unusable: the board requires the system-call filter, under which such a profiler cannot work.
        """
        if traced and not sandbox.reaches(sandbox.level_of(0, filtered=False), self._minimum_isolation):
            raise Unusable(
                f"it needs a process without the system-call filter, but the board requires isolation "
                f"{self._minimum_isolation}"
            )
        child = self._processes.worker(
            home=home, profile=marks, prefix=command, traced=traced, folder=folder, printed=printed
        )
        return self._loaded(child, reached=self._note_isolation)

    def finish(self, deadline: float, *, killed: bool) -> bool:
        """Have the newest worker end by itself or `killed`; return whether its command has ended by the deadline."""
        child = self._children[-1]
        if killed:
            signal_all([child.worker_pid], signal.SIGKILL)
        return child.finish(deadline) is not None

    def dismiss(self) -> None:
        """End the existing workers."""
        while self._children:
            self._processes.dismiss(self._children.pop())

    def _note_isolation(self, level: str) -> None:
        self._facts["profiler_isolation"] = level

    def _loaded(
        self,
        child: Child,
        siblings: Callable[[], list[int]] = list,
        reached: Callable[[str], None] | None = None,
    ) -> Worker:
        self._children.append(child)
        self._processes.await_loaded(child, "submission", reached)
        return Worker(child, self.limits, self._allowance, siblings, device=self._processes.device)


class Profile:
    """The text, the numbers and the files from profiling one case after the other."""

    def __init__(
        self,
        bench: Bench,
        workers: Workers,
        profilers: Sequence[Profiler],
        *,
        choices: Mapping[str, str],
        environment: dict[str, str],
        target: Path,
        deadline: float,
    ) -> None:
        self.used: list[Profiler] = []
        self.kernels: list[Kernel] = []
        self._bench = bench
        self._workers = workers
        self._profilers = list(profilers)
        self._choices = choices
        self._environment = environment
        self._target = target
        self._deadline = deadline
        self._parts: list[str] = []
        self._steps: list[str] = []
        self._call_ns: dict[int, float] = {}
        self._room_bytes = _KEPT_BYTES_MAX

    def steps(self, worker: Worker, index: int) -> None:
        """Record the time of a call by the worker's clock, and of the judge's steps around it."""
        found: dict[str, list[float]] = {}
        for _ in range(_STEP_CALLS):
            self._bench.call(worker, index, [secret_seed()], timed=True)
            for name, step_ns in self._bench.steps_ns.items():
                found.setdefault(name, []).append(step_ns)
        medians = {name: sorted(times)[len(times) // 2] for name, times in found.items()}
        call_ns = self._call_ns[index] = medians.pop(CALL_STEP)
        around = duration_text(sum(medians.values()))
        steps = ", ".join(f"{name} {duration_text(step_ns)}" for name, step_ns in medians.items())
        self._steps.append(f"{self._title(index)}: the call {duration_text(call_ns)}; around it {around}: {steps}")

    def case(self, index: int) -> None:
        """Profile a case with the first usable profiler; one that fails is not tried again."""
        self._parts.append(self._title(index))
        while self._profilers:
            profiler = self._profilers[0]
            if time.monotonic() >= self._deadline:
                self._parts.append("  not profiled: the time limit for profiling was reached")
                return
            try:
                profiled = self._profiled(profiler, index)
            except Unusable as error:
                reason = str(error)
            except (CallFailed, NotForked) as error:
                reason = f"the call failed under it, but not without it: {one_line(str(error), 500)}"
            else:
                self._parts.append(profiled.text)
                self.kernels += [replace(each, case=index) for each in profiled.kernels]
                return
            self._parts.append(f"  {profiler.name} was not used: {reason}")
            del self._profilers[0]
        self._parts.append("  not profiled: no profiler is available; the harness's own times are at the end")

    def note(self, text: str) -> None:
        """Add a remark."""
        if text:
            self._parts.append(text)

    def log(self) -> Log:
        """Return the whole text, bounded in size."""
        printed = Printed(_TEXT_MAX)
        parts = [*self._parts, "\nA call and the judge's steps around it, without a profiler (medians):", *self._steps]
        printed.add("\n".join(parts).encode("utf-8", "replace"))
        return printed.log()

    def _title(self, index: int) -> str:
        return f"case {index + 1}: {one_line(case_text(self._bench.phase.cases[index]), 500)}"

    def _profiled(self, profiler: Profiler, index: int) -> Profiled:
        home, folder = self._workers.folders()
        session = Session(
            call=lambda worker: self._call(worker, index, cold=True),
            warm_call=lambda worker: self._call(worker, index, cold=False),
            forked=lambda how: self._workers.forked(how, home),
            started=lambda command, printed: self._workers.started(command, home, folder, printed),
            choices=self._choices,
            environment=self._environment,
            folder=folder,
            home=home,
            deadline=self._deadline,
            sources=self._workers.are_authors_own,
        )
        try:
            found = profiler.profile(session)
        finally:
            self._workers.dismiss()
        if profiler not in self.used:
            self.used.append(profiler)
        limit = max(_CASE_TEXT_MIN, _TEXT_MAX // len(self._bench.phase.cases))
        kept = self._kept(profiler, index, (folder, home))
        by = f"  by {profiler.name}; without it, the call took {duration_text(self._call_ns[index])}{kept}"
        return replace(found, text="\n".join([by, printable(found.text, limit)]))

    def _call(self, worker: Worker, index: int, *, cold: bool) -> None:
        self._bench.call(worker, index, [secret_seed()], timed=cold)

    def _kept(self, profiler: Profiler, index: int, folders: Sequence[Path]) -> str:
        """Copy the profiler's files beside the result, and return text that lists them."""
        said: list[str] = []
        self._target.mkdir(exist_ok=True)
        for name, ending in profiler.files.items():
            for folder in folders:
                target = self._target / f"case-{index + 1}.{ending}"
                size = keep(folder / name, target, self._room_bytes)
                if size:
                    self._room_bytes -= size
                    said.append(f"{target} ({size / 1000:,.1f} kB)")
                    break
        return f"; kept: {', '.join(said)}" if said else ""
