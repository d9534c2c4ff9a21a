"""Checks of a result: it belongs to the run, is consistent, and is plausible."""

import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TypeGuard

from hpc_board.domain.run import Run
from hpc_board.model.gpu import Device
from hpc_board.model.limits import Limits
from hpc_board.model.measurement import calls_needed, lower_quartile
from hpc_board.model.result import STOPPED, Case, Result, Timing, Verdict
from hpc_board.model.task import ISOLATED, OWN, Mode, Task

_MODEL = re.compile(r"(?:GH|GB|MI|[HABVPLT])\d{1,4}[A-Z]*")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)", re.ASCII)
_JOB_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,59}")
_ROUNDING = 1e-6


def result_faults(result: Result, run: Run, task: Task, device: Device | None, harness_sha256: str) -> list[str]:
    """Return why `result` is not the result of `run`, one sentence for each reason; empty if it is.

    `device` is the kind of the board's GPU, None if the settings no longer have it, `harness_sha256` the hash of the
    installed harness. A verdict `pass` needs every case that was sent, passed, and times that follow from their samples
    (a profile has no times, and a task's own eval no samples); an interrupted run has not passed. If the run was sent
    with that harness, the times are as many as the task's limits ask for: another version has its own defaults and
    rules.
    """
    faults = []
    if (result.run, result.nonce, result.mode) != (run.id, run.nonce, str(run.mode)):
        faults.append("it belongs to another run")
    if run.status.job_id and result.job_id != run.status.job_id:
        faults.append(f"it comes from job {result.job_id or 'unknown'}, but the run's job is {run.status.job_id}")
    elif not _JOB_ID.fullmatch(result.job_id):
        faults.append("it has no job ID")
    sent = {"harness": run.harness_sha256, "task": run.task_version, "submission": run.code_sha256}
    for name, sha256 in sent.items():
        if result.provenance.get(f"{name}_sha256") != sha256:
            faults.append(f"it was produced with a different {name}")
    found = result.provenance.get("gpu_name")
    if device is not Device.CPU and isinstance(found, str) and not is_model(run.gpu, found):
        faults.append(f"its GPU was {found}, but the run is for {run.gpu}")
    if result.verdict is Verdict.PASS:
        if result.interrupted:
            faults.append("it reports the run as both passed and interrupted")
        ranked = run.mode is Mode.RANKED
        tests = task.case_texts("test", ranked=ranked) if run.mode in (Mode.TEST, Mode.SANITIZE, Mode.RANKED) else []
        benchmarks = [] if run.mode in (Mode.TEST, Mode.SANITIZE) else task.case_texts("benchmark", ranked=ranked)
        only = run.options.case if run.mode in (Mode.TEST, Mode.BENCHMARK) else ""
        faults += _case_faults(result.cases, "test", tests, only)
        measured = sum(case.phase == "benchmark" for case in result.cases)
        may_stop = run.options.stop_if_slower and result.provenance.get(STOPPED)
        faults += _case_faults(
            result.cases, "benchmark", benchmarks[: max(1, measured)] if may_stop else benchmarks, only
        )
        if result.provenance.get("harness", ISOLATED) != task.harness:
            faults.append(f"it was not judged by the task's harness, which is {task.harness}")
        if run.mode in (Mode.BENCHMARK, Mode.RANKED):
            is_own = task.harness == OWN
            faults += _timing_faults(result.cases, _is_own_report if is_own else _is_consistent)
            if not is_own and run.harness_sha256 == harness_sha256:
                faults += _measurement_faults(result.cases, run.mode, task, device)
    return faults


def ended_at(result: Result, run: Run, collected_at: datetime) -> datetime | None:
    """Return the end of the job of `run` by its own clock; None if that is outside the run's life."""
    return plausible_moment(result.ended_at, run.created_at, collected_at)


def plausible_moment(text: str, first: datetime, last: datetime) -> datetime | None:
    """Return the moment that a job's own clock told; None if it is not between these two."""
    if not _MOMENT.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if first <= moment <= last else None


def is_model(gpu: str, device_name: str) -> bool:
    """Return whether a device with the name `device_name` may be the board's GPU `gpu`.

    A board's name that holds no known model ("gpu-big") fits every device; "A100-40" fits "NVIDIA A100-SXM4-40GB", and
    "MI300" fits "AMD Instinct MI300X".
    """
    wanted = _MODEL.findall(gpu.upper())
    found = _MODEL.findall(device_name.upper())
    if not wanted or not found:
        return True
    return wanted[0] in found or (wanted[0].startswith("MI") and found[0].startswith(wanted[0]))


def _case_faults(cases: Sequence[Case], phase: str, sent: Sequence[str], only: str = "") -> list[str]:
    mine = [case for case in cases if case.phase == phase]
    wanted = [(index, text) for index, text in enumerate(sent) if only in ("", str(index + 1))]
    if [(case.index, case.spec) for case in mine] != wanted:
        return [f"its {phase} cases differ from those that were sent"]
    return [f"{phase} case {case.index + 1} did not pass" for case in mine if case.verdict is not Verdict.PASS]


def _timing_faults(cases: Sequence[Case], is_valid: Callable[[Timing | None], bool]) -> list[str]:
    mine = [case for case in cases if case.phase == "benchmark" and not is_valid(case.timing)]
    return [f"invalid times of benchmark case {case.index + 1}" for case in mine]


def _is_own_report(timing: Timing | None) -> bool:
    """Return whether a task's own eval may have reported these times, without samples."""
    return timing is not None and timing.samples >= 1 and timing.mean_ns == timing.time_ns > 0 and not timing.samples_ns


def _measurement_faults(cases: Sequence[Case], mode: Mode, task: Task, device: Device | None) -> list[str]:
    """Return the faults in the times of benchmark cases; an unknown device gets the weaker rules of a CPU."""
    try:
        limits = Limits.of_task(task.limits, str(device or Device.CPU))
    except ValueError as error:
        return [f"the task's limits do not match this version of hpc-board: {error}"]
    workers = limits.workers if mode is Mode.RANKED else 1
    faults = []
    for case in cases:
        if case.phase == "benchmark" and _is_consistent(case.timing):
            words = _missing(case.timing, limits, workers, in_rows=device in (Device.CPU, None))
            faults += [f"benchmark case {case.index + 1} {each}" for each in words]
    return faults


def _missing(timing: Timing, limits: Limits, workers: int, *, in_rows: bool) -> Iterator[str]:
    """Return the faults of times with samples as a measurement by `workers`, `in_rows` or in calls on a GPU."""
    counts = [
        (len(samples_ns), limits.rows if in_rows else calls_needed(samples_ns, limits, workers))
        for samples_ns in timing.worker_samples_ns
    ]
    least = next((least for count, least in counts if count < least), counts[0][1])
    if len(counts) < workers or any(count < needed for count, needed in counts):
        yield f"has fewer than {least} {'rows' if in_rows else 'calls'} from each of {workers} processes"
    if timing.time_ns < limits.floor_seconds * 1e9:
        yield f"takes {timing.time_ns:g} ns, less than the minimum of {limits.floor_seconds * 1e9:g} ns"


def _time_that_counts(timing: Timing) -> float:
    """Return the time that follows from the samples: of rows their lower quartile, of calls the workers' median."""
    of_calls = timing.slack_ns is not None
    found = statistics.median(timing.worker_medians_ns) if of_calls else lower_quartile(timing.samples_ns)
    return max(found, timing.bound_ns or 0.0)


def _is_consistent(timing: Timing | None) -> TypeGuard[Timing]:
    if timing is None or timing.low_ns is None or timing.samples != len(timing.samples_ns):
        return False
    if not timing.samples_ns or min(timing.samples_ns) <= 0:
        return False
    if sum(timing.worker_samples) != timing.samples or min(timing.worker_samples) < 1:
        return False
    counted_ns = [max(timing.bound_ns or 0.0, each) for each in timing.samples_ns]
    expected = (_time_that_counts(timing), min(counted_ns), max(counted_ns))
    said = (timing.time_ns, timing.best_ns, timing.worst_ns)
    return all(abs(one - other) <= _ROUNDING * other for one, other in zip(said, expected, strict=True))
