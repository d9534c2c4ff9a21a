"""Sites with rules of their own: limits, associations, private data, reservations and several clusters."""

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hpc_board.domain.run import JobStatus
from hpc_board.errors import NotAccepting, SchedulerError, SchedulerRefused
from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.schedulers import Job, JobKey
from hpc_board.schedulers.slurm import ClusterOptions, GpuOptions, Request, RequestStyle
from hpc_board.schedulers.slurm.client import SlurmScheduler
from hpc_board.schedulers.slurm.cluster_info import site
from hpc_board.schedulers.slurm.detection import detected_settings
from hpc_board.schedulers.slurm.sbatch import options_for
from hpc_board.transport import Completed
from hpc_board.transport.this_host import ThisHost
from tests.conftest import short_folder, skip_without_slurm
from tests.slurm.lab import SlurmLab
from tests.values import replace
from tests.waiting import awaited

pytestmark = pytest.mark.slurm

CLUSTER = Cluster("main", "slurm")
CPU = Gpu("CPU", CLUSTER, Device.CPU, "cpu", scheduler_options=GpuOptions(cpus_per_task=2))
H100 = Gpu("H100", CLUSTER, Device.CUDA, "h100", scheduler_options=GpuOptions(Request(RequestStyle.GRES, "gpu:h100:1")))


@pytest.fixture(scope="module")
def strict_lab() -> Iterator[SlurmLab]:
    """A Slurm that enforces limits and associations, and shows partitions only to its administrators."""
    skip_without_slurm(accounting=True)
    rules = {"AccountingStorageEnforce": "limits,associations,qos", "PrivateData": "partitions"}
    with short_folder() as folder, SlurmLab(folder / "lab", configuration=rules, accounting=True) as lab:
        for words in (
            "add account board",
            "add user root account=board",
            "add qos small set GrpTRES=cpu=1",
            "add qos each set MaxTRESPerUser=cpu=1",
            "add qos account set MaxTRESPerAccount=cpu=1",
            "add qos minutes set GrpTRESRunMins=cpu=1",
            "add qos deny set GrpTRES=cpu=1 Flags=DenyOnLimit",
            "modify user root set qos+=small,each,account,minutes,deny",
        ):
            subprocess.run(["sacctmgr", "-i", *words.split()], env=lab.environment, check=True, capture_output=True)
        yield lab


class AsNobody(ThisHost):
    """This machine with another account's commands."""

    def run(self, argv: Sequence[str], **options: Any) -> Completed:
        return super().run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *argv], **options)


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def job(folder: Path, gpu: Gpu = CPU, **options: str) -> Job:
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    (folder / "job.sh").write_text("#!/bin/bash\ntrue\n")
    (folder / "job.sh").chmod(0o755)
    return Job(f"hb-{os.urandom(6).hex()}", folder, "job.sh", gpu, options_for(gpu, 600) | options, 600)


@pytest.mark.parametrize(
    ("qos", "whose", "reason"),
    [
        ("small", "QOS", "QOSGrpCpuLimit"),
        ("each", "user", "QOSMaxCpuPerUserLimit"),
        ("account", "account", "MaxCpuPerAccount"),
        ("minutes", "QOS", "QOSGrpCPURunMinutesLimit"),
    ],
)
def test_a_job_that_waits_for_a_limit_of_all_jobs_says_how_to_tell_whether_it_starts(
    strict_lab: SlurmLab, tmp_path: Path, qos: str, whose: str, reason: str
) -> None:
    scheduler = SlurmScheduler(CLUSTER, ThisHost(strict_lab.environment))
    mine = job(tmp_path / "job", qos=qos)
    key = JobKey(mine.name, scheduler.submit(mine), datetime.now(UTC))
    try:
        news = awaited(lambda: _over_limit(scheduler.poll([key])))
    finally:
        strict_lab.cancel_jobs()
    assert news.reason == (
        f"waiting for a limit on all jobs of its {whose}; if this job alone exceeds it, it never starts: "
        f"`sacctmgr show qos` lists the limits ({reason})"
    )


def test_a_job_that_by_itself_exceeds_a_limit_of_all_jobs_is_refused_where_the_qos_says_so(
    strict_lab: SlurmLab, tmp_path: Path
) -> None:
    scheduler = SlurmScheduler(CLUSTER, ThisHost(strict_lab.environment))
    with pytest.raises(SchedulerRefused, match="QOSGrpCpuLimit") as refusal:
        scheduler.submit(job(tmp_path / "job", qos="deny"))
    assert not isinstance(refusal.value, NotAccepting)
    assert refusal.value.hint.startswith("This job alone exceeds the limit")


def _over_limit(news: Mapping[str, JobStatus]) -> JobStatus | None:
    (one,) = news.values()
    return one if "limit" in one.reason else None


@pytest.mark.root
@as_root
def test_an_account_without_an_association_is_told_the_administrator_s_command(strict_lab: SlurmLab) -> None:
    scheduler = SlurmScheduler(CLUSTER, AsNobody(strict_lab.environment))
    with short_folder() as folder:
        folder.chmod(0o755)
        mine = job(folder / "job")
        with pytest.raises(SchedulerRefused, match="Invalid account") as refusal:
            scheduler.submit(mine)
    assert "`sacctmgr add user USER account=ACCOUNT`" in refusal.value.hint


@pytest.mark.root
@as_root
@pytest.mark.parametrize("ask", [lambda nobody: SlurmScheduler(CLUSTER, nobody).availability([CPU]), site])
def test_private_partitions_are_named_as_the_cause(strict_lab: SlurmLab, ask: Callable[[ThisHost], object]) -> None:
    with pytest.raises(SchedulerError, match="permission denied") as error:
        ask(AsNobody(strict_lab.environment))
    assert "PrivateData" in error.value.hint


def test_a_cluster_that_slurmdbd_does_not_know_is_refused(strict_lab: SlurmLab, tmp_path: Path) -> None:
    unknown = replace(CLUSTER, scheduler_options=ClusterOptions(slurm_cluster="nosuch"))
    scheduler = SlurmScheduler(unknown, ThisHost(strict_lab.environment))
    questions: list[Callable[[], object]] = [
        lambda: scheduler.submit(job(tmp_path / "job")),
        lambda: scheduler.availability([CPU]),
        lambda: scheduler.poll([JobKey("hb-1", "1", datetime.now(UTC))]),
    ]
    for ask in questions:
        with pytest.raises(
            SchedulerRefused, match="Slurm does not know cluster nosuch; known clusters: lab"
        ) as refusal:
            ask()
        assert "clusters.main.slurm_cluster" in refusal.value.hint


def test_a_partition_of_reservations_names_the_one_that_is_missing(slurm_lab: SlurmLab, tmp_path: Path) -> None:
    scheduler = SlurmScheduler(CLUSTER, ThisHost(slurm_lab.environment))
    slurm_lab.run("scontrol", "update", "PartitionName=h100", "ReqResv=YES")
    reservation = ["Nodes=h100-1", "StartTime=now", "Duration=10", "Users=root", "PartitionName=h100"]
    try:
        with pytest.raises(SchedulerRefused, match="accepts only jobs with a reservation") as refusal:
            scheduler.submit(job(tmp_path / "job", H100))
        assert "`scontrol show reservation` currently lists none" in refusal.value.hint
        detected = detected_settings(site(ThisHost(slurm_lab.environment)))
        assert "H100" not in detected.gpus
        slurm_lab.run("scontrol", "create", "reservation", "ReservationName=course", *reservation)
        with pytest.raises(SchedulerRefused) as refusal:
            SlurmScheduler(CLUSTER, ThisHost(slurm_lab.environment)).submit(job(tmp_path / "job", H100))
        assert refusal.value.hint.endswith("gpus.H100.reservation in the settings: course.")
        detected = detected_settings(site(ThisHost(slurm_lab.environment)))
        assert "H100" in detected.gpus
        assert "    reservation: course" in detected.text.splitlines()
    finally:
        slurm_lab.run("scontrol", "update", "PartitionName=h100", "ReqResv=NO")
        subprocess.run(["scontrol", "delete", "ReservationName=course"], env=slurm_lab.environment, check=False)


def test_commands_without_a_slurm_conf_name_the_setting(tmp_path: Path) -> None:
    skip_without_slurm()
    scheduler = SlurmScheduler(CLUSTER, ThisHost({"PATH": os.environ["PATH"]}))
    for ask in (lambda: scheduler.submit(job(tmp_path / "job")), lambda: scheduler.availability([CPU])):
        with pytest.raises(SchedulerError, match=r"finds no slurm\.conf here: set clusters\.main\.slurm_conf"):
            ask()
