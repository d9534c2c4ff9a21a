"""The runner: judges the runs of its queue one after another, in one job of the scheduler.

It imports neither task nor submission. For each run a zygote, which has imported the modules of the harness and of the
task, forks a supervisor in a session of its own, whose processes are as new as in a job of its own. After each run the
runner looks for leftover processes, files and objects. If it finds any, it retires: the runs behind go elsewhere.
"""

import hashlib
import json
import math
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import hpc_board.harness
from hpc_board.harness.confine import sandbox
from hpc_board.harness.confine.scratch import SCRATCH, remove, scrubbed
from hpc_board.harness.node import GPU_SETTINGS, gpu_settings, visible_gpu
from hpc_board.harness.processes.child import Child, ChildEnded, DeadlinePassed
from hpc_board.harness.processes.output import Printed
from hpc_board.harness.processes.signals import Interruption
from hpc_board.harness.processes.spawn import NotForked, Zygote
from hpc_board.harness.processes.tree import kill_orphans, signal_all
from hpc_board.harness.result_file import RESULT, account
from hpc_board.model.job_environment import JobEnvironment, log_name
from hpc_board.model.limits import USUAL_RUNS
from hpc_board.model.result import LONGEST_CALL, Verdict
from hpc_board.model.runner import (
    DONE,
    FACTS,
    PLACE,
    QUEUE,
    RELEASE,
    STATE,
    STOP,
    TAKEN,
    WITHDRAWN,
    End,
    Entry,
    State,
    decoded,
    encoded,
    is_entry,
    record_end,
)

_HOME = "scratch"
"""The file in the runner's folder with the path of its scratch folder, which is removed if the runner is killed."""

_IDLE_PAUSE_SECONDS_MAX = 0.2
_MARK = ".mark"
_MARK_SECONDS = 1.0
_BUSY_PAUSE_SECONDS = 0.5
_BEAT_SECONDS = 5.0
_MARGIN_SECONDS = 15
"""The part of the runner's time that no run may need: to end its processes, and to write its result."""

_TERM_GRACE_SECONDS = 20.0
_SIGNALS_SECONDS = 2.0
_SIGNALS_PAUSE_SECONDS = 0.1
_TOLD_TO_END = "the job of its runner was told to end"
_FORK_SECONDS = 120.0
_GPU_SETTLES_SECONDS = 5.0
_GPU_MEMORY_MIB = 64
_COMPARED = {name.replace(".", "_") for name in GPU_SETTINGS}
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - only listed
_NO_SHARED_OBJECTS = "S3"
_KERNEL_OBJECTS = ("shm", "sem", "msg")


def run_queue(path: Path, harness: Path) -> int:
    """Judge the runs of the queue beside the file at `path` until it is idle, released, or its time is over."""
    began = time.monotonic()
    sandbox.guard_supervisor()
    os.umask(0o027)
    interruption = Interruption()
    runner = _Runner(path.resolve().parent, harness, json.loads(path.read_bytes()), began, interruption)
    try:
        runner.serve()
    finally:
        runner.close()
    return interruption.status


def account_queue(path: Path, status: int) -> int:
    """Write the result of the run that a runner had in hand when it ended with `status`, and return that.

    A submission that can send signals may have killed it. Remove its scratch folder, too.
    """
    folder, spec = path.resolve().parent, json.loads(path.read_bytes())
    for taken in (folder / TAKEN).glob("*"):
        entry = decoded(taken.read_bytes(), Entry)
        os.environ[JobEnvironment.of(spec["job_environment"]).job_id] = entry.job_id
        account(folder.parent / entry.job / FACTS, status)
    with suppress(OSError):
        home = Path((folder / _HOME).read_text(encoding="utf-8"))
        if home.name.startswith(SCRATCH):
            remove(home)
    return status


class _Runner:
    """The runner's queue in `folder`, its zygotes, and the runs so far."""

    def __init__(
        self, folder: Path, harness: Path, spec: Mapping[str, Any], began: float, interruption: Interruption
    ) -> None:
        self._folder = folder
        self._harness = harness.resolve()
        self._spec, self._queue = spec, spec["queue"]
        self._interruption, self._parent = interruption, os.getppid()
        self._environment = JobEnvironment.of(spec["job_environment"])
        self._ends: float = began + min(self._queue["time_limit_seconds"], self._environment.seconds_left(os.environ))
        self._home = Path(tempfile.mkdtemp(prefix=SCRATCH))
        (folder / _HOME).write_text(str(self._home), encoding="utf-8")
        self._zygotes: dict[tuple[str, ...], Zygote] = {}
        self._gpu = visible_gpu(os.environ) if spec["device"] == "cuda" else ""
        self._gpu_before = gpu_settings(self._gpu)
        self._place = 0
        self._calls: dict[tuple[str, str], list[float]] = {}
        """The longest processor time of a call of each run in mode test that passed, by user and hash of its task."""
        self._before_sha256 = ""
        self._retired = ""
        self._described = -_BEAT_SECONDS
        self._started_at = _now()
        self._marked = -_MARK_SECONDS

    def serve(self) -> None:
        """Judge the runs of the queue until there is a reason to retire."""
        for name in (QUEUE, TAKEN, DONE, WITHDRAWN):
            (self._folder / name).mkdir(exist_ok=True)
        self._end_those_before()
        self._zygote_of(self._queue["modules"])
        idle_since = time.monotonic()
        while not self._retired:
            names = [path.name for path in (self._folder / QUEUE).iterdir()]
            waiting = sorted(filter(is_entry, names))
            idle_seconds = time.monotonic() - idle_since
            if self._is_over():
                self._retired = "its job was told to end"
            elif RELEASE in names:
                self._retired = "it was released"
            elif self._left_seconds() < _MARGIN_SECONDS:
                self._retired = "its time is over"
            elif waiting:
                self._take(waiting[0])
                self._describe(0)
                idle_since = time.monotonic()
            elif idle_seconds >= self._queue["idle_seconds"]:
                self._retired = f"it was idle for {idle_seconds:.0f} s"
            else:
                self._describe(_BEAT_SECONDS)
                self._mark()
                time.sleep(min(_IDLE_PAUSE_SECONDS_MAX, 0.01 + idle_seconds / 100))
        self._describe(0)

    def _end_those_before(self) -> None:
        """Record the end of the run in hand when the scheduler restarted the job: no end of a job will explain it."""
        taken, done = self._folder / TAKEN, self._folder / DONE
        in_hand, ended = ({path.name for path in part.iterdir()} for part in (taken, done))
        self._place = len(in_hand | ended)
        for name in in_hand | ended:
            if name not in ended or b'"runner_ended"' in (done / name).read_bytes():
                record_end(self._folder, name, End("node_fail", "the scheduler has restarted its runner"))
            else:
                (taken / name).unlink(missing_ok=True)

    def close(self) -> None:
        """End the zygotes."""
        for zygote in self._zygotes.values():
            zygote.end()
        remove(self._home)

    def _is_over(self) -> bool:
        """Return whether the job was told to end, or its batch script killed: Slurm may not find this process then."""
        return bool(self._interruption.status) or os.getppid() != self._parent

    def _left_seconds(self) -> float:
        return self._ends - time.monotonic()

    def _take(self, name: str) -> None:
        """Judge the run of an entry, unless a client withdraws it meanwhile.

        A run for which too little time is left, or whose entry is damaged, is set aside: it needs a job of its own.
        """
        path, taken = self._folder / QUEUE / name, self._folder / TAKEN / name
        entry = None
        try:
            with suppress(ValueError):
                entry = decoded(path.read_bytes(), Entry)
            if entry is None or entry.least_seconds + _MARGIN_SECONDS > self._left_seconds():
                path.rename(self._folder / WITHDRAWN / name)
                return
            path.rename(taken)
        except OSError as error:
            if path.exists():
                self._retired = f"the run cannot be taken: {error.strerror}"
            return
        self._place += 1
        self._describe(0)
        end = self._judged(name, entry)
        if end is None:
            taken.rename(path)
        else:
            record_end(self._folder, name, end)

    def _judged(self, name: str, entry: Entry) -> End | None:
        """Judge a run; retire if it leaves anything behind, or if the GPU has failed.

        If it cannot begin, retire and return None.
        """
        folder = self._folder.parent / entry.job
        if not folder.is_dir():
            return End("node_fail", "its job folder does not exist")
        printed, before = Printed(), _shared_objects()
        try:
            home = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=self._home))
            environment = self._environment_of(entry, home)
            child = self._supervisor(folder, entry, environment, printed)
        except (NotForked, OSError) as error:
            self._retired = f"the run cannot begin: {error}"
            return None
        try:
            end, code = self._waited(child, name, entry.seconds)
        finally:
            child.end()
            with suppress(OSError), (folder / log_name(entry.job_id)).open("a", encoding="utf-8") as file:
                file.write(printed.log().text)
        if end.state == "ended" and code:
            command = [sys.executable, "-I", "-B", str(self._harness), "account", str(folder / FACTS)]
            subprocess.run([*command, str(128 - code if code < 0 else code)], env=environment, check=False)
        self._retired = self._left_behind(home) or self._harm(folder, code, before)
        return end

    def _supervisor(self, folder: Path, entry: Entry, environment: Mapping[str, str], printed: Printed) -> Child:
        child = self._zygote_of(entry.modules).fork(
            "supervisor",
            environment={},
            cwd=folder,
            stdout=printed,
            stderr=printed,
            printed_bytes_max=2**62,
            deadline=time.monotonic() + _FORK_SECONDS,
        )
        # A kernel is not late by those of other users.
        user = json.loads((folder / FACTS).read_bytes())["user"]
        usual_seconds = {
            task: max(found) for (of, task), found in self._calls.items() if of == user and len(found) >= USUAL_RUNS
        }
        frame = {
            "type": "run",
            "job": str(folder / FACTS),
            "harness": str(self._harness),
            "modules": entry.modules,
            "usual_seconds": usual_seconds,
        }
        descriptor = os.memfd_create("environment", os.MFD_CLOEXEC)
        try:
            os.pwrite(descriptor, json.dumps(environment).encode(), 0)
            child.send(frame, [descriptor])
        finally:
            os.close(descriptor)
        return child

    def _waited(self, child: Child, name: str, seconds: int) -> tuple[End, int]:
        """Wait for a supervisor; return how the run ended, and the supervisor's exit status, -n for signal n.

        A supervisor that has to end leaves its result like that of any job that is told to end.
        """
        end, late = End("ended", ""), time.monotonic() + seconds
        killed_at = math.inf
        while time.monotonic() < killed_at:
            try:
                child.answer((), time.monotonic() + _BUSY_PAUSE_SECONDS)
            except ChildEnded as error:
                code = error.code or 0
                if end.state == "ended" and self._is_told_to_end(code):
                    end = End("runner_ended", _TOLD_TO_END)
                how = f"killed by signal {-code}" if code < 0 else f"exited with status {code}"
                # A supervisor that ended well has left a whole result before it had the signal.
                return End(end.state, end.reason or how) if code else End("ended", how), code
            except DeadlinePassed:
                self._describe(_BEAT_SECONDS)
            if end.state == "ended":
                if self._is_over():
                    end = End("runner_ended", _TOLD_TO_END)
                elif (self._folder / QUEUE / f"{name}{STOP}").exists():
                    end = End("cancelled", "cancelled while it ran")
                elif time.monotonic() >= late:
                    end = End("timeout", f"ran into its time limit of {seconds} s")
                elif self._left_seconds() < _MARGIN_SECONDS:
                    end = End("time_over", "the time of its runner was over")
                if end.state != "ended":
                    signal_all([child.pid], signal.SIGTERM)
                    killed_at = time.monotonic() + _TERM_GRACE_SECONDS
        return end, 0

    def _is_told_to_end(self, code: int) -> bool:
        """Return whether a supervisor with this exit status had the signal that tells the whole job to end.

        Slurm sends it to all processes, one after the other.
        """
        deadline = time.monotonic() + _SIGNALS_SECONDS
        while code == 128 + signal.SIGTERM and not self._interruption.status and time.monotonic() < deadline:
            time.sleep(_SIGNALS_PAUSE_SECONDS)
        return bool(code and self._interruption.status)

    def _environment_of(self, entry: Entry, home: Path) -> dict[str, str]:
        """Return the environment of a run: the job's, in which the run is a job of its own that has not restarted."""
        place = f"{self._folder.name},{self._place},{self._before_sha256}"
        kept = {name: value for name, value in os.environ.items() if name != self._environment.restarts}
        return {**kept, "TMPDIR": str(home), self._environment.job_id: entry.job_id, PLACE: place}

    def _zygote_of(self, modules: Sequence[str]) -> Zygote:
        """Return the zygote with just these modules of tasks, and all of the harness: none is read from the file later.

        The first such run starts it.
        """
        key = tuple(sorted(modules))
        if key not in self._zygotes:
            own = [found.name for found in pkgutil.walk_packages(hpc_board.harness.__path__, "hpc_board.harness.")]
            extra = (*self._spec["environment"], *self._environment.passed_on)
            self._zygotes[key] = Zygote(
                self._harness,
                env=scrubbed(os.environ, self._home, extra),
                modules=[*own, *modules],
                printed=Printed(),
            )
        return self._zygotes[key]

    def _left_behind(self, home: Path) -> str:
        """Remove the files and processes of a run, and return a reason to retire if any stays; else ""."""
        with suppress(OSError):
            home.rmdir()  # the supervisor has removed the files of most runs
        remove(home)
        if home.exists():
            return f"the run has left files in {home} that cannot be removed"
        if left := kill_orphans([zygote.pid for zygote in self._zygotes.values()]):
            return f"the run has left {left} processes that cannot be ended"
        return ""

    def _harm(self, folder: Path, code: int, shared_before: frozenset[str]) -> str:
        """Return a reason to retire; else "".

        It is a dead supervisor, a new shared object, a changed or lost GPU, or another harness: processes of later runs
        read that file, which a submission can write without Landlock.
        """
        if not self._harness_is_whole():
            return "the run has changed the harness"
        try:
            result = (folder / RESULT).read_bytes()
        except OSError as error:
            return f"the run has left no result: {error.strerror}"
        self._before_sha256 = hashlib.sha256(self._before_sha256.encode() + result).hexdigest()
        if code < 0:
            return f"the run has ended its supervisor by signal {-code}"
        found = json.loads(result)
        facts = found["provenance"]
        if found["verdict"] == Verdict.PASS and LONGEST_CALL in facts:
            user = json.loads((folder / FACTS).read_bytes())["user"]
            self._calls.setdefault((user, facts["task_sha256"]), []).append(facts[LONGEST_CALL])
        if found["verdict"] == Verdict.DEVICE_ERROR:
            return "the GPU has failed"
        # Landlock refuses a submission any new object, so that another process of the user has made it.
        level = facts.get("isolation", "")
        if level and not sandbox.reaches(level, _NO_SHARED_OBJECTS) and (new := _shared_objects() - shared_before):
            return f"the run has left {min(new)}"
        deadline = time.monotonic() + _GPU_SETTLES_SECONDS
        while (changed := _changed(self._gpu_before, gpu_settings(self._gpu))) and time.monotonic() < deadline:
            time.sleep(_BUSY_PAUSE_SECONDS)
        return changed

    def _harness_is_whole(self) -> bool:
        with suppress(OSError):
            found = hashlib.sha256(self._harness.read_bytes()).hexdigest()
            return bool(found == self._spec["sha256"]["harness"])
        return False

    def _describe(self, seconds: float) -> None:
        """Write the state file if the last one is at least `seconds` old; it explains, and decides nothing."""
        if time.monotonic() - self._described < seconds:
            return
        self._described = time.monotonic()
        state = State(self._started_at, _now(), self._place, self._retired)
        with suppress(OSError):
            draft = self._folder / QUEUE / f".{STATE}"
            draft.write_bytes(encoded(state))
            draft.replace(self._folder / QUEUE / STATE)

    def _mark(self) -> None:
        """Change the folder of the queue if the last change is a second old: NFS lists it anew after a change.

        A new state file would cost a local file system six times as much.
        """
        if time.monotonic() - self._marked >= _MARK_SECONDS:
            self._marked = time.monotonic()
            with suppress(OSError):
                (self._folder / QUEUE / _MARK).touch()
                (self._folder / QUEUE / _MARK).unlink()


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def _shared_objects() -> frozenset[str]:
    """Return the names of this user's objects that outlive processes: in shared memory, and those of System V."""
    found = set()
    with suppress(OSError), os.scandir(_SHARED_MEMORY) as entries:
        found |= {entry.path for entry in entries if entry.stat(follow_symlinks=False).st_uid == os.getuid()}
    for kind in _KERNEL_OBJECTS:
        with suppress(OSError):
            head, *rows = [line.split() for line in Path(f"/proc/sysvipc/{kind}").read_text().splitlines()]
            found |= {
                f"the System V object {kind} {row[1]}" for row in rows if row[head.index("uid")] == str(os.getuid())
            }
    return frozenset(found)


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return how a GPU differs from its state before the first run; "" if it does not."""
    for name, value in before.items():
        found = after.get(name, "")
        if name == "memory_used" and value.isdigit() and found.isdigit():
            held_mib = int(found) - int(value)
            if held_mib > _GPU_MEMORY_MIB:
                return f"the run has left {held_mib} MiB in use on the GPU"
        elif name in _COMPARED and found != value:
            return f"{name} of the GPU has changed from {value} to {found or 'unknown'}"
    return ""
