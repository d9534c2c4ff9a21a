"""The processes of one evaluation: a zygote, and what it forks: the judge, workers, the baseline, the prober."""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpc_board.harness.build.toolchain import LIBRARY
from hpc_board.harness.confine import sandbox
from hpc_board.harness.confine.container import Container, ContainerUnavailable, container
from hpc_board.harness.confine.scratch import (
    CODE,
    SCRATCH,
    copy,
    private,
    private_folders,
    remove,
    scrubbed,
    worker_home,
)
from hpc_board.harness.job_spec import JobSpec
from hpc_board.harness.own_eval.program import Program, Room
from hpc_board.harness.processes.calls import CallFailed, judge_answer, worker_answer
from hpc_board.harness.processes.child import Child
from hpc_board.harness.processes.output import Printed
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
from hpc_board.harness.wire.replies import Confined, Ready
from hpc_board.model.result import Verdict
from hpc_board.model.task import ENTRY, REFERENCE_ENTRY, Mode

_TRUSTED_PRINTED_BYTES = 2**30
_SPARED_PROCESSES = 32


def _spared_processes() -> int:
    """How many processes and threads of the user a submission leaves to the harness."""
    return _SPARED_PROCESSES + 2 * (os.cpu_count() or 1)


@contextmanager
def processes_for(job: JobSpec, folder: Path, harness: Path) -> Iterator["Processes"]:
    """Those of a job, in a scratch folder of their own; neither is left afterwards."""
    scratch = Path(tempfile.mkdtemp(prefix=SCRATCH))
    processes = Processes(job, folder, harness, scratch)
    try:
        yield processes
    finally:
        processes.close()
        remove(scratch)


class Processes:
    """The processes that judge and run one submission, and what they have printed.

    A compiled submission runs from `library` as soon as there is one, all workers in the `container` if there is one.
    `isolation` is the level that the last worker has reached, `left_processes` how many the system would not let go.
    `zygote_failed` says that it started no process when asked for one; `judge_said` may have the reason. `other_python`
    says how to have another Python where this one lacks what the task imports.
    """

    def __init__(self, job: JobSpec, folder: Path, harness: Path, scratch: Path) -> None:
        self.scratch = scratch
        self.harness = harness.resolve()
        self.environment = scrubbed(os.environ, scratch, job.environment)
        self.modules: Sequence[str] = ()
        self.stdout = Printed()
        self.stderr = Printed()
        self.judge_said = Printed()
        self.library: Path | None = None
        self.container: Container | None = None
        self.has_baseline = False
        self.isolation = ""
        self.left_processes = 0
        self.zygote_failed = False
        self.other_python = f"as gpus.{job.gpu}.python in the settings"
        self._job = job
        self._task = folder / "task"
        self._submission = folder / "submission"
        self._readable = sandbox.readable_folders(os.environ, job.readable, (str(folder), str(Path.home())))
        self._zygote: Zygote | None = None
        self._children: list[Child | Program] = []

    def start(self) -> None:
        """Start the process that all others are forked from."""
        self.modules = modules_of([self._submission, self._task], self._job.device)
        self._zygote = Zygote(self.harness, env=self.environment, modules=self.modules, printed=self.judge_said)

    def contain(self) -> dict[str, str]:
        """Have the container that the settings ask for, if they do, and return what a result says of it.

        Raises:
            CallFailed: this node cannot make it.
        """
        if self._job.sandbox is None:
            return {}
        try:
            self.container = container(self._job.sandbox, self.harness, os.environ, self.scratch)
        except ContainerUnavailable as error:
            raise CallFailed(Verdict.INFRA_ERROR, str(error)) from None
        return {"sandbox": self.container.description}

    def judge(self) -> Child:
        """A new process that imports the task, to make inputs and to check outputs."""
        return self._of_task("judge", compiled=self._job.language.compiled)

    def prober(self) -> Child:
        """A new process that imports the task, to answer in the place of a submission."""
        return self._of_task("prober")

    def worker(
        self,
        *,
        home: Path | None = None,
        profile: str = "",
        prefix: Sequence[str] = (),
        folder: Path | None = None,
        printed: Printed | None = None,
    ) -> Child:
        """A new process that imports the submission, or loads what has become of it.

        `prefix` is the profiler that starts it, if one does, and writes into `folder`; `profile` is how its calls are
        profiled or marked, and `printed` takes what it prints with that profiler.
        """
        home = home or worker_home(self.scratch, "worker")
        if self.library is None:
            file, source = self._job.submission, self._submission
        else:
            file, source = LIBRARY, self.library.parent
        copy([file], source, home / CODE)
        copy([name for name in self._job.files if not private(name)], self._task, home / CODE)
        limit = self._job.limits.printed_bytes
        if prefix:
            child = self._started(home, [printed or Printed()], limit, prefix, [] if folder is None else [folder])
        else:
            child = self._new_worker(home, (self.stdout, self.stderr), limit)
        entry = (file, ENTRY, self._job.shown_as)
        self._send_load(child, home, *entry, profile=profile, traced=bool(prefix))
        return child

    def loaded_worker(self) -> Child:
        """A new process that has imported the submission."""
        child = self.worker()
        self.await_worker(child)
        return child

    def baseline(self, *, reference: bool = True) -> Child:
        """A new process that has imported the reference, and calls it as others do the submission.

        Without a `reference` it has imported nothing: it only shows what a row of calls takes beside them.
        """
        home = worker_home(self.scratch, "baseline")
        copy(self._job.files, self._task, home / CODE)
        child = self._new_worker(home, (self.judge_said, self.judge_said), _TRUSTED_PRINTED_BYTES)
        file = "reference.py" if reference else ""
        self._send_load(child, home, file, REFERENCE_ENTRY, "reference.py", trusted=True)
        try:
            self.await_loaded(child, "reference")
        except CallFailed as error:
            message = f"the reference cannot be imported as a submission is: {error.message}"
            raise CallFailed(Verdict.TASK_ERROR, message) from None
        return child

    def await_ready(self, child: Child) -> dict[str, Any]:
        """Wait until judge or prober has imported the task, and return what it says of the device.

        Raises:
            CallFailed: it could not.
        """
        late = f"importing the reference did not return within {self._job.limits.load_seconds:g} s"
        answer, _ = judge_answer(child, ("ready", "failed"), self._load_deadline(), late)
        return dict(answer.facts) if isinstance(answer, Ready) else {}

    def await_judge(self, judge: Child) -> dict[str, Any]:
        """Wait until the judge has imported the task, and return what it says of the device.

        Raises:
            CallFailed: it could not.
        """
        try:
            found = self.await_ready(judge)
        except CallFailed as error:
            raise CallFailed(error.verdict, f"the judge could not start: {error.message}") from None
        self.has_baseline = bool(found.pop("baseline", False))
        return found

    def await_worker(self, worker: Child) -> None:
        """Wait until a worker has imported the submission.

        Raises:
            CallFailed: it could not, or it is less isolated than the board's ranked runs have to be.
        """
        self.await_loaded(worker, "submission", self.reached)

    def reached(self, level: str) -> None:
        """Note the level of isolation at which the submission runs.

        Raises:
            CallFailed: the board's ranked runs have to be isolated further.
        """
        self.isolation = level
        wanted = self._job.minimum_isolation
        if self._job.mode is Mode.RANKED and not sandbox.reaches(level, wanted):
            message = f"the board ranks at isolation {wanted} and above, and this node reaches {level}: "
            raise CallFailed(Verdict.INFRA_ERROR, message + sandbox.lacking(level, wanted))

    def await_loaded(self, worker: Child, what: str, reached: Callable[[str], None] | None = None) -> None:
        """Wait until a worker has imported `what`; `reached` is told before at which level that runs.

        Raises:
            CallFailed: it could not.
        """
        late = f"importing the {what} did not return within {self._job.limits.load_seconds:g} s"
        deadline = self._load_deadline()
        answer = worker_answer(worker, ("confined",), deadline, late)
        if isinstance(answer, Confined) and reached is not None:
            reached(answer.isolation)
        worker_answer(worker, ("loaded", "raised"), deadline, late)

    @contextmanager
    def alone(self, *trusted: Child | None) -> Iterator[None]:
        """A time in which all is stopped but the zygote, those `trusted`, and what they have started.

        Raises:
            CallFailed: something starts processes faster than they can be stopped, or did not stay stopped.
        """
        try:
            with stopped_but([each.pid for each in (*trusted, self._zygote) if each is not None]):
                yield
        except StillRunning:
            message = "its processes start others without end or wake by themselves while the reference is called"
            raise CallFailed(Verdict.TIMING_INCONSISTENT, message, worker_lost=True) from None

    def others(self, *trusted: Child | None) -> int:
        """How many processes there are beside the zygote and those `trusted`, whoever they belong to by now."""
        self.reap()
        known = [each.pid for each in (*trusted, self._zygote) if each is not None]
        return sum(not ended(pid) for pid in descendants_of(os.getpid(), known))

    @property
    def device(self) -> str:
        """The kind of device that the job is for."""
        return self._job.device

    def siblings(self, worker: Child) -> list[int]:
        """The processes beside a worker that a submission has started."""
        self.reap()
        trusted = [pid for pid in self.pids() if pid != worker.pid]
        own = (*worker.launchers, worker.worker_pid)
        return [pid for pid in below(os.getpid(), trusted) if pid not in own]

    def program(
        self,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        printed: tuple[Printed, Printed],
        *,
        reports: bool,
    ) -> Program:
        """A new process of the task's own eval, in the `folder` of its files, which it may only read.

        `environment` is added to that of all processes; `printed` takes standard output and standard error.
        """
        home = worker_home(self.scratch, "program")
        inside = {**self.environment, **private_folders(home), **environment}
        room = Room(
            folder,
            home,
            self._readable,
            inside,
            self._job.limits.value_bytes,
            _spared_processes(),
            python=self.python,
            network=self._job.world_size > 1,
        )
        if self.container is not None:
            folders = sandbox.seen_by_workers(self._readable)
            room = replace(
                room,
                readable=self.container.readable(self._readable),
                environment=self.container.environment(inside),
                prefix=self.container.command(home, folders, (), self._job.device, [folder]),
            )
        program = Program(command, self.harness, room, *printed, reports=reports)
        self._children.append(program)
        return program

    @property
    def python(self) -> str:
        """The interpreter with which programs of the task run."""
        return sys.executable if self.container is None else self.container.python

    def dismiss(self, child: Child | Program) -> None:
        """End a process, and whatever processes it has left."""
        child.end()
        self._children.remove(child)
        self._note_left(kill_orphans(self.pids()))

    def reap(self) -> None:
        """Take the status of every process that others have left, and that has ended."""
        reap_orphans(self.pids())

    def pids(self) -> list[int]:
        """Their ids, the zygote's among them."""
        return [each.pid for each in (*self._children, self._zygote) if each is not None]

    def close(self, patience_seconds: float = REAP_SECONDS) -> None:
        """End every process that is left."""
        for child in self._children:
            child.end(patience_seconds)
        self._children.clear()
        if self._zygote is not None:
            self._zygote.end(patience_seconds)
            self._zygote = None
        self._note_left(kill_orphans([], patience_seconds))

    def _note_left(self, processes: int) -> None:
        self.left_processes = processes or self.left_processes

    def _load_deadline(self) -> float:
        return time.monotonic() + self._job.limits.load_seconds

    def _of_task(self, role: str, **more: bool) -> Child:
        home = self.scratch / role
        home.mkdir(exist_ok=True)
        prints = (self.judge_said, self.judge_said)
        child = self._forked(role, home, self._task, prints, _TRUSTED_PRINTED_BYTES)
        readable = [*self._readable, *self._job.data, str(self._task.resolve())]
        self._load(child, self._task, scratch=str(home), readable=readable, other_python=self.other_python, **more)
        return child

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
            readable=self._readable if self.container is None else self.container.readable(self._readable),
            file=file,
            entry=entry,
            shown_as=shown_as,
            compiled=file == LIBRARY,
            profile=profile,
            traced=traced,
            spared_processes=0 if trusted else _spared_processes(),
        )

    def _load(self, child: Child, folder: Path, **more: object) -> None:
        """Tell a process where it finds what it is to import."""
        common = {"device": self._job.device, "value_bytes": self._job.limits.value_bytes}
        child.send({"type": "load", "folder": str(folder), **common, **more})

    def _new_worker(self, home: Path, prints: tuple[Printed, Printed], printed_bytes_max: int) -> Child:
        """A process that is a worker: forked, or started in the container, which is one for each."""
        if self.container is None:
            return self._forked("worker", home, home, prints, printed_bytes_max)
        try:
            return self._started(home, prints, printed_bytes_max)
        except NotForked as error:
            raise CallFailed(Verdict.INFRA_ERROR, str(error)) from None

    def _started(
        self,
        home: Path,
        prints: Sequence[Printed],
        printed_bytes_max: int,
        profiler: Sequence[str] = (),
        writable: Sequence[Path] = (),
    ) -> Child:
        """A worker that a command starts: a profiler, the container, or a profiler in the container."""
        environment, prefix, python = scrubbed(os.environ, home, self._job.environment), list(profiler), sys.executable
        if self.container is not None:
            folders = sandbox.seen_by_workers(self._readable)
            prefix = [*self.container.command(home, folders, writable, self._job.device), *prefix]
            environment, python = self.container.environment(environment), self.container.python
        child = started(
            prefix,
            self.harness,
            environment=environment,
            cwd=home,
            printed=prints,
            printed_bytes_max=printed_bytes_max,
            deadline=self._load_deadline(),
            modules=self.modules,
            python=python,
            contained=self.container is not None,
        )
        self._children.append(child)
        return child

    def _forked(
        self, role: str, home: Path, cwd: Path, prints: tuple[Printed, Printed], printed_bytes_max: int
    ) -> Child:
        if self._zygote is None:
            raise ValueError("there is nothing to fork")
        try:
            child = self._zygote.fork(
                role,
                environment=private_folders(home),
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
