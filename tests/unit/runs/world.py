"""A board with one scripted cluster, the results of its jobs, and its clock."""

import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hpc_board.domain import run as domain_run
from hpc_board.domain.job_options import NO_OPTIONS, JobOptions
from hpc_board.domain.run import Run, RunState
from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.model.result import Case, Result, Timing, Verdict
from hpc_board.model.task import Mode, Task
from hpc_board.runs import clusters, job_folder, job_polling, job_results, launcher, reconciler
from hpc_board.runs.reconciler import Pass, Reconciler
from hpc_board.store import Store
from hpc_board.store.submissions import NewRun, NewSubmission
from tests.harness.evaluations import a_task
from tests.scripted import Scripted
from tests.unit.recorded import with_new_database
from tests.values import replace

HARNESS = b"the harness"

CODE = b"def custom_kernel(data): ...\n"

CLUSTER = Cluster("main", "slurm", poll_seconds=0)
GPU = Gpu("H100", CLUSTER, Device.CUDA, partition="gpu", python=sys.executable)


@dataclass
class World:
    """A board with one scripted cluster."""

    folder: Path
    scheduler: Scripted
    advance: Reconciler
    store: Store

    def run(
        self,
        mode: Mode = Mode.RANKED,
        task: Task | None = None,
        cluster: str = "main",
        *,
        fresh: bool = False,
        user: str = "ada",
        script: str = "",
        options: JobOptions = NO_OPTIONS,
    ) -> Run:
        _, (run,) = self.store.submissions.add(
            NewSubmission(
                task=task or a_task(),
                user=user,
                file_name="k.py",
                code=CODE,
                mode=mode,
                note="",
                at=datetime.now(UTC),
                runs=[
                    NewRun(
                        "H100",
                        cluster,
                        "gpu",
                        os.urandom(8).hex(),
                        "n",
                        "self-run",
                        False,
                        sha256_of(HARNESS),
                        script=script or script_of(task or a_task(), mode),
                        account="" if user == "ada" else "ada",
                        options=options,
                        fresh=fresh,
                    ),
                ],
            ),
            sender=None,
        )
        return run

    def state(self, run: Run) -> RunState:
        return self.store.runs.get(run.id).state

    def leave(self, run: Run, name: str, data: bytes) -> None:
        (job_folder.folder(self.folder, run.id) / name).write_bytes(data)


def script_of(task: Task, mode: Mode) -> str:
    """The batch script of a run on H100, as it is stored."""
    return msgspec.json.encode(job_folder.script(task, GPU, mode)).decode()


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def world_in(folder: Path) -> World:
    scheduler = Scripted()
    store = Store(with_new_database(folder / "board.db"))
    advance = Reconciler(
        folder=folder,
        store=store,
        schedulers={"main": scheduler},
        clusters={"main": CLUSTER},
        gpus={"H100": GPU},
        harness=lambda: HARNESS,
        lookup_delay=timedelta(0),
        lock_seconds=0.2,
    )
    return World(folder, scheduler, advance, store)


def set_clock(monkeypatch: pytest.MonkeyPatch, clock: Callable[[], datetime]) -> None:
    """Have the reconciler and its parts see the time of `clock`."""
    for module in (reconciler, launcher, job_polling, job_results, clusters, domain_run):
        monkeypatch.setattr(module, "utc_now", clock)


def cancel(advance: Reconciler, run: Run) -> None:
    """Cancel a run in ada's name, and raise the error, if any."""
    for error in advance.cancel([run], "ada").values():
        raise error


def timing(*samples_ns: float) -> Timing:
    middle = sorted(samples_ns)[len(samples_ns) // 2]
    ends = min(samples_ns), max(samples_ns)
    counted = Timing(len(samples_ns), middle, middle, 0, 0, *ends, samples_ns, (1,) * len(samples_ns))
    return replace(counted, low_ns=ends[0], high_ns=ends[1], slack_ns=0.0)


def right_result(run: Run, task: Task) -> Result:
    """The result of a run in which everything passed."""
    tests = [Case("test", index, text(case), Verdict.PASS) for index, case in enumerate(task.tests)]
    benchmarks = [
        Case("benchmark", index, text(case), Verdict.PASS, timing=timing(1990.0, 2000.0, 2010.0))
        for index, case in enumerate(task.benchmarks)
    ]
    provenance = {
        "harness_sha256": sha256_of(HARNESS),
        "task_sha256": task.version,
        "submission_sha256": sha256_of(CODE),
        "gpu_name": "NVIDIA H100 80GB HBM3",
        "node": "n1",
    }
    return Result(
        run=run.id,
        nonce="n",
        mode="ranked",
        verdict=Verdict.PASS,
        message="",
        cases=(*tests, *benchmarks),
        job_id="101",
        provenance=provenance,
    )


def text(case: Mapping[str, Any]) -> str:
    return "; ".join(f"{key}: {value}" for key, value in case.items())


def last_case(result: Result, **changes: Any) -> Result:
    return replace(result, cases=(*result.cases[:-1], replace(result.cases[-1], **changes)))


def with_times(result: Result, *samples_ns: float) -> Result:
    return last_case(result, timing=timing(*samples_ns))


def asked_by(turn: Pass | None) -> frozenset[str]:
    """The clusters that a pass asked, none of which failed."""
    assert turn is not None
    assert not turn.errors
    assert all(poll.answered and poll.took_seconds >= 0 for poll in turn.polls)
    assert {poll.cluster for poll in turn.polls} <= turn.asked
    return turn.asked
