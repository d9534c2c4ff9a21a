"""Probes of the GPUs in the settings: the schedulers' answers to their jobs, and a short job on a node.

A probe job is started by the batch script of a run, under the entry's own modules, environment and Python. It is in no
database; its folder is removed, and it is cancelled when the check ends without its report.
"""

import hashlib
import json
import math
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from hpc_board import bundled
from hpc_board.catalog.folders import read_task
from hpc_board.domain.diagnostic import Diagnostic, Rule, Severity, applied
from hpc_board.domain.gpu_names import name_mismatch
from hpc_board.domain.gpus import allowed_gpus, runs_template
from hpc_board.domain.run import JobState, JobStatus
from hpc_board.errors import BoardError, SchedulerError, StorageError
from hpc_board.harness.confine.sandbox import lacking, reaches
from hpc_board.model.gpu import Device, Gpu
from hpc_board.model.job_environment import log_name
from hpc_board.model.node_probe import ANSWER, GREETING, INSPECTION_BYTES_MAX, Greeting, NodeProbe
from hpc_board.model.peaks import CPU_PEAKS, CPU_PEAKS_BYTES_MAX, measured_peak, with_cpu_peak
from hpc_board.model.result import JUDGE, WORKER, Verdict
from hpc_board.model.score import figures
from hpc_board.model.task import COMPILED, Mode, Task
from hpc_board.model.text import one_line, printable
from hpc_board.report.formatting import amount_text, count_text, span_text
from hpc_board.runs import job_folder
from hpc_board.schedulers import (
    Change,
    GpuFault,
    Job,
    JobKey,
    Rehearsal,
    Rehearsing,
    Scheduler,
    ShowingJobs,
    kind_of,
)
from hpc_board.transport import Files

FOLDER = "checks"
"""The folder in the board's that holds the folders of probe jobs while they run."""

TIMEOUT_SECONDS = 600.0
"""The default time to wait for probe jobs."""

ANSWER_SECONDS = 60.0
"""The time that a probe job waits for the answer to its greeting."""

_LOOK_SECONDS = 0.05
_FAR_LOOK_SECONDS = 1.0
_LOGGED_GRACE_SECONDS = 3.0
_END_SECONDS = 15.0
_END_LOOK_SECONDS = 0.5
_LOG_BYTES = 4096
_SKEW_SECONDS = 5.0
_LATE_SECONDS = 30.0
_SCRATCH_BYTES = 2**30
_TASKS_NAMED_MAX = 3
_SINGLE = ("Exclusive_Process", "Exclusive_Thread", "Prohibited")
"""Compute modes of NVIDIA's driver that admit at most one process."""

_LINKED = "Install its packages as copies (`uv` with `--link-mode copy`): jobs cannot see the targets of links."
_IMPORTS_TORCH = re.compile(r"^[ \t]*(?:import|from)[ \t]+torch\b", re.MULTILINE)
T = TypeVar("T")
_GOING = (JobState.PENDING, JobState.RUNNING, JobState.COMPLETING, JobState.UNKNOWN)


class Checked(msgspec.Struct, frozen=True):
    """A GPU of the settings, its diagnostics, and the report of its probe job if it left one.

    `waited` says that the job had not begun when the time was over.
    """

    gpu: Gpu
    diagnostics: tuple[Diagnostic, ...]
    inspection: NodeProbe | None = None
    waited: bool = False

    @property
    def proven(self) -> bool:
        """Return whether no diagnostic prevents runs."""
        return all(each.severity is not Severity.ERROR for each in self.diagnostics)


class Plan(msgspec.Struct, frozen=True):
    """The inputs of a check: job folders and schedulers by cluster, the board's tasks, and the harness's bytes.

    `say` is called with the reason for waiting, once for each. `at_once` limits the number of jobs at the same time,
    and `benchmark` has them measure their nodes. `starters` are kernels by language, which jobs try.
    """

    folders: Mapping[str, job_folder.Folders]
    tasks: Sequence[Task]
    schedulers: Mapping[str, Scheduler]
    harness: Callable[[], bytes]
    timeout_seconds: float = TIMEOUT_SECONDS
    say: Callable[[str], object] = lambda _: None
    at_once: int | None = None
    benchmark: bool = False
    starters: Mapping[str, str] = {}


class _Probe(msgspec.Struct):
    """A probe job, from its folder to its end."""

    gpu: Gpu
    scheduler: Scheduler
    folders: job_folder.Folders
    job: Job
    nonce: str
    diagnostics: list[Diagnostic] = msgspec.field(default_factory=list)
    key: JobKey | None = None
    sent_at: datetime | None = None
    greeting: Greeting | None = None
    looked_at: float = -math.inf
    greeted_at: float = 0.0
    answered_at: float = 0.0
    waited_at: float = 0.0
    logged_at: float | None = None
    inspection: NodeProbe | None = None
    news: JobStatus | None = None
    told: str = ""
    ended_since: float | None = None
    done: bool = False
    waited: bool = False
    label: str = ""
    need_torch: Sequence[str] = ()

    def add(self, severity: Severity, subject: str, message: str, hint: str = "") -> None:
        self.diagnostics.append(Diagnostic(severity, subject, message, hint))

    def failed(self, subject: str, error: BoardError) -> None:
        self.done = True
        self.add(Severity.ERROR, subject, error.message, error.hint)


def bundled_starters() -> Mapping[str, str]:
    """Return the starters of the bundled task `vectoradd` by their names."""
    return read_task(bundled.folder("tasks") / "vectoradd").templates


def _starters(plan: Plan, gpu: Gpu) -> dict[str, str]:
    """Return the starters that a job on `gpu` tries, each for some seconds; only PyTorch's line tells of a CPU's."""
    found = {name: text for name, text in plan.starters.items() if runs_template(gpu, name)}
    if gpu.device is Device.CPU and not gpu.emulated:
        return {name: text for name, text in found.items() if name in COMPILED}
    return found


def check(
    gpus: Sequence[Gpu], plan: Plan, *, send: bool, rehearse: bool = True, labels: Sequence[str] = ()
) -> list[Checked]:
    """Check these GPUs, all at the same time or some; without `send` no job is submitted.

    With `rehearse` the schedulers are asked for their answers to the jobs first. Messages about the wait for jobs name
    the `labels`, if given, in place of the GPUs.

    Raises:
        StorageError: the board's folder cannot be written.
    """
    name = secrets.token_hex(8)
    probes: list[_Probe] = []
    try:
        for number, gpu in enumerate(gpus):
            kind, first = kind_of(gpu.cluster), all(probe.gpu.cluster != gpu.cluster for probe in probes)
            if rehearse and first and not kind.on_this_machine:
                plan.say(f"Cluster {gpu.cluster.name}: querying {kind.title}")
            # One level deeper than it needs: `../../harness` is then a folder of this check's own.
            probes.append(_prepare(gpu, Path(FOLDER, name, "jobs", str(number)), plan))
            probes[-1].label = labels[number] if labels else gpu.name
            probes[-1].need_torch = _need_torch(plan.tasks, gpu)
        if rehearse:
            _rehearse([probe for probe in probes if not probe.done], plan.tasks)
        if send:
            _follow([probe for probe in probes if not probe.done], plan)
    finally:
        _end([probe for probe in probes if probe.sent_at is not None], plan.say)
        for folders in {id(probe.folders): probe.folders for probe in probes}.values():
            _remove(folders.files, folders.board / FOLDER / name)
    return [Checked(probe.gpu, tuple(probe.diagnostics), probe.inspection, probe.waited) for probe in probes]


# Before anything is sent


def _prepare(gpu: Gpu, place: Path, plan: Plan) -> _Probe:
    folders = plan.folders[gpu.cluster.name]
    folder = folders.board / place
    nonce = secrets.token_hex(16)
    name = f"hb-{secrets.token_hex(8)}"
    probe = _Probe(
        gpu, plan.schedulers[gpu.cluster.name], folders, Job(name, folder, job_folder.SCRIPT, gpu, {}, 0), nonce
    )
    try:
        script = job_folder.probe_script(gpu)
    except BoardError as error:
        probe.failed("script", error)
        return probe
    comment = job_folder.comment(script, "run of admin check")
    probe.job = replace(
        probe.job, options=script.options, time_limit_seconds=script.time_limit_seconds, comment=comment
    )
    harness = plan.harness()
    sha256 = hashlib.sha256(harness).hexdigest()
    starters = _starters(plan, gpu)
    facts = job_folder.probe_facts(gpu, nonce, ANSWER_SECONDS, sha256, benchmark=plan.benchmark, starters=starters)
    contents = {
        job_folder.SCRIPT: script.text.encode(),
        job_folder.FACTS: json.dumps(facts, indent=1).encode(),
        job_folder.HARNESS: job_folder.starter(),
    }
    try:
        folders.files.ensure(job_folder.harness_file(folder, sha256), harness)
        folders.files.write_folder(folder, contents)
    except SchedulerError as error:
        probe.failed("cluster", error)
    except OSError as error:
        fault = StorageError(
            f"{folder}: the folder of a probe job cannot be written: {error.strerror or error}",
            hint=f"Free some space, or set `{folders.setting}` in the settings to a folder that you can write to.",
        )
        if not folders.elsewhere:
            raise fault from error
        probe.failed("folder", fault)
    return probe


def _rehearse(probes: Sequence[_Probe], tasks: Sequence[Task]) -> None:
    """Ask each scheduler once for the options of the longest run on each of its GPUs."""
    for scheduler in {id(probe.scheduler): probe.scheduler for probe in probes}.values():
        if not isinstance(scheduler, Rehearsing):
            continue
        mine = [probe for probe in probes if probe.scheduler is scheduler]
        for probe, found in zip(mine, scheduler.rehearse([_rehearsal(probe, tasks) for probe in mine]), strict=True):
            probe.diagnostics += found.diagnostics
            probe.done = found.refused


def _rehearsal(probe: _Probe, tasks: Sequence[Task]) -> Rehearsal:
    seconds, whose = _longest(probe.gpu, tasks)
    options = kind_of(probe.gpu.cluster).options(probe.gpu, seconds)
    return Rehearsal(replace(probe.job, options=options, time_limit_seconds=seconds), whose)


def _longest(gpu: Gpu, tasks: Sequence[Task]) -> tuple[int, str]:
    """Return the longest time limit of a run on `gpu`, and its task."""
    if gpu.time_limit_seconds is not None:
        return gpu.time_limit_seconds, f"gpus.{gpu.name}.time"
    limits = [
        (job_folder.time_limit_seconds(task, gpu, mode), f"a {mode} run of {one_line(task.name)}")
        for task in tasks
        for mode in Mode
        if mode is not Mode.SANITIZE  # which takes at most as long as a ranked run
    ]
    return max(limits, default=(job_folder.PROBE_SECONDS, "a probe job"))


# The job


def _send(probe: _Probe) -> None:
    probe.sent_at, probe.waited_at = datetime.now(UTC), time.monotonic()
    try:
        job_id = probe.scheduler.submit(probe.job)
    except BoardError as error:
        probe.failed("job", error)
        return
    probe.key = JobKey(probe.job.name, job_id, probe.sent_at, str(probe.job.folder / probe.job.script))
    if isinstance(probe.scheduler, ShowingJobs):
        with suppress(SchedulerError):
            changes = probe.scheduler.changes(probe.job, job_id)
            if changes is not None:
                _add_changes(probe, changes)


def _add_changes(probe: _Probe, changes: Sequence[Change]) -> None:
    """Add the diagnostic of the site's rules for jobs."""
    if not changes:
        probe.add(Severity.OK, "rules", "the site does not change name, partition, time limit, account or comment")
        return
    told = "; ".join(f"{each.part} {each.found or 'empty'} instead of {each.sent}" for each in changes)
    important = [each.part for each in changes if each.important]
    probe.add(
        Severity.WARNING if important else Severity.OK,
        "rules",
        f"the site changes a job: {told}"
        + ("" if important else "; hpc-board also recognizes its jobs by their script"),
        f"Correct gpus.{probe.gpu.name} in the settings, or ask the administrators for their job_submit rules."
        if important
        else "",
    )


def _follow(probes: Sequence[_Probe], plan: Plan) -> None:
    """Send the jobs, wait for their reports, answer the greetings, and poll the schedulers at intervals."""
    deadline = time.monotonic() + plan.timeout_seconds
    asked: dict[str, float] = {}
    unsent = list(probes)
    going: list[_Probe] = []
    while going or unsent:
        while unsent and (plan.at_once is None or len(going) < plan.at_once) and time.monotonic() < deadline:
            going.append(unsent.pop(0))
            _send(going[-1])
        if time.monotonic() >= deadline:
            for probe in unsent:
                _leave_out(probe, plan.timeout_seconds)
            unsent.clear()
        for probe in going:
            if not probe.done:
                _read_job_files(probe)
        for cluster in {probe.gpu.cluster for probe in going if not probe.done}:
            if time.monotonic() - asked.get(cluster.name, 0) >= cluster.poll_seconds:
                asked[cluster.name] = time.monotonic()
                _poll_jobs([probe for probe in going if probe.gpu.cluster == cluster and not probe.done], plan.say)
        for probe in going:
            if not probe.done and time.monotonic() >= deadline:
                _give_up(probe, plan.timeout_seconds)
        going = [probe for probe in going if not probe.done]
        if going:
            time.sleep(_LOOK_SECONDS)


def _read_job_files(probe: _Probe) -> None:
    """Read new files in the job's folder."""
    files, folder = probe.folders.files, probe.job.folder
    if probe.folders.elsewhere and time.monotonic() - probe.looked_at < _FAR_LOOK_SECONDS:
        return
    probe.looked_at = time.monotonic()
    try:
        names = {entry.name for entry in files.entries(folder)}
    except OSError:
        return
    if probe.logged_at is None and probe.key is not None:
        name = log_name(probe.key.job_id)
        probe.logged_at = time.monotonic() if name in names else None
    now = time.time()
    if probe.greeting is None and GREETING in names:
        probe.greeting = _read_json(probe, GREETING, Greeting)
        if probe.greeting is not None:
            probe.greeted_at, probe.answered_at = now, time.time()
            with suppress(OSError):
                files.write(folder / ANSWER, json.dumps(asdict(Greeting(probe.answered_at))).encode())
    if job_folder.RESULT in names:
        found = _read_json(probe, job_folder.RESULT, NodeProbe)
        if found is not None and found.nonce == probe.nonce:
            probe.inspection, probe.done = found, True
            probe.diagnostics += applied(_RULES, _Report(probe, found))
            _record_cpu_peak(probe, found)


def _record_cpu_peak(probe: _Probe, found: NodeProbe) -> None:
    """Record the peaks of the job's processors beside the job folders, where jobs read them."""
    peak = measured_peak(*found.cpu_peak) if found.cpu_peak else None
    if peak is None or probe.gpu.device is not Device.CPU:
        return
    files, path = probe.folders.files, probe.folders.board / CPU_PEAKS
    known = b""
    with suppress(OSError):
        known = files.read(path, CPU_PEAKS_BYTES_MAX)
    try:
        files.write(path, with_cpu_peak(known, found.cpu, found.cpus, peak))
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror or error}"
        probe.add(Severity.WARNING, "peak", message, "Reports of runs show no share of the peaks.")
        return
    rates = f"{amount_text(peak.memory_bytes)}B/s of memory, {amount_text(peak.operations)}op/s of float32 arithmetic"
    whose = f"{count_text(found.cpus, 'processor')} ({one_line(found.cpu, 80)})"
    probe.add(Severity.OK, "peak", f"{rates} on {whose}; reports show the share of a run")


def _read_json(probe: _Probe, name: str, type_: type[T]) -> T | None:
    """Return a small JSON file of the job's; None if it is invalid or incomplete."""
    try:
        data = probe.folders.files.read(probe.job.folder / name, INSPECTION_BYTES_MAX)
    except OSError:
        return None
    if len(data) > INSPECTION_BYTES_MAX:
        return None
    try:
        return msgspec.json.decode(data, type=type_)
    except (msgspec.DecodeError, RecursionError):
        return None


def _poll_jobs(probes: Sequence[_Probe], say: Callable[[str], object]) -> None:
    """Poll the scheduler for the jobs; an ended job without a report after the grace has failed."""
    keys = [probe.key for probe in probes if probe.key is not None]
    try:
        news = probes[0].scheduler.poll(keys)
    except SchedulerError as error:
        _show_state(probes[0], error.message, say)
        return
    for probe in probes:
        found = news.get(probe.job.name)
        if found is None:
            continue
        probe.news = found
        if found.state in _GOING:
            probe.ended_since = None
            if found.state is JobState.PENDING:
                probe.waited_at = time.monotonic()
            _show_state(probe, found.reason or f"the job is {found.state}", say)
            continue
        probe.ended_since = probe.ended_since or time.monotonic()
        grace = kind_of(probe.gpu.cluster).result_grace.total_seconds()
        if _log(probe) or found.state not in (JobState.ENDED, JobState.MISSING):
            # The log is the last that a job leaves, so its report is hardly later than the log.
            grace = min(grace, _LOGGED_GRACE_SECONDS + _delay_seconds(probe))
        if time.monotonic() - probe.ended_since >= grace:
            _no_report(probe, found)


def _delay_seconds(probe: _Probe) -> float:
    """Return the most that the job's log can have been late: the time from when the job last had not begun.

    The log is the first file of a job.
    """
    return (probe.logged_at or time.monotonic()) - probe.waited_at


def _show_state(probe: _Probe, words: str, say: Callable[[str], object]) -> None:
    if words != probe.told:
        probe.told = words
        say(f"{probe.label}: {words}")


def _no_report(probe: _Probe, news: JobStatus) -> None:
    probe.done = True
    log = _log(probe)
    where = f"gpus.{probe.gpu.name}"
    container = f", {where}.container" if probe.gpu.container is not None else ""
    probe.add(
        Severity.ERROR,
        "job",
        f"it wrote no report ({one_line(news.source or str(news.state))})"
        + (f"; its output ends:\n{log}" if log else ""),
        f"Check {where}.python, {where}.modules{container} and {where}.template, and whether the node sees the"
        " board's folder.",
    )


def _give_up(probe: _Probe, seconds: float) -> None:
    probe.done = True
    probe.waited = probe.news is not None and probe.news.state is JobState.PENDING
    state = probe.news.reason or f"it is {probe.news.state}" if probe.news else "its state is unknown"
    probe.add(
        Severity.ERROR,
        "job",
        f"no report within {seconds:g} s: {one_line(state)}; the job was cancelled",
        "Try again later, or wait longer with --timeout.",
    )


def _leave_out(probe: _Probe, seconds: float) -> None:
    probe.done = probe.waited = True
    probe.add(
        Severity.WARNING,
        "job",
        f"not sent: the jobs before it used up the {seconds:g} s of the check",
        "Try again later, or wait longer with --timeout.",
    )


def _log(probe: _Probe) -> str:
    """Return the end of the job's output."""
    if probe.key is None:
        return ""
    path = probe.job.folder / log_name(probe.key.job_id)
    try:
        data = probe.folders.files.read(path, _LOG_BYTES, end=True)
    except OSError:
        return ""
    return "\n".join(printable(data.decode(errors="replace")).strip().splitlines()[-8:])


def _end(probes: Sequence[_Probe], say: Callable[[str], object]) -> None:
    """Cancel the jobs without a report, and wait a while for the end of all, as they use their folders."""
    deadline = time.monotonic() + _END_SECONDS
    for scheduler in {id(probe.scheduler): probe.scheduler for probe in probes}.values():
        mine = [probe for probe in probes if probe.scheduler is scheduler]
        try:
            keys = {key.name: key for key in filter(None, map(_look_up_key, mine))}
            unwanted = [probe.job.name for probe in mine if probe.inspection is None]
            scheduler.cancel([keys[name] for name in unwanted if name in keys])
            while keys and time.monotonic() < deadline:
                news = scheduler.poll(list(keys.values()))
                keys = {name: key for name, key in keys.items() if name in news and news[name].state in _GOING}
                if keys:
                    time.sleep(_END_LOOK_SECONDS)
        except BoardError as error:
            say(f"A probe job may remain: {error.message}.{_cancel_commands(mine)}")


def _cancel_commands(probes: Sequence[_Probe]) -> str:
    """Return how a user ends these jobs, of one cluster, after a scheduler that has not answered; empty if unknown."""
    cluster = probes[0].gpu.cluster
    scheduler = kind_of(cluster)
    ids = {probe.job.name: probe.key.job_id if probe.key else "" for probe in probes}
    commands = filter(None, (scheduler.cancel_command(cluster, *each) for each in ids.items()))
    told = "; ".join(commands)
    return f" When {scheduler.title} answers: {told}" if told else ""


def _look_up_key(probe: _Probe) -> JobKey | None:
    """Return the job's key, looked up if the scheduler gave no clear answer to its submission."""
    if probe.key is None and probe.sent_at is not None:
        key = JobKey(probe.job.name, "", probe.sent_at, str(probe.job.folder / probe.job.script))
        job_id = probe.scheduler.find(key)
        probe.key = None if job_id is None else replace(key, job_id=job_id)
    return probe.key


def _remove(files: Files, folder: Path) -> None:
    """Remove the folder; a job that is ending may still write into it."""
    for _ in range(20):
        with suppress(OSError):
            files.remove_folder(folder)
            return
        time.sleep(_LOOK_SECONDS)


# Diagnostics from the report


def _need_torch(tasks: Sequence[Task], gpu: Gpu) -> list[str]:
    """Return the names of the tasks for this GPU whose own files import PyTorch."""
    return [
        one_line(task.name)
        for task in tasks
        if allowed_gpus(task, [gpu]) and any(_IMPORTS_TORCH.search(file.text or "") for file in task.files)
    ]


class _Report(msgspec.Struct, frozen=True):
    """The report of a probe job."""

    probe: _Probe
    found: NodeProbe

    @property
    def gpu(self) -> Gpu:
        return self.probe.gpu

    @property
    def where(self) -> str:
        return f"gpus.{self.gpu.name}"


def _job(report: _Report) -> Iterator[Diagnostic]:
    gpu, found = report.gpu, report.found
    job = f" (job {one_line(found.job_id, 20)})" if found.job_id else ""
    yield Diagnostic(Severity.OK, "job", f"ran on {one_line(found.node, 64)}{job}")
    if gpu.container is not None:
        yield Diagnostic(Severity.OK, "container", f"{gpu.container.runtime} started {one_line(gpu.container.image)}")
    yield Diagnostic(Severity.OK, "python", f"{one_line(found.python, 40)} ({one_line(found.executable)})")


def _modules(report: _Report) -> Iterator[Diagnostic]:
    if report.gpu.modules:
        source = one_line(report.found.modules)
        words = f"; `module` comes from {source}" if source else ""
        yield Diagnostic(Severity.OK, "modules", f"{', '.join(map(one_line, report.gpu.modules))} loaded{words}")


def _sandbox(report: _Report) -> Iterator[Diagnostic]:
    gpu, found = report.gpu, report.found
    if found.sandbox_error:
        setting = gpu.sandbox.setting if gpu.sandbox else report.where
        yield Diagnostic(
            Severity.ERROR, "sandbox", one_line(found.sandbox_error, 500), f"Change {setting} or the node."
        )
    elif found.sandbox:
        yield Diagnostic(Severity.OK, "sandbox", one_line(found.sandbox))


def _scratch(report: _Report) -> Iterator[Diagnostic]:
    found = report.found
    if found.scratch_free_bytes < _SCRATCH_BYTES:
        message = f"{one_line(found.scratch)} has {found.scratch_free_bytes // 2**20} MiB left for scratch folders"
        yield Diagnostic(
            Severity.WARNING, "scratch", message, f"Set TMPDIR in {report.where}.env to a folder with more space."
        )
    else:
        message = f"{one_line(found.scratch)} has {found.scratch_free_bytes // 2**30} GiB left"
        yield Diagnostic(Severity.OK, "scratch", message)


def _gpus(report: _Report) -> Iterator[Diagnostic]:
    gpu, found, kind = report.gpu, report.found, kind_of(report.gpu.cluster)
    if gpu.device is Device.CPU:
        emulated = "skipped: jobs of this entry run on the CPU (`device: cpu`)"
        yield Diagnostic(Severity.OK, "gpu", emulated if gpu.emulated else "none is requested")
        return
    names = gpu_names(found)
    if not names:
        yield Diagnostic(
            Severity.ERROR,
            "gpu",
            "the job sees no GPU: neither nvidia-smi nor PyTorch has one",
            kind.gpu_hint(gpu, GpuFault.MISSING),
        )
        return
    one = found.gpus[0] if len(found.gpus) == 1 else None
    mig = "MIG-" in found.visible or bool(one and one.mig == "Enabled")
    why = name_mismatch(gpu.name, names[0], mig=mig)
    if why:
        yield Diagnostic(Severity.ERROR, "gpu", one_line(why), kind.gpu_hint(gpu, GpuFault.OTHER))
    else:
        yield Diagnostic(Severity.OK, "gpu", "; ".join(filter(None, (one_line(names[0]), _clocks(found)))))
    seen = max(len(found.gpus), len(found.torch.devices))
    if seen > 1 and not kind.takes_whole_nodes(gpu):
        yield Diagnostic(
            Severity.WARNING,
            "gpu",
            f"the job sees {seen} GPUs, but one was requested",
            kind.gpu_hint(gpu, GpuFault.SEVERAL),
        )


def _compute_mode(report: _Report) -> Iterator[Diagnostic]:
    one = report.found.gpus[0] if len(report.found.gpus) == 1 else None
    if one and one.compute_mode in _SINGLE:
        message = f"its compute mode is {one.compute_mode}: the judge and the kernel, two processes, cannot both use it"
        yield Diagnostic(Severity.ERROR, "gpu", message, "Ask root to run `nvidia-smi --compute-mode=DEFAULT`.")


def _trial(report: _Report) -> Iterator[Diagnostic]:
    """Yield the end of the trial kernel and the clock of ranked times."""
    found, key = report.found.trial, f"{report.where}.minimum_clock"
    if found is None:
        return
    reason = one_line(found.reason, 500)
    if found.verdict != Verdict.PASS:
        message = f"a small kernel ended as {one_line(found.verdict, 40)}: {one_line(found.message, 500)}"
        hint = "Every run on this node would fail the same way. Fix the cause first."
        yield Diagnostic(Severity.ERROR, "trial", message, hint)
    elif found.clock != WORKER:
        message = f"a small kernel passed; its clock is `{one_line(found.clock, 40)}`" + (
            f": {reason}" if reason else ""
        )
        yield Diagnostic(Severity.OK, "trial", message)
    elif report.gpu.minimum_clock == JUDGE:
        message = f"the judge has no clock here, so ranked runs end as infra_error: {reason}"
        yield Diagnostic(Severity.ERROR, "trial", message, f"Fix the cause, or set {key} to `worker`.")
    else:
        message = f"the judge has no clock here, so times are reported by the kernels' own processes: {reason}"
        hint = f"Fix the cause; or set {key} to `judge`, which keeps such times out of the standings."
        yield Diagnostic(Severity.WARNING, "trial", message, hint)


def gpu_names(found: NodeProbe) -> tuple[str, ...]:
    """Return the GPUs that the job can use, by their driver's names, the kernel's default device first."""
    if found.torch.devices:
        return found.torch.devices
    first = found.visible.split(",")[0]
    if len(found.gpus) > 1 and first.isdigit() and int(first) < len(found.gpus):
        return (found.gpus[int(first)].name,)
    by_uuid = tuple(gpu.name for gpu in found.gpus if gpu.uuid == first)
    return by_uuid or tuple(gpu.name for gpu in found.gpus)


def _clocks(found: NodeProbe) -> str:
    if not found.gpus:
        return ""
    gpu = found.gpus[0]
    clocks = f"clocks {gpu.clock_sm}/{gpu.clock_sm_max} MHz, memory {gpu.clock_memory} MHz"
    return one_line(f"driver {gpu.driver}; {clocks}; {gpu.memory} MiB; MIG {gpu.mig}")


def _torch(report: _Report) -> Iterator[Diagnostic]:
    gpu, torch, need_torch = report.gpu, report.found.torch, report.probe.need_torch
    hint, error = f"Name a Python that has PyTorch with {report.where}.python.", one_line(torch.error)
    if torch.unreadable:
        error = f"the judge must not read {one_line(torch.unreadable)}, a file of this Python"
        hint = f"{_LINKED} {hint}"
    if torch.error and need_torch:
        more = len(need_torch) - _TASKS_NAMED_MAX
        names = ", ".join(need_torch[:_TASKS_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
        message = f"does not import: {error}; runs of {names} would end as infra_error"
        yield Diagnostic(Severity.ERROR, "torch", message, f"{hint} Or use other GPUs for these tasks.")
    elif torch.error:
        message = f"does not import: {error}; no task of the board needs it here"
        yield Diagnostic(Severity.WARNING, "torch", message, f"{hint} Only kernels that use it need it.")
    elif gpu.device is not Device.CPU and not torch.devices:
        message = f"{one_line(torch.version)} imports, but sees no GPU ({one_line(torch.runtime) or 'built for CPUs'})"
        yield Diagnostic(Severity.ERROR, "torch", message, f"{hint} It must be built for the node's driver.")
    else:
        yield Diagnostic(
            Severity.OK, "torch", " ".join(filter(None, (one_line(torch.version), one_line(torch.runtime))))
        )


def _languages(report: _Report) -> Iterator[Diagnostic]:
    """Yield a line for each language of kernels: whether its starter runs here, or compiles."""
    for each in report.found.languages:
        name = one_line(each.name, 40)
        if each.missing:
            yield Diagnostic(Severity.OK, "language", f"{name}: not installed ({one_line(each.missing, 80)})")
        elif each.error:
            yield Diagnostic(
                Severity.OK if report.gpu.device is Device.CPU else Severity.WARNING,
                "language",
                f"{name}: installed, does not {'compile' if each.name in COMPILED else 'run'}: {one_line(each.error)}",
                "" if report.gpu.device is Device.CPU else f"Submissions in it fail here; see {report.where}.python.",
            )
        else:
            does = "compiles" if each.name in COMPILED else "runs"
            yield Diagnostic(Severity.OK, "language", f"{name}: {does} ({each.seconds:g} s)")


def _compilers(report: _Report) -> Iterator[Diagnostic]:
    gpu, found = report.gpu, report.found
    wanted = {Device.CUDA: ("g++", "nvcc"), Device.HIP: ("hipcc",), Device.CPU: ("g++",)}[gpu.device]
    known = {name: one_line(found.compilers[name], 80) for name in wanted if name in found.compilers}
    # Most begin with their names.
    there = "; ".join(text if text.startswith(name) else f"{name} {text}" for name, text in known.items())
    missing = [name for name in wanted if name not in found.compilers]
    if not missing:
        yield Diagnostic(Severity.OK, "compilers", there)
        return
    yield Diagnostic(
        Severity.WARNING,
        "compilers",
        f"no {' and no '.join(missing)}: compiled submissions end as infra_error" + (f"; {there}" if there else ""),
        f"Provide them with {report.where}.modules or {report.where}.env, if tasks accept compiled submissions.",
    )


def _isolation(report: _Report) -> Iterator[Diagnostic]:
    level, wanted = report.found.isolation, report.gpu.minimum_isolation
    if not reaches(level, wanted):
        hint = f"Lower {report.where}.minimum_isolation, or use other nodes."
        message = f"{one_line(level, 8) or 'unknown'}, but ranked runs require {wanted}: {lacking(level, wanted)}"
        yield Diagnostic(Severity.ERROR, "isolation", message, hint)
    elif not level:
        yield Diagnostic(
            Severity.WARNING, "isolation", "could not be tested", "Check `isolation` in the result of a run."
        )
    else:
        yield Diagnostic(Severity.OK, "isolation", one_line(level, 8))


def _times(report: _Report) -> Iterator[Diagnostic]:
    """Yield the delay of files and the clock skew, from the greeting and its answer between both clocks."""
    probe, found = report.probe, report.found
    if probe.greeting is None or not found.answered_at:
        hint = "Results may be late too: check that node and client see the same folder, and how long it is cached."
        message = f"the node did not see the answer to its greeting within {ANSWER_SECONDS:g} s"
        yield Diagnostic(Severity.WARNING, "files", message, hint)
        return
    there, back = found.greeted_at - probe.greeted_at, found.answered_at - probe.answered_at
    late = max(0.0, back - there) / 2
    skew = (there + back) / 2
    hint = "A result that is a minute late counts as lost: check the mount options (`actimeo`, `lookupcache`)."
    bad = late > _LATE_SECONDS
    message = f"appear on the other side within {_length(late)} (half of a round trip)"
    yield Diagnostic(Severity.WARNING if bad else Severity.OK, "files", message, hint if bad else "")
    off = abs(skew) > max(_SKEW_SECONDS, late)
    ahead = "ahead of" if skew > 0 else "behind"
    message = f"the node's is {_length(abs(skew))} {ahead} this machine's, give or take {_length(late)}"
    yield Diagnostic(
        Severity.WARNING if off else Severity.OK, "clock", message, "Synchronize the node's clock (NTP)." if off else ""
    )


def _length(seconds: float) -> str:
    return f"{figures(seconds, 2)} s" if seconds < 120 else span_text(timedelta(seconds=seconds))


_RULES: tuple[Rule[_Report], ...] = (
    _job,
    _modules,
    _gpus,
    _compute_mode,
    _torch,
    _languages,
    _compilers,
    _isolation,
    _sandbox,
    _trial,
    _scratch,
    _times,
)
"""The checks of a probe job's report."""
