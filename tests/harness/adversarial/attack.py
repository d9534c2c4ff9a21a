"""Runs one adversarial submission under the real harness, and sees what it did to the world outside."""

import ctypes
import functools
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from hpc_board.harness.processes.tree import children_of
from hpc_board.model.result import Result
from hpc_board.runs import job_folder
from tests.harness.adversarial.suite import SUITE, Cheat
from tests.harness.adversarial.tasks import TASKS
from tests.harness.evaluations import make_job_folder
from tests.harness.harness_file import Edit, edited

_PR_SET_CHILD_SUBREAPER = 36
_SECONDS = 150
_POLL_SECONDS = 0.02
_ROOT = Path(__file__).resolve().parents[3]
_SMALL = """
import os, pathlib, sys
sys.path.insert(0, sys.argv[1])
from tests import namespaces
namespaces.enter()
namespaces.make_small(pathlib.Path(sys.argv[2]), int(sys.argv[3]))
os.execvp(sys.argv[4], sys.argv[4:])
"""
"""Runs a command where a folder has little room."""
_CONTROL = re.compile(r"[^\n\t -~\u00a0-\U0010ffff]")

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Outcome:
    """How a submission ended, and what is to be seen of it outside.

    `effects` says in words what it reached or left behind that it should not have. `lines` are those of the progress
    file.
    """

    result: Result
    effects: tuple[str, ...]
    lines: tuple[dict[str, Any], ...]
    supervisor_peak_bytes: int

    @property
    def isolation(self) -> str:
        """The level at which the submission was confined."""
        return str(self.result.provenance.get("isolation", ""))

    @property
    def baseline_ns(self) -> float:
        """The reference's time, in the last case."""
        timing = self.result.cases[-1].timing
        return timing.baseline_ns or 0.0 if timing else 0.0

    @property
    def score_ns(self) -> float:
        """The time that counts, in the last case; 0 where that was not timed."""
        timing = self.result.cases[-1].timing
        return timing.median_ns if timing else 0.0

    @property
    def last_case_seconds(self) -> float:
        """The time from the beginning of the last case to the verdict, by the progress file."""
        begun = [line for line in self.lines if line["case"] is not None]
        return (_at(self.lines[-1]) - _at(begun[-1])).total_seconds()


def level() -> str:
    """The level at which this node confines a worker."""
    return outcome(SUITE[0]).isolation


@functools.cache
def outcome(cheat: Cheat, *edits: Edit) -> Outcome:
    """The outcome of a submission under the harness, or under one that was changed by `edits`."""
    folder = Path(tempfile.mkdtemp(prefix="hb-adversary-"))
    try:
        return _outcome(folder, cheat, edits)
    finally:
        shutil.rmtree(folder)


def _outcome(folder: Path, cheat: Cheat, edits: tuple[Edit, ...]) -> Outcome:
    secret = secrets.token_hex(16)
    victims, scratch = folder / "victims", folder / "scratch"
    for each in (victims, scratch):
        each.mkdir()
    (victims / "kept").write_text("kept")
    with socket.create_server(("127.0.0.1", 0)) as server:
        source = cheat.source.replace("@canary@", str(victims / "canary")).replace("@secret@", secret)
        source = source.replace("@port@", str(server.getsockname()[1]))
        name, harness = f"k{cheat.path.suffix}", edited(edits) if edits else b""
        job = make_job_folder(folder, source, TASKS[cheat.task], cheat.mode, file_name=name, harness=harness)
        environ = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "42", "TMPDIR": str(scratch), "HPC_BOARD_TOKEN": secret}
        with _adopting() as survivors:
            peak_bytes = _run(job, environ, _prefix(cheat, scratch))
    result = Result.from_json((job / job_folder.RESULT).read_bytes())
    logs = f"{result.stdout.text}\n{result.stderr.text}"
    effects = [line for line in logs.splitlines() if line.startswith("REACHED")]
    effects += ["a secret in what it printed"] * (secret in logs)
    effects += [f"{len(survivors)} processes that were left"] * bool(survivors)
    effects += [f"{path.name} that was left in the scratch folder" for path in scratch.iterdir()]
    effects += ["another folder changed"] * ([path.name for path in victims.iterdir()] != ["kept"])
    effects += ["control characters in what it printed"] * bool(_CONTROL.search(logs + result.message))
    effects += ["nothing was tried"] * (cheat.tries and "TRIED" not in logs)
    lines = [json.loads(line) for line in (job / job_folder.PROGRESS).read_text().splitlines()]
    return Outcome(result, tuple(effects), tuple(lines), peak_bytes)


def _run(job: Path, environ: dict[str, str], prefix: list[str]) -> int:
    """Run the batch script by way of a command, and return the peak of the supervisor's resident memory."""
    shell = subprocess.Popen(
        [*prefix, "bash", job_folder.SCRIPT],
        cwd=job,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + _SECONDS
    supervisor, peak_bytes = None, 0
    try:
        while shell.poll() is None and time.monotonic() < deadline:
            if supervisor is None:
                supervisor = next(iter(children_of(shell.pid)), None)
            else:
                peak_bytes = max(peak_bytes, _peak_bytes(supervisor))
            time.sleep(_POLL_SECONDS)
    finally:
        if shell.poll() is None:
            os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
    return peak_bytes


def _prefix(cheat: Cheat, scratch: Path) -> list[str]:
    """What stands before the command of a job that is to be as the cheat wants it."""
    room = [sys.executable, "-c", _SMALL, str(_ROOT), str(scratch), str(cheat.scratch_bytes)]
    return [*(room if cheat.scratch_bytes else ()), *(() if cheat.privileged else _without_capabilities())]


def _without_capabilities() -> list[str]:
    """What takes root's privileges from a command: jobs have none, and with them much would be open."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return []
    return ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"]


@contextmanager
def _adopting() -> Iterator[list[int]]:
    """Adopt the processes that are left by what runs meanwhile, end them, and say which they were."""
    before = set(children_of(os.getpid()))
    survivors: list[int] = []
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield survivors
        survivors += [pid for pid in children_of(os.getpid()) if pid not in before]
    finally:
        while left := [pid for pid in children_of(os.getpid()) if pid not in before]:
            for pid in left:
                with suppress(ProcessLookupError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, os.WNOHANG)
            time.sleep(_POLL_SECONDS)
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _peak_bytes(pid: int) -> int:
    """The most resident memory that a process has had; 0 where it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("VmHWM:"))


def _at(line: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(line["at"])
