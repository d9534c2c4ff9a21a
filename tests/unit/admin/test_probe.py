"""Checking GPUs of the settings, with a scheduler that plays the cluster and the node."""

import json
import math
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpc_board.admin import probe
from hpc_board.admin.probe import Checked, Plan, check
from hpc_board.board import Board
from hpc_board.domain.cluster_info import ClusterInfo, Partition
from hpc_board.domain.diagnostic import Diagnostic, Severity
from hpc_board.domain.run import JobState, JobStatus
from hpc_board.errors import InputError, SchedulerError, SchedulerRefused
from hpc_board.harness.node import is_root
from hpc_board.model.gpu import (
    Cluster,
    Device,
    Gpu,
    Login,
    Sandbox,
    SandboxRuntime,
)
from hpc_board.model.node_probe import ANSWER, GREETING, NodeProbe, SeenGpu, Torch, Trial, TriedLanguage
from hpc_board.model.task import Task
from hpc_board.report.diagnostics import diagnostics_report
from hpc_board.report.plain import plain
from hpc_board.runs import job_folder as jobs
from hpc_board.schedulers import Job, JobKey, Rehearsal, Rehearsed
from hpc_board.schedulers.slurm import GpuOptions, Request, RequestStyle, with_options
from hpc_board.schedulers.slurm.rehearsal import rehearse
from hpc_board.settings import Settings
from tests.e2e.boards import write_task
from tests.golden.slurm import Slurm
from tests.harness.evaluations import a_task
from tests.scripted import Scripted
from tests.unit.recorded import Recorded, call, recorded
from tests.values import replace

CLUSTER = Cluster("main", "slurm", poll_seconds=0.05)
TYPED = GpuOptions(Request(RequestStyle.GRES, "gpu:h100:1"))
H100 = Gpu("H100", CLUSTER, Device.CUDA, "gpu", time_limit_seconds=600, scheduler_options=TYPED)
SITE = ClusterInfo((Partition("gpu", max_time_seconds=3600),), (), {})
GIB = 2**30
GOOD = NodeProbe(
    nonce="",
    job_id="7",
    node="n1",
    python="3.12.1",
    executable="/usr/bin/python3",
    isolation="S4",
    gpus=(SeenGpu("NVIDIA H100 80GB HBM3", "GPU-0", "570.1", "Disabled", "81559", "345", "1980", "2619", "Default"),),
    visible="0",
    torch=Torch("2.9", "CUDA 12.8", ("NVIDIA H100 80GB HBM3",)),
    compilers={"g++": "13.2", "nvcc": "12.8"},
    trial=Trial("pass", clock="audited"),
    scratch="/tmp",
    scratch_free_bytes=10 * GIB,
)


@dataclass
class Cast(Scripted):
    """A scheduler whose job greets at once and reports when it is polled; an `inspection` of None does neither.

    The node's clock is `ahead` of the client's, and the greeting becomes visible `late`, both in seconds.
    """

    first_id: int = 7
    inspection: NodeProbe | None = GOOD
    ahead: float = 0.0
    late: float = 0.0
    refusal: Exception | None = None
    status: JobStatus | None = field(default_factory=lambda: JobStatus(JobState.RUNNING, "7"))
    site_: ClusterInfo | Exception = SITE
    writes: Mapping[str, bytes] = field(default_factory=dict)
    rehearsed: list[Job] = field(default_factory=list)
    folders: list[list[str]] = field(default_factory=list)

    def command(self, job: Job) -> Sequence[str]:
        return ["sbatch", job.script]

    def rehearse(self, rehearsals: Sequence[Rehearsal]) -> Sequence[Rehearsed]:
        return rehearse(rehearsals, self.site, self.test_only)

    def test_only(self, job: Job) -> str:
        self.rehearsed.append(job)
        if self.refusal is not None:
            raise self.refusal
        return "Job 1 to start now"

    def site(self) -> ClusterInfo:
        if isinstance(self.site_, Exception):
            raise self.site_
        return self.site_

    def submit(self, job: Job) -> str:
        for name, data in self.writes.items():
            (job.folder / name).write_bytes(data)
        if self.inspection is not None:
            at = time.time() - self.late + self.ahead
            (job.folder / GREETING).write_text(json.dumps({"at": at}))
        return super().submit(job)

    def poll(self, jobs: Sequence[JobKey]) -> Mapping[str, JobStatus]:
        """The node acts when it is asked about: it reports once its greeting was answered."""
        for job in self.submitted:
            if self.inspection is None or not (job.folder / ANSWER).exists():
                continue
            facts: Any = json.loads((job.folder / "job.json").read_text())
            greeted = json.loads((job.folder / GREETING).read_text())["at"]
            nonce = self.inspection.nonce or facts["inspect"]["nonce"]
            answered = time.time() + self.ahead
            found = replace(self.inspection, nonce=nonce, greeted_at=greeted, answered_at=answered)
            self.folders.append(sorted(path.name for path in job.folder.iterdir()))
            (job.folder / ".draft").write_text(json.dumps(asdict(found)))
            (job.folder / ".draft").rename(job.folder / "result.json")
            self.status = JobStatus(JobState.ENDED, "7")
        ended = JobStatus(JobState.CANCELLED, "7")
        return {**super().poll(jobs), **{job.name: ended for job in jobs if job.job_id in self.cancelled}}


def checked(
    tmp_path: Path,
    cast: Cast,
    gpu: Gpu = H100,
    *,
    send: bool = True,
    seconds: float = 20,
    say: Callable[[str], object] = lambda _: None,
    tasks: Sequence[Task] = (),
) -> Checked:
    known = tasks or [a_task()]
    plan = Plan({"main": jobs.Folders(tmp_path / "board")}, known, {"main": cast}, lambda: b"harness", seconds, say)
    (found,) = check([gpu], plan, send=send)
    assert not (tmp_path / "board" / probe.FOLDER).exists()
    return found


def test_a_probe_tries_the_languages_of_its_gpu() -> None:
    starters = {"PyTorch": "import torch", "CuPy": "torch.cuda", "C++": "", "CUDA": "", "HIP": ""}
    plan = Plan({}, [], {}, lambda: b"", starters=starters)
    assert list(probe._starters(plan, H100)) == ["PyTorch", "CuPy", "CUDA"]
    assert list(probe._starters(plan, Gpu("MI300", CLUSTER, Device.HIP))) == ["PyTorch", "CuPy", "HIP"]
    assert list(probe._starters(plan, Gpu("B200", CLUSTER, Device.CPU))) == ["PyTorch", "C++", "CUDA", "HIP"]
    assert list(probe._starters(plan, Gpu("CPU", CLUSTER, Device.CPU))) == ["C++"]
    assert {"Python", "Triton", "C++", "CUDA", "HIP"} <= set(probe.bundled_starters())


@pytest.mark.parametrize(
    ("reference", "gpus", "severity", "words"),
    [
        ("import torch\n", (), Severity.ERROR, "runs of double would end as infra_error"),
        ("from torch import nn\n", ("h100",), Severity.ERROR, "runs of double would end as infra_error"),
        ("import torch\n", ("A100",), Severity.WARNING, "no task of the board needs it here"),
        ("import torchless\n", (), Severity.WARNING, "no task of the board needs it here"),
    ],
)
def test_a_node_without_a_library_that_tasks_need_is_not_proven(
    tmp_path: Path, reference: str, gpus: tuple[str, ...], severity: Severity, words: str
) -> None:
    cast = Cast(inspection=replace(GOOD, torch=Torch(error="No module named torch")))
    (line,) = lines_of(checked(tmp_path, cast, tasks=[a_task(reference, gpus=gpus)]), "torch")
    assert (line.severity, words in line.message) == (severity, True), line


def test_a_library_whose_files_lie_where_no_judge_reads_is_told_with_the_remedy(tmp_path: Path) -> None:
    torch = Torch(error="PermissionError", unreadable="/srv/venv/torch.py")
    cast = Cast(inspection=replace(GOOD, torch=torch))
    (line,) = lines_of(checked(tmp_path, cast, tasks=[a_task("import torch\n")]), "torch")
    assert line.severity is Severity.ERROR
    assert "the judge must not read /srv/venv/torch.py, a file of this Python" in line.message
    assert "--link-mode copy" in line.hint


def lines_of(found: Checked, subject: str) -> list[Diagnostic]:
    return [line for line in found.diagnostics if line.subject == subject]


def test_a_node_that_is_as_the_settings_say_is_proven(tmp_path: Path) -> None:
    cast = Cast()
    found = checked(tmp_path, cast)
    assert found.proven
    assert {line.severity for line in found.diagnostics} == {Severity.OK}
    subjects = [line.subject for line in found.diagnostics]
    assert subjects[:3] == ["partition", "sbatch", "job"]
    assert subjects[3:] == ["python", "gpu", "torch", "compilers", "isolation", "trial", "scratch", "files", "clock"]
    assert found.diagnostics[4].message.startswith("NVIDIA H100 80GB HBM3; driver 570.1; clocks 345/1980 MHz")
    assert cast.cancelled == []
    assert {"job.sh", "job.json", "harness.py"} <= set(cast.folders[0])


@pytest.mark.parametrize(
    ("tried", "wanted", "severity", "words"),
    [
        (Trial("pass", clock="audited"), "judge", Severity.OK, "a small kernel passed; its clock is `audited`"),
        (Trial("pass", clock="judge", reason="calls wait"), "judge", Severity.OK, "is `judge`: calls wait"),
        (Trial("pass", clock="worker", reason="no IPC"), "", Severity.WARNING, "own processes: no IPC"),
        (Trial("pass", clock="worker", reason="no IPC"), "judge", Severity.ERROR, "end as infra_error: no IPC"),
        (Trial("device_error", "no \x1b GPU"), "", Severity.ERROR, "ended as device_error: no"),
    ],
)
def test_the_clock_of_a_gpu_is_tried_by_a_small_kernel(
    tmp_path: Path, tried: Trial, wanted: str, severity: Severity, words: str
) -> None:
    gpu = replace(H100, minimum_clock=wanted)
    (line,) = lines_of(checked(tmp_path, Cast(inspection=replace(GOOD, trial=tried)), gpu), "trial")
    assert (line.severity, words in line.message) == (severity, True), line
    assert line.message.isprintable()
    failed = tried.verdict != "pass"
    assert (line.hint == "Every run on this node would fail the same way. Fix the cause first.") is failed


def test_a_compute_mode_for_one_process_is_an_error(tmp_path: Path) -> None:
    single = replace(GOOD, gpus=(replace(GOOD.gpus[0], compute_mode="Exclusive_Process"),))
    line = lines_of(checked(tmp_path, Cast(inspection=single)), "gpu")[-1]
    assert (line.severity, "Exclusive_Process" in line.message) == (Severity.ERROR, True)
    assert "nvidia-smi --compute-mode=DEFAULT" in line.hint


def test_an_exclusive_job_has_all_gpus_of_its_node_and_another_one_has_not(tmp_path: Path) -> None:
    several = Cast(inspection=replace(GOOD, torch=replace(GOOD.torch, devices=GOOD.torch.devices * 4)))
    found = lines_of(checked(tmp_path, several), "gpu")
    assert [line.message for line in found][1:] == ["the job sees 4 GPUs, but one was requested"]
    several = Cast(inspection=several.inspection)
    assert len(lines_of(checked(tmp_path, several, with_options(H100, exclusive=True)), "gpu")) == 1


def test_a_job_is_rehearsed_with_the_very_options_of_a_run(tmp_path: Path) -> None:
    cast = Cast()
    gpu = with_options(H100, account="kernels", sbatch=("--comment=x",))
    checked(tmp_path, cast, replace(gpu, time_limit_seconds=None))
    options = cast.rehearsed[0].options
    assert (options["gres"], options["account"], options["comment"]) == ("gpu:h100:1", "kernels", "x")
    assert cast.rehearsed[0].time_limit_seconds > 60
    assert cast.submitted[0].options["time"] == "00:10:00"


def test_without_a_job_only_the_options_are_looked_at(tmp_path: Path) -> None:
    cast = Cast()
    found = checked(tmp_path, cast, send=False)
    assert (cast.submitted, [line.subject for line in found.diagnostics]) == ([], ["partition", "sbatch"])


def test_a_refused_entry_says_so_in_slurm_s_words_and_sends_no_job(tmp_path: Path) -> None:
    cast = Cast(refusal=SchedulerRefused("sbatch refused: no such gres", hint="Correct gpus.H100.request"))
    found = checked(tmp_path, cast)
    assert lines_of(found, "sbatch") == [
        Diagnostic(Severity.ERROR, "sbatch", "sbatch refused: no such gres", "Correct gpus.H100.request")
    ]
    assert cast.submitted == []


@pytest.mark.parametrize(
    ("partition", "gpu", "severity", "words"),
    [
        (Partition("other"), H100, Severity.ERROR, "partition gpu does not exist or is hidden; partitions: other"),
        (Partition("gpu", up=False), H100, Severity.WARNING, "gpu is currently not up"),
        (
            Partition("gpu", max_time_seconds=300),
            H100,
            Severity.ERROR,
            "gpu allows 00:05:00, and gpus.H100.time has the time limit 00:10:00",
        ),
        (
            Partition("gpu", max_time_seconds=60),
            replace(H100, time_limit_seconds=None),
            Severity.ERROR,
            "gpu allows 00:01:00, and a ranked run of ",
        ),
        (
            Partition("gpu", accounts="a,b"),
            H100,
            Severity.WARNING,
            "gpu is restricted to the accounts a,b, but the entry names none",
        ),
        (Partition("gpu", accounts="a,b"), with_options(H100, account="b"), Severity.OK, "gpu exists"),
        (Partition("gpu", preempted=True), H100, Severity.WARNING, "jobs in gpu may be preempted"),
    ],
)
def test_a_partition_is_compared_with_what_runs_ask_of_it(
    tmp_path: Path, partition: Partition, gpu: Gpu, severity: Severity, words: str
) -> None:
    found = checked(tmp_path, Cast(site_=ClusterInfo((partition,), (), {})), gpu, send=False)
    (line,) = lines_of(found, "partition")
    assert (line.severity, line.message.startswith(words)) == (severity, True), line


def test_a_cluster_that_does_not_answer_is_asked_once_and_gets_no_job(tmp_path: Path) -> None:
    cast = Cast(site_=SchedulerError("sinfo did not answer within 60 s"))
    found = checked(tmp_path, cast)
    assert [(line.severity, line.subject) for line in found.diagnostics] == [(Severity.ERROR, "cluster")]
    assert cast.submitted == []


@pytest.mark.parametrize(
    ("changes", "subject", "severity", "words"),
    [
        ({"torch": Torch("2.9", "CUDA 12.8", ("NVIDIA A100-SXM4-80GB",))}, "gpu", Severity.ERROR, "the name says H100"),
        ({"gpus": (), "torch": Torch(error="no torch")}, "gpu", Severity.ERROR, "the job sees no GPU"),
        ({"gpus": GOOD.gpus * 4}, "gpu", Severity.WARNING, "the job sees 4 GPUs"),
        ({"visible": "MIG-1"}, "gpu", Severity.ERROR, "a slice of a GPU"),
        ({"torch": Torch(error="No module named torch")}, "torch", Severity.WARNING, "does not import: No module"),
        ({"languages": (TriedLanguage("Triton", seconds=3.2),)}, "language", Severity.OK, "Triton: runs (3.2 s)"),
        ({"languages": (TriedLanguage("CUDA", seconds=9),)}, "language", Severity.OK, "CUDA: compiles (9 s)"),
        ({"languages": (TriedLanguage("CuPy", "cupy"),)}, "language", Severity.OK, "CuPy: not installed (cupy)"),
        (
            {"languages": (TriedLanguage("JAX", error="no GPU\n\x1b"),)},
            "language",
            Severity.WARNING,
            "JAX: installed, does not run: no GPU",
        ),
        ({"torch": Torch("2.9")}, "torch", Severity.ERROR, "sees no GPU (built for CPUs)"),
        ({"compilers": {"g++": "13"}}, "compilers", Severity.WARNING, "no nvcc: compiled submissions"),
        ({"isolation": "S1"}, "isolation", Severity.ERROR, "ranked runs require S3: it lacks"),
        ({"isolation": ""}, "isolation", Severity.ERROR, "unknown, but ranked runs require S3"),
        ({"scratch_free_bytes": 5 * 2**20}, "scratch", Severity.WARNING, "/tmp has 5 MiB left"),
        ({"sandbox_error": "no bwrap"}, "sandbox", Severity.ERROR, "no bwrap"),
    ],
)
def test_what_is_not_as_it_should_be_on_the_node_is_named(
    tmp_path: Path, changes: dict[str, Any], subject: str, severity: Severity, words: str
) -> None:
    wanted = replace(
        H100, minimum_isolation="S3", sandbox=Sandbox(SandboxRuntime.BUBBLEWRAP, setting="defaults.sandbox")
    )
    found = checked(tmp_path, Cast(inspection=replace(GOOD, **changes)), wanted)
    assert [line for line in lines_of(found, subject) if line.severity is severity and words in line.message]
    assert all(line.hint for line in found.diagnostics if line.severity is not Severity.OK)
    assert found.proven == (severity is not Severity.ERROR)


def test_the_remedy_for_a_missing_gpu_is_in_the_words_of_the_cluster_s_scheduler(tmp_path: Path) -> None:
    cast = Cast(inspection=replace(GOOD, gpus=(), torch=Torch(error="no torch")))
    (of_slurm,) = lines_of(checked(tmp_path, cast), "gpu")
    assert "gpus.H100.request" in of_slurm.hint
    here = replace(H100, cluster=replace(H100.cluster, scheduler="local"))
    (of_this_machine,) = lines_of(checked(tmp_path, cast, here), "gpu")
    assert of_this_machine.hint == "Check that the node has the GPU's driver."


def test_the_gpu_that_the_job_was_given_is_the_one_that_counts(tmp_path: Path) -> None:
    other = SeenGpu("NVIDIA A100-SXM4-80GB", "GPU-9")
    seen = replace(GOOD, gpus=(other, GOOD.gpus[0]), visible="1", torch=Torch(error="none"))
    assert lines_of(checked(tmp_path, Cast(inspection=seen)), "gpu")[0].severity is Severity.OK
    by_uuid = replace(seen, visible="GPU-9")
    assert "A100" in lines_of(checked(tmp_path, Cast(inspection=by_uuid)), "gpu")[0].message


@pytest.mark.parametrize(
    ("ahead", "severity", "words"), [(0, Severity.OK, "s "), (7260, Severity.WARNING, "is 2 h ahead")]
)
def test_a_clock_that_differs_is_told_from_files_that_are_late(
    tmp_path: Path, ahead: float, severity: Severity, words: str
) -> None:
    found = checked(tmp_path, Cast(ahead=ahead))
    (clock,), (files,) = lines_of(found, "clock"), lines_of(found, "files")
    assert (clock.severity, words in clock.message) == (severity, True), clock
    assert files.severity is Severity.OK


def test_a_greeting_that_is_late_counts_half_for_the_files_and_half_for_the_doubt_about_the_clock(
    tmp_path: Path,
) -> None:
    found = checked(tmp_path, Cast(ahead=100, late=40))
    (clock,), (files,) = lines_of(found, "clock"), lines_of(found, "files")
    assert [round(float(number)) for number in re.findall(r"([\d.]+) s", clock.message)] == [80, 20]
    assert [round(float(number)) for number in re.findall(r"([\d.]+) s", files.message)] == [20]
    assert (clock.severity, files.severity) == (Severity.WARNING, Severity.OK)
    (files,) = lines_of(checked(tmp_path, Cast(late=80)), "files")
    assert files.severity is Severity.WARNING


@dataclass
class Late(Cast):
    """A scheduler whose job prints a line and ends at once, on a file system that shows each file `late` seconds later.

    The log is there after that time, and the report as long after the end of the job as is known.
    """

    began_at: float = field(default_factory=time.monotonic)
    ended_at: float = math.inf

    def poll(self, jobs: Sequence[JobKey]) -> Mapping[str, JobStatus]:
        now, (job,) = time.monotonic(), self.submitted
        if now > self.began_at + self.late and self.ended_at == math.inf:
            (job.folder / "slurm-7.out").write_text("from the TaskProlog\n")
            self.ended_at = now
        self.status = JobStatus(JobState.RUNNING if self.ended_at == math.inf else JobState.ENDED, "7")
        if now > self.ended_at + 0.9 * self.late:
            self.inspection = GOOD
            (job.folder / ANSWER).touch()
            (job.folder / GREETING).write_text(json.dumps({"at": time.time()}))
            return {**super().poll(jobs), job.name: JobStatus(JobState.ENDED, "7")}
        return Scripted.poll(self, jobs)


def test_the_report_of_a_job_may_be_as_late_as_its_log_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_LOGGED_GRACE_SECONDS", 0.3)
    found = checked(tmp_path, Late(inspection=None, late=2.0))
    (line,) = lines_of(found, "job")
    assert (line.severity, line.message) == (Severity.OK, "ran on n1 (job 7)")
    # A job without a report is not waited for much longer than its log was.
    began = time.monotonic()
    (line,) = lines_of(
        checked(
            tmp_path, Cast(inspection=None, status=JobStatus(JobState.ENDED, "7"), writes={"slurm-7.out": b"Traceback"})
        ),
        "job",
    )
    assert line.severity is Severity.ERROR
    assert time.monotonic() - began < 2


def test_a_job_that_ends_without_a_report_shows_what_it_printed(tmp_path: Path) -> None:
    printed = b"\x1b]0;owned\x07SyntaxError: \x1b[31minvalid syntax\n"
    ended = JobStatus(JobState.ENDED, "7", source="squeue: FAILED")
    cast = Cast(inspection=None, status=ended, writes={"slurm-7.out": printed})
    (line,) = lines_of(checked(tmp_path, cast), "job")
    assert line.severity is Severity.ERROR
    assert line.message == "it wrote no report (squeue: FAILED); its output ends:\nSyntaxError: invalid syntax"


@pytest.mark.parametrize(
    "report",
    [b"", b"{", b"[" * 100_000, b'{"nonce": 1}', b"x" * 100_000, json.dumps(asdict(GOOD)).encode()],
    ids=["empty", "cut", "deep", "wrong", "large", "of-another-job"],
)
def test_a_report_that_is_none_or_another_job_s_is_not_believed(tmp_path: Path, report: bytes) -> None:
    cast = Cast(
        inspection=None, status=JobStatus(JobState.TIMEOUT, "7"), writes={"result.json": report, "slurm-7.out": b"x"}
    )
    found = checked(tmp_path, cast)
    assert found.inspection is None
    assert not found.proven


def test_a_report_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    class Linking(Cast):
        def submit(self, job: Job) -> str:
            secret = tmp_path / "secret.json"
            nonce = json.loads((job.folder / "job.json").read_text())["inspect"]["nonce"]
            secret.write_text(json.dumps(asdict(replace(GOOD, nonce=nonce))))
            (job.folder / "result.json").symlink_to(secret)
            return "7"

    assert checked(tmp_path, Linking(inspection=None), seconds=0.3).inspection is None


def test_a_job_that_does_not_start_in_time_is_cancelled_and_says_why(tmp_path: Path) -> None:
    said: list[str] = []
    cast = Cast(inspection=None, status=JobStatus(JobState.PENDING, "7", reason="waiting for resources (Resources)"))
    found = checked(tmp_path, cast, seconds=0.3, say=said.append)
    (line,) = lines_of(found, "job")
    assert line.message == "no report within 0.3 s: waiting for resources (Resources); the job was cancelled"
    assert cast.cancelled == ["7"]
    assert said == ["Cluster main: querying Slurm", "H100: waiting for resources (Resources)"]


def test_an_interrupt_cancels_the_job_and_removes_its_folder(tmp_path: Path) -> None:
    cast = Cast(inspection=None)

    def interrupt(words: str) -> None:
        if "querying" not in words:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checked(tmp_path, cast, say=interrupt)
    assert cast.cancelled == ["7"]
    assert not (tmp_path / "board" / probe.FOLDER).exists()


def test_a_job_whose_submission_got_no_clear_answer_is_looked_up_and_cancelled(tmp_path: Path) -> None:
    cast = Cast(loses_answer=True)
    found = checked(tmp_path, cast)
    assert lines_of(found, "job")[0].message == "Socket timed out"
    assert cast.cancelled == ["7"]


def test_a_job_that_cannot_be_cancelled_is_named(tmp_path: Path) -> None:
    said: list[str] = []
    cast = Cast(inspection=None, cancel_error=SchedulerError("scancel failed"))
    checked(tmp_path, cast, seconds=0.2, say=said.append)
    assert "When Slurm answers: scancel 7" in said[-1]


def test_a_template_that_cannot_be_rendered_is_a_problem_of_its_entry(tmp_path: Path) -> None:
    template = tmp_path / "job.sh.j2"
    template.write_text("{{ nothing_like_that }}")
    found = checked(tmp_path, Cast(), replace(H100, template=str(template)))
    assert [(line.severity, line.subject) for line in found.diagnostics] == [(Severity.ERROR, "script")]


def test_what_a_node_reports_is_shown_without_its_control_characters(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[31mred\u202e"
    gpus = (replace(GOOD.gpus[0], driver=evil),)
    torch = Torch(evil, evil, (f"NVIDIA H100 {evil}",))
    cast = Cast(inspection=replace(GOOD, gpus=gpus, torch=torch, node=evil, python=evil, executable=evil, scratch=evil))
    found = checked(tmp_path, cast)
    shown = plain(diagnostics_report(found.gpu.name, found.diagnostics, "Proven"))
    assert "owned" not in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "red" in shown


def test_a_gpu_without_a_name_in_the_settings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="H200"):
        recorded(tmp_path).board.admin.check_gpus(["H200"])


def test_a_login_node_that_cannot_be_reached_is_a_problem_of_its_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    far = Cluster("far", "slurm", ssh=Login("127.0.0.1", port=1), board_folder="/scratch/board")
    entry = Gpu("H100", far, Device.CUDA, "gpu")
    board = Board(Settings(tmp_path / "board", tmp_path / "devices", (), (entry,), (far,)))
    (found,) = board.admin.check_gpus()
    assert [(line.severity, line.subject) for line in found.diagnostics] == [(Severity.ERROR, "cluster")]
    assert "127.0.0.1 cannot be reached" in found.diagnostics[0].message


# By the command


@pytest.fixture
def site(board: Recorded, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """A board without tasks in its settings, on a cluster whose commands are stand-ins."""
    slurm = Slurm(board.folder / "bin")
    slurm.install()
    monkeypatch.setenv("PATH", f"{slurm.folder}:{os.environ['PATH']}")
    settings = {
        "board": "board",
        "tasks": [],
        "clusters": {"main": {"scheduler": "slurm", "allow_root": True}},
        "gpus": {"H100": {"cluster": "main", "partition": "h100", "cpus_per_task": 2}},
    }
    board.settings.write_text(yaml.safe_dump(settings))
    return board


def messages(site: Recorded, subject: str) -> tuple[int, list[str]]:
    """The exit code of `admin check --no-job`, and its messages on a subject."""
    done = call(site, "admin", "check", "--no-job", "--json")
    (found,) = json.loads(done.stdout)
    return done.exit_code, [line["message"] for line in found["lines"] if line["subject"] == subject]


@pytest.mark.parametrize("allowed", [True, False])
def test_root_is_told_that_the_judge_refuses_its_jobs(site: Recorded, allowed: bool) -> None:
    document = yaml.safe_load(site.settings.read_text())
    document["clusters"]["main"]["allow_root"] = allowed
    site.settings.write_text(yaml.safe_dump(document))
    code, told = messages(site, "root")
    refused = is_root() and not allowed
    assert (code, len(told)) == ((3, 1) if refused else (0, 0)), told
    assert all("every run will end as infra_error" in message for message in told)


def test_a_check_knows_the_tasks_of_boards_that_users_made(site: Recorded) -> None:
    assert messages(site, "partition") == (0, ["h100 exists and accepts jobs of up to 04:00:00"])
    folder = site.folder / "week1"
    write_task(folder)
    document = yaml.safe_load((folder / "task.yml").read_text())
    (folder / "task.yml").write_text(yaml.safe_dump({**document, "ranked_timeout": 20_000}))
    created = call(site, "create", "week1", folder)
    assert created.exit_code == 0, created.output
    code, (told,) = messages(site, "partition")
    assert code == 3
    assert told.startswith("h100 allows 04:00:00, and a ranked run of week1 has the time limit ")
