"""The runner of a slot: a process that judges runs with one batch script in turn, each without a start of its own."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from hpc_board.domain.run import JobState
from hpc_board.files import read_bounded, write_whole
from hpc_board.model.runner import DONE, FACTS, QUEUE, STOP, decoded, encoded, entry_name
from hpc_board.model.runner import End as RunnerEnd
from hpc_board.model.runner import Entry as RunnerEntry
from hpc_board.schedulers.local.queue import RECORD_BYTES_MAX, End, Entry

_STARTER = "harness.py"
_FACTS_BYTES_MAX = 64 * 2**20
_IDLE_SECONDS = 60
_TIME_LIMIT_SECONDS = 10**9
"""A runner of this machine ends when no run waits for it; without a spooler, after _IDLE_SECONDS."""

_PATIENCE_SECONDS = 60.0
"""The time for a runner to end a run that has to end, and to look for leftovers; after it, the runner is killed."""

_FOLDER_END = "-runner"
_ENDS = {"ended": JobState.ENDED, "cancelled": JobState.CANCELLED, "timeout": JobState.TIMEOUT}


class Request(msgspec.Struct, frozen=True):
    """The parts that runs have in common if one runner judges them: batch script, harness and environment."""

    commands: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    facts: str


def request_of(job: Entry) -> Request | None:
    """Return the request of a run; None for a job that needs a batch script of its own, such as a probe."""
    folder = Path(job.folder)
    try:
        facts = json.loads(read_bounded(folder / FACTS, _FACTS_BYTES_MAX))
        script = read_bounded(folder / job.script, _FACTS_BYTES_MAX).decode()
        shared = {name: facts[name] for name in ("format", "device", "environment", "job_environment", "sha256")}
    except (OSError, ValueError, LookupError, TypeError):
        return None
    if not job.shares_runner or "run" not in facts:
        return None
    shared["sha256"] = {"harness": shared["sha256"]["harness"]}
    # Comments name the task and the mode.
    commands = tuple(line for line in script.splitlines() if not line.startswith("# "))
    return Request(commands, tuple(sorted(job.environment.items())), json.dumps(shared, sort_keys=True))


class LocalRunner:
    """A runner for the runs of one `request`; its processes share the descriptor of the `device`'s lock.

    The name of its first job marks its processes. `has_judged` says whether it has taken a run.
    """

    def __init__(self, job: Entry, request: Request, environment: Mapping[str, str], device: int) -> None:
        self.request = request
        self.device = device
        self.has_judged = False
        self._number = 0
        own = Path(job.folder)
        self.folder = runner_folder(job)
        (self.folder / QUEUE).mkdir(mode=0o700, parents=True)
        facts: dict[str, Any] = json.loads(request.facts)
        modules = _modules(own, facts["device"])
        facts["queue"] = {"idle_seconds": _IDLE_SECONDS, "time_limit_seconds": _TIME_LIMIT_SECONDS, "modules": modules}
        (self.folder / FACTS).write_text(json.dumps(facts), encoding="utf-8")
        for name in (job.script, _STARTER):
            shutil.copyfile(own / name, self.folder / name)
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                ["bash", str(self.folder / job.script)],
                cwd=self.folder,
                env=dict(environment),
                pass_fds=[device],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def judge(self, job: Entry, unwanted: Callable[[], bool]) -> End | None:
        """Have a run judged, and return its end; None if the runner did not take the run.

        `unwanted` waits for a moment, and returns whether the run is to be cancelled.
        """
        self._number += 1
        folder = Path(job.folder)
        modules = _modules(folder, json.loads(self.request.facts)["device"])
        entry = RunnerEntry(folder.name, str(job.number), job.time_limit_seconds, job.time_limit_seconds, modules)
        name = entry_name(self._number, folder.name)
        try:
            write_whole(self.folder / QUEUE / name, encoded(entry))
        except OSError:
            return None
        state, late = JobState.ENDED, time.monotonic() + job.time_limit_seconds + _PATIENCE_SECONDS
        while (end := self._end_of(name)) is None and self._process.poll() is None:
            if unwanted() and state is JobState.ENDED:
                state, late = JobState.CANCELLED, time.monotonic() + _PATIENCE_SECONDS
                with suppress(OSError):
                    (self.folder / QUEUE / f"{name}{STOP}").touch()
            if time.monotonic() >= late:
                state = JobState.TIMEOUT if state is JobState.ENDED else state
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        end = end or self._end_of(name)
        if end is None and (self.folder / QUEUE / name).exists():
            return None
        self.has_judged = True
        return end or End(state, f"its runner exited with status {self._process.returncode}")

    def _end_of(self, name: str) -> End | None:
        try:
            found = decoded(read_bounded(self.folder / DONE / name, RECORD_BYTES_MAX), RunnerEnd)
        except FileNotFoundError:
            return None
        return End(_ENDS.get(found.state, JobState.NODE_FAIL), found.reason)

    def serves(self, request: Request | None) -> bool:
        """Return whether the runner may take a run with this request."""
        return self._process.poll() is None and request == self.request


def runner_folder(job: Entry) -> Path:
    """Return the folder of a runner whose first run is `job`: beside the job folder, since the harness is near."""
    return Path(job.folder).with_name(f"{job.name}{_FOLDER_END}")


def runner_name(folder: Path) -> str:
    """Return the name that marks the processes of the runner with this folder."""
    return folder.name.removesuffix(_FOLDER_END)


def _modules(folder: Path, device: str) -> list[str]:
    from hpc_board.harness.processes.zygote import modules_of

    return modules_of([folder / "submission", folder / "task"], device)
