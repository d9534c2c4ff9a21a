"""Evaluation by the task's own eval with KernelBot's protocol: the order of its starts, and their results.

Each start gets its files anew, as they were sent, in a folder that it can only read; nothing is left of an earlier
start except the caches of compilers.
"""

import base64
import binascii
import hashlib
import os
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpc_board.harness.build.builder import check_device, compiled, compiler_room, job_toolchain, renamed_in
from hpc_board.harness.build.toolchain import BuildFailed, program_command
from hpc_board.harness.confine.scratch import remove
from hpc_board.harness.files import write_files
from hpc_board.harness.job_spec import JobSpec
from hpc_board.harness.launcher import Processes
from hpc_board.harness.measure.phases import Say
from hpc_board.harness.node import gpu_facts, visible_gpu
from hpc_board.harness.own_eval.report import Ended, Report, Scores, Stage, failure, reported, scored
from hpc_board.harness.processes.calls import CallFailed, secret_seed
from hpc_board.harness.processes.child import DeadlinePassed, PrintedTooMuch
from hpc_board.harness.processes.output import Printed
from hpc_board.harness.processes.program import Program
from hpc_board.harness.processes.tree import reap_orphans
from hpc_board.model.files import open_regular
from hpc_board.model.result import Case, Log, Verdict, secretly_failed
from hpc_board.model.score import score_s
from hpc_board.model.task import Mode, Ranking, case_text
from hpc_board.model.text import one_line, printable

PROGRAM = "eval.out"

_CASES_FILE = "popcorn-cases.txt"
_SEED = "POPCORN_SEED"
_HERE = "127.0.0.1"
_PROFILE_MAX = 100_000


def stages(job: JobSpec, secret: int) -> Iterator[Stage]:
    """Yield the starts of the eval in this mode, in order; the second half of a ranked run has the `secret` seed.

    If only the last benchmark makes the score, mode `leaderboard` gets no other: KernelBot's evals expect this.
    """
    tests, benchmarks = tuple(enumerate(job.tests)), tuple(enumerate(job.benchmarks))
    times = job.phase_seconds
    test = Stage("test", "test", tests, times["test"], job.seed)
    benchmark = Stage("benchmark", "benchmark", benchmarks, times["benchmark"], job.seed)
    if job.mode is Mode.TEST:
        yield test
    elif job.mode is Mode.BENCHMARK:
        yield benchmark
    elif job.mode is Mode.PROFILE:
        yield from (replace(benchmark, mode="profile", cases=(each,)) for each in benchmarks)
    else:
        scored = benchmarks[-1:] if job.ranking_by is Ranking.LAST else benchmarks
        ranked = (test, benchmark, Stage("leaderboard", "benchmark", scored, times["ranked"], job.seed))
        yield from ranked
        yield from (replace(stage, seed=secret, secret=True) for stage in ranked)


class OwnEval:
    """One evaluation by the task's own eval; a step that fails as a whole raises CallFailed."""

    def __init__(self, job: JobSpec, folder: Path, processes: Processes, say: Say) -> None:
        self.build_log = self.profile_log = Log()
        self.facts: dict[str, Any] = {}
        self._job = job
        self._folder = folder
        self._processes = processes
        self._say = say
        self._cases: dict[tuple[str, int], Case] = {}
        self._current: tuple[Stage, Report] | None = None
        self._texts: dict[str, bytes] = {}
        self._status_alone = 0

    def run(self) -> None:
        """Start the eval for each stage, until one does not pass.

        Raises:
            CallFailed: a stage did not pass, and no case says so.
        """
        self._texts = self._sent_files()
        if self._job.device == "cuda":
            self.facts.update(gpu_facts(visible_gpu(os.environ)))
        if self._job.eval.sources:
            self._build()
        else:
            self._warm_up()
        if self._job.eval.prints_score:
            self._run_for_score()
            return
        for stage in stages(self._job, secret_seed()):
            self._run(stage)
            if any(case.verdict is not Verdict.PASS for case in self.cases()):
                return

    def cases(self) -> list[Case]:
        """Return the cases that the eval has reported on so far, tests first."""
        if self._current is not None:
            stage, report = self._current
            self._note(stage, reported(report, stage, self._floor_ns))
        return [self._cases[key] for key in sorted(self._cases, key=lambda key: (key[0] != "test", key[1]))]

    @property
    def _floor_ns(self) -> float:
        return self._job.limits.floor_seconds * 1e9

    def _sent_files(self) -> dict[str, bytes]:
        """Return the files of the task and the submission, each unchanged since it was sent."""
        texts = {name: (self._folder / "task" / name).read_bytes() for name in self._job.files}
        for name, text in texts.items():
            if hashlib.sha256(text).hexdigest() != self._job.file_sha256.get(name):
                message = f"{name} of the task is not the file that was sent: its hash differs"
                raise CallFailed(Verdict.INFRA_ERROR, message)
        texts[self._job.submission] = (self._folder / "submission" / self._job.submission).read_bytes()
        return texts

    def _build(self) -> None:
        """Compile the eval and the submission to a program, from then on the only file."""
        self._say("build", None, None, "compiling the task's eval and the submission")
        try:
            program = self._program()
        except BuildFailed as error:
            self.build_log = error.log
            self.facts.update(error.facts)
            raise CallFailed(error.verdict, error.message) from None
        self._texts = {PROGRAM: program}

    def _program(self) -> bytes:
        """Return the program; nothing of the submission runs meanwhile.

        Raises:
            BuildFailed: the program cannot be built, for the reason in the verdict.
        """
        job, processes, folders = self._job, self._processes, self._job.eval.include_dirs
        home = Path(tempfile.mkdtemp(prefix="build-", dir=processes.scratch))
        write_files(home, self._texts)
        for each in folders:
            if not (home / each).is_dir():
                message = f"the task's include_dirs name {each}, which does not exist"
                raise BuildFailed(Verdict.TASK_ERROR, message)
        outside = [each for each in folders if each.startswith("/")]
        room = compiler_room(job, self._folder, home, outside, processes)
        tools = job_toolchain(job, room, processes)
        self.facts.update({"compiler": one_line(tools.version), "arch": tools.arch})
        command = program_command(tools, job.eval, PROGRAM)
        program, log = compiled(job, room, processes, command, PROGRAM, self.facts)
        self.facts["program_sha256"] = hashlib.sha256(program).hexdigest()
        self.build_log = renamed_in(log, job)
        check_device(job, tools.arch, self.build_log, self.facts)
        return program

    def _warm_up(self) -> None:
        """Run the submission once by itself, so that its compilation on import costs no stage its time.

        Its end decides nothing: the stages do. But an exit status that occurs here too is the submission's when a stage
        ends with it.
        """
        seconds = self._job.limits.build_seconds
        self._say("build", None, None, "running the submission once, so that it compiles what it needs")
        printed, processes = Printed(), self._processes
        command = [processes.container.python, "-B", "-u", self._job.submission]
        program = processes.program(command, self._laid("build", self._texts), {}, [printed])
        ended = self._end_of(program, seconds, lambda: None)
        self.build_log = printed.log()
        self._status_alone = ended.status
        if ended.verdict is Verdict.TIMEOUT:
            message = (
                f"running the submission once, to compile it, did not finish within {seconds:g} s, and was stopped"
            )
            raise CallFailed(Verdict.COMPILE_TIMEOUT, message)
        if ended.verdict is not None:
            raise CallFailed(ended.verdict, ended.message)

    def _end_of(self, program: Program, seconds: float, watch: Callable[[], None]) -> Ended:
        """Return the end of a program that may run for that many seconds; nothing of it runs afterwards."""
        limits, processes = self._job.limits, self._processes
        level, error = program.told(limits.load_seconds)
        if error or not level:
            message = f"the task's eval cannot be started: {error or 'its process ended, or took too long'}"
            raise CallFailed(Verdict.INFRA_ERROR, message)
        processes.record_isolation(level)
        status, verdict, message = 0, None, ""

        def look() -> None:
            reap_orphans(processes.pids())
            watch()

        try:
            status = program.wait(seconds, limits.printed_bytes, look)
        except DeadlinePassed:
            verdict, message = Verdict.TIMEOUT, f"the task's eval did not finish within {seconds:g} s, and was stopped"
        except PrintedTooMuch:
            verdict, message = Verdict.OUTPUT_LIMIT, f"it printed more than {limits.printed_bytes} bytes"
        ended = Ended(status, program.seconds, verdict, message)
        processes.dismiss(program)
        return ended

    def _run(self, stage: Stage) -> None:
        """Start the eval for one stage and record its report."""
        texts = {**self._texts, _CASES_FILE: stage.cases_text.encode()}
        environment = {} if stage.seed is None else {_SEED: str(stage.seed)}
        if self._job.world_size > 1:
            environment.update(_for_ranks(self._job.world_size))
        ended, report, _ = self._ended(stage, self._command(stage.mode, _CASES_FILE), texts, environment)
        cases = reported(report, stage, self._floor_ns)
        self._note(stage, cases)
        failed = failure(report, stage, cases, ended)
        if failed is not None:
            self._blame(stage, cases, failed)
        if stage.mode == "profile":
            self._keep_profile(stage, report)
        elif stage.secret and stage.mode == "leaderboard" and failed is None:
            # A submission that recognizes the public inputs is slower on these.
            self.facts["unseen_score_s"] = score_s(cases, self._job.ranking_by)

    def _ended(
        self, stage: Stage, command: list[str], texts: Mapping[str, bytes], environment: Mapping[str, str]
    ) -> tuple[Ended, Report, Scores]:
        """Run the eval for a stage with exactly these files, and return its end, its report, and its scores.

        Everything that it left is removed by then.
        """
        job, processes, report, scores = self._job, self._processes, Report(), Scores()
        folder, stderr = self._laid("eval", texts), processes.stderr
        stderr_before = stderr.total_bytes
        printed = [processes.stdout, stderr]
        # An eval that prints a score has no pipe for a report: the submission would have it, too.
        reported = None if job.eval.prints_score else report.add
        program = processes.program(command, folder, environment, printed, heard=scores.add, report=reported)
        self._current = stage, report
        said, of = 0, len(job.tests if stage.phase == "test" else job.benchmarks)

        def watch() -> None:
            """Tell the current case, according to the report; a report that is too large ends the eval."""
            nonlocal said
            at = min(len(stage.cases), max(1, report.begun(stage.phase)))
            if at != said:
                said = at
                index, case = stage.cases[at - 1]
                how = f"mode {stage.mode}" + (", secret seed" if stage.secret else "")
                self._say(stage.phase, index + 1, of, f"{case_text(case)} ({how})")
            if report.too_large:
                raise PrintedTooMuch

        watch()
        ended = self._end_of(program, stage.seconds, watch)
        self._current = None
        report.end()
        scores.end()
        changed = _changed(folder, texts)
        if changed and ended.verdict is None:
            message = f"{changed} of the task was changed while it ran, so its report is not accepted"
            ended = replace(ended, verdict=Verdict.PROTOCOL_VIOLATION, message=message)
        as_alone = ended.status == self._status_alone != 0
        last_words = _last_words(stderr) if stderr.total_bytes > stderr_before else ""
        return replace(ended, last_words=last_words, as_alone=as_alone), report, scores

    def _run_for_score(self) -> None:
        """Start an eval that takes no arguments, and knows one score and no cases: these pass or fail together."""
        job = self._job
        if job.mode is Mode.PROFILE:
            raise CallFailed(Verdict.TASK_ERROR, "an eval that prints `score:` has no modes, and so no profile")
        stage = next(stages(job, secret=0))
        seconds = sum(job.phase_seconds[name] for name in {"test", "ranked" if job.mode is Mode.RANKED else stage.mode})
        stage = replace(stage, seconds=seconds)
        ended, _, scores = self._ended(stage, self._command(), self._texts, {})
        failed, timing = scored(scores, stage, ended, self._floor_ns)
        if failed is not None:
            raise failed
        tests = job.tests if job.mode in (Mode.TEST, Mode.RANKED) else ()
        benchmarks = () if job.mode is Mode.TEST else job.benchmarks
        for phase, cases, found in (("test", tests, None), ("benchmark", benchmarks, timing)):
            for index, case in enumerate(cases):
                self._cases[phase, index] = Case(phase, index, case_text(case), Verdict.PASS, "", found)

    def _blame(self, stage: Stage, cases: list[Case], failed: CallFailed) -> None:
        """Assign a failure to its case: the one after all reported cases; if all are reported, to the whole."""
        if any(case.verdict is not Verdict.PASS for case in cases):
            return
        if len(cases) == len(stage.cases):
            said = f"mode {stage.mode}: {failed.message}"
            raise CallFailed(failed.verdict, _secretly_failed(said) if stage.secret else said)
        index, case = stage.cases[len(cases)]
        self._note(stage, [Case(stage.phase, index, case_text(case), failed.verdict, failed.message)])

    def _note(self, stage: Stage, cases: list[Case]) -> None:
        """Record the known results of cases; with a secret seed, only a failure: shown and ranked values are public."""
        for case in cases:
            key = (case.phase, case.index)
            if not stage.secret:
                self._cases[key] = case
            elif case.verdict is not Verdict.PASS:
                message = _secretly_failed(case.message)
                self._cases[key] = replace(self._cases[key], verdict=case.verdict, message=message)

    def _command(self, *arguments: str) -> list[str]:
        """Return the command that starts the eval in the folder of its files, as KernelBot does."""
        if self._job.eval.sources:
            return [f"./{PROGRAM}", *arguments]
        return [self._processes.container.python, "-B", "-u", self._job.eval.main, *arguments]

    def _laid(self, name: str, texts: Mapping[str, bytes]) -> Path:
        """Create a folder with exactly these files, the only ones of the task that a program may read."""
        folder = self._processes.scratch / f"{name}-files"
        remove(folder)
        if os.path.lexists(folder):
            folder.unlink()
        write_files(folder, texts)
        if PROGRAM in texts:
            (folder / PROGRAM).chmod(0o755)
        return folder

    def _keep_profile(self, stage: Stage, report: Report) -> None:
        """Add the table of a reported profile, in KernelBot's own base64."""
        coded = report.word("benchmark.0.report").encode()
        try:
            text = base64.b64decode(coded, altchars=b"+*", validate=True).decode(errors="replace")
        except (binascii.Error, ValueError):
            text = "(the report is not base64)"
        heading = "".join(case_text(case) for _, case in stage.cases)
        self.profile_log = Log(f"{self.profile_log.head}{heading}\n{printable(text, _PROFILE_MAX)}\n\n"[:_PROFILE_MAX])


def _for_ranks(world_size: int) -> dict[str, str]:
    """Return the variables with which an eval starts its ranks on this node: the number of GPUs, and the rendezvous.

    The port is free now. Another process may take it before the ranks do, as with any port passed on like this.
    """
    with socket.socket() as probe:
        probe.bind((_HERE, 0))
        port = probe.getsockname()[1]
    return {
        "POPCORN_GPUS": str(world_size),
        "WORLD_SIZE": str(world_size),
        "MASTER_ADDR": _HERE,
        "MASTER_PORT": str(port),
        # Within a job, the name of a node need not resolve to the node.
        "GLOO_SOCKET_IFNAME": "lo",
    }


def _last_words(stderr: Printed) -> str:
    """Return the last line of a program's standard error."""
    log = stderr.log()
    lines = [line for line in (log.tail or log.head).splitlines() if line.strip()]
    return one_line(lines[-1], 500) if lines else ""


def _secretly_failed(message: str) -> str:
    return secretly_failed(message, ranked=True)


def _changed(folder: Path, texts: Mapping[str, bytes]) -> str:
    """Return the first changed file of a folder, "" if all are unchanged."""
    for name, text in texts.items():
        try:
            if folder.is_symlink():
                return name
            with open_regular(folder / name) as file:
                if file.read(len(text) + 1) != text:
                    return name
        except OSError:
            return name
    return ""
