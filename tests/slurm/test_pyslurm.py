"""The real pyslurm, on the Slurm of the folder that `make slurm-chroot` makes: what the commands have no part in."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml

from hpc_board.model.gpu import Cluster
from hpc_board.schedulers import JobKey
from hpc_board.schedulers.slurm import ClusterOptions
from hpc_board.schedulers.slurm.pyslurm_client import HELPER, PyslurmScheduler
from hpc_board.transport.this_host import ThisHost
from tests.e2e.boards import BoardFiles, board_files
from tests.slurm.lab import SlurmLab
from tests.slurm.places import chroot_labs
from tests.waiting import awaited

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def lab() -> Iterator[SlurmLab]:
    with chroot_labs() as lab_with:
        yield lab_with()


@pytest.fixture
def job(lab: SlurmLab) -> Iterator[JobKey]:
    """A job that runs until the test ends."""
    name = f"hb-{time.monotonic_ns()}"
    job_id = lab.run("sbatch", "--parsable", f"--job-name={name}", "--output=/dev/null", "--wrap=sleep 600").strip()
    while lab.run("squeue", "--noheader", f"--jobs={job_id}", "--format=%T").strip() != "RUNNING":
        time.sleep(0.1)
    yield JobKey(name, job_id, datetime.now(UTC))
    lab.cancel_jobs()


def asked(
    lab: SlurmLab, warn: Callable[[str], object], environ: dict[str, str] | None = None, *, seconds: float = 10
) -> PyslurmScheduler:
    """A scheduler with the real helper."""
    python = ["env", *(f"{name}={value}" for name, value in (environ or {}).items()), lab.pyslurm_python]
    return PyslurmScheduler(
        Cluster("main", "slurm", scheduler_options=ClusterOptions("pyslurm", lab.pyslurm_python)),
        ThisHost(lab.environment),
        warn=warn,
        helper=[*python, "-B", str(HELPER)],
        answer_seconds=seconds,
    )


def unexpected(warning: str) -> NoReturn:
    raise AssertionError(warning)


def test_an_import_that_blocks_for_want_of_a_slurm_conf_is_not_waited_for(lab: SlurmLab, job: JobKey) -> None:
    warnings: list[str] = []
    scheduler = asked(lab, warnings.append, {"SLURM_CONF": "/no/such/slurm.conf"}, seconds=4)
    assert scheduler.poll([job])[job.name].source == "squeue: RUNNING"
    assert "did not answer within 4 s" in warnings[0]


def test_a_job_that_was_put_back_into_the_queue_says_so(lab: SlurmLab, job: JobKey) -> None:
    scheduler = asked(lab, unexpected)
    lab.run("scontrol", "update", f"jobid={job.job_id}", "requeue=1")
    lab.run("scontrol", "requeue", job.job_id)
    awaited(lambda: ", restart 1" in scheduler.poll([job])[job.name].source)
    assert scheduler.poll([job])[job.name].source.startswith("pyslurm: ")


def test_the_tasks_of_an_array_are_never_ours(lab: SlurmLab) -> None:
    name = f"hb-{time.monotonic_ns()}"
    lab.run("sbatch", "--array=0-2", f"--job-name={name}", "--output=/dev/null", "--wrap=sleep 600")
    try:
        assert asked(lab, unexpected).find(JobKey(name, "", datetime.now(UTC))) is None
    finally:
        lab.cancel_jobs()


@pytest.fixture
def board(tmp_path: Path, lab: SlurmLab) -> BoardFiles:
    """A board whose squeue notes that it was called, and does not work."""
    squeue = tmp_path / "bin" / "squeue"
    squeue.parent.mkdir()
    squeue.write_text(f"#!/bin/sh\necho called >> '{tmp_path}/squeue-called'\nexit 1\n")
    squeue.chmod(0o755)
    environ = {
        "SLURM_CONF": lab.environment["SLURM_CONF"],
        "PATH": f"{squeue.parent}:{lab.environment['PATH']}",
    }
    board = board_files(tmp_path, slurm=True, environ=environ)
    settings = yaml.safe_load(board.settings.read_text())
    settings["clusters"]["lab"] |= {"client": "pyslurm", "pyslurm_python": lab.pyslurm_python}
    for gpu in settings["gpus"].values():
        gpu["python"] = "python3"
    board.settings.write_text(yaml.safe_dump(settings))
    return board


def test_a_run_goes_its_whole_way_without_squeue(board: BoardFiles) -> None:
    sent = board.json("submit", board.kernel(), "--gpu", "H100", "--gpu", "A100", "--mode", "ranked", "--wait")
    assert [(run["state"], run["verdict"], run["rank"]) for run in sent["runs"]] == [("finished", "pass", 1)] * 2
    assert [run["job"]["node"] for run in sent["runs"]] == ["h100-1", "a100-1"]
    assert not (board.folder / "squeue-called").exists()


def test_a_job_that_somebody_cancels_is_explained_by_pyslurm(board: BoardFiles, lab: SlurmLab) -> None:
    kernel = board.kernel(
        "#!POPCORN leaderboard double\n\ndef custom_kernel(data):\n    import time; time.sleep(120)\n"
    )
    (run,) = board.json("submit", kernel, "--gpu", "H100", "--mode", "test")["runs"]

    def shown() -> dict[str, Any]:
        found: dict[str, Any] = board.json("run", str(run["id"]))
        return found

    awaited(lambda: shown()["state"] == "running")
    subprocess.run(["scancel", shown()["job"]["id"]], env=lab.environment, check=True)
    awaited(lambda: shown()["state"] not in ("running", "collecting"))
    assert shown()["state"] == "cancelled"
    assert "pyslurm: CANCELLED" in json.dumps(shown())
    assert not (board.folder / "squeue-called").exists()
