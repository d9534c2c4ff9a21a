"""Runs one adversarial submission under the real harness, and sees what it did to the world outside."""

import functools
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from hpc_board.domain.result_json import decode_result
from hpc_board.model.result import Result
from hpc_board.runs import job_folder
from tests.harness.adversarial.suite import SUITE, Cheat
from tests.harness.adversarial.tasks import TASKS
from tests.harness.evaluations import make_job_folder
from tests.harness.harness_file import Edit, edited
from tests.harness.neighbours import busy

_SECONDS = 150
_ROOT = Path(__file__).resolve().parents[3]
_ADOPTING = Path(__file__).parent / "adopting.py"
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


@dataclass(frozen=True)
class Outcome:
    """The end of a submission, and its effects outside.

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
    def reference_ns(self) -> float:
        """The reference's time, in the last case."""
        timing = self.result.cases[-1].timing
        return timing.reference_ns or 0.0 if timing else 0.0

    @property
    def score_ns(self) -> float:
        """The time that counts, in the last case; 0 where that was not timed."""
        timing = self.result.cases[-1].timing
        return timing.time_ns if timing else 0.0

    @property
    def last_case_seconds(self) -> float:
        """The time from the beginning of the last case to the verdict, by the progress file."""
        begun = [line for line in self.lines if line["case"] is not None]
        return (_at(self.lines[-1]) - _at(begun[-1])).total_seconds()


def level() -> str:
    """The level at which this node confines a worker."""
    return outcome(next(each for each in SUITE if each.name == "p02_wrong_zero")).isolation


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
        with busy(cheat.neighbours):
            left_processes, peak_bytes = _run(job, environ, _prefix(cheat, scratch))
    result = decode_result((job / job_folder.RESULT).read_bytes())
    logs = f"{result.stdout.text}\n{result.stderr.text}"
    effects = [line for line in logs.splitlines() if line.startswith("REACHED")]
    effects += ["a secret in what it printed"] * (secret in logs)
    effects += [f"{left_processes} processes that were left"] * bool(left_processes)
    effects += [f"{path.name} that was left in the scratch folder" for path in scratch.iterdir()]
    effects += ["another folder changed"] * ([path.name for path in victims.iterdir()] != ["kept"])
    effects += ["control characters in what it printed"] * bool(_CONTROL.search(logs + result.message))
    effects += ["nothing was tried"] * (cheat.tries and "TRIED" not in logs)
    lines = [json.loads(line) for line in (job / job_folder.PROGRESS).read_text().splitlines()]
    return Outcome(result, tuple(effects), tuple(lines), peak_bytes)


def _run(job: Path, environ: dict[str, str], prefix: list[str]) -> tuple[int, int]:
    """Run the batch script by way of a command; return what it left: processes, and its supervisor's peak memory."""
    command = [sys.executable, "-S", str(_ADOPTING), str(_SECONDS), *prefix, "bash", job_folder.SCRIPT]
    done = subprocess.run(command, cwd=job, env=environ, stdout=subprocess.PIPE, check=True)
    left_processes, peak_bytes = json.loads(done.stdout)
    return left_processes, peak_bytes


def _prefix(cheat: Cheat, scratch: Path) -> list[str]:
    """Return the words before the command of a job that is to be as the cheat wants it."""
    room = [sys.executable, "-c", _SMALL, str(_ROOT), str(scratch), str(cheat.scratch_bytes)]
    return [*(room if cheat.scratch_bytes else ()), *(() if cheat.privileged else without_capabilities())]


def without_capabilities() -> list[str]:
    """Return the words that take root's privileges from a command: jobs have none, and with them much would be open."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return []
    return ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"]


def _at(line: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(line["at"])
