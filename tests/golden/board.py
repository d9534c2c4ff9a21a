"""Golden board: one with an example of everything, the same on every machine.

Commands make all that users can make. Runs are recorded with moments of 2024. ada reads the board, bob and cyd compete
with her, cyd creates boards too, dean is the admin, eve is banned.
"""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hpc_board.domain.run import RunState, Status
from tests.golden.internals import CommandLine, Done, Sent, SentRun, Served
from tests.golden.results import (
    ON_CPU,
    OWN_EVAL,
    case,
    geometric_mean_s,
    in_rows,
    log,
    mismatch,
    reported,
    result,
    timed,
)
from tests.golden.slurm import Slurm
from tests.golden.tasks import HISTOGRAM, KERNEL, OTHERS, course, lay_out, scan
from tests.values import replace

SETTINGS = """\
board: board
tasks: [tasks]
clusters:
  main: {scheduler: slurm, poll_seconds: 1, allow_root: true}
  here: {scheduler: local}
gpus:
  H100:
    cluster: main
    partition: h100
    request: {style: gres, value: "gpu:h100:1"}
    arch: sm_90a
  A100:
    cluster: main
    partition: a100
    request: {style: gres, value: "gpu:a100:1"}
    cpus_per_task: 8
  CPU: {cluster: here, python: python3}
roles:
  admins: [dean]
  creators: [cyd]
"""

BUNDLED = "bundled.yaml"
"""Settings with the bundled tasks beside; reading them takes longer than all else."""

BEGAN = datetime(2024, 3, 1, 12, 0, tzinfo=UTC)

_PAUSE = timedelta(hours=6)

VERDICTS = (
    "wrong_shape",
    "wrong_dtype",
    "wrong_value",
    "wrong_nonfinite",
    "wrong_aliased",
    "mutated_input",
    "compile_error",
    "compile_timeout",
    "load_error",
    "exception",
    "crash",
    "device_error",
    "out_of_memory",
    "timeout",
    "output_limit",
    "protocol_violation",
    "late_write",
    "timing_inconsistent",
    "below_floor",
    "unstable",
    "task_error",
    "infra_error",
)
"""Every verdict but `pass`; bob has a run with each."""

_QUEUE = (
    "803|hb-queued|PENDING|1710439200|1710943200||0|Priority|/|",
    "804|hb-running|RUNNING|1710439200|1710439260|h100-1|0|None|/|",
    "805|hb-stuck|PENDING|1710439200|N/A||0|QOSMaxGRESPerJob|/|",
)

_COMPETITIONS = {
    "beginner.yaml": """\
name: Beginners
deadline: "2099-01-01"
problems:
  - {directory: sorting, name: first}
  - {directory: sorting, name: open_sort, gpus: [A100]}
  - {directory: sorting, name: course}
""",
    "faulty.yaml": """\
name: Faulty
problems:
  - {directory: nowhere, name: absent}
  - {directory: sorting, name: second, deadline: "2099-02-01 18:00"}
""",
}

_PROGRESS = (
    '{"at": "2024-03-15T12:01:10+00:00", "phase": "load", "case": null, "of": null, "message": "importing"}\n'
    '{"at": "2024-03-15T12:01:20+00:00", "phase": "benchmark", "case": 2, "of": 3, "message": "size: 10000; seed: 4"}\n'
)

_SCAN_TESTS = (case("test", 0, "size: 4; seed: 1"), case("test", 1, "size: 100; seed: 2"))
_SCAN_SPECS = ("size: 1000; seed: 3", "size: 10000; seed: 4", "size: 100000; seed: 5")


@dataclass(frozen=True)
class GoldenBoard:
    """A folder with settings and a board, and the names of its runs and submissions with their numbers."""

    folder: Path
    runs: Mapping[str, int]
    settings: str = "hpc-board.yaml"
    served: Served | None = None
    """The services through which commands reach the board; None for its files."""

    @property
    def slurm(self) -> Slurm:
        """Return the stand-in for Slurm."""
        return Slurm(self.folder / "bin")

    @property
    def commands(self) -> CommandLine:
        """Return the commands, with the stand-in for Slurm on PATH."""
        environ = {"PATH": f"{self.slurm.folder}:{os.environ['PATH']}"}
        return CommandLine(self.folder, environ, self.settings, self.served)

    def run(self, user: str, *argv: str, width: int | None = None) -> Done:
        """Run a command for `user`; `{queued}` is the number of that run, `{submission_queued}` of its submission."""
        return self.commands.run(user, *(word.format_map(self.runs) for word in argv), width=width)

    def copy(self, folder: Path) -> "GoldenBoard":
        """Copy the board into another folder."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return replace(self, folder=folder)


def golden_board(folder: Path) -> GoldenBoard:
    """Make the board in `folder`, which is not there yet."""
    _lay_out(folder)
    maker = _Maker(GoldenBoard(folder, {}))
    maker.record(_before_the_change())
    lay_out(folder / "tasks" / "scan", scan(3))
    maker.record(_ranked(maker.runs["submission_old_best"]))
    maker.create_boards()
    maker.record(_of_created_boards())
    maker.record(_other_modes())
    maker.record(_stopped())
    maker.record(_failed())
    maker.moderate()
    maker.record(_in_flight())
    board = replace(maker.board, runs=maker.runs)
    lay_out(board.commands.job_folder(board.runs["running"]), {"progress.jsonl": _PROGRESS})
    return board


_PAIR = """\
# SPDX-License-Identifier: MIT
cases = [{"size": 3}, {"size": 5}]

def inputs(size):
    return [list(range(size))]

def reference(numbers):
    return [2 * each for each in numbers]
"""


def _lay_out(folder: Path) -> None:
    kernels = {"kernel.py": KERNEL, "histogram.py": HISTOGRAM, "other.py": f"# another\n{HISTOGRAM}"}
    lay_out(folder, {"hpc-board.yaml": SETTINGS, **kernels, "scaled.py": _PAIR})
    lay_out(folder, {BUNDLED: SETTINGS.replace("[tasks]", "[tasks, bundled]")})
    lay_out(folder / "tasks" / "scan", scan(2))
    for name, files in OTHERS.items():
        lay_out(folder / "tasks" / name, files)
    lay_out(folder / "drafts" / "course", course(100, "Sort what the course has given."))
    lay_out(folder / "drafts" / "longer", course(1000, "Sort more."))
    lay_out(folder / "competition" / "sorting", course(50, "A problem of a competition."))
    lay_out(folder / "competition", _COMPETITIONS)
    Slurm(folder / "bin").install(_QUEUE)
    (folder / "board").mkdir()


class _Maker:
    """Recorder of submissions, six hours apart, and of the commands between them."""

    def __init__(self, board: GoldenBoard) -> None:
        self.board = board
        self.runs: dict[str, int] = {}
        self._count = 0

    def record(self, sent: Iterable[Sent]) -> None:
        new, names = [], []
        for each in sent:
            at = BEGAN + self._count * _PAUSE
            self._count += 1
            self.runs[f"submission_{each.name}"] = self._count
            names.append(each.name)
            runs = [_moved(run, at, f"hb-{self._count}-{number}") for number, run in enumerate(each.runs)]
            new.append(replace(each, at=at, runs=runs))
        for name, numbers in zip(names, self.board.commands.record("dean", new), strict=True):
            self.runs[name] = numbers[0]

    def create_boards(self) -> None:
        terms = ("--deadline", "2099-07-01", "--gpu", "CPU", "--closed", "--member", "ada,bob", "--show-code")
        self._do("cyd", "create", "course", "drafts/course", *terms, "--reason", "for the course of 2024")
        self._do("cyd", "create", "open_sort", "drafts/course", "--deadline", "2099-08-01 18:00")
        self._do("cyd", "create", "over", "narrow")

    def moderate(self) -> None:
        self._do("cyd", "update", "open_sort", "drafts/longer", "--force", "--reason", "a longer list")
        self._do("dean", "update", "open_sort", "--deadline", "2099-09-01", "--gpu", "H100,CPU")
        self._do("cyd", "delete", "over", "--yes", "--reason", "no submissions")
        self._do("ada", "note", "{best}", "four values per thread")
        self._do("ada", "note", "{best}", "no bank conflicts")
        self._do("dean", "admin", "remove", "{submission_cheat}", "--reason", "returns what an earlier call computed")
        self._do("dean", "admin", "remove", "{submission_doubted}", "--reason", "looks like a copy")
        self._do("dean", "admin", "readmit", "{submission_doubted}", "--reason", "it was right")
        self._do("dean", "admin", "remove", "{submission_withdrawn}", "--reason", "asked for by its author")
        self._do("dean", "admin", "ban", "eve", "--reason", "submits what others wrote", "--until", "2099-01-01")
        self._do("dean", "admin", "ban", "bob", "--reason", "floods the queue")
        self._do("dean", "admin", "unban", "bob", "--reason", "a misunderstanding")
        self._do("dean", "admin", "limit", "scan", "--ranked", "5", "--other", "20")
        self._do("dean", "admin", "limit", "--gpu-seconds", "86400", "--per", "day")
        self._do("dean", "admin", "stop", "--reason", "the cluster is down until Monday")
        self._do("dean", "admin", "start")

    def _do(self, user: str, *argv: str) -> None:
        done = replace(self.board, runs=self.runs).run(user, *argv)
        assert done.exit_code == 0, f"{argv}: {done.stderr}"


def _moved(run: SentRun, at: datetime, token: str) -> SentRun:
    """Return the run with its moments, which count from BEGAN, moved to `at`, and a token if it has none."""
    later = at - BEGAN
    events = [replace(event, at=event.at + later) for event in run.events]
    told = run.result
    if told is not None:
        moments = {key: (datetime.fromisoformat(told[key]) + later).isoformat() for key in ("started_at", "ended_at")}
        told = {**told, **moments}
    return replace(run, token=run.token or token, events=events, result=told)


# Runs


def _after(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


_FINISHED = Status(RunState.FINISHED, _after(125))


def _run(gpu: str, last: Status = _FINISHED, **more: Any) -> SentRun:
    """Return a run that waited for a minute, ran for another, and ended as `last`."""
    cluster, partition = {"H100": ("main", "h100"), "A100": ("main", "a100")}.get(gpu, ("here", ""))
    node = f"{partition or 'login'}-1"
    events = [
        Status(RunState.SUBMITTING, _after(1), attempt=1),
        Status(RunState.QUEUED, _after(2), "104", reason="waiting for resources (Resources)", source="squeue: PENDING"),
        Status(RunState.RUNNING, _after(60), "104", node, source="squeue: RUNNING"),
        replace(last, job_id="104", node=last.node or node),
    ]
    return SentRun(gpu, cluster, partition, "", events, **more)


def _scanned(gpu: str, medians_ns: Sequence[float], **more: Any) -> SentRun:
    """Return a ranked pass of `scan` with these medians."""
    cases = [
        timed(index, spec, time_ns, reference_ns=40_000.0)
        for index, (spec, time_ns) in enumerate(zip(_SCAN_SPECS, medians_ns, strict=False))
    ]
    score_s = geometric_mean_s(medians_ns)
    return _run(gpu, result=result("ranked", "pass", [*_SCAN_TESTS, *cases], **more), score_s=score_s)


def _before_the_change() -> Iterable[Sent]:
    """Yield ranked runs of the former version of `scan`, with two benchmarks."""
    yield Sent("ada", "scan", "ranked", [_scanned("H100", (41_000, 52_000))], code=f"{KERNEL}# ada\n")
    yield Sent("bob", "scan", "ranked", [_scanned("H100", (38_000, 47_000))], "old_best", "bob.py")
    runs = [_scanned("H100", (44_000, 44_000)), _scanned("A100", (80_000, 90_000))]
    yield Sent("cyd", "scan", "ranked", runs, file_name="cyd.py", code=f"{KERNEL}# cyd\n")


def _ranked(old_best: int) -> Iterable[Sent]:
    """Yield ranked runs: ties, several GPUs, a milestone, a rerun, intervals that overlap, and runs to be removed."""
    first = (30_000.0, 31_000.0, 32_000.0)
    runs = [_scanned("H100", first), _scanned("A100", (45_000.0, 46_000.0, 47_000.0))]
    yield Sent("ada", "scan", "ranked", runs, name="first", note="a loop")
    yield Sent("bob", "scan", "ranked", [_scanned("H100", first)], name="tied", file_name="bob.py")
    yield Sent("cyd", "scan", "ranked", [_scanned("H100", (28_000.0, 29_000.0, 30_000.0))], file_name="cyd.py")
    yield Sent("eve", "scan", "ranked", [_scanned("H100", (5_000.0, 5_000.0, 5_000.0))], name="cheat", code="# eve\n")
    runs = [_scanned("H100", (26_000.0, 27_500.0, 33_000.0)), _scanned("A100", (45_000.0, 45_100.0, 47_050.0))]
    yield Sent("ada", "scan", "ranked", runs, name="best", code=KERNEL.replace("total", "sum_"))
    yield Sent("cyd", "scan", "ranked", [_scanned("A100", (60_000.0, 61_000.0, 62_000.0))], name="doubted")
    run = _scanned("H100", (20_000.0, 20_500.0, 21_000.0))
    yield Sent("ada", "scan", "ranked", [run], name="withdrawn", note="do not count this one")
    runs = [_scanned("H100", (24_000.0, 24_000.0, 24_000.0))]
    yield Sent("cyd", "scan", "ranked", runs, file_name="one_pass.cu", milestone="one pass")
    run = _scanned("H100", (35_000.0, 36_000.0, 37_000.0))
    again = Sent("bob", "scan", "ranked", [run], name="rerun", file_name="bob.py", account="dean")
    yield replace(again, rerun_of=old_best)
    for user, bounds_ns in (("ada", (1.9e6, 2.1e6, 2.4e6)), ("bob", (2.2e6, 2.3e6, 2.6e6)), ("cyd", (2.9e6, 3e6, 3e6))):
        yield Sent(user, "narrow", "ranked", [_sorted(bounds_ns)], name=f"narrow_{user}", code="# sort\n")
    busy = _sorted((1.5e6, 2.5e6, 5.5e6), busy_processors=1.5, throttled=True)
    yield Sent("ada", "narrow", "ranked", [busy], name="busy", code="# sort again\n")
    for user, gpu, mean_ns in (("bob", "H100", 20_000.0), ("ada", "A100", 22_000.0)):
        yield Sent(user, "histo", "ranked", [_counted(gpu, mean_ns)], name=f"histo_{user}", code=HISTOGRAM)
    emulated = replace(_counted("H100", 90_000.0), emulated=True)
    yield Sent("cyd", "histo", "ranked", [emulated], name="histo_cyd", code=HISTOGRAM)


def _sorted(bounds_ns: tuple[float, float, float], **more: Any) -> SentRun:
    """Return a ranked pass of a task that sorts on a CPU; the second case counts."""
    half = (bounds_ns[0] / 2, bounds_ns[1] / 2, bounds_ns[2] / 2)
    cases = [
        case("test", 0, "size: 8; seed: 1"),
        in_rows(0, "size: 1024; seed: 2", half),
        in_rows(1, "size: 2048; seed: 3", bounds_ns, **more),
    ]
    low_ns, time_ns, high_ns = bounds_ns
    return _run(
        "CPU",
        result=result("ranked", "pass", cases, provenance=ON_CPU),
        score_s=time_ns / 1e9,
        interval=(low_ns / 1e9, high_ns / 1e9),
    )


def _counted(gpu: str, mean_ns: float) -> SentRun:
    """Return a ranked pass of `histo`, judged by its own eval."""
    cases = [
        case("test", 0, "size: 10; seed: 1"),
        reported(0, "size: 100; seed: 2", mean_ns),
        reported(1, "size: 1000; seed: 3", 2 * mean_ns),
    ]
    return _run(gpu, result=result("ranked", "pass", cases, provenance=OWN_EVAL), score_s=1.5 * mean_ns / 1e9)


def _of_created_boards() -> Iterable[Sent]:
    for user, bounds_ns in (("ada", (1e6, 1.1e6, 1.2e6)), ("bob", (1.3e6, 1.4e6, 1.5e6))):
        yield Sent(user, "course", "ranked", [_sorted(bounds_ns)], code="# course\n")
    yield Sent("bob", "open_sort", "ranked", [_sorted((1e6, 1.1e6, 1.2e6))], code="# open\n")


def _other_modes() -> Iterable[Sent]:
    printed = log("sum of 4 numbers\n", 2048, "the end\n")
    tests = result("test", "pass", _SCAN_TESTS, stdout=printed, stderr=log("a warning\n"))
    yield Sent("ada", "scan", "test", [_run("H100", result=tests)], name="tested", note="only tests")
    timed_cases = [timed(index, spec, 26_000.0 + index) for index, spec in enumerate(_SCAN_SPECS)]
    benchmark = result("benchmark", "pass", timed_cases)
    yield Sent("ada", "scan", "benchmark", [_run("H100", result=benchmark, score_s=26_001e-9)], name="benchmarked")
    profiled = [case("benchmark", index, spec) for index, spec in enumerate(_SCAN_SPECS)]
    told = log("Name      Self CUDA\nscan_1    12.0 us\n")
    profile = result("profile", "pass", profiled, profile=told)
    yield Sent("ada", "scan", "profile", [_run("H100", result=profile)], name="profiled")


def _stopped() -> Iterable[Sent]:
    """Yield a run in each end state without a verdict."""
    partial = result(
        "ranked",
        "infra_error",
        [*_SCAN_TESTS, timed(0, _SCAN_SPECS[0], 26_000.0)],
        message="stopped by SIGTERM after 4.9 s, while benchmark case 2 of 3 ran",
        provenance={**OWN_EVAL, "harness": "isolated", "interrupted": "SIGTERM"},
    )
    ends = {
        "cancelled": ("cancel requested by ada at 12:01:30 UTC", "squeue: CANCELLED", None),
        "timeout": ("", "squeue: TIMEOUT (TimeLimit)", partial),
        "out_of_memory": ("", "squeue: OUT_OF_MEMORY (OutOfMemory); no result file after 1 min, since 12:02 UTC", None),
        "node_fail": ("", "squeue: NODE_FAIL (NodeDown)", None),
        "preempted": ("", "squeue: PREEMPTED", None),
        "lost": ("", "squeue: not listed; no result file after 5 min, since 12:02 UTC", None),
        "error": ("the result is not accepted: it belongs to another run", "", None),
    }
    for state, (reason, evidence, found) in ends.items():
        last = Status(RunState(state), _after(200), reason=reason, source=evidence)
        yield Sent("ada", "scan", "ranked", [_run("H100", last, result=found)], name=state)


def _failed() -> Iterable[Sent]:
    """Yield a run with each verdict that is no pass: two of ada, the others of bob."""
    wrong = case("test", 1, "size: 100; seed: 2", "wrong_value", "100 numbers were expected")
    found_out = (
        "passed with the public seed, failed with a secret one; the run is not ranked: 100 numbers were expected"
    )
    hidden = [*_SCAN_TESTS[:1], {**wrong, "message": found_out, "mismatch": mismatch()}]
    found = result("ranked", "wrong_value", hidden, message=f"test case 2 of 2: {found_out}")
    yield Sent("ada", "scan", "ranked", [_run("H100", result=found)], name="wrong")
    compiler = log("kernel.cu(3): error: identifier is undefined\n1 error detected\n")
    found = result("test", "compile_error", [], message="nvcc exited with status 2", build=compiler)
    yield Sent(
        "ada", "scan", "test", [_run("H100", result=found)], name="uncompiled", file_name="kernel.cu", code="x\n"
    )
    for verdict in VERDICTS:
        more = {"mismatch": mismatch(("nan", "2.5"), ("0.5", "1.5"))} if verdict == "wrong_value" else {}
        message = f"the message of {verdict}"
        failing = [_SCAN_TESTS[0], case("test", 1, "size: 100; seed: 2", verdict, message, **more)]
        found = result("test", verdict, failing, message=f"test case 2 of 2: the message of {verdict}")
        yield Sent("bob", "scan", "test", [_run("H100", result=found)], name=f"verdict_{verdict}", file_name="bob.py")


def _in_flight() -> Iterable[Sent]:
    """Yield runs in flight: those of ada are in Slurm's queue, those of bob rest, as no command here is his."""
    priority = "waiting behind jobs of higher priority (Priority)"
    expected = datetime.fromtimestamp(1710943200, UTC)
    queued = _event("queued", 2, "803", reason=priority, source="squeue: PENDING (Priority)")
    yield _going("ada", "queued", _event("submitting", 1, attempt=1), replace(queued, expected_start=expected))
    running = _event("running", 60, "804", node="h100-1", source="squeue: RUNNING")
    yield _going("ada", "running", _event("queued", 2, "804"), running)
    yield _going("ada", "stuck", _event("queued", 2, "805"))
    yield _going("bob", "created")
    unconfirmed = "the scheduler has not confirmed the job"
    silent = _event("submitting", 1, reason=unconfirmed, source="sbatch did not answer within 60 s")
    yield _going("bob", "submitting", replace(silent, unanswered=True))
    cancelled = _event("queued", 2, "806", reason="cancel requested by bob at 12:00:10 UTC")
    yield _going("bob", "unheard", replace(cancelled, cancel_requested=True))
    collecting = _event("collecting", 90, "807", node="h100-1", source="squeue: not listed")
    yield _going("bob", "collecting", _event("running", 60, "807", node="h100-1"), collecting)


def _event(state: str, seconds: float, job_id: str = "", **more: Any) -> Status:
    return Status(RunState(state), _after(seconds), job_id, **more)


def _going(user: str, name: str, *events: Status) -> Sent:
    run = SentRun("H100", "main", "h100", f"hb-{name}", events)
    return Sent(user, "scan", "ranked", [run], name=name)
