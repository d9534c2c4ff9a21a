"""The supervisor: owns the seeds, the clock, the logs and the verdict. It imports neither task nor submission."""

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from hpc_board.harness.build.toolchain import unlike_arch
from hpc_board.harness.confine import sandbox
from hpc_board.harness.confine.gpu_devices import job_gpus, see_one
from hpc_board.harness.confine.scratch import Disk, remove
from hpc_board.harness.job_spec import JobSpec, facts
from hpc_board.harness.launcher import WORKER_HOME, Processes, processes_for
from hpc_board.harness.measure.bench import Bench
from hpc_board.harness.measure.claim_benchmarks import ClaimBenchmarks
from hpc_board.harness.measure.crew import Crew, worker_in
from hpc_board.harness.measure.gpu_bench import GpuBench
from hpc_board.harness.measure.gpu_worker import GpuWorker
from hpc_board.harness.measure.means import check_rule, traced_means, used_means
from hpc_board.harness.measure.phases import compiles_in_calls, tested
from hpc_board.harness.measure.row_benchmarks import RowBenchmarks
from hpc_board.harness.measure.window_benchmarks import WindowBenchmarks
from hpc_board.harness.measure.worker_handle import Worker
from hpc_board.harness.node import (
    MEMORY_RAN_OUT,
    ecc_errors,
    gpu_facts,
    gpu_loss,
    gpu_state_after,
    is_root,
    node_facts,
    oom_kills,
)
from hpc_board.harness.processes.calls import CallFailed, NoWindow, Phase, TimeBudget, TimeUntil
from hpc_board.harness.processes.child import Child
from hpc_board.harness.processes.output import Printed
from hpc_board.harness.processes.signals import Interrupted, Interruption, Suspensions
from hpc_board.harness.processes.spawn import Zygote
from hpc_board.harness.processes.tree import REAP_SECONDS
from hpc_board.harness.profile.evaluation import Profile, Workers
from hpc_board.harness.profile.profilers import Unusable, absent, available
from hpc_board.harness.profile.sanitize import Sanitize
from hpc_board.harness.profile.sanitizers import cpu_tool, cuda_tool
from hpc_board.harness.progress import WINDOWS, Progress, append_line, now_text
from hpc_board.harness.result_file import judged_before, provenance_of, result_of, write_result
from hpc_board.harness.wire.channel import Channel
from hpc_board.model.device_faults import device_fault, with_words
from hpc_board.model.files import open_regular
from hpc_board.model.kernels import KERNELS_MAX, Kernel, Used
from hpc_board.model.limits import Limits
from hpc_board.model.loops import Loop, Remark
from hpc_board.model.means import kernel_means
from hpc_board.model.peaks import CPU_PEAKS, CPU_PEAKS_BYTES_MAX, Peak, cpu_peak, peak_of
from hpc_board.model.profile_files import FOLDER as PROFILE_FOLDER
from hpc_board.model.result import (
    AUDITED,
    CPU_PEAK_FACTS,
    HIDDEN_MESSAGE,
    INTERRUPTED,
    JUDGE,
    LONGEST_CALL,
    MEMORY_PEAK_BYTES,
    OUTPUT_DROPPED,
    STOPPED,
    USES_ONE,
    WORKER,
    Case,
    Log,
    Result,
    Verdict,
)
from hpc_board.model.sanitizer import CPU_TOOL, CUDA_TOOLS, SanitizerFinding, tools_in
from hpc_board.model.score import duration_text, is_slower, least_score_s, score_s
from hpc_board.model.task import OWN, Language, Mode

if TYPE_CHECKING:
    from hpc_board.harness.own_eval.evaluation import OwnEval

_INTERRUPTED_REAP_SECONDS = 0.3
_OF_LOST_GPUS = (Verdict.CRASH, Verdict.EXCEPTION, Verdict.TIMEOUT, Verdict.LOAD_ERROR)
_JUDGE_SAID_MAX = 4000
_KILLED = "signal 9"
_EVALUATIONS_MAX = 3
_OF_TIME = frozenset(
    {
        Verdict.TIMEOUT,
        Verdict.COMPILE_TIMEOUT,
        Verdict.LATE_WRITE,
        Verdict.TIMING_INCONSISTENT,
        Verdict.BELOW_FLOOR,
        Verdict.UNSTABLE,
        Verdict.TASK_ERROR,
        Verdict.INFRA_ERROR,
    }
)
"""The verdicts that a suspension of the job can cause: they rest on clocks, or on processes that were stopped."""

_NOT_COMPARED = "--stop-if-slower had no effect: no earlier run of yours has times of the same cases to compare with"

_CLOCKS = (AUDITED, JUDGE, WORKER)
"""The clocks of a GPU, the strongest first."""

_OF_SCRATCH = frozenset({Verdict.LOAD_ERROR, Verdict.EXCEPTION, Verdict.CRASH, Verdict.COMPILE_ERROR})
"""The verdicts that a scratch folder can cause that takes no file: compilers of kernels write their caches there."""


def serve(channel: Channel) -> NoReturn:
    """Supervise a run at a runner; its frame brings the environment of the job in a file.

    The zygote is forked first, so that no process of the submission begins with the memory of a supervisor that has
    read its job.
    """
    zygote = Zygote(None, env=None, modules=[], printed=Printed())
    frame, descriptors = channel.receive()
    with open(descriptors[0], "rb") as file:  # noqa: PTH123 - a descriptor
        environment = json.load(file)
    os.environ.clear()
    os.environ.update(environment)
    zygote.modules = frame["modules"]
    raise SystemExit(supervise(Path(frame["job"]), Path(frame["harness"]), zygote, frame["usual_seconds"]))


def supervise(
    path: Path, harness: Path, zygote: Zygote | None = None, usual_seconds: Mapping[str, float] = MappingProxyType({})
) -> int:
    """Evaluate the submission that the job file at `path` describes, and write its result beside it.

    Return the exit status of the job: 0 if a result exists, whatever its verdict; if a signal told the job to end
    before, 128 plus the signal's number. A job is judged once: if its scheduler restarted it although an earlier
    attempt has left a whole result, that result stays. An evaluation during which the job was suspended is repeated if
    its verdict rests on time. `usual_seconds` has the longest processor time of a call by the hash of its task.
    """
    sandbox.guard_supervisor()
    interruption, suspensions = Interruption(), Suspensions()
    # The group of a job folder that is shared with the account of the board reads the files in it.
    os.umask(0o027)
    job = facts(path)
    if job.whole_node and job.world_size == 1:
        see_one(job.device, os.environ)
    folder = path.resolve().parent
    if judged_before(folder, job.job_environment):
        return 0
    for attempt in range(1, _EVALUATIONS_MAX + 1):
        before = suspensions.count
        with processes_for(job, folder, harness, zygote) as processes:
            usual = usual_seconds.get(job.sha256["task"], 0.0)
            result = Supervisor(job, folder, processes, usual).result(interruption)
            if suspensions.count > before and result.verdict in _OF_TIME and not result.interrupted:
                if attempt < _EVALUATIONS_MAX:
                    zygote = None
                    continue
                result = _of_suspended(result)
            _write_result_and_remove(result, folder, processes.scratch)
            break
    return interruption.status if result.interrupted else 0


def _of_suspended(result: Result) -> Result:
    """Return the result of a job that was suspended in each of its evaluations: it blames no submission."""
    message = (
        f"the job was suspended in each of {_EVALUATIONS_MAX} evaluations, which proves nothing about the submission; "
        f"the last one ended with {result.verdict}: {result.message}"
    )
    return replace(result, verdict=Verdict.INFRA_ERROR, message=message)


def _write_result_and_remove(result: Result, folder: Path, scratch: Path) -> None:
    """Write the result, then remove the submission's files, which may take long; first if they fill the disk.

    An interrupted job has no time to remove anything.
    """
    write_result(result, folder, make_space=partial(remove, scratch))
    if not result.interrupted:
        remove(scratch)


class Supervisor:
    """One evaluation: the order of its steps, and its results so far."""

    def __init__(self, job: JobSpec, folder: Path, processes: Processes, usual_seconds: float) -> None:
        self._job = job
        self._usual_seconds = usual_seconds
        self._folder = folder
        self._processes = processes
        self._progress = Progress(folder)
        self._disk = Disk(processes.scratch)
        self._started_at = now_text()
        self._oom_kills = oom_kills()
        self._ecc_errors = 0
        self._provenance: dict[str, Any] = {**provenance_of(job), "isolation": ""}
        self._cases: list[Case] = []
        self._benchmarks: list[ClaimBenchmarks | RowBenchmarks | WindowBenchmarks] = []
        self._printed: tuple[Log, Log] | None = None
        self._memory_before_hidden: dict[str, int | float] = {}
        self._build_log = self._profile_log = Log()
        self._kernels: list[Kernel] = []
        self._launched: tuple[Used, ...] = ()
        self._means: tuple[Used, ...] = ()
        self._findings: list[SanitizerFinding] = []
        self._loops: list[Loop] = []
        self._remarks: list[Remark] = []
        self._own_eval = self._own_eval_of(job) if job.harness == OWN else None

    # Only the jobs that need these modules import them, since from within a zip that takes a tenth of a second; and
    # before a submission runs, which may be able to write that zip if it is not isolated.

    def _own_eval_of(self, job: JobSpec) -> "OwnEval":
        from hpc_board.harness.own_eval.evaluation import OwnEval

        return OwnEval(job, self._folder, self._processes, self._say)

    def result(self, interruption: Interruption) -> Result:
        """Run the evaluation from its first process to its verdict or its interruption, and return the result."""
        processes, patience_seconds = self._processes, REAP_SECONDS
        verdict, message, stopped_by = Verdict.PASS, "", ""
        try:
            with interruption.heeded():
                start = {"oom_kills": self._oom_kills, "scratch": str(processes.scratch)}
                self._progress.say("start", None, None, f"{self._job.mode} on {self._job.gpu}", **start)
                self._check_account()
                self._check_folders()
                self._check_isolation()
                self._check_gpus()
                self._check_files()
                self._check_cases()
                self._provenance.update(processes.contain())
                if self._own_eval is None:
                    processes.start()
                self._provenance.update(node_facts(self._job.job_environment))
                self._provenance.update(self._cpu_peak_facts())
                self._evaluate()
        except CallFailed as error:
            verdict, message = self._unless_killed(error.verdict, error.message)
        except Exception as error:  # noqa: BLE001 - a job always leaves a result
            verdict, message = Verdict.INFRA_ERROR, f"the harness failed on this node: {type(error).__name__}: {error}"
        except Interrupted as error:
            stopped_by, patience_seconds = error.name, _INTERRUPTED_REAP_SECONDS
        cases = self._cases_by_now()
        if stopped_by:
            verdict, message = Verdict.INFRA_ERROR, self._stopped(stopped_by, cases)
            self._provenance[INTERRUPTED] = stopped_by
        elif verdict is Verdict.PASS:
            verdict, message = _verdict(cases)
            message = message or self._comparison_words()
        if not stopped_by:
            verdict, message = self._unless_lost(verdict, message)
        if verdict in _OF_SCRATCH and (unwritable := self._disk.unwritable()):
            verdict, message = Verdict.INFRA_ERROR, f"{unwritable}; then {message}"
        if verdict in (Verdict.TASK_ERROR, Verdict.INFRA_ERROR) and not stopped_by:
            verdict, message = self._unless_filled(verdict, message)
        processes.close(patience_seconds)
        self._provenance.update(self._usage_facts() | self._memory_before_hidden)
        judged = verdict is Verdict.TASK_ERROR or (verdict is Verdict.INFRA_ERROR and processes.zygote_failed)
        if judged and processes.judge_said.total_bytes:
            message += f"\nThe judge printed:\n{processes.judge_said.log().text[-_JUDGE_SAID_MAX:]}"
        self._provenance.update(self._own_eval.facts if self._own_eval else self._prepare_facts())
        self._provenance["isolation"] = processes.isolation or self._provenance.get("compiler_isolation", "")
        if processes.left_processes:
            self._provenance["left_processes"] = processes.left_processes
        if not stopped_by:
            self._say("end", None, None, str(verdict))
        return self._without_hidden(
            replace(
                result_of(self._job, verdict, message, cases, self._provenance, started_at=self._started_at),
                score_s=score_s(cases, self._job.ranking_by)
                if verdict is Verdict.PASS and self._is_whole(cases)
                else None,
                stdout=processes.stdout.log(),
                stderr=processes.stderr.log(),
                build=self._own_eval.build_log if self._own_eval else self._build_log,
                profile=self._own_eval.profile_log if self._own_eval else self._profile_log,
                kernels=tuple(self._kernels),
                findings=tuple(self._findings),
                loops=tuple(self._loops),
                remarks=tuple(self._remarks),
                means=self._means,
            )
        )

    def _without_hidden(self, result: Result) -> Result:
        """Return a result that tells nothing of hidden cases, with the output from before the first of them."""
        if self._printed is None:
            return result
        cases = tuple(map(_without_inputs, result.cases))
        message = result.message
        if result.verdict is not Verdict.PASS and not result.interrupted:
            message = _verdict(cases)[1] or HIDDEN_MESSAGE
        stdout, stderr = self._printed
        return replace(result, cases=cases, message=message, stdout=stdout, stderr=stderr)

    def _usage_facts(self, *names: str) -> dict[str, int | float]:
        """Return the use of memory and processors so far, or those facts of it that `names` has."""
        found = self._processes.usage.facts(self._job.request_environment, self._job.job_environment)
        return {name: value for name, value in found.items() if not names or name in names}

    def _prepare_facts(self) -> dict[str, float]:
        """Return the most that preparing fixed inputs of public cases took, with its limits, if the submission did."""
        limits, found = self._job.limits, self._processes.prepared
        if not found.seconds or self._printed is not None:
            return {}
        return {
            "prepare_seconds": round(found.seconds, 3),
            "prepare_seconds_max": limits.prepare_seconds,
            "prepare_bytes": found.held_bytes,
            "prepare_bytes_max": limits.prepare_bytes,
        }

    def _cpu_peak_facts(self) -> dict[str, float]:
        """Return the peaks of this job's processors, if `admin check` has measured them on such a node."""
        if self._job.device != "cpu" or self._job.emulated:
            return {}
        try:
            with open_regular(self._folder.parent.parent / CPU_PEAKS) as file:
                data = file.read(CPU_PEAKS_BYTES_MAX)
        except OSError:
            return {}
        found = cpu_peak(data, self._provenance["cpu"], self._provenance["cpus"])
        return {} if found is None else dict(zip(CPU_PEAK_FACTS, (found.memory_bytes, found.operations), strict=True))

    def _is_whole(self, cases: Sequence[Case]) -> bool:
        """Return whether all benchmark cases were judged: some of them have no score."""
        whole = len(self._job.benchmarks) + len(self._job.hidden_benchmarks)
        return sum(case.phase == "benchmark" for case in cases) == whole

    def _cases_by_now(self) -> list[Case]:
        """Return the tested cases, and the benchmark cases with their measurements, even of a failed evaluation."""
        timed = [case for each in self._benchmarks for case in each.cases()]
        own = self._own_eval.cases() if self._own_eval else []
        return [*self._cases, *self._with_oom_kills([*timed, *own])]

    def _unless_filled(self, verdict: Verdict, message: str) -> tuple[Verdict, str]:
        """Return a verdict that blames task or node, with its message; or the kernel's, if that has filled the disk."""
        filled = self._disk.filled()
        return (Verdict.OUTPUT_LIMIT, f"{filled}; then {message}") if filled else (verdict, message)

    def _stopped(self, name: str, cases: Sequence[Case]) -> str:
        """Return the message for an evaluation stopped by a signal: its step, its time, and its progress."""
        parts = [f"stopped by {name} {self._progress.where()}"]
        step = self._progress.step
        sent_tests = (*self._job.tests, *self._job.hidden_tests)
        sent_benchmarks = (*self._job.benchmarks, *self._job.hidden_benchmarks)
        for phase, sent in (("test", sent_tests), ("benchmark", sent_benchmarks)):
            verdicts = [case.verdict for case in cases if case.phase == phase]
            if verdicts or (step is not None and step.phase == phase):
                parts.append(f"{phase}s passed: {verdicts.count(Verdict.PASS)} of {len(sent)}")
        return "; ".join(parts)

    def _check_account(self) -> None:
        """Check that the job's account may judge: the confinement of a submission guards little against root."""
        if not is_root():
            return
        self._provenance["root"] = True
        if not self._job.allow_root:
            message = (
                "this job runs as root, and so would the submission; it was not run. Use hpc-board under an "
                f"ordinary account, or set allow_root: true for the cluster of gpus.{self._job.gpu} in the settings"
            )
            raise CallFailed(Verdict.INFRA_ERROR, message)

    def _check_folders(self) -> None:
        """Check that submissions cannot read the job folder, or the home, as a part of the system."""
        for what, folder in (("job folder", self._folder), ("home folder", Path(os.path.expanduser("~")))):  # noqa: PTH111 - a user may have none
            seen = sandbox.read_by_submissions(folder)
            if seen:
                cure = "the board, e.g. to /srv/hpc-board" if folder == self._folder else "it, e.g. to /home"
                message = f"the {what} {folder} is in {seen}, which submissions can read. Move {cure}"
                raise CallFailed(Verdict.INFRA_ERROR, message)

    def _check_isolation(self) -> None:
        """Check that this node confines enough for the board, before a compiler, a judge or a worker starts."""
        if self._job.minimum_isolation:
            self._processes.record_isolation(sandbox.level_here() or sandbox.LEVELS[0])

    def _check_gpus(self) -> None:
        """Check that the GPU is the settings' one, and alone for a task of one: a kernel could work on a second one."""
        gpus = job_gpus(self._job.device, os.environ).number
        if gpus > 1 and self._job.world_size == 1:
            message = (
                f"the job sees {gpus} GPUs, but {USES_ONE}: set ConstrainDevices=yes in Slurm's cgroup.conf, request "
                f"one GPU in gpus.{self._job.gpu} of the settings, or name one in CUDA_VISIBLE_DEVICES or "
                "ROCR_VISIBLE_DEVICES"
            )
            raise CallFailed(Verdict.INFRA_ERROR, message)
        found = unlike_arch(self._job.arch, os.environ) if self._job.device == "cuda" else ""
        if found:
            name, arch = self._job.gpu, self._job.arch
            message = f"it has the compute capability {found}, and gpus.{name} in the settings has the arch {arch}"
            raise CallFailed(Verdict.DEVICE_ERROR, with_words(message))

    def _check_files(self) -> None:
        """Check that the files in the job folder are those that were sent."""
        paths = {"harness": self._processes.harness, "submission": self._folder / "submission" / self._job.submission}
        for name, path in paths.items():
            if hashlib.sha256(path.read_bytes()).hexdigest() != self._job.sha256[name]:
                raise CallFailed(Verdict.INFRA_ERROR, f"{path.name} is not the file that was sent: its hash differs")

    def _check_cases(self) -> None:
        """Check that each phase of this mode has a case: without one nothing would be judged, so nothing may pass."""
        phases = {"test": self._job.tests, "benchmark": self._job.benchmarks}
        needed = {Mode.TEST: ("test",), Mode.SANITIZE: ("test",), Mode.RANKED: ("test", "benchmark")}
        for name in needed.get(self._job.mode, ("benchmark",)):
            if not phases[name]:
                raise CallFailed(Verdict.TASK_ERROR, f"the task has no {name} cases, so nothing can be judged")

    def _evaluate(self) -> None:
        job, processes = self._job, self._processes
        if self._own_eval is not None:
            self._own_eval.run()
            return
        if job.language.compiled:
            self._build()
        judge = processes.of_task("judge")
        self._say("load", None, None, "importing the reference and the submission")
        if job.mode is Mode.SANITIZE:
            self._provenance.update(processes.await_judge(judge))
            self._describe_gpu()
            self._sanitize(judge)
            return
        worker = processes.worker()
        self._provenance.update(processes.await_judge(judge))
        processes.await_loaded(worker, "submission", processes.record_isolation)
        self._describe_gpu()
        if job.mode is Mode.PROFILE:
            self._profile(judge, worker)
        elif job.mode is Mode.BENCHMARK:
            self._benchmark(judge, worker, self._timed_phase(job.phase_seconds["benchmark"]), 1)
        elif self._test(judge, worker) and job.mode is Mode.RANKED:
            self._check_means()
            self._benchmark(judge, None, self._timed_phase(job.phase_seconds["ranked"]), job.limits.workers)
            self._check_means()
            if self._has_passed():
                self._judge_hidden(judge)
            return
        self._check_means()

    def _has_passed(self) -> bool:
        return all(case.verdict is Verdict.PASS for case in self._cases_by_now())

    def _check_means(self, *, noted: bool = True) -> None:
        """Check that the kernels and libraries that a right submission has used by now keep the task's rule.

        The result has them if they are `noted`; those of hidden cases alone are not shown.
        """
        if self._has_passed():
            if noted:
                self._means = used_means(self._processes, self._launched)
            check_rule(self._job, self._processes, self._launched)

    def _judge_hidden(self, judge: Child) -> None:
        """Judge the hidden cases in new processes, after all others.

        A process that has seen a hidden case, or the files of one, may tell of it: from here on no output, message or
        details of the submission or the task are kept.
        """
        job, processes = self._job, self._processes
        if not job.hidden_tests and not job.hidden_benchmarks:
            return
        if not job.shows_hidden:
            self._provenance.update(self._prepare_facts())
            self._memory_before_hidden = self._usage_facts(MEMORY_PEAK_BYTES)
            self._printed = processes.stdout.log(), processes.stderr.log()
            processes.stdout, processes.stderr = Printed(), Printed()
            self._provenance[OUTPUT_DROPPED] = "not kept from the first hidden case on"
        if job.hidden_tests:
            seconds, cases = job.phase_seconds["test"], (*job.tests, *job.hidden_tests)
            phase = Phase("test", cases, seconds, public=len(job.tests))
            child = processes.loaded_worker()
            bench = Bench(judge, phase, job.limits, job.rules)
            if not self._tested(bench, self._worker(child, TimeBudget(seconds)), secret=True):
                return
            processes.dismiss(child)
        if job.hidden_benchmarks:
            cases = (*job.benchmarks, *job.hidden_benchmarks)
            phase = Phase("benchmark", cases, job.phase_seconds["ranked"], public=len(job.benchmarks))
            self._benchmark(judge, None, phase, job.limits.workers)
        self._check_means(noted=job.shows_hidden)

    def _build(self) -> None:
        from hpc_board.harness.build.builder import build
        from hpc_board.harness.build.toolchain import BuildFailed

        self._say("build", None, None, "compiling the submission")
        try:
            built = build(self._job, self._folder, self._processes)
        except BuildFailed as error:
            self._build_log = error.log
            self._provenance.update(error.facts)
            raise CallFailed(error.verdict, error.message) from None
        self._build_log, self._processes.library = built.log, built.library
        self._processes.native_frames = built.frames
        self._provenance.update(built.facts)

    def _test(self, judge: Child, child: Child) -> bool:
        """Check the test cases in a worker and dismiss it; return whether all have passed."""
        job, seconds = self._job, self._job.phase_seconds["test"]
        follows = job.mode is Mode.TEST and not self._compiles_in_calls()
        phase = Phase("test", job.tests, seconds, follows, job.only, usual_seconds=self._usual_seconds)
        worker = self._worker(child, TimeBudget(seconds))
        passed = self._tested(Bench(judge, phase, job.limits, job.rules), worker, secret=job.mode is Mode.RANKED)
        if passed and job.device != "cpu" and (job.means.words() or job.mode is Mode.RANKED):
            self._launched = traced_means(job, self._processes, judge, child)
        self._processes.dismiss(child)
        if job.mode is Mode.TEST and worker.longest_call_ns:
            self._provenance[LONGEST_CALL] = worker.longest_call_ns / 1e9
        return passed

    def _compiles_in_calls(self) -> bool:
        """Return whether a call of the submission may compile code, which takes as long as it takes."""
        return not self._job.language.compiled and compiles_in_calls(self._processes.source())

    def _tested(self, bench: Bench, worker: Worker, *, secret: bool) -> bool:
        for case in tested(bench, worker, self._say, secret=secret, ranked=self._job.mode is Mode.RANKED):
            self._cases += self._with_oom_kills([case])
        return all(case.verdict is Verdict.PASS for case in self._cases)

    def _timed_phase(self, seconds: float) -> Phase:
        return Phase("benchmark", self._job.benchmarks, seconds, only=self._job.only)

    def _benchmark(self, judge: Child, first: Child | None, phase: Phase, workers: int) -> None:
        """Time the cases of a phase in the existing worker, if there is one, and in as many more as `workers` says."""
        peak = peak_of(str(self._provenance.get("gpu_name", "")))
        windows = None
        if self._job.device == "hip":
            self._note_worker_clock("the judge has no windows on GPUs with the device hip")
        if self._job.device == "cuda":
            if first is not None:
                # The windows need a GPU without work of the submission.
                self._processes.dismiss(first)
                first = None
            windows = self._windows(judge, phase, peak)
        found: ClaimBenchmarks | RowBenchmarks | WindowBenchmarks
        if windows is not None:
            found = windows
            self._benchmarks.append(found)
            try:
                windows.run(None, workers, self._is_enough)
            finally:
                self._add_facts(windows.facts())
            if self._provenance["clock"] == WORKER:
                self._note_worker_clock(self._provenance["clock_reason"])
        else:
            crew = Crew(Worker, self._processes, judge, self._job.limits, phase.seconds)
            timed = RowBenchmarks if self._job.device == "cpu" else ClaimBenchmarks
            bench = Bench(judge, phase, self._job.limits, self._job.rules)
            found = timed(bench, crew, self._say, peak)
            self._benchmarks.append(found)
            try:
                found.run(None if first is None else crew.worker(first), workers, self._is_enough)
            finally:
                self._add_facts(found.facts())
        if found.is_stopped and (best := self._job.own_best):
            score = duration_text(1e9 * best.score_s)
            self._provenance[STOPPED] = f"stopped early: it is slower than your run {best.run} ({score})"
        self._provenance.update(gpu_state_after(self._gpu_uuid()))

    def _add_facts(self, facts: Mapping[str, Any]) -> None:
        """Record facts on times; of those of two phases the weaker clock counts, and the seconds of all repeats."""
        had = dict(self._provenance)
        self._provenance.update(facts)
        if "clock" in had and _CLOCKS.index(had["clock"]) > _CLOCKS.index(facts.get("clock", AUDITED)):
            self._provenance.update({name: had[name] for name in ("clock", "clock_reason") if name in had})
        if "repeat_seconds" in had and "repeat_seconds" in facts:
            self._provenance["repeat_seconds"] = had["repeat_seconds"] + facts["repeat_seconds"]

    def _is_enough(self, cases: Sequence[Case]) -> bool:
        """Return whether a benchmark may stop, since it is slower than the user's best run."""
        best, job = self._job.own_best, self._job
        if best is None:
            return False
        least_s = least_score_s(cases, len(job.benchmarks), job.limits.floor_seconds, job.ranking_by)
        return is_slower(cases, best, least_s)

    def _comparison_words(self) -> str:
        """Return why the benchmark ended early, or could not; empty without --stop-if-slower and for a faster run."""
        not_compared = self._job.own_best is None and "stop-if-slower" in self._job.choices
        return str(self._provenance.get(STOPPED, _NOT_COMPARED if not_compared else ""))

    def _windows(self, judge: Child, phase: Phase, peak: Peak | None) -> WindowBenchmarks | None:
        """Return the benchmarks by the judge's clock; None if this GPU has no windows.

        No process of the submission exists.
        """
        job = self._job
        bench = GpuBench(judge, phase, job.limits, job.rules, partial(append_line, self._folder / WINDOWS))
        crew = Crew(GpuWorker, self._processes, judge, job.limits, phase.seconds)
        windows = WindowBenchmarks(bench, crew, self._say, peak)
        try:
            windows.check()
        except NoWindow as error:
            windows.close()
            self._note_worker_clock(error.message)
            return None
        return windows

    def _note_worker_clock(self, reason: str) -> None:
        """Record that the times are the worker's claims, unless the board's ranks need the judge's clock."""
        self._provenance.update({"clock": WORKER, "clock_reason": reason})
        if self._job.minimum_clock == JUDGE:
            message = (
                f"ranked runs on {self._job.gpu} need the judge's clock, but this node has none: {reason}. To rank "
                f"times of the kernel's own process, set minimum_clock: worker for gpus.{self._job.gpu} in the settings"
            )
            raise CallFailed(Verdict.INFRA_ERROR, message, worker_lost=True)

    def _profile(self, judge: Child, first: Child) -> None:
        """Check every benchmark case without a profiler, then profile each."""
        job, processes, seconds = self._job, self._processes, self._job.phase_seconds["benchmark"]
        worker = self._worker(first, TimeBudget(seconds))
        if not self._tested(self._bench_of_benchmarks(judge, seconds), worker, secret=True):
            return
        # A profiler replays calls, so only all of them together have a time limit.
        limits = replace(job.limits, first_call_seconds=seconds, call_seconds=seconds)
        workers = Workers(processes, job, limits, TimeBudget(seconds), self._provenance)
        path = os.environ.get("PATH", "")
        # PyTorch does not see the CPU work of a library.
        seen = job.device != "cpu" or not job.language.compiled
        deadline = time.monotonic() + 2 * seconds
        profile = Profile(
            bench=self._bench_of_benchmarks(judge, seconds, workers.limits),
            workers=workers,
            profilers=available(job.device, path, torch=seen and "torch" in processes.modules),
            choices=job.choices,
            environment=processes.environment,
            target=self._folder / PROFILE_FOLDER,
            deadline=deadline,
        )
        chosen = [int(job.choices["case"]) - 1] if "case" in job.choices else range(len(job.benchmarks))
        for index in chosen:
            profile.steps(worker, index)
        processes.dismiss(first)
        for index in chosen:
            self._say("profile", index + 1, len(self._cases), self._cases[index].spec)
            profile.case(index)
            self._profile_log, self._kernels = profile.log(), profile.kernels[:KERNELS_MAX]
        if job.device != "cpu":
            self._launched = kernel_means([each.name for each in self._kernels], self._processes.source())
        if job.device == "cuda":
            profile.note(self._listings(deadline))
        if job.device == "cpu" and job.language is Language.CPP:
            profile.note(self._vectorization(deadline))
        profile.note(absent(job.device, path))
        self._profile_log = profile.log()
        self._provenance["profiler"] = ", ".join(each.name for each in profile.used) or "the harness's own clock"

    def _vectorization(self, deadline: float) -> str:
        """Keep the compiler's remarks and the loops of a C++ submission, and return a note about them."""
        from hpc_board.harness.profile.loops import Vectorization

        found = Vectorization(self._job, self._folder, self._processes, deadline)
        self._loops, self._remarks = found.loops, found.remarks
        return found.note

    def _listings(self, deadline: float) -> str:
        """Keep the PTX and the SASS of the submission's kernels, and return a note about them."""
        from hpc_board.harness.profile.listings import Listings

        processes, target = self._processes, self._folder / PROFILE_FOLDER
        listings = Listings(self._job, self._folder, processes, target, deadline)
        return listings.of_kernels(processes.library, processes.scratch / WORKER_HOME)

    def _sanitize(self, judge: Child) -> None:
        """Run the tests under each tool, and fail with the first fault that they found."""
        from hpc_board.harness.build.builder import renamed_in

        job, names = self._job, (CPU_TOOL,) if self._job.device == "cpu" else CUDA_TOOLS
        library = self._processes.library
        built_in = f"{library.parent if library else self._processes.scratch}/"
        asked = tools_in(job.choices.get("tool", "")) or names
        chosen = [name for name in names if name in asked]
        find, seconds = cpu_tool if job.device == "cpu" else cuda_tool, job.phase_seconds["sanitize"]
        deadline = self._processes.latest = time.monotonic() + seconds
        evaluation = Sanitize(
            Workers(self._processes, job, job.limits, TimeUntil(deadline), self._provenance),
            Bench(judge, Phase("test", job.tests, seconds), job.limits, job.rules),
            self._say,
            lambda text: renamed_in(Log(text.replace(built_in, "")), job).text,
            deadline=deadline,
        )
        ran: list[str] = []
        try:
            for number, name in enumerate(chosen, 1):
                if time.monotonic() >= deadline:
                    evaluation.leave_out(chosen[number - 1 :])
                    break
                self._say("sanitize", number, len(chosen), name)
                ran.append(name)
                cases = evaluation.run(find(name, self._processes.environment))
                self._cases = self._cases or self._with_oom_kills(cases)
        except Unusable as error:
            raise CallFailed(Verdict.INFRA_ERROR, str(error)) from None
        finally:
            self._profile_log, self._findings = evaluation.log(), evaluation.findings
            self._provenance["sanitizer"] = ", ".join(ran)
            self._processes.isolation = str(self._provenance.get("profiler_isolation", ""))
        evaluation.check()

    def _worker(self, child: Child, allowance: TimeBudget) -> Worker:
        return worker_in(Worker, child, self._processes, self._job.limits, allowance)

    def _bench_of_benchmarks(self, judge: Child, seconds: float, limits: Limits | None = None) -> Bench:
        return Bench(judge, self._timed_phase(seconds), limits or self._job.limits, self._job.rules)

    def _with_oom_kills(self, cases: list[Case]) -> list[Case]:
        """Return the cases, with out-of-memory kills of a worker distinguished from its crashes."""
        told = [(case, *self._unless_killed(case.verdict, case.message)) for case in cases]
        return [replace(case, verdict=verdict, message=message) for case, verdict, message in told]

    def _unless_killed(self, verdict: Verdict, message: str) -> tuple[Verdict, str]:
        """Return a verdict with its message: out of memory, not crash, if the kernel killed the worker for it."""
        if verdict is Verdict.CRASH and _KILLED in message and oom_kills() > self._oom_kills:
            return Verdict.OUT_OF_MEMORY, f"{message}; {MEMORY_RAN_OUT}"
        return verdict, message

    def _unless_lost(self, verdict: Verdict, message: str) -> tuple[Verdict, str]:
        """Return a verdict with its message: a device error, and not the kernel's fault, if the GPU has failed.

        A submission can raise any error of a GPU. So nvidia-smi says whether the GPU is gone or has counted errors of
        its memory, and after such an error a process without the submission opens the device.
        """
        if verdict not in _OF_LOST_GPUS:
            return verdict, message
        found = gpu_loss(self._gpu_uuid(), self._ecc_errors) if "gpu_driver_version" in self._provenance else ""
        if not found and device_fault(message) and self._own_eval is None:
            found = self._processes.device_fault()
        return (Verdict.DEVICE_ERROR, with_words(f"{found}; {message}")) if found else (verdict, message)

    def _describe_gpu(self) -> None:
        self._provenance.update(gpu_facts(self._gpu_uuid()))
        self._ecc_errors = ecc_errors(self._gpu_uuid())

    def _gpu_uuid(self) -> str:
        return str(self._provenance.get("gpu_uuid", ""))

    def _say(self, phase: str, case: int | None, of: int | None, message: str, **more: object) -> None:
        self._progress.say(phase, case, of, message, isolation=self._processes.isolation, **more)
        self._processes.reap()


def _without_inputs(case: Case) -> Case:
    """Return a case with nothing that tells the inputs of a hidden one, which may be in any message."""
    if not case.is_hidden:
        return case
    message = "" if case.verdict is Verdict.PASS else HIDDEN_MESSAGE
    return replace(case, message=message, work=None, mismatch=None, of_tolerance=None)


def _verdict(cases: Sequence[Case]) -> tuple[Verdict, str]:
    """Return the verdict of the whole: that of the first case that did not pass."""
    for case in cases:
        if case.verdict is not Verdict.PASS:
            first_line = case.message.partition("\n")[0]
            return case.verdict, f"{case.phase} case {case.index + 1} ({case.spec}): {first_line}"
    return Verdict.PASS, ""
