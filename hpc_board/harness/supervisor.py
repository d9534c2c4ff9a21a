"""The supervisor: owns the seeds, the clock, the logs and the verdict. It imports neither task nor submission."""

import hashlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path, PurePosixPath
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from hpc_board.harness import sandbox
from hpc_board.harness.answers import Loaded, Ready
from hpc_board.harness.builder import BuildFailed, build
from hpc_board.harness.calls import Allowance, Bench, CallFailed, Phase, Worker, judge_answer, worker_answer
from hpc_board.harness.child import (
    REAP_SECONDS,
    Child,
    NotForked,
    Zygote,
    kill_orphans,
    reap_orphans,
    started,
    stopped_but,
)
from hpc_board.harness.floor import peak_of
from hpc_board.harness.interruption import SIGNALS, Interrupted, Interruption
from hpc_board.harness.job import Facts, facts
from hpc_board.harness.node import gpu_facts, gpu_state_after, node_facts, oom_kills
from hpc_board.harness.phases import Benchmarks, tested
from hpc_board.harness.printed import Printed
from hpc_board.harness.profile import FOLDER as PROFILE_FOLDER
from hpc_board.harness.profile import Profile, Workers
from hpc_board.harness.profilers import absent, available
from hpc_board.harness.toolchain import LIBRARY
from hpc_board.model.result import INTERRUPTED, Case, Log, Result, Verdict
from hpc_board.model.standings import score_s
from hpc_board.model.task import Language, Mode

RESULT = "result.json"
PROGRESS = "progress.jsonl"

SCRATCH = "hpc-board-"
_CACHE = "cache"
_INTERRUPTED_REAP_SECONDS = 0.3
_PRIVATE_STEMS = ("reference", "eval")
_PASSED_ON = (
    "PATH",
    "LANG",
    "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_HOME",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ROCM_PATH",
    "OMP_NUM_THREADS",
    "SLURM_CPUS_ON_NODE",
    "SLURM_JOB_NAME",
)


def supervise(path: Path, harness: Path) -> int:
    """Evaluate the submission that the job file at `path` describes, and write its result beside it.

    Returns the exit status of the job: 0 if there is a result, whatever its verdict; where the job was told to end
    before, 128 more than the signal's number.
    """
    sandbox.guard_supervisor()
    interruption = Interruption()
    os.umask(0o077)
    job = facts(path)
    scratch = Path(tempfile.mkdtemp(prefix=SCRATCH))
    supervisor = Supervisor(job, path.resolve().parent, harness, scratch)
    try:
        result = supervisor.result(interruption)
        _write_result_and_remove(result, path.resolve().parent, scratch)
    finally:
        supervisor.close()
        remove(scratch)
    return interruption.status if result.interrupted else 0


def _write_result_and_remove(result: Result, folder: Path, scratch: Path) -> None:
    """Write the result, and remove what the submission left, which may be all that fills the disk.

    An interrupted job has no time to remove anything first.
    """
    if not result.interrupted:
        remove(scratch)
    try:
        write_result(result, folder)
    except OSError:
        remove(scratch)
        write_result(result, folder)


def remove(scratch: Path) -> None:
    """Remove a scratch folder whatever a submission made of it: closed folders, and nests too deep for recursion."""
    if scratch.is_dir() and not scratch.is_symlink():
        for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            subprocess.run([*command, "--", str(scratch)], stderr=subprocess.DEVNULL, check=False)


def write_result(result: Result, folder: Path) -> None:
    """Write `result.json` whole or not at all."""
    draft = folder / f".{RESULT}.{os.getpid()}"
    try:
        with draft.open("x", encoding="utf-8") as file:
            file.write(result.to_json())
            file.flush()
            os.fsync(file.fileno())
        draft.rename(folder / RESULT)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def account(path: Path, status: int) -> int:
    """Write the result of a job whose supervisor ended with `status` and left none; called by the batch script.

    A supervisor that was killed while cases ran was killed by the submission, or with it. One that was told to end
    (SIGTERM, SIGINT) before it could heed that was interrupted.
    """
    folder = path.resolve().parent
    job = facts(path)
    ended_by = status - 128
    if (folder / RESULT).exists():
        return status
    past = _past(folder / PROGRESS)
    if past.scratch is not None and past.scratch.name.startswith(SCRATCH):
        remove(past.scratch)
    last = past.last
    cases: Tuple[Case, ...] = ()
    provenance = {**node_facts(), **_hashes(job), "emulated": job.emulated}
    if ended_by in SIGNALS:
        verdict, name = Verdict.INFRA_ERROR, signal.Signals(ended_by).name
        message = f"stopped by {name} {_while(last) if last else 'before the first case'}"
        provenance[INTERRUPTED] = name
    elif ended_by > 0 and last:
        verdict, message = _killed(ended_by, last, oom_kills() > past.oom_kills)
        cases = (Case(last["phase"], last["case"] - 1, last["message"], verdict, message),)
    else:
        verdict = Verdict.INFRA_ERROR
        message = f"the supervisor ended with status {status} and left no result; the job's output says why"
    now = _now()
    result = Result(
        run=job.run,
        nonce=job.nonce,
        mode=str(job.mode),
        verdict=verdict,
        message=message,
        cases=cases,
        job_id=os.environ.get("SLURM_JOB_ID", ""),
        restart_count=int(os.environ.get("SLURM_RESTART_COUNT", "0")),
        started_at=now,
        ended_at=now,
        provenance=provenance,
    )
    write_result(result, folder)
    return status if ended_by in SIGNALS else 0


def _while(step: Mapping[str, Any]) -> str:
    return f"while {step['phase']} case {step['case']} of {step['of']} ran ({step['message']})"


def _killed(number: int, last: Mapping[str, Any], memory_ran_out: bool) -> Tuple[Verdict, str]:
    """What is known of a supervisor that was killed by a signal while a case ran."""
    message = f"the supervisor was killed by signal {number} {_while(last)}"
    if number != signal.SIGKILL:
        return Verdict.CRASH, f"{message}; a kernel that kills its parent ends so"
    if memory_ran_out:
        return Verdict.OUT_OF_MEMORY, f"{message}; the node's system has killed in this job for lack of memory"
    reasons = "a kernel that kills its parent ends so, and so does a job whose node ran out of memory"
    return Verdict.CRASH, f"{message}; {reasons}"


class Supervisor:
    """The state of one evaluation: its children, what they printed, and the cases so far."""

    def __init__(self, job: Facts, folder: Path, harness: Path, scratch: Path) -> None:
        self._job = job
        self._folder = folder
        self._harness = harness.resolve()
        self._scratch = scratch
        hidden = (str(folder), str(Path.home()))
        self._readable = sandbox.readable_folders(os.environ, job.readable, hidden)
        self._stdout = Printed()
        self._stderr = Printed()
        self._judge_said = Printed()
        self._zygote: Optional[Zygote] = None
        self._build_log = Log()
        self._library: Optional[Path] = None
        self._children: List[Child] = []
        self._has_baseline = False
        self._oom_kills = oom_kills()
        self._provenance: Dict[str, Any] = {**_hashes(job), "emulated": job.emulated, "isolation": ""}
        self._started_at = _now()
        self._began = self._step_began = time.monotonic()
        self._step: Mapping[str, Any] = {}
        self._benchmarks: Optional[Benchmarks] = None
        self._modules: List[str] = []
        self._profile_log = Log()

    def result(self, interruption: Interruption) -> Result:
        """The evaluation from its first process to its verdict, or as far as it came when it was interrupted."""
        cases: List[Case] = []
        verdict, message = Verdict.PASS, ""
        try:
            with interruption.heeded():
                self._say("start", None, None, f"{self._job.mode} on {self._job.gpu}")
                self._check_files()
                self._check_cases()
                self._start_zygote()
                self._provenance.update(node_facts())
                self._evaluate(cases)
                verdict, message = _verdict(cases)
        except CallFailed as error:
            verdict, message = error.verdict, error.message
        except OSError as error:
            verdict, message = Verdict.INFRA_ERROR, f"the harness failed on this node: {error}"
        except Interrupted as error:
            cases += self._benchmarks.cases() if self._benchmarks else []
            verdict, message = Verdict.INFRA_ERROR, self._stopped(error.name, cases)
            self._provenance[INTERRUPTED] = error.name
            self.close(_INTERRUPTED_REAP_SECONDS)
        self.close()
        if verdict is Verdict.TASK_ERROR and self._judge_said.total_bytes:
            message += f"\nThe judge printed:\n{self._judge_said.log().text[-4000:]}"
        score = score_s(cases, self._job.ranking_by) if verdict is Verdict.PASS else None
        self._say("end", None, None, str(verdict))
        return Result(
            run=self._job.run,
            nonce=self._job.nonce,
            mode=str(self._job.mode),
            verdict=verdict,
            message=message,
            cases=tuple(cases),
            score_s=score,
            job_id=os.environ.get("SLURM_JOB_ID", ""),
            restart_count=int(os.environ.get("SLURM_RESTART_COUNT", "0")),
            started_at=self._started_at,
            ended_at=_now(),
            stdout=self._stdout.log(),
            stderr=self._stderr.log(),
            build=self._build_log,
            provenance=self._provenance,
            profile=self._profile_log,
        )

    def close(self, patience_seconds: float = REAP_SECONDS) -> None:
        """End every process that is left; the result says how many the system would not let go."""
        for child in self._children:
            child.end(patience_seconds)
        self._children.clear()
        if self._zygote is not None:
            self._zygote.end(patience_seconds)
            self._zygote = None
        self._note_left(kill_orphans([], patience_seconds))

    def _stopped(self, name: str, cases: Sequence[Case]) -> str:
        """Where a signal has stopped the evaluation, how long that had taken, and what was done by then."""
        now = time.monotonic()
        parts = [f"stopped by {name} after {now - self._began:.1f} s"]
        if self._step.get("case") is not None:
            parts[0] += f", {_while(self._step)} for {now - self._step_began:.1f} s"
        elif self._step:
            parts[0] += f", at {self._step['phase']}: {self._step['message']}"
        for phase, sent in (("test", self._job.tests), ("benchmark", self._job.benchmarks)):
            passed = sum(case.phase == phase and case.verdict is Verdict.PASS for case in cases)
            if any(case.phase == phase for case in cases) or self._step.get("phase") == phase:
                parts.append(f"{phase}s passed: {passed} of {len(sent)}")
        return "; ".join(parts)

    def _note_left(self, processes: int) -> None:
        if processes:
            self._provenance["left_processes"] = processes

    def _evaluate(self, cases: List[Case]) -> None:
        job = self._job
        if job.language.compiled:
            self._build()
        judge = self._judge()
        self._say("load", None, None, "importing the reference and the submission")
        first = self._worker_child()
        self._await_judge(judge)
        self._await_worker(first)
        self._provenance.update(gpu_facts(self._gpu_uuid()))
        if job.mode is Mode.PROFILE:
            self._profile(judge, first, cases)
            return
        if job.mode in (Mode.TEST, Mode.RANKED):
            phase = Phase("test", job.tests, job.phase_seconds["test"])
            worker = Worker(first, job.limits, Allowance(phase.seconds))
            bench = Bench(judge, phase, job.limits, job.rules)
            for case in tested(bench, worker, self._say, secret=job.mode is Mode.RANKED):
                cases += self._guarded([case])
            self._dismiss(worker.child)
            if job.mode is Mode.TEST or any(case.verdict is not Verdict.PASS for case in cases):
                return
            first = self._loaded_worker()
        seconds = job.phase_seconds["ranked" if job.mode is Mode.RANKED else "benchmark"]
        phase = Phase("benchmark", job.benchmarks, seconds)
        allowance = Allowance(seconds)
        baseline = self._baseline() if self._has_baseline else None
        trusted = [child.pid for child in (judge, baseline, self._zygote) if child is not None]
        self._benchmarks = Benchmarks(
            Bench(judge, phase, job.limits, job.rules),
            lambda: Worker(self._loaded_worker(), job.limits, allowance),
            lambda worker: self._dismiss(worker.child),
            None if baseline is None else Worker(baseline, job.limits, Allowance(seconds)),
            self._say,
            lambda: stopped_but(trusted),
            peak=peak_of(str(self._provenance.get("gpu_name", ""))),
        )
        workers = job.limits.workers if job.mode is Mode.RANKED else 1
        cases += self._guarded(self._benchmarks.run(Worker(first, job.limits, allowance), workers))
        self._benchmarks = None
        self._provenance.update(gpu_state_after(self._gpu_uuid()))

    def _profile(self, judge: Child, first: Child, cases: List[Case]) -> None:
        """Check every benchmark case without a profiler, then profile each."""
        job, seconds = self._job, self._job.phase_seconds["benchmark"]
        bench = Bench(judge, Phase("benchmark", job.benchmarks, seconds), job.limits, job.rules)
        worker = Worker(first, job.limits, Allowance(seconds))
        for case in tested(bench, worker, self._say, secret=True):
            cases += self._guarded([case])
        if any(case.verdict is not Verdict.PASS for case in cases):
            return
        deadline = time.monotonic() + 2 * seconds
        # A profiler replays calls; only all of them together have a limit.
        patient = replace(job.limits, first_call_seconds=seconds, call_seconds=seconds)
        allowance = Allowance(seconds)

        def folders() -> Tuple[Path, Path]:
            return self._home("profile")[0], Path(tempfile.mkdtemp(prefix="profiler-", dir=self._scratch))

        def forked(how: str, home: Path) -> Worker:
            child = self._worker_child(home=home, profile=how)
            self._await_loaded(child, "submission")
            return Worker(child, patient, allowance)

        def started_by(command: Sequence[str], home: Path) -> Tuple[Worker, Printed]:
            printed = Printed()
            child = self._worker_child(home=home, profile="nvtx", prefix=command, printed=printed)
            self._provenance["profiler_isolation"] = self._await_loaded(child, "submission")
            return Worker(child, patient, allowance), printed

        def dismiss() -> None:
            for child in [each for each in self._children if each not in (judge, first)]:
                self._dismiss(child)

        path = os.environ.get("PATH", "")
        profile = Profile(
            bench=Bench(judge, Phase("benchmark", job.benchmarks, seconds), patient, job.rules),
            workers=Workers(folders, forked, started_by, dismiss),
            profilers=available(job.device, path, torch="torch" in self._modules),
            environment=_environment(os.environ, self._scratch, job.environment),
            target=self._folder / PROFILE_FOLDER,
            deadline=deadline,
        )
        profile.note("The steps of a call, by the harness's own clock (medians):")
        for index in range(len(job.benchmarks)):
            profile.steps(worker, index)
        self._dismiss(first)
        profile.note("\n" + absent(job.device, path))
        for index, case in enumerate(cases):
            self._say("profile", index + 1, len(cases), case.spec)
            profile.case(index)
            self._profile_log = profile.log()
        self._provenance["profiler"] = ", ".join(each.name for each in profile.used) or "the harness's own clock"

    def _guarded(self, cases: List[Case]) -> List[Case]:
        """The cases, in which a worker that the system has killed for lack of memory is told from one that crashed."""
        if oom_kills() <= self._oom_kills:
            return cases
        return [
            replace(
                case,
                verdict=Verdict.OUT_OF_MEMORY,
                message=f"{case.message}; the node's system has killed in this job for lack of memory",
            )
            if case.verdict is Verdict.CRASH and _KILLED in case.message
            else case
            for case in cases
        ]

    def _build(self) -> None:
        """Compile the submission; one for a GPU is compiled on a CPU board too, and goes no further there."""
        self._say("build", None, None, "compiling the submission")
        try:
            others = [child.pid for child in self._children] + ([self._zygote.pid] if self._zygote else [])
            built = build(self._job, self._folder, self._harness, self._scratch, os.environ, others)
        except BuildFailed as error:
            self._build_log = error.log
            self._provenance.update(error.facts)
            raise CallFailed(error.verdict, error.message) from None
        self._build_log, self._library = built.log, built.library
        self._provenance.update(built.facts)
        if self._job.device == "cpu" and self._job.language is not Language.CPP:
            message = (
                f"the submission compiles for {built.facts['arch']}, but jobs for {self._job.gpu} run on a CPU here"
            )
            raise CallFailed(Verdict.DEVICE_ERROR, message)

    def _check_files(self) -> None:
        """Whether the job folder still holds what was sent."""
        paths = {"harness": self._harness, "submission": self._folder / "submission" / self._job.submission}
        for name, path in paths.items():
            if hashlib.sha256(path.read_bytes()).hexdigest() != self._job.sha256[name]:
                raise CallFailed(Verdict.INFRA_ERROR, f"{path.name} is not the file that was sent: its hash differs")

    def _check_cases(self) -> None:
        """Whether each phase of this mode has a case: without one nothing would be judged, and so nothing pass."""
        phases = {"test": self._job.tests, "benchmark": self._job.benchmarks}
        needed = {Mode.TEST: ("test",), Mode.RANKED: ("test", "benchmark")}
        for name in needed.get(self._job.mode, ("benchmark",)):
            if not phases[name]:
                raise CallFailed(Verdict.TASK_ERROR, f"the task has no {name} cases, so that nothing can be judged")

    def _start_zygote(self) -> None:
        environment = _environment(os.environ, self._scratch, self._job.environment)
        self._modules = _modules_of([self._folder / "submission", self._folder / "task"], self._job.device)
        self._zygote = Zygote(self._harness, env=environment, modules=self._modules, printed=self._judge_said)

    def _judge(self) -> Child:
        folder = self._folder / "task"
        child = self._forked("judge", self._scratch, folder, (self._judge_said, self._judge_said), 2**30)
        limits = self._job.limits
        child.send(
            {
                "type": "load",
                "device": self._job.device,
                "folder": str(folder),
                "value_bytes": limits.value_bytes,
                "compiled": self._job.language.compiled,
            }
        )
        return child

    def _worker_child(
        self,
        *,
        home: Optional[Path] = None,
        profile: str = "",
        prefix: Sequence[str] = (),
        printed: Optional[Printed] = None,
    ) -> Child:
        """A new process that imports the submission, or loads what has become of it.

        `prefix` is the profiler that starts it, if one does; `profile` is how its calls are profiled or marked, and
        `printed` takes what it prints with that profiler.
        """
        home = home or self._home("worker")[0]
        code = home / "code"
        file = self._job.submission
        if self._library is None:
            _copy(file, self._folder / "submission", code)
        else:
            file = LIBRARY
            _copy(LIBRARY, self._library.parent, code)
        for name in self._job.files:
            if not _private(name):
                _copy(name, self._folder / "task", code)
        limit = self._job.limits.printed_bytes
        if prefix:
            child = started(
                prefix,
                self._harness,
                environment=_environment(os.environ, home, self._job.environment),
                cwd=home,
                printed=printed or Printed(),
                printed_bytes_max=limit,
                deadline=time.monotonic() + self._job.limits.load_seconds,
            )
            self._children.append(child)
        else:
            child = self._forked("worker", home, home, (self._stdout, self._stderr), limit)
        entry = (file, "custom_kernel", self._job.shown_as)
        self._send_load(child, home, code, *entry, profile=profile, traced=bool(prefix))
        return child

    def _loaded_worker(self) -> Child:
        """A new process that has imported the submission."""
        child = self._worker_child()
        self._await_worker(child)
        return child

    def _baseline(self) -> Child:
        """A process that calls the reference as others do the submission."""
        home, code = self._home("baseline")
        for name in self._job.files:
            _copy(name, self._folder / "task", code)
        child = self._forked("worker", home, home, (self._judge_said, self._judge_said), 2**30)
        self._send_load(child, home, code, "reference.py", "ref_kernel", "reference.py")
        try:
            self._await_loaded(child, "reference")
        except CallFailed as error:
            message = f"the reference cannot be imported as a submission is: {error.message}"
            raise CallFailed(Verdict.TASK_ERROR, message) from None
        return child

    def _home(self, name: str) -> Tuple[Path, Path]:
        """A worker's folder, and the one in it for its code, the same path for every worker of a kind.

        What an earlier one compiled stays in `cache`, so that it is compiled once: compilers note absolute paths.
        Nothing else is left of it. Whatever it may have put there, it has seen nothing that a later one is asked.
        """
        home = self._scratch / name
        cache = home / _CACHE
        kept = self._scratch / f"{name}-{_CACHE}"
        if cache.is_dir() and not cache.is_symlink():
            _keep_plain_files(cache)
            cache.rename(kept)
        remove(home)
        (home / "code").mkdir(parents=True)
        if kept.exists():
            kept.rename(cache)
        return home, home / "code"

    def _send_load(
        self,
        child: Child,
        home: Path,
        code: Path,
        file: str,
        entry: str,
        shown_as: str,
        *,
        profile: str = "",
        traced: bool = False,
    ) -> None:
        child.send(
            {
                "type": "load",
                "device": self._job.device,
                "folder": str(code),
                "scratch": str(home),
                "readable": self._readable,
                "file": file,
                "entry": entry,
                "shown_as": shown_as,
                "compiled": file == LIBRARY,
                "profile": profile,
                "traced": traced,
                "value_bytes": self._job.limits.value_bytes,
            }
        )

    def _forked(
        self, role: str, home: Path, cwd: Path, prints: Tuple[Printed, Printed], printed_bytes_max: int
    ) -> Child:
        if self._zygote is None:
            raise ValueError("there is nothing to fork")
        try:
            child = self._zygote.fork(
                role,
                environment=_private_folders(home),
                cwd=cwd,
                stdout=prints[0],
                stderr=prints[1],
                printed_bytes_max=printed_bytes_max,
                deadline=time.monotonic() + self._job.limits.load_seconds,
            )
        except NotForked as error:
            raise CallFailed(Verdict.INFRA_ERROR, str(error)) from None
        self._children.append(child)
        return child

    def _await_judge(self, judge: Child) -> None:
        seconds = self._job.limits.load_seconds
        late = f"importing the reference did not return within {seconds:g} s"
        try:
            answer, _ = judge_answer(judge, ("ready", "failed"), time.monotonic() + seconds, late)
        except CallFailed as error:
            raise CallFailed(error.verdict, f"the judge could not start: {error.message}") from None
        if isinstance(answer, Ready):
            found = dict(answer.facts)
            self._has_baseline = bool(found.pop("baseline", False))
            self._provenance.update(found)

    def _await_worker(self, worker: Child) -> None:
        level = self._await_loaded(worker, "submission")
        self._provenance["isolation"] = level
        wanted = self._job.minimum_isolation
        if self._job.mode is Mode.RANKED and not sandbox.reaches(level, wanted):
            message = f"the board ranks at isolation {wanted} and above, and this node reaches {level}: "
            raise CallFailed(Verdict.INFRA_ERROR, message + sandbox.lacking(level, wanted))

    def _await_loaded(self, worker: Child, what: str) -> str:
        seconds = self._job.limits.load_seconds
        late = f"importing the {what} did not return within {seconds:g} s"
        answer = worker_answer(worker, ("loaded", "raised"), time.monotonic() + seconds, late)
        return answer.isolation if isinstance(answer, Loaded) else ""

    def _dismiss(self, worker: Child) -> None:
        worker.end()
        self._children.remove(worker)
        keep = [child.pid for child in self._children]
        self._note_left(kill_orphans(keep if self._zygote is None else [*keep, self._zygote.pid]))

    def _gpu_uuid(self) -> str:
        return str(self._provenance.get("gpu_uuid", ""))

    def _say(self, phase: str, case: Optional[int], of: Optional[int], message: str) -> None:
        line = {"at": _now(), "phase": phase, "case": case, "of": of, "message": message}
        if phase == "start":
            line.update(oom_kills=self._oom_kills, scratch=str(self._scratch))
        self._step, self._step_began = line, time.monotonic()
        with (self._folder / PROGRESS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        reap_orphans([child.pid for child in self._children])


_KILLED = "signal 9"


def _verdict(cases: List[Case]) -> Tuple[Verdict, str]:
    """The verdict of the whole: that of the first case which did not pass."""
    for case in cases:
        if case.verdict is not Verdict.PASS:
            first_line = case.message.partition("\n")[0]
            return case.verdict, f"{case.phase} case {case.index + 1} ({case.spec}): {first_line}"
    return Verdict.PASS, ""


def _private(name: str) -> bool:
    """Whether a task's file is for the judge alone: the reference or the checks, in whatever language."""
    return any(part.partition(".")[0] in _PRIVATE_STEMS for part in PurePosixPath(name).parts)


def _copy(name: str, source: Path, target: Path) -> None:
    (target / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source / name, target / name)


def _environment(environ: Mapping[str, str], home: Path, extra: Tuple[str, ...]) -> Dict[str, str]:
    """What the children are given of the job's environment: an allow-list, and folders that are not the user's."""
    kept = {name: environ[name] for name in (*_PASSED_ON, *extra) if name in environ}
    passive = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
    return {"LC_ALL": "C.UTF-8", **kept, **_private_folders(home), **passive}


def _private_folders(home: Path) -> Dict[str, str]:
    """The environment that keeps the files and caches of a process in a folder of its own."""
    caches = (
        "XDG_CACHE_HOME",
        "TRITON_CACHE_DIR",
        "TORCH_EXTENSIONS_DIR",
        "TORCHINDUCTOR_CACHE_DIR",
        "CUDA_CACHE_PATH",
    )
    return {"HOME": str(home), "TMPDIR": str(home)} | {name: str(home / _CACHE / name.lower()) for name in caches}


def _keep_plain_files(folder: Path) -> None:
    """Remove whatever in a worker's folder is neither a file with one name nor a folder."""
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent, name)
            with suppress(OSError):
                found = path.lstat()
                plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
                if not plain and not stat.S_ISDIR(found.st_mode):
                    path.unlink()


def _modules_of(folders: Sequence[Path], device: str) -> List[str]:
    """Which of the modules that take long to import the Python files in `folders` seem to want."""
    paths = [path for each in folders for path in each.rglob("*.py")]
    text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in paths)
    wanted = [] if device == "cpu" else ["torch"]
    for name in ("numpy", "torch"):
        if name not in wanted and re.search(rf"^\s*(?:import|from)\s+{name}\b", text, re.MULTILINE):
            wanted.append(name)
    return wanted


def _hashes(job: Facts) -> Dict[str, str]:
    return {f"{name}_sha256": job.sha256[name] for name in ("harness", "task", "submission")}


@dataclass(frozen=True)
class _Past:
    """What the progress file says of a supervisor that is gone: the last case that was begun, and its beginnings."""

    last: Optional[Mapping[str, Any]] = None
    oom_kills: int = 0
    scratch: Optional[Path] = None


def _past(path: Path) -> _Past:
    past = _Past()
    with suppress(OSError, ValueError, KeyError, IndexError, TypeError):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        scratch = Path(lines[0]["scratch"]) if "scratch" in lines[0] else None
        past = _Past(None, int(lines[0]["oom_kills"]), scratch)
        if lines[-1]["phase"] in ("test", "benchmark") and isinstance(lines[-1]["case"], int):
            past = replace(past, last=lines[-1])
    return past


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
