"""The processes of one evaluation: a zygote and its children: the judge, workers, the baseline, the prober."""

import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from hpc_board.harness.build.extensions import Extensions
from hpc_board.harness.confine import sandbox
from hpc_board.harness.confine.container import Container, ContainerUnavailable, container
from hpc_board.harness.confine.scratch import (
    CODE,
    EXTENSIONS,
    SCRATCH,
    copy,
    private,
    private_folders,
    remove,
    scrubbed,
    worker_home,
)
from hpc_board.harness.job_spec import JobSpec
from hpc_board.harness.measure.usage import Usage
from hpc_board.harness.processes.calls import CallFailed, judge_answer, worker_answer
from hpc_board.harness.processes.child import Child, Prepared
from hpc_board.harness.processes.crashes import Crash, native_offsets, python_frames
from hpc_board.harness.processes.libraries import TooManyParts, mapped_by, touched_by
from hpc_board.harness.processes.output import Printed
from hpc_board.harness.processes.program import Program, Room
from hpc_board.harness.processes.spawn import NotForked, Zygote, started
from hpc_board.harness.processes.tree import (
    REAP_SECONDS,
    StillRunning,
    below,
    descendants_of,
    ended,
    kill_orphans,
    reap_orphans,
    stopped_but,
)
from hpc_board.harness.processes.zygote import modules_of
from hpc_board.harness.wire.replies import Confined, Loaded, Ready
from hpc_board.model.kernels import LIBRARY
from hpc_board.model.result import Verdict
from hpc_board.model.task import ENTRY, REFERENCE_ENTRY

WORKER_HOME = "worker"
"""The name of a worker's home in the scratch folder."""

_TRUSTED_PRINTED_BYTES = 2**30
_SPARED_PROCESSES = 32


def _spared_processes() -> int:
    """Return the number of the user's processes and threads that a submission leaves to the harness."""
    return _SPARED_PROCESSES + 2 * (os.cpu_count() or 1)


@contextmanager
def processes_for(job: JobSpec, folder: Path, harness: Path, zygote: Zygote | None = None) -> Iterator["Processes"]:
    """Yield the processes of a job, in a scratch folder of their own; remove both afterwards.

    A `zygote` without work yet is used if it has imported just the modules of the job.
    """
    scratch = Path(tempfile.mkdtemp(prefix=SCRATCH))
    processes = Processes(job, folder, harness, scratch, zygote)
    try:
        yield processes
    finally:
        processes.close()
        remove(scratch)


class Processes:
    """The processes that judge and run one submission, and their output.

    A compiled submission runs from `library` once it exists, and all workers in the `container` if the settings ask for
    one. `isolation` is the level of the last worker; `left_processes` counts the processes that the kernel did not
    release. `prepared` has the most that preparing fixed inputs took, and `libraries` are the known ones whose code the
    submission's ended processes have run, or loaded on a GPU, unless `libraries_unread`. `usage` measures their memory
    and processor time. `zygote_failed`: the zygote started no process when asked for one; `judge_said` may hold the
    reason. `other_python` says how to select another Python if this one lacks a library of the task. `native_frames`
    returns the frames at places in the library. No load lasts beyond `latest` on the monotonic clock.
    """

    def __init__(self, job: JobSpec, folder: Path, harness: Path, scratch: Path, zygote: Zygote | None = None) -> None:
        self.scratch = scratch
        self.harness = harness.resolve()
        self.environment = _environment(job, scratch)
        self.modules: Sequence[str] = ()
        self.stdout = Printed()
        self.stderr = Printed()
        self.judge_said = Printed() if zygote is None else zygote.printed
        self.library: Path | None = None
        self.native_frames: Callable[[Sequence[int]], Sequence[str]] = lambda _: ()
        self.container = Container()
        self.has_baseline = False
        self.isolation = ""
        self.left_processes = 0
        self.prepared = Prepared()
        self.libraries: frozenset[str] = frozenset()
        self.libraries_unread = False
        self.usage = Usage()
        self.zygote_failed = False
        self.latest = math.inf
        self.other_python = f"as gpus.{job.gpu}.python in the settings"
        self.device = job.device
        self._job = job
        self._task = folder / "task"
        self._submission = folder / "submission"
        self._readable = sandbox.readable_folders(os.environ, (), (str(folder), str(Path.home())))
        self._zygote = zygote
        self._children: list[Child | Program] = []
        self._may_compile = not job.language.compiled
        self._extensions = Extensions(job, folder)

    def source(self) -> str:
        """Return the text of the submission."""
        return (self._submission / self._job.submission).read_bytes().decode("utf-8", "replace")

    def start(self) -> None:
        """Start the zygote, from which all other processes are forked."""
        self.modules = modules_of([self._submission, self._task], self._job.device)
        if self._zygote is not None and set(self._zygote.modules) == set(self.modules):
            self._zygote.begin(self.environment)
            return
        if self._zygote is not None:
            self._zygote.end()
        self._zygote = Zygote(self.harness, env=self.environment, modules=self.modules, printed=self.judge_said)

    def contain(self) -> dict[str, str]:
        """Create the container if the settings ask for one, and return its description for the result."""
        if self._job.sandbox is None:
            return {}
        try:
            self.container = container(self._job.sandbox, self.harness, os.environ, self.scratch)
        except ContainerUnavailable as error:
            raise CallFailed(Verdict.INFRA_ERROR, str(error)) from None
        return {"sandbox": self.container.description}

    def of_task(self, role: str) -> Child:
        """Start a process that imports the task: the `judge`, or the `prober` in the place of a submission."""
        home = self.scratch / role
        home.mkdir(exist_ok=True)
        child = self._fork(role, home, self._task, (self.judge_said, self.judge_said), _TRUSTED_PRINTED_BYTES)
        self._load(
            child,
            self._task,
            scratch=str(home),
            readable=[*self._readable, *self._job.data, str(self._task.resolve())],
            other_python=self.other_python,
            compiled=self._job.language.compiled,
            prepare=self._job.rules.prepare,
        )
        return child

    def worker(
        self,
        *,
        home: Path | None = None,
        profile: str = "",
        prefix: Sequence[str] = (),
        traced: bool = True,
        folder: Path | None = None,
        printed: Printed | None = None,
    ) -> Child:
        """Start a process that imports the submission, or loads its compiled library, on a request.

        `prefix` is the command of the profiler that starts it, if any, which writes into `folder`, and which needs a
        worker with fewer restrictions if that is `traced`; `profile` selects how its calls are profiled or marked, and
        `printed` takes its output together with that profiler's.
        """
        home = home or worker_home(self.scratch, WORKER_HOME)
        if self.library is None:
            file, source = self._job.submission, self._submission
        else:
            file, source = LIBRARY, self.library.parent
        copy([file], source, home / CODE)
        copy([name for name in self._job.files if not private(name)], self._task, home / CODE)
        prints = [printed or Printed()] if prefix else [self.stdout, self.stderr]
        limit = self._job.limits.printed_bytes
        child = self._new_worker(home, prints, limit, prefix, [] if folder is None else [folder])
        child.crash = Crash(partial(self._frames, str(home / CODE), file))
        entry = (file, ENTRY, self._job.shown_as)
        self._send_load(child, home, *entry, profile=profile, traced=traced and bool(prefix))
        return child

    def _frames(self, folder: str, file: str, report: str) -> Sequence[str]:
        if self.library is not None:
            return self.native_frames(native_offsets(report))
        return python_frames(report, folder, file, self._job.shown_as)

    def waiting_worker(self) -> Child:
        """Start a process and wait until it has opened the device; it has imported nothing of the submission."""
        child = self.worker()
        self._await_device(child, *self._loading("device"), self.record_isolation)
        return child

    def import_submission(self, worker: Child) -> None:
        """Have a waiting worker import the submission."""
        self._await_import(worker, "submission", *self._loading("submission"))

    def loaded_worker(self) -> Child:
        """Start a process and wait until it has imported the submission."""
        child = self.worker()
        self.await_loaded(child, "submission", self.record_isolation)
        return child

    def baseline(self, *, reference: bool = True) -> Child:
        """Start a process that has imported the reference, and calls it like the others call the submission.

        Without a `reference` it has imported nothing: it only measures the overhead of a row of calls.
        """
        home = worker_home(self.scratch, "baseline")
        copy(self._job.files, self._task, home / CODE)
        child = self._new_worker(home, (self.judge_said, self.judge_said), _TRUSTED_PRINTED_BYTES)
        file = "reference.py" if reference else ""
        self._send_load(child, home, file, REFERENCE_ENTRY, "reference.py", trusted=True)
        try:
            self.await_loaded(child, "reference")
        except CallFailed as error:
            verdict = error.verdict if error.verdict is Verdict.DEVICE_ERROR else Verdict.TASK_ERROR
            message = f"the reference cannot be imported like a submission: {error.message}"
            raise CallFailed(verdict, message) from None
        return child

    def await_ready(self, child: Child) -> dict[str, Any]:
        """Wait until judge or prober has imported the task, and return its facts about the device."""
        late, deadline = self._loading("reference")
        return dict(judge_answer(child, Ready, deadline, late).facts)

    def await_judge(self, judge: Child) -> dict[str, Any]:
        """Wait until the judge has imported the task, and return its facts about the device."""
        try:
            found = self.await_ready(judge)
        except CallFailed as error:
            raise CallFailed(error.verdict, f"the judge could not start: {error.message}") from None
        self.has_baseline = bool(found.pop("baseline", False))
        return found

    def record_isolation(self, level: str) -> None:
        """Record the isolation level of the submission; the board may require a higher one."""
        self.isolation = level
        wanted = self._job.minimum_isolation
        if not sandbox.reaches(level, wanted):
            message = f"the board requires isolation {wanted} or above, but this node reaches {level}: "
            raise CallFailed(Verdict.INFRA_ERROR, message + sandbox.lacking(level, wanted))

    def await_loaded(self, worker: Child, what: str, reached: Callable[[str], None] | None = None) -> None:
        """Wait until a worker has imported `what`; pass its isolation level to `reached` before."""
        late, deadline = self._loading(what)
        self._await_device(worker, late, deadline, reached)
        self._await_import(worker, what, late, deadline)

    def _await_import(self, worker: Child, what: str, late: str, deadline: float) -> None:
        worker.imports_submission = what == "submission"
        worker.send({"type": "import"})
        answer = worker_answer(worker, ("loaded", "raised"), deadline, late)
        may_prepare = bool(self._job.rules.prepare) and worker.imports_submission
        worker.prepares = may_prepare and isinstance(answer, Loaded) and answer.prepares
        self._may_compile = self._may_compile and not worker.imports_submission

    def _await_device(self, worker: Child, late: str, deadline: float, reached: Callable[[str], None] | None) -> None:
        answer = worker_answer(worker, ("confined",), deadline, late)
        if isinstance(answer, Confined):
            worker.lacking = answer.lacking
            if reached is not None:
                reached(answer.isolation)
        worker_answer(worker, ("device_ready", "raised"), deadline, late)
        if self.device == "cpu":
            worker.touched = touched_by([worker.worker_pid])
        else:
            worker.mapped = mapped_by([worker.worker_pid])

    def _note_libraries(self, worker: Child) -> None:
        """Note the libraries of a worker and of the processes that it has started.

        On a CPU the pages of code tell those that ran. A GPU's library is used by its kernels, too, so there they are
        those that the submission has loaded itself.
        """
        pids = [worker.worker_pid, *self.siblings(worker)]
        try:
            if self.device == "cpu":
                self.libraries |= {each.path for each in touched_by(pids) - worker.touched}
            else:
                self.libraries |= mapped_by(pids) - worker.mapped
        except TooManyParts:
            self.libraries_unread = True

    def _loading(self, what: str) -> tuple[str, float]:
        """Return the message for an import of `what` that takes too long, and its deadline.

        The first import of a submission in Python may compile an extension, which later ones find in their cache.
        """
        limits = self._job.limits
        seconds = limits.load_seconds + (limits.build_seconds if what == "submission" and self._may_compile else 0)
        seconds = min(seconds, max(0.0, self.latest - time.monotonic()))
        return f"importing the {what} did not return within {seconds:.4g} s", time.monotonic() + seconds

    @contextmanager
    def alone(self, *trusted: Child | None) -> Iterator[None]:
        """Stop, within this block, all processes except the zygote, those `trusted`, and their descendants."""
        try:
            with stopped_but([each.pid for each in (*trusted, self._zygote) if each is not None]):
                yield
        except StillRunning:
            message = "its processes start others without end or wake by themselves while the reference is called"
            raise CallFailed(Verdict.TIMING_INCONSISTENT, message, worker_lost=True) from None

    def others(self, *trusted: Child | None) -> int:
        """Return the number of processes besides the zygote and those `trusted`, whatever their parents are by now."""
        self.reap()
        known = [each.pid for each in (*trusted, self._zygote) if each is not None]
        return sum(not ended(pid) for pid in descendants_of(os.getpid(), leaving_out=known))

    def siblings(self, worker: Child) -> list[int]:
        """Return the processes besides a worker that a submission has started."""
        self.reap()
        trusted = [pid for pid in self.pids() if pid != worker.pid]
        own = (*worker.launchers, worker.worker_pid)
        return [pid for pid in below(os.getpid(), trusted) if pid not in own]

    def program(
        self,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        printed: Sequence[Printed],
        *,
        heard: Callable[[bytes], None] | None = None,
        report: Callable[[bytes], None] | None = None,
    ) -> Program:
        """Start a process of the task's own eval, in the `folder` of its files, which it may only read.

        `environment` is added to that of all processes; see Program for the others.
        """
        home, job, container = worker_home(self.scratch, "program"), self._job, self.container
        room = Room(
            folder,
            home,
            container.readable(self._readable),
            container.environment({**self.environment, **private_folders(home), **environment}),
            container.command(home, sandbox.seen_by_workers(self._readable), (), job.device, [folder]),
            container.python,
            job.limits.value_bytes,
            spared_processes=_spared_processes(),
            network=job.world_size > 1,
            minimum_isolation=job.minimum_isolation,
        )
        program = Program(command, self.harness, room, printed, heard=heard, report=report)
        self._children.append(program)
        return program

    def dismiss(self, child: Child | Program) -> None:
        """End a process, and all processes that it has left."""
        self.usage.sample()
        if isinstance(child, Child) and child.imports_submission:
            self._note_libraries(child)
        child.end()
        self._children.remove(child)
        if isinstance(child, Child):
            self.prepared = self.prepared.most(child.prepared)
        self.left_processes = kill_orphans(self.pids()) or self.left_processes

    def device_fault(self) -> str:
        """Return the message of a new worker, without the submission, that cannot open the device; "" if it can.

        All other processes but the zygote are ended before.
        """
        for child in [*self._children]:
            self.dismiss(child)
        try:
            self.dismiss(self.waiting_worker())
        except CallFailed as error:
            return error.message if error.verdict is Verdict.DEVICE_ERROR else ""
        except (NotForked, OSError):
            # The submission's files may have filled the disk.
            return ""
        return ""

    def reap(self) -> None:
        """Reap every orphan that has ended."""
        self.usage.sample()
        reap_orphans(self.pids())

    def pids(self) -> list[int]:
        """Return the ids of these processes, the zygote's among them."""
        return [each.pid for each in (*self._children, self._zygote) if each is not None]

    def close(self, patience_seconds: float = REAP_SECONDS) -> None:
        """End all remaining processes."""
        if self._children:
            self.usage.sample()
        for child in self._children:
            child.end(patience_seconds)
            if isinstance(child, Child):
                self.prepared = self.prepared.most(child.prepared)
        self._children.clear()
        if self._zygote is not None:
            self._zygote.end(patience_seconds)
            self._zygote = None
        self.left_processes = kill_orphans([], patience_seconds) or self.left_processes
        self._extensions.close()

    def _load_deadline(self) -> float:
        return min(time.monotonic() + self._job.limits.load_seconds, self.latest)

    def _send_load(
        self,
        child: Child,
        home: Path,
        file: str,
        entry: str,
        shown_as: str,
        *,
        profile: str = "",
        traced: bool = False,
        trusted: bool = False,
    ) -> None:
        self._load(
            child,
            home / CODE,
            scratch=str(home),
            readable=self.container.readable(self._readable),
            writable=[*self._extensions_of(home).values()],
            file=file,
            entry=entry,
            shown_as=shown_as,
            adapter="" if trusted or file == LIBRARY else self._job.adapter,
            compiled=file == LIBRARY,
            prepares=bool(self._job.rules.prepare) and not trusted,
            profile=profile,
            traced=traced,
            spared_processes=0 if trusted else _spared_processes(),
            # In a container, where none of them exists, the same ids may be those of a submission's threads.
            others=[]
            if self.container.contained
            else [os.getppid(), os.getpid(), *(x for x in self.pids() if x != child.pid)],
        )

    def _load(self, child: Child, folder: Path, **more: object) -> None:
        common = {"device": self._job.device, "value_bytes": self._job.limits.value_bytes}
        descriptors = [] if child.crash is None else [child.crash.descriptor]
        child.send({"type": "load", "folder": str(folder), **common, **more}, descriptors)

    def _new_worker(
        self,
        home: Path,
        printed: Sequence[Printed],
        printed_bytes_max: int,
        profiler: Sequence[str] = (),
        writable: Sequence[Path] = (),
    ) -> Child:
        """Start a worker process: forked, or by a command: a profiler, the container, or a profiler in the container.

        Raises:
            NotForked: the profiler started none.
        """
        container, folders = self.container, sandbox.seen_by_workers(self._readable)
        if not (container.contained or profiler):
            return self._fork("worker", home, home, printed, printed_bytes_max)
        try:
            child = started(
                [*container.command(home, folders, writable, self._job.device), *profiler],
                self.harness,
                environment=container.environment(_environment(self._job, home)),
                cwd=home,
                printed=printed,
                printed_bytes_max=printed_bytes_max,
                deadline=self._load_deadline(),
                modules=self.modules,
                python=container.python,
                contained=container.contained,
            )
        except NotForked as error:
            if profiler:
                raise
            raise CallFailed(Verdict.INFRA_ERROR, str(error)) from None
        self._children.append(child)
        return child

    def _extensions_of(self, home: Path) -> dict[str, str]:
        """Return the variable for the kept extensions of a submission's worker; none for other workers."""
        is_submissions = home == self.scratch / WORKER_HOME
        return {EXTENSIONS: str(self._extensions.path)} if self._extensions.path and is_submissions else {}

    def _fork(self, role: str, home: Path, cwd: Path, prints: Sequence[Printed], printed_bytes_max: int) -> Child:
        assert self._zygote is not None  # noqa: S101 - `start` comes first
        try:
            child = self._zygote.fork(
                role,
                environment={**private_folders(home), **self._extensions_of(home)},
                cwd=cwd,
                stdout=prints[0],
                stderr=prints[1],
                printed_bytes_max=printed_bytes_max,
                deadline=self._load_deadline(),
            )
        except NotForked as error:
            self.zygote_failed = True
            raise CallFailed(Verdict.INFRA_ERROR, str(error)) from None
        self._children.append(child)
        return child


def _environment(job: JobSpec, home: Path) -> dict[str, str]:
    """Return the environment of a job's processes; where a CPU stands in for a GPU, Triton interprets kernels."""
    return {**scrubbed(os.environ, home, job.environment), **({"TRITON_INTERPRET": "1"} if job.emulated else {})}
