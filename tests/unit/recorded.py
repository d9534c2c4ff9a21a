"""Boards in a folder of their own, with runs recorded in them, and the values that such runs are made of."""

import functools
import getpass
import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from click.testing import Result as Done

from hpc_board.board import Board
from hpc_board.cli.main import cli
from hpc_board.domain.draft import Draft
from hpc_board.domain.origin import NO_ORIGIN, Origin
from hpc_board.domain.run import Run, RunState, Status
from hpc_board.domain.score_interval import Interval
from hpc_board.files import LOCK_SECONDS
from hpc_board.model.result import Case, Log, Result, Timing, Verdict
from hpc_board.model.score import reference_score_s
from hpc_board.model.task import Mode
from hpc_board.runs.dispatch import DispatchPlan
from hpc_board.runs.reconciler import ClusterLocks
from hpc_board.store import Store
from hpc_board.store.submissions import NewRun, NewSubmission
from tests.commands import run_hpc_board
from tests.service import Services
from tests.values import replace

REPOSITORY = Path(__file__).resolve().parents[2]

SETTINGS = """\
board: board
tasks: [bundled, tasks]
clusters:
  here: {scheduler: local}
gpus:
  CPU: {cluster: here}
  H100: {cluster: here, device: cpu}
"""

KERNEL = """\
#!POPCORN leaderboard vectoradd_py
#!POPCORN gpu CPU


def custom_kernel(data):
    return data[0] + data[1]
"""

TASK = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
lang: py
description: A task for one GPU.
gpus: [H100]
"""

_OF_CLIENTS = frozenset({"TERM", "COLUMNS", "LINES", "NO_COLOR", "PYTHONPATH", "PYTHONUTF8", "PYTHONIOENCODING"})
"""Variables of the environment that matter only to commands."""

AT = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def full_device() -> Path:
    """The device on which every write fails for want of space; the test is skipped where it is something else."""
    device = Path("/dev/full")
    if not (device.exists() and stat.S_ISCHR(device.stat().st_mode)):
        pytest.skip("/dev/full is no device here")
    return device


@dataclass(frozen=True)
class Recorded:
    """A folder with settings, a task of its own, a kernel and a board."""

    folder: Path
    services: Services | None = None
    """The service through which commands reach the board; None for the files of the board."""

    @property
    def settings(self) -> Path:
        return self.folder / "hpc-board.yaml"

    @property
    def kernel(self) -> Path:
        return self.folder / "kernel.py"

    @property
    def door(self) -> Board:
        """The board as commands open it."""
        return self.board if self.services is None else self.services.board()

    @property
    def board(self) -> Board:
        """The board by its files."""
        return Board.open(self.settings, {"XDG_STATE_HOME": str(self.folder / "state")})

    def add(
        self,
        *statuses: Status,
        result: Result | None = None,
        score_s: float | None = None,
        interval: Interval | None = None,
        mode: Mode = Mode.RANKED,
        gpu: str = "CPU",
        user: str | None = None,
        file_name: str = "kernel.py",
        code: bytes | None = None,
        task: str = "vectoradd_py",
        emulated: bool = True,
        origin: Origin = NO_ORIGIN,
        at: datetime = AT,
    ) -> Run:
        """Store a run that went through `statuses`, and is finished where there is a `result`.

        It is `emulated` if its GPU is no CPU. Its code is that of no other run, unless it is given.

        A service that runs meanwhile sees the run as it is in the end.
        """
        board = self.board
        board.settings.board.mkdir(exist_ok=True)
        store = Store(with_new_database(board.settings.board / "board.db"))
        # Between its row and its first status, a pass would send the run, or end it.
        with ClusterLocks(board.settings.board, store).of("here", wait_seconds=LOCK_SECONDS) as mine:
            assert mine
            count = store.runs.count()
            others = f"number = {count}\n" if count else ""
            _, (run,) = store.submissions.add(
                NewSubmission(
                    task=board.tasks.get(task),
                    user=user or getpass.getuser(),
                    file_name=file_name,
                    code=f"{KERNEL}{others}".encode() if code is None else code,
                    mode=mode,
                    note="",
                    at=at,
                    runs=[
                        NewRun(gpu, "here", "", os.urandom(8).hex(), "nonce", "self-run", emulated and gpu != "CPU", "")
                    ],
                    origin=origin,
                ),
                sender=None,
            )
            for status in statuses:
                store.runs.record(run.id, status)
            if result is not None:
                end = datetime.fromisoformat(result.ended_at)
                ranking_by = board.tasks.get(task).ranking_by
                store.runs.finish(
                    run.id,
                    status_of(RunState.FINISHED),
                    replace(result, run=run.id),
                    score_s,
                    end,
                    interval=interval,
                    reference_s=None if score_s is None else reference_score_s(result.cases, ranking_by),
                )
            return store.runs.get(run.id)

    def hpc_board(self, *argv: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run `hpc-board` with these arguments, as a process of its own in this folder."""
        if not any(name.startswith("PYTHON") for name in environ):
            return run_hpc_board(argv, environ=self.environ(**environ), folder=self.folder)
        # The interpreter itself reads these as it starts.
        return subprocess.run(
            [sys.executable, "-m", "hpc_board", *map(str, argv)],
            cwd=self.folder,
            env=self.environ(**environ),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def environ(self, **more: str) -> dict[str, str]:
        """An environment in which this folder's settings are found and no other."""
        own = {"HPC_BOARD_CONFIG": str(self.settings), "PYTHONPATH": str(REPOSITORY), "HOME": str(self.folder)}
        if self.services is not None:
            beyond = {name: value for name, value in more.items() if name not in _OF_CLIENTS and "COMP" not in name}
            own["HPC_BOARD_SERVICE"] = str(self.services.socket({**own, **beyond} if beyond else {}))
            del own["HPC_BOARD_CONFIG"]
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
        return {**kept, **own, **more}


@functools.cache
def new_database() -> bytes:
    """Return a database without runs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "board.db"
        Store(path).runs.in_flight()
        return path.read_bytes()


def with_new_database(path: Path) -> Path:
    """Return `path`, at which there is a database: a copy takes a tenth of the time of its making."""
    if not path.exists():
        path.write_bytes(new_database())
        path.chmod(0o600)
    return path


REFERENCE = "def ref_kernel(data):\n    return data\n\n\ngenerate_input = check_implementation = abs\n"


def recorded(folder: Path) -> Recorded:
    """A board without runs in the empty `folder`."""
    own = folder / "tasks" / "narrow"
    own.mkdir(parents=True)
    (own / "task.yml").write_text(TASK)
    (own / "reference.py").write_text(REFERENCE)
    (folder / "hpc-board.yaml").write_text(SETTINGS)
    (folder / "kernel.py").write_text(KERNEL)
    return Recorded(folder)


def status_of(state: RunState, *, reason: str = "", source: str = "", job_id: str = "104") -> Status:
    """A status of a job on node n1."""
    return Status(state, AT, job_id=job_id, node="n1", reason=reason, source=source)


def timed_case(index: int = 0, *, time_ns: float = 12_340.0, spec: str = "size: 1024") -> Case:
    """A benchmark case that passed, with three calls around `time_ns`."""
    samples = (time_ns - 100, time_ns, time_ns + 3_000)
    return Case("benchmark", index, spec, Verdict.PASS, "", Timing(3, time_ns + 20, time_ns, 70, 40, *_ends(samples)))


def row_case(
    index: int = 0,
    *,
    low_ns: float = 1.9e6,
    time_ns: float = 2.1e6,
    high_ns: float = 2.4e6,
    busy: float = 0.0,
    reference_ns: float | None = 7.14e6,
) -> Case:
    """A benchmark case that passed and was timed in rows, as on a CPU."""
    rows = (low_ns, time_ns, high_ns)
    timing = Timing(3, sum(rows) / 3, time_ns, 7e4, 4e4, *_ends(rows), (1, 1, 1), reference_ns)
    told = replace(
        timing, low_ns=low_ns, high_ns=high_ns, bound_ns=5e5, kernel_clock_ns=time_ns - 1, busy_processors=busy
    )
    return Case("benchmark", index, f"size: {1024 * 2**index}", Verdict.PASS, "", told)


def _ends(samples: Sequence[float]) -> tuple[float, float, tuple[float, ...]]:
    return min(samples), max(samples), tuple(samples)


def result_of(verdict: Verdict, *cases: Case, message: str = "", stdout: str = "", stderr: str = "") -> Result:
    """A ranked result of the run that it will be stored with."""
    return Result(
        run=0,
        nonce="nonce",
        mode="ranked",
        verdict=verdict,
        message=message,
        cases=cases,
        job_id="104",
        started_at="2026-05-01T12:00:00+00:00",
        ended_at="2026-05-01T12:00:09+00:00",
        stdout=Log(stdout),
        stderr=Log(stderr),
        provenance={"host": "n1", "cpu": "EPYC", "torch": "2.13.0", "emulated": False, "task_sha256": "ab" * 32},
    )


def call(board: Recorded, *argv: str | Path) -> Done:
    """The command within this process, on the board of the test."""
    state = {"XDG_STATE_HOME": str(board.folder / "state")}
    return CliRunner().invoke(cli, [*map(str, argv)], obj=lambda: board.door, env=state)


def read(board: Recorded, *argv: str | Path) -> Any:
    """Return the command's JSON; the command must succeed."""
    done = call(board, *argv, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def once_drafted(board: Board, act: Callable[[], object]) -> None:
    """Have `board` call `act` between the checks of its next submission and its storage."""
    plan = board.submissions._plan

    def plan_later(drafts: Sequence[Draft], array: bool | None) -> DispatchPlan:
        board.submissions._plan = plan  # type: ignore[method-assign]
        act()
        return plan(drafts, array)

    board.submissions._plan = plan_later  # type: ignore[method-assign]
