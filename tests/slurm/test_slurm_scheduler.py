"""SlurmScheduler on a real Slurm."""

import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pytest

from hpc_board.domain.run import JobState, JobStatus
from hpc_board.errors import SchedulerError, SchedulerRefused
from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.schedulers import Job, JobKey
from hpc_board.schedulers.slurm import GpuOptions, Request, RequestStyle, with_options
from hpc_board.schedulers.slurm.client import SlurmScheduler
from hpc_board.schedulers.slurm.sbatch import directive, options_for
from hpc_board.transport import Completed, this_host
from hpc_board.transport.this_host import ThisHost
from tests.slurm import places
from tests.slurm.lab import SlurmLab
from tests.slurm.places import PLACES, ChrootLab, lab_at, source_of
from tests.values import replace
from tests.waiting import awaited

pytestmark = pytest.mark.slurm

CLUSTER = Cluster("main", "slurm")
H100 = Gpu("H100", CLUSTER, Device.CUDA, "h100", scheduler_options=GpuOptions(Request(RequestStyle.GRES, "gpu:h100:1")))
CPU = Gpu("CPU", CLUSTER, Device.CPU, "cpu")
WAIT_SECONDS = 60.0
T = TypeVar("T")

WEIRD = [
    "two words",
    "  spaces around  ",
    "it's",
    'say "hi"',
    "mixed ' \" quotes",
    r"back\slash",
    "ends with \\",
    r"\\two\\",
    "$HOME `id` $(id)",
    "a;b && c | d > e",
    "#not a comment",
    "--looks=like an option",
    "größe ✓ 漢字",
    "*?[]{}()!~%j%%",
]


@dataclass
class CountingHost:
    """This host, with a list of the commands that ran on it."""

    host: ThisHost
    commands: list[str] = field(default_factory=list)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_seconds: float,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: str = "",
        until: Sequence[str] = (),
    ) -> Completed:
        self.commands.append(argv[0])
        return self.host.run(argv, timeout_seconds=timeout_seconds, env=env, cwd=cwd, stdin=stdin, until=until)


@pytest.fixture(scope="module", params=PLACES)
def slurm_lab(request: pytest.FixtureRequest, chroot_lab: ChrootLab) -> SlurmLab:
    return lab_at(request, "slurm_lab", chroot_lab)


@pytest.fixture(scope="module", params=PLACES)
def accounting_lab(request: pytest.FixtureRequest, chroot_lab: ChrootLab) -> SlurmLab:
    return lab_at(request, "accounting_lab", chroot_lab, configuration={"MinJobAge": "2"}, accounting=True)


@pytest.fixture
def scheduler(slurm_lab: SlurmLab) -> Iterator[SlurmScheduler]:
    with emptied_afterwards(slurm_lab) as scheduler:
        yield scheduler


@pytest.fixture
def source(slurm_lab: SlurmLab) -> str:
    return source_of(slurm_lab)


@contextmanager
def emptied_afterwards(lab: SlurmLab) -> Iterator[SlurmScheduler]:
    """A scheduler for `lab`, whose GPUs are free again afterwards."""
    try:
        yield scheduler_of(lab)
    finally:
        lab.cancel_jobs()


def scheduler_of(lab: SlurmLab, environ: Mapping[str, str] | None = None) -> SlurmScheduler:
    return places.scheduler_of(lab, CLUSTER, ThisHost(environ or lab.environment))


def job(folder: Path, body: str = "sleep 600", gpu: Gpu = H100, **options: str) -> Job:
    folder.mkdir(exist_ok=True)
    (folder / "job.sh").write_text(f"#!/bin/bash\n{body}\n")
    return Job(f"hb-{uuid.uuid4().hex[:12]}", folder, "job.sh", gpu, options_for(gpu, 600) | options, 600)


def key(job: Job, job_id: str) -> JobKey:
    return JobKey(job.name, job_id, datetime.now(UTC))


def news_once(scheduler: SlurmScheduler, job: JobKey, *states: JobState) -> JobStatus:
    """The news of `job` once it is in one of the states."""

    def look() -> JobStatus | None:
        news = scheduler.poll([job])[job.name]
        return news if news.state in states else None

    return awaited(look)


def test_a_job_is_followed_from_the_queue_to_its_end(scheduler: SlurmScheduler, source: str, tmp_path: Path) -> None:
    mine = job(tmp_path / "job", "pwd; while [ ! -e go ]; do sleep 0.1; done")
    running = key(mine, scheduler.submit(mine))

    first = scheduler.poll([running])[mine.name]
    assert first.state in (JobState.PENDING, JobState.RUNNING)
    news = news_once(scheduler, running, JobState.RUNNING)
    assert (news.node, news.job_id, news.source) == ("h100-1", running.job_id, f"{source}: RUNNING")
    (mine.folder / "go").touch()
    assert news_once(scheduler, running, JobState.ENDED).source == f"{source}: COMPLETED"
    assert (mine.folder / f"slurm-{running.job_id}.out").read_text() == f"{mine.folder}\n"


def test_a_waiting_job_says_why_in_words(scheduler: SlurmScheduler, source: str, tmp_path: Path) -> None:
    both = with_options(H100, request=Request(RequestStyle.GRES, "gpu:h100:2"))
    first, second = job(tmp_path / "1", gpu=both), job(tmp_path / "2", gpu=both)
    news_once(scheduler, key(first, scheduler.submit(first)), JobState.RUNNING)
    waiting = key(second, scheduler.submit(second))

    news = awaited(lambda: _waits_for_resources(scheduler.poll([waiting])[waiting.name]))

    assert news.source == f"{source}: PENDING (Resources)"
    expected = awaited(lambda: scheduler.poll([waiting])[waiting.name].expected_start)
    assert expected > datetime.now(UTC)


def _waits_for_resources(news: JobStatus) -> JobStatus | None:
    return news if news.reason == "waiting for resources (Resources)" else None


def test_a_failed_job_has_ended_and_says_so(scheduler: SlurmScheduler, source: str, tmp_path: Path) -> None:
    mine = job(tmp_path / "job", "exit 3")
    news = news_once(scheduler, key(mine, scheduler.submit(mine)), JobState.ENDED)
    assert news.source == f"{source}: FAILED (NonZeroExitCode)"


def test_one_question_answers_for_all_jobs(slurm_lab: SlurmLab, tmp_path: Path) -> None:
    with emptied_afterwards(slurm_lab):
        host = CountingHost(ThisHost(slurm_lab.environment))
        scheduler = places.scheduler_of(slurm_lab, CLUSTER, host)
        jobs = [job(tmp_path / str(number)) for number in range(3)]
        keys = [key(mine, scheduler.submit(mine)) for mine in jobs]
        host.commands.clear()

        news = scheduler.poll(keys)
        asked = ["squeue"] if slurm_lab.client == "cli" else []
        assert host.commands == asked
        assert set(news) == {mine.name for mine in jobs}

        scheduler.poll([*keys, JobKey("hb-never", "999999", datetime.now(UTC))])
        assert host.commands == [*asked, *asked, "sacct"]


def test_many_jobs_are_cancelled_in_as_few_questions_as_the_release_has(slurm_lab: SlurmLab, tmp_path: Path) -> None:
    with emptied_afterwards(slurm_lab) as scheduler:
        jobs = [job(tmp_path / str(number), gpu=CPU, hold="") for number in range(20)]
        keys = [key(mine, scheduler.submit(mine)) for mine in jobs]
        slurm_lab.forget_rpcs()
        scheduler.cancel(keys)
        asked = slurm_lab.rpcs()
        # No option of scancel 22.05 makes it fewer: docs/design/clusters.md.
        of_release = {"REQUEST_KILL_JOB": 20} if slurm_lab.root is None else {"REQUEST_KILL_JOBS": 1}
        assert {name: count for name, count in asked.items() if "KILL" in name} == of_release
        assert slurm_lab.root is None or sum(asked.values()) <= 12, asked
        news = scheduler.poll(keys)
        assert {news[each.name].state for each in keys} == {JobState.CANCELLED}


def test_values_reach_slurm_unchanged_by_the_command_and_by_the_script(
    scheduler: SlurmScheduler, slurm_lab: SlurmLab, tmp_path: Path
) -> None:
    script = tmp_path / "job.sh"
    for value in WEIRD:
        job_id = scheduler.submit(job(tmp_path / "job", comment=value, hold=""))
        assert comment(slurm_lab, job_id) == value
        lines = [directive("comment", value), directive("hold"), directive("output", "/dev/null"), "true"]
        script.write_text("\n".join(["#!/bin/bash", *lines, ""]))
        job_id = slurm_lab.run("sbatch", "--parsable", str(script)).strip()
        assert comment(slurm_lab, job_id) == value
        assert "JobHeldUser" in slurm_lab.run("squeue", "--noheader", f"--jobs={job_id}", "--format=%r")


def comment(lab: SlurmLab, job_id: str) -> str:
    return lab.run("squeue", "--noheader", f"--jobs={job_id}", "--format=%k").removesuffix("\n")


def test_the_command_line_overrules_the_script(scheduler: SlurmScheduler, slurm_lab: SlurmLab, tmp_path: Path) -> None:
    mine = job(tmp_path / "job", f"{directive('partition', 'cpu')}\nsleep 600")
    job_id = scheduler.submit(mine)
    assert slurm_lab.run("squeue", "--noheader", f"--jobs={job_id}", "--format=%P").strip() == "h100"


def test_the_output_lies_in_the_job_folder_whatever_its_name(scheduler: SlurmScheduler, tmp_path: Path) -> None:
    names = ("with spaces", "percent %j %% 50%", "quote ' and \" $HOME")
    jobs = [job(tmp_path / name, "echo here", CPU) for name in names]
    for mine, job_id in [(mine, scheduler.submit(mine)) for mine in jobs]:
        news_once(scheduler, key(mine, job_id), JobState.ENDED)
        assert (mine.folder / f"slurm-{job_id}.out").read_text() == "here\n"


@pytest.mark.parametrize(
    ("gpu", "words", "setting"),
    [
        (replace(H100, partition="nope"), "invalid partition specified: nope", "gpus.H100.partition"),
        (
            with_options(H100, request=Request(RequestStyle.GRES, "gpu:b200:1")),
            "Requested node configuration is not available",
            "gpus.H100.request",
        ),
        (with_options(H100, constraint="nope"), "Invalid feature specification", "gpus.H100.constraint"),
        (with_options(H100, reservation="nope"), "Requested reservation is invalid", "gpus.H100.reservation"),
        (with_options(H100, nodelist="nope"), "Invalid node name specified", "gpus.H100.nodelist"),
        (with_options(H100, gpu_freq="fast"), "Invalid --gpu-freq argument", "gpus.H100.gpu_freq"),
        (with_options(H100, memory="900G"), "Memory specification can not be satisfied", "gpus.H100.memory"),
    ],
)
def test_a_refusal_has_slurms_words_and_names_the_setting(
    scheduler: SlurmScheduler, tmp_path: Path, gpu: Gpu, words: str, setting: str
) -> None:
    with pytest.raises(SchedulerRefused, match=words) as refusal:
        scheduler.submit(job(tmp_path / "job", gpu=gpu))
    assert setting in refusal.value.hint


@pytest.mark.parametrize(
    ("script", "option", "words"),
    [
        ("#!/bin/bash\n", {"bogus": ""}, "unrecognized option '--bogus'"),
        ("#!/bin/bash\n", {"hold": "3"}, "option '--hold' doesn't allow an argument"),
        ("#!/bin/bash\n", {"time": "abc"}, "Invalid --time specification"),
        ("#!/bin/bash\n", {"gres": "gpu:h100:x"}, r"Invalid (generic resource|Trackable RESource)"),
        ("#!/bin/bash\n", {"ntasks": "abc"}, "Invalid numeric value"),
        ("#!/bin/bash\n", {"nodes": "abc"}, "is not a valid node count"),
        ('#!/bin/bash\n#SBATCH --comment="x\n', {}, "line 2: Unmatched"),
        ("echo\n", {}, "does not look like a batch script"),
        ("", {}, "Batch script is empty"),
        (None, {}, "Unable to open file"),
    ],
)
def test_what_sbatch_refuses_before_it_asks_is_a_refusal(
    scheduler: SlurmScheduler, tmp_path: Path, script: str | None, option: dict[str, str], words: str
) -> None:
    mine = job(tmp_path / "job")
    mine = replace(mine, options={**mine.options, **option})
    path = mine.folder / "job.sh"
    if script is None:
        path.unlink()
    else:
        path.write_text(script)
    with pytest.raises(SchedulerRefused, match=words):
        scheduler.submit(mine)


@pytest.mark.parametrize("last_words", ["", "echo Traceback: lustre quota plugin failed >&2; "])
def test_a_job_that_a_failing_wrapper_handed_over_is_found_by_its_name(
    slurm_lab: SlurmLab, tmp_path: Path, last_words: str
) -> None:
    environment = slurm_lab.environment
    sbatch = shutil.which("sbatch", path=environment["PATH"])
    wrapper = tmp_path / "bin" / "sbatch"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\n{sbatch} "$@" >/dev/null\n{last_words}exit 1\n')
    wrapper.chmod(0o755)
    with emptied_afterwards(slurm_lab):
        scheduler = scheduler_of(slurm_lab, environment | {"PATH": f"{wrapper.parent}:{environment['PATH']}"})
        before = datetime.now(UTC)
        mine = job(tmp_path / "job")
        with pytest.raises(SchedulerError, match="no definite answer") as unclear:
            scheduler.submit(mine)
        assert not isinstance(unclear.value, SchedulerRefused)
        job_id = awaited(lambda: scheduler.find(JobKey(mine.name, "", before)))
        news_once(scheduler, key(mine, job_id), JobState.RUNNING)


def test_every_style_of_request_gets_one_gpu(scheduler: SlurmScheduler, tmp_path: Path) -> None:
    styles = {style: "h100:1" for style in RequestStyle if "gpus" in style} | {RequestStyle.GRES: "gpu:h100:1"}
    assert len(styles) == 4
    gpus = [with_options(H100, request=Request(*each)) for each in styles.items()]
    jobs = [job(tmp_path / str(number), 'echo "$CUDA_VISIBLE_DEVICES"', gpu) for number, gpu in enumerate(gpus)]
    for mine, job_id in [(mine, scheduler.submit(mine)) for mine in jobs]:
        news_once(scheduler, key(mine, job_id), JobState.ENDED)
        assert (mine.folder / f"slurm-{job_id}.out").read_text() in ("0\n", "1\n")


def test_two_constraints_must_both_hold(scheduler: SlurmScheduler, tmp_path: Path) -> None:
    by_feature = with_options(
        replace(CPU, partition="h100"), request=Request(RequestStyle.CONSTRAINT, "h100|a100"), constraint="lab"
    )
    mine = job(tmp_path / "job", gpu=by_feature)
    assert news_once(scheduler, key(mine, scheduler.submit(mine)), JobState.RUNNING).node == "h100-1"
    with pytest.raises(SchedulerRefused):
        scheduler.submit(job(tmp_path / "job", gpu=with_options(by_feature, constraint="a100&lab")))


def test_a_cancelled_job_is_cancelled_once(scheduler: SlurmScheduler, source: str, tmp_path: Path) -> None:
    mine = job(tmp_path / "job")
    running = key(mine, scheduler.submit(mine))
    news_once(scheduler, running, JobState.RUNNING)
    scheduler.cancel([running])
    assert news_once(scheduler, running, JobState.CANCELLED).source == f"{source}: CANCELLED"
    scheduler.cancel([running])


def test_a_job_whose_id_now_bears_another_name_is_not_cancelled(scheduler: SlurmScheduler, tmp_path: Path) -> None:
    theirs = job(tmp_path / "job")
    their_id = scheduler.submit(theirs)
    scheduler.cancel([JobKey("hb-our-old-name", their_id, datetime.now(UTC))])
    scheduler.cancel([key(theirs, str(int(their_id) + 1000))])
    assert news_once(
        scheduler, key(theirs, their_id), JobState.PENDING, JobState.RUNNING, JobState.CANCELLED
    ).state in (
        JobState.PENDING,
        JobState.RUNNING,
    )


def test_a_job_is_found_by_its_name(scheduler: SlurmScheduler, tmp_path: Path) -> None:
    before = datetime.now(UTC)
    mine = job(tmp_path / "job")
    assert scheduler.find(JobKey(mine.name, "", before)) is None
    first = scheduler.submit(mine)
    assert scheduler.find(JobKey(mine.name, "", before)) == first
    second = scheduler.submit(mine)
    assert scheduler.find(JobKey(mine.name, "", before)) == second
    assert scheduler.find(JobKey(mine.name, "", datetime(2100, 1, 1, tzinfo=UTC))) is None


def test_free_gpus_are_counted_by_type(scheduler: SlurmScheduler, slurm_lab: SlurmLab, tmp_path: Path) -> None:
    a100 = Gpu("A100", CLUSTER, Device.CUDA, "a100", scheduler_options=GpuOptions(Request(RequestStyle.GPUS, "1")))
    wrong_type = with_options(replace(a100, name="A100-80"), request=Request(RequestStyle.GPUS, "a100-80:1"))
    absent = replace(H100, name="B200", partition="b200")
    mine = job(tmp_path / "job")
    news_once(scheduler, key(mine, scheduler.submit(mine)), JobState.RUNNING)
    scheduler.submit(job(tmp_path / "job", hold=""))

    answers = scheduler.availability([H100, a100, wrong_type, CPU, absent])

    assert [(answer.gpu, answer.free, answer.total, answer.queued, answer.state) for answer in answers] == [
        ("H100", 1, 2, 1, "up"),
        ("A100", 2, 2, 0, "up"),
        ("A100-80", 0, 0, 0, "no node of a100 has gpu:a100-80"),
        ("CPU", 4, 4, 0, "up"),
        ("B200", None, None, None, "no partition b200"),
    ]
    slurm_lab.run("scontrol", "update", "nodename=a100-1", "state=drain", "reason=a test")
    try:
        assert [(drained.free, drained.total) for drained in scheduler.availability([a100])] == [(0, 2)]
    finally:
        slurm_lab.run("scontrol", "update", "nodename=a100-1", "state=resume")


def test_the_environment_changes_nothing(slurm_lab: SlurmLab, tmp_path: Path) -> None:
    hostile = {
        "SBATCH_PARTITION": "cpu",
        "SBATCH_EXPORT": "NONE",
        "SBATCH_TIMELIMIT": "1",
        "SBATCH_REQUEUE": "1",
        "SQUEUE_FORMAT": "%u",
        "SQUEUE_STATES": "TIMEOUT",
        "SQUEUE_PARTITION": "cpu",
        "SLURM_TIME_FORMAT": "relative",
        "SLURM_CLUSTERS": "elsewhere",
        "SLURM_CPU_BIND": "verbose,mask_cpu:0x1",
        "SLURM_MEM_PER_CPU": "1",
        "SINFO_FORMAT": "%P",
        "SINFO_PARTITION": "cpu",
        "LC_ALL": "de_DE.UTF-8",
        "LANG": "de_DE.UTF-8",
        "PYTHONPATH": "/nowhere",
    }
    with emptied_afterwards(slurm_lab):
        scheduler = scheduler_of(slurm_lab, slurm_lab.environment | hostile)
        before = datetime.now(UTC)
        mine = job(tmp_path / "job", "env; while [ ! -e go ]; do sleep 0.1; done")
        running = key(mine, scheduler.submit(mine))
        assert news_once(scheduler, running, JobState.RUNNING).node == "h100-1"
        assert scheduler.find(JobKey(mine.name, "", before)) == running.job_id
        assert scheduler.availability([H100])[0].free == 1
        assert "Requeue=0" in slurm_lab.run("scontrol", "show", "job", running.job_id)
        (mine.folder / "go").touch()
        news_once(scheduler, running, JobState.ENDED)
    seen = (mine.folder / f"slurm-{running.job_id}.out").read_text().splitlines()
    assert "LC_ALL=C.UTF-8" in seen
    assert not {f"{name}={value}" for name, value in hostile.items()} & set(seen)


def test_a_forgotten_job_is_explained_by_the_accounts(accounting_lab: SlurmLab, tmp_path: Path) -> None:
    with emptied_afterwards(accounting_lab) as scheduler:
        before = datetime.now(UTC)
        failed, cancelled = job(tmp_path / "1", "exit 3"), job(tmp_path / "2")
        keys = [key(mine, scheduler.submit(mine)) for mine in (failed, cancelled)]
        scheduler.cancel(keys[1:])
        forgotten = awaited(lambda: _both_from_accounts(scheduler.poll(keys)))
        assert forgotten[failed.name].state is JobState.ENDED
        assert forgotten[failed.name].source == f"{source_of(accounting_lab)}: not listed; sacct: FAILED, exit code 3:0"
        assert forgotten[failed.name].node == "h100-1"
        assert forgotten[cancelled.name].state is JobState.CANCELLED
        assert scheduler.find(JobKey(failed.name, "", before)) == keys[0].job_id
        stranger = JobKey("hb-another-name", keys[0].job_id, before)
        assert scheduler.poll([stranger])[stranger.name].state is JobState.MISSING


def test_a_renamed_job_is_found_in_accounts_that_are_longer_than_can_be_read(
    accounting_lab: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = CountingHost(ThisHost(accounting_lab.environment))
    scheduler = places.scheduler_of(accounting_lab, CLUSTER, host)
    before = datetime.now(UTC)
    mine = job(tmp_path / "mine", "true")
    script = str(mine.folder / mine.script)
    printing = ["sbatch", "--parsable", "--output=/dev/null"]
    job_id = accounting_lab.run(*printing, "--job-name=site", script).strip()
    for seconds in (1, 3):
        accounting_lab.run(*printing, f"--wrap=sleep {seconds} # {40_000 * 'x'}")
    awaited(lambda: accounting_lab.run("squeue", "--noheader", "--states=all") == "")
    monkeypatch.setattr(this_host, "OUTPUT_BYTES_MAX", 64 * 1024)
    assert scheduler.find(JobKey(mine.name, "", before, script)) == job_id
    assert host.commands.count("sacct") > 3
    assert scheduler.find(JobKey("hb-2", "", before, "/board/runs/2/job.sh")) is None


def test_jobs_in_a_queue_that_is_longer_than_can_be_read_are_followed_and_cancelled(
    slurm_lab: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with emptied_afterwards(slurm_lab):
        # Not by pyslurm, which reads the queue without squeue.
        host = CountingHost(ThisHost(slurm_lab.environment))
        scheduler = SlurmScheduler(CLUSTER, host)
        before = datetime.now(UTC)
        mine, array = job(tmp_path / "mine"), replace(job(tmp_path / "array"), indexes=(0, 1, 2))
        for index in array.indexes:
            (tmp_path / f"array.{index}").mkdir()
        first = key(mine, scheduler.submit(mine))
        of_array = scheduler.submit(array)
        tasks = [JobKey(f"{array.name}.{index}", f"{of_array}_{index}", before) for index in array.indexes]
        for _ in range(20):
            slurm_lab.run("sbatch", "--hold", "--output=/dev/null", f"--comment={1_000 * 'x'}", "--wrap=true")
        monkeypatch.setattr(this_host, "OUTPUT_BYTES_MAX", 20_000)
        unknown = JobKey("hb-unknown", "999999", before)
        assert _live(scheduler.poll([first, *tasks])) == {first.name, *(task.name for task in tasks)}
        assert host.commands[-2:] == ["squeue", "squeue"]
        assert scheduler.poll([unknown])["hb-unknown"].state is JobState.MISSING
        assert scheduler.find(JobKey(mine.name, "", before)) == first.job_id
        assert scheduler.changes(mine, "999999") is None
        scheduler.cancel([first, tasks[1]])
        awaited(lambda: _live(scheduler.poll([first, *tasks])) == {tasks[0].name, tasks[2].name})


def _live(news: Mapping[str, JobStatus]) -> set[str]:
    return {name for name, each in news.items() if each.state in (JobState.PENDING, JobState.RUNNING)}


def _both_from_accounts(news: Mapping[str, JobStatus]) -> Mapping[str, JobStatus] | None:
    return news if all("sacct: " in one.source and "exit code" in one.source for one in news.values()) else None


def test_the_gpus_of_a_node_that_a_reservation_holds_are_not_free(
    slurm_lab: SlurmLab, scheduler: SlurmScheduler
) -> None:
    slurm_lab.run("sbatch", "--partition=h100", "--gres=gpu:h100:1", "--output=/dev/null", "--wrap=sleep 300")
    awaited(lambda: [each.free for each in scheduler.availability([H100])] == [1])
    reserve = ["Users=daemon", "Nodes=h100-1", "StartTime=now", "Duration=10", "Flags=IGNORE_JOBS"]
    slurm_lab.run("scontrol", "create", "reservation", "ReservationName=others", *reserve)
    try:
        ours = with_options(H100, reservation="others")
        awaited(lambda: [each.free for each in scheduler.availability([H100, ours])] == [0, 1])
        assert [each.total for each in scheduler.availability([H100])] == [2]
    finally:
        slurm_lab.cancel_jobs()
        slurm_lab.run("scontrol", "delete", "ReservationName=others")
