"""A board whose tasks, GPUs and runs never change by themselves, so that screens can be compared."""

import threading
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from hpc_board.board import Board
from hpc_board.board.gpus import Gpus
from hpc_board.board.leaderboards import Leaderboards
from hpc_board.board.runners import Runners
from hpc_board.board.runs import Runs
from hpc_board.board.standings import Standings
from hpc_board.board.submissions import Submissions
from hpc_board.board.tasks import Tasks
from hpc_board.domain.budget import Budget, BudgetLeft
from hpc_board.domain.catalog import Catalog
from hpc_board.domain.draft import Draft, Preview, Source, SubmissionRequest
from hpc_board.domain.feed import FeedEntry
from hpc_board.domain.gpus import allowed_gpus
from hpc_board.domain.gpus import gpu as gpu_called
from hpc_board.domain.job_options import OptionRules
from hpc_board.domain.origin import By, Origin
from hpc_board.domain.reference import Reference
from hpc_board.domain.roles import Role
from hpc_board.domain.run import Cancellation, Progress, Run, RunState, Status, WholeRun, unknown_run
from hpc_board.domain.run_order import NEWEST_FIRST, RunOrder
from hpc_board.domain.runner import Runner
from hpc_board.domain.runner_rules import RunnerRules
from hpc_board.domain.score_interval import Interval
from hpc_board.domain.standing import Mark, Page, Place, Placing, Record, Rows, Standing
from hpc_board.domain.user_page import UserPage, UserRank
from hpc_board.errors import BoardError
from hpc_board.model.gpu import Availability, Cluster, Device, Gpu, GpuStatus
from hpc_board.model.result import Case, Log, Result, Timing, Verdict
from hpc_board.model.task import SUBMISSION, Language, Mode, Ranking, Task, TaskFile
from hpc_board.report.run_words import outcome as outcome_of
from hpc_board.runs import drafts as intake
from tests.values import replace

_Part = TypeVar("_Part")

ADDRESS = Path("/boards/one")

NOW = datetime(2030, 5, 17, 12, 0, tzinfo=UTC)

CLUSTER = Cluster("main", "slurm")
H100 = Gpu("H100", CLUSTER, Device.CUDA, partition="gpu-h100")
A100 = Gpu("A100", CLUSTER, Device.CUDA, partition="gpu-a100")
L4 = Gpu("L4", CLUSTER, Device.CPU, partition="debug")

VECTORADD = """\
# Vector addition

Implement a kernel that computes **C = A + B** for two `float16` matrices of equal size.

| input | shape | dtype |
|---|---|---|
| A | N x N | float16 |
| B | N x N | float16 |

The output goes into a tensor of the same shape. Rules:

- no library call may do the addition,
- every size of the benchmarks counts.
"""

KERNEL = """\
def custom_kernel(data):
    left, right, output = data
    return torch.add(left, right, out=output)
"""


def task(name: str, *, hours: float | None = None, gpus: tuple[str, ...] = (), language: str = "py") -> Task:
    return Task(
        name=name,
        language=Language(language),
        description=VECTORADD if name == "vectoradd" else f"Implement {name}.",
        files=(TaskFile("submission.py", None), TaskFile("reference.py", f"# {SUBMISSION}")),
        tests=({"size": 127, "seed": 4242},) * 4,
        benchmarks=({"size": 1024, "seed": 1},) * 3,
        ranking_by=Ranking.GEOM,
        deadline=None if hours is None else NOW + timedelta(hours=hours),
        gpus=gpus,
    )


TASKS = (
    task("conv2d", hours=-20, gpus=("H100",)),
    task("grayscale", hours=7, gpus=("H100", "A100")),
    task("identity", gpus=("L4",)),
    task("matmul", hours=24 * 12, language="cu"),
    task("prefixsum", hours=24 * 40, gpus=("H100", "A100", "L4")),
    task("vectoradd", hours=24 * 9.5, gpus=("H100", "A100", "L4")),
)


def run(
    id_: int,
    state: RunState,
    *,
    ago_minutes: float = 3,
    user: str = "ada",
    gpu: str = "H100",
    task_name: str = "vectoradd",
    mode: Mode = Mode.RANKED,
    verdict: Verdict | None = None,
    message: str = "",
    score_s: float | None = None,
    reason: str = "",
    source: str = "",
    node: str = "",
    note: str = "",
) -> Run:
    started = NOW - timedelta(minutes=ago_minutes)
    return Run(
        id=id_,
        submission=id_ // 2,
        task=task_name,
        task_version="v1",
        user=user,
        file_name="submission.py",
        gpu=gpu,
        cluster="main",
        partition=f"gpu-{gpu.lower()}",
        mode=mode,
        token=f"hb-{id_}",
        nonce="n",
        trust="self-run",
        emulated=gpu == "L4",
        created_at=started,
        status=Status(state, started + timedelta(seconds=20), f"{8000 + id_}", node, reason, source),
        note=note,
        verdict=verdict,
        message=message,
        score_s=score_s,
        ended_at=started + timedelta(seconds=18) if verdict else None,
    )


RUNS = (
    run(
        41,
        RunState.QUEUED,
        ago_minutes=1,
        gpu="A100",
        reason="Priority",
        source="squeue: PENDING (Priority)",
        note="256 threads a block, no shared memory",
    ),
    run(
        40,
        RunState.RUNNING,
        ago_minutes=1,
        node="node07",
        source="squeue: RUNNING",
        note="256 threads a block, no shared memory",
    ),
    run(
        39,
        RunState.FINISHED,
        ago_minutes=12,
        verdict=Verdict.PASS,
        score_s=12.34e-6,
        node="node07",
        note="float4 loads",
    ),
    run(
        38,
        RunState.FINISHED,
        ago_minutes=30,
        mode=Mode.TEST,
        verdict=Verdict.WRONG_VALUE,
        message="test 3: 17 of 16129 values differ, the first at [0, 126]",
        note="float4 loads",
    ),
    run(37, RunState.FINISHED, ago_minutes=95, gpu="L4", mode=Mode.BENCHMARK, verdict=Verdict.PASS, score_s=3.1e-3),
    run(36, RunState.CANCELLED, ago_minutes=200, reason="cancelled by ada before it was sent"),
    run(
        35,
        RunState.LOST,
        ago_minutes=60 * 30,
        gpu="A100",
        source="squeue: job 8035 unknown; sacct: no record; no result file after 300 s",
    ),
    run(34, RunState.FINISHED, ago_minutes=60 * 70, user="bob", verdict=Verdict.PASS, score_s=11.02e-6),
    run(
        33,
        RunState.FINISHED,
        ago_minutes=60 * 90,
        user="carol",
        verdict=Verdict.COMPILE_ERROR,
        message="nvcc: 2 errors",
    ),
)


def standing(rank: int, user: str, score_s: float, run_: int, hours: float, trust: str = "self-run") -> Standing:
    return Standing(
        rank, user, score_s, run_ // 2, run_, NOW - timedelta(hours=hours), f"{user}.py", trust, user, entry=run_
    )


STANDINGS = {
    "H100": (
        standing(1, "bob", 11.02e-6, 34, 70),
        standing(2, "ada", 12.34e-6, 39, 0.2),
        standing(3, "carol", 15.9e-6, 21, 100, "verified"),
        standing(3, "dmitri-with-a-long-name", 15.9e-6, 23, 300),
    ),
    "A100": (standing(1, "carol", 21.4e-6, 22, 99),),
    "L4": (replace(standing(1, "ada", 3.1e-3, 37, 2), emulated=True),),
}


def result(run_: Run) -> Result:
    cases = [Case("test", index, f"size: {127 + index}; seed: 4242", Verdict.PASS) for index in range(3)]
    if run_.verdict is Verdict.WRONG_VALUE:
        cases[2] = replace(
            cases[2], verdict=Verdict.WRONG_VALUE, message="17 of 16129 values differ, the first at [0, 126]"
        )
    if run_.score_s is not None:
        cases += [
            Case("benchmark", index, f"size: {1024 * 2**index}; seed: 1", Verdict.PASS, timing=timing(12e3 * 2**index))
            for index in range(3)
        ]
    return Result(
        run=run_.id,
        nonce="n",
        mode=str(run_.mode),
        verdict=run_.verdict or Verdict.PASS,
        message=run_.message,
        cases=tuple(cases),
        score_s=run_.score_s,
        ended_at=run_.ended_at.isoformat() if run_.ended_at else "",
        stdout=Log("hello from the kernel\n[bold]not markup[/bold] \x1b[31mred\x1b[0m\n"),
        provenance={"host": "node07", "gpu": "NVIDIA H100", "driver": "580.95", "exclusive": True, "isolation": "S4"},
    )


def timing(time_ns: float) -> Timing:
    steps = [0.98 + 0.001 * ((7 * number) % 41) for number in range(98)]
    samples = tuple(time_ns * step for step in (*steps, 1.2, 1.3))
    return Timing(100, time_ns * 1.01, time_ns, 200.0, 20.0, time_ns * 0.98, time_ns * 1.3, samples)


def in_rows(index: int) -> Timing:
    """Rows of which the lower quartile is 2.1 ms, 4.2 ms, 8.4 ms, and which others made longer."""
    time_ns = 2.1e6 * 2**index
    return replace(
        timing(time_ns),
        reference_ns=3.4 * time_ns,
        low_ns=time_ns / 1.1025,
        high_ns=time_ns * 1.144,
        bound_ns=0.0,
        kernel_clock_ns=time_ns,
        busy_processors=0.8,
    )


PROGRESS = (
    Progress("2030-05-17T11:59:30Z", "build", None, None, ""),
    Progress("2030-05-17T11:59:40Z", "test", 4, 4, "size: 130; seed: 4242"),
    Progress("2030-05-17T11:59:50Z", "benchmark", 2, 3, "size: 2048; seed: 1"),
)


def runner(
    id_: int,
    state: RunState,
    *,
    user: str = "ada",
    gpu: str = "H100",
    ago_seconds: float = 360,
    minutes: int = 30,
    runs: int = 17,
    reason: str = "",
    releasing: bool = False,
) -> Runner:
    """A runner whose job began `ago_seconds` before now, unless it waits."""
    began = NOW - timedelta(seconds=ago_seconds)
    waits = state in (RunState.CREATED, RunState.SUBMITTING, RunState.QUEUED)
    return Runner(
        id=id_,
        user=user,
        gpu=gpu,
        cluster="main",
        partition=f"gpu-{gpu.lower()}",
        token=f"hb-r{id_}",
        request="r",
        seconds=60 * minutes,
        idle_seconds=300,
        harness_sha256="h",
        created_at=began - timedelta(seconds=5),
        status=Status(state, NOW, f"{4700 + id_}", reason=reason, cancel_requested=releasing, runner=id_),
        started_at=None if waits else began,
        runs=0 if waits else runs,
    )


class FakeBoard(Board):
    """Answers like a board from what it is given; `hold` keeps back the named methods' answers until it is set free."""

    def __init__(
        self,
        *,
        tasks: Sequence[Task] = TASKS,
        gpus: Sequence[Gpu] = (H100, A100, L4),
        runs: Sequence[Run] = RUNS,
        failures: dict[str, BoardError] | None = None,
        held: Sequence[str] = (),
        runners: Sequence[Runner] = (),
    ) -> None:
        self.user = "ada"
        self.address = ADDRESS
        self.role = Role.PARTICIPANT
        self.known_tasks = tuple(tasks)
        self.known_gpus = tuple(gpus)
        self.rules = OptionRules()
        self.known_runners = list(runners)
        self.runner_rules = RunnerRules()
        self.known_runs = list(runs)
        self.boards = dict(STANDINGS)
        self.histories: dict[str, tuple[Standing, ...]] = {}
        self.milestones: dict[str, tuple[Mark, ...]] = {}
        self.references: dict[str, Reference] = {}
        self.entries: tuple[FeedEntry, ...] = ()
        self.uncounted_runs: tuple[Run, ...] = ()
        self.logs = {40: "loading modules\nhello from the job\n"}
        self.failures = failures or {}
        self.held = {name: threading.Event() for name in held}
        self.calls: list[str] = []
        self.read_rows: list[int] = []
        self.sent: list[Draft] = []
        self.notes: list[tuple[int, str]] = []
        self.budgets: list[Budget | None] = []
        self.silent: dict[str, datetime] = {}
        self.tasks = self._part(Tasks, "catalog", get="task")
        self.gpus = self._part(Gpus, get="gpu", all="all_gpus", allowed="allowed_gpus", statuses="gpu_statuses")
        self.runs = self._part(
            Runs,
            *("advance", "cancel_each", "silent_since", "asked_at", "started", "in_flight", "followed"),
            *("whole", "cases", "progress", "log"),
            get="run",
            list="list_runs",
            count="count_runs",
        )
        self.submissions = self._part(
            Submissions,
            "option_rules",
            "again",
            "preview",
            "submit",
            "budget_left",
            "code",
            "note",
            "compare",
            "rerun_plan",
            "rerun",
        )
        self.runners = self._part(
            Runners,
            *("hold", "release", "recent"),
            rules="rules_of_runners",
            live="live_runners",
            get="known_runner",
        )
        self.standings = self._part(
            Standings,
            *("pages", "records", "uncounted", "feed", "placing", "places", "of_user", "users", "competitions"),
        )
        self.leaderboards = self._part(Leaderboards, "carry_out", plan="plan_board")

    def session(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _part(self, kind: type[_Part], *same: str, **names: str) -> _Part:
        """Return a part of the board whose methods are this board's own of these names, as far as it has them."""
        part = object.__new__(kind)
        answers = {**{name: name for name in same}, **names}
        vars(part).update({name: getattr(self, own) for name, own in answers.items() if hasattr(self, own)})
        return part

    def free(self) -> None:
        """Let every method answer from now on."""
        for event in self.held.values():
            event.set()

    def _enter(self, method: str) -> None:
        self.calls.append(method)
        if method in self.held:
            self.held[method].wait(30)
        if method in self.failures:
            raise self.failures[method]

    def catalog(self) -> Catalog:
        self._enter("tasks")
        return Catalog(self.known_tasks)

    def task(self, name: str) -> Task:
        return Catalog(self.known_tasks).task(name)

    def allowed_gpus(self, task: Task) -> tuple[Gpu, ...]:
        self._enter("allowed_gpus")
        return allowed_gpus(task, self.known_gpus)

    def all_gpus(self) -> tuple[Gpu, ...]:
        return self.known_gpus

    def gpu(self, name: str) -> Gpu:
        return gpu_called(name, self.known_gpus)

    def gpu_statuses(self) -> list[GpuStatus]:
        self._enter("gpus")
        counts = {"H100": (3, 8, 12), "A100": (0, 16, 104)}
        return [
            GpuStatus(gpu, Availability(gpu.name, *counts[gpu.name]), asked_at=NOW - timedelta(seconds=9))
            if gpu.name in counts
            else GpuStatus(gpu, Availability(gpu.name), "sinfo did not answer within 20 s", asked_at=NOW)
            for gpu in self.known_gpus
        ]

    def _draft(self, request: SubmissionRequest) -> Draft:
        self._enter("draft")
        find_task = Catalog(self.known_tasks).task
        return intake.draft(request, rules=self.rules, find_task=find_task, gpus=self.known_gpus, now=NOW)

    def option_rules(self) -> OptionRules:
        return self.rules

    def again(self, run: int, *, mode: str | None = None, entrant: str = "") -> SubmissionRequest:
        self._enter("again")
        found = self.run(run)
        source = Source(found.file_name, "import torch\n")
        mode = mode or str(found.mode)
        return SubmissionRequest(source, found.task, (found.gpu,), mode, found.note, origin=Origin(entrant))

    def preview(
        self, requests: Sequence[SubmissionRequest], *, array: bool | None = None, fresh: bool = False
    ) -> list[Preview]:
        del array, fresh
        (draft,) = map(self._draft, requests)
        return [
            Preview(
                gpu,
                f"#!/bin/bash\n#SBATCH --partition={gpu.partition}\n#SBATCH --gres=gpu:1\n#SBATCH --time=00:20:00\n"
                f"#\n# hpc-board: {draft.task.name} on {gpu.name}, {draft.mode}\n\nset -u\n"
                "python3 -I -B harness.py supervise job.json\n",
                ("sbatch", "--parsable", "--job-name=hb-TOKEN", "job.sh"),
                runner=next((each.id for each in self.known_runners if each.takes_runs and each.gpu == gpu.name), None),
                time_limit_seconds=1200,
            )
            for gpu in draft.gpus
        ]

    def budget_left(self, budget: Budget, entrant: str = "") -> BudgetLeft:
        del entrant
        return BudgetLeft(None if budget.runs is None else budget.runs - len(self.sent), None)

    def submit(
        self,
        requests: Sequence[SubmissionRequest],
        *,
        array: bool | None = None,
        fresh: bool = False,
        budget: Budget | None = None,
    ) -> list[Run]:
        del array, fresh
        self._enter("submit")
        self.budgets.append(budget)
        drafts = [*map(self._draft, requests)]
        self.sent += drafts
        first = max((run_.id for run_ in self.known_runs), default=0) + 1
        jobs = [(draft, gpu) for draft in drafts for gpu in draft.gpus]
        new = [
            run(
                first + index,
                RunState.QUEUED,
                ago_minutes=0.1,
                gpu=gpu.name,
                task_name=draft.task.name,
                mode=draft.mode,
            )
            for index, (draft, gpu) in enumerate(jobs)
        ]
        self.known_runs = [*reversed(new), *self.known_runs]
        return new

    def rules_of_runners(self) -> RunnerRules:
        self._enter("rules")
        return self.runner_rules

    def live_runners(self) -> tuple[Runner, ...]:
        self._enter("live")
        return tuple(each for each in self.known_runners if not each.state.ended)

    def known_runner(self, number: int) -> Runner:
        return next(each for each in self.known_runners if each.id == number)

    def recent(self, limit: int = 20) -> tuple[Runner, ...]:
        return tuple(each for each in reversed(self.known_runners) if each.user == self.user)[:limit]

    def hold(self, gpu: str, seconds: int | None = None, idle_seconds: int | None = None) -> Runner:
        self._enter("hold")
        number = max((each.id for each in self.known_runners), default=0) + 1
        new = runner(number, RunState.QUEUED, gpu=gpu, reason="Priority")
        new = replace(new, seconds=seconds, idle_seconds=idle_seconds)
        self.known_runners.append(new)
        return new

    def note(self, submission: int, text: str) -> None:
        self._enter("note")
        self.notes.append((submission, text))

    def release(self, runner: int) -> Runner:
        self._enter("release")
        found = self.known_runner(runner)
        status = replace(found.status, cancel_requested=True)
        if found.started_at is None:
            status = replace(status, state=RunState.CANCELLED, reason="released by ada")
        self.replace_runner(replace(found, status=status))
        return self.known_runner(runner)

    def replace_runner(self, runner_: Runner) -> None:
        """Let the runner be like this from now on."""
        self.known_runners = [runner_ if old.id == runner_.id else old for old in self.known_runners]

    def advance(self, watched: Collection[int] | None = None, *, within_seconds: float | None = None) -> bool:
        del watched, within_seconds
        self._enter("advance")
        return True

    def cancel(self, run: int) -> Run:
        self._enter("cancel")
        found = self.run(run)
        ended = replace(found, status=replace(found.status, state=RunState.CANCELLED, reason="cancelled by ada"))
        self.replace_run(ended)
        return ended

    def cancel_each(self, runs: Sequence[int]) -> tuple[Cancellation, ...]:
        self.calls.append("cancel_each")
        answers = []
        for number in runs:
            try:
                ended = (found := self.run(number)).state.ended
                answers.append(Cancellation(found if ended else self.cancel(number), ended_before=ended))
            except BoardError as error:
                answers.append(Cancellation(error=error))
        return tuple(answers)

    def replace_run(self, run_: Run) -> None:
        """Let the run be like this from now on."""
        self.known_runs = [run_ if old.id == run_.id else old for old in self.known_runs]

    def silent_since(self, cluster: str) -> datetime | None:
        return self.silent.get(cluster)

    def asked_at(self, cluster: str) -> datetime | None:
        del cluster
        return NOW - timedelta(seconds=12)

    def run(self, run: int) -> Run:
        if found := next((known for known in self.known_runs if known.id == run), None):
            return found
        raise unknown_run(run)

    def list_runs(
        self,
        *,
        everyone: bool = False,
        user: str | None = None,
        task: str | None = None,
        limit: int = 50,
        before: int | None = None,
        words: str = "",
        note: str = "",
        gpu: str | None = None,
        mode: Mode | None = None,
        state: RunState | None = None,  # noqa: ARG002
        verdict: Verdict | None = None,
        submission: int | None = None,
        order: RunOrder = NEWEST_FIRST,
        offset: int = 0,
    ) -> tuple[Run, ...]:
        self._enter("runs")
        users = {user} if user else {run_.user for run_ in self.known_runs} if everyone else {self.user}
        found = [
            run_
            for run_ in self.known_runs
            if run_.user in users
            and task in (None, run_.task)
            and gpu in (None, run_.gpu)
            and submission in (None, run_.submission)
            and mode in (None, run_.mode)
            and verdict in (None, run_.verdict)
            and note in run_.note
            and (before is None or run_.id < before)
            and all(
                word in f"{run_.gpu} {run_.task} {outcome_of(run_)} {run_.note} {run_.mode}".lower()
                for word in words.lower().split()
            )
        ]
        found.sort(key=order.key, reverse=order.descending)
        return tuple(found[offset:][:limit])

    def count_runs(
        self,
        *,
        everyone: bool = False,
        user: str | None = None,
        gpu: str | None = None,
        mode: Mode | None = None,
        words: str = "",
    ) -> int:
        self._enter("count")
        limit = len(self.known_runs)
        return len(self.list_runs(everyone=everyone, user=user, gpu=gpu, mode=mode, words=words, limit=limit))

    def started(self, runs: Collection[int]) -> dict[int, datetime]:
        known = {run_.id: run_ for run_ in self.known_runs}
        return {
            id_: known[id_].created_at + timedelta(seconds=4)
            for id_ in runs
            if id_ in known and known[id_].state in (RunState.RUNNING, RunState.FINISHED)
        }

    def in_flight(self) -> tuple[Run, ...]:
        return tuple(run_ for run_ in reversed(self.known_runs) if not run_.state.ended)

    def followed(self, known: Collection[int] = ()) -> tuple[Run, ...]:
        self._enter("runs")
        own = [run_ for run_ in self.known_runs if run_.user == self.user]
        return tuple(run_ for run_ in own if not run_.state.ended or run_.id in known)

    def result(self, run: int) -> Result | None:
        found = self.run(run)
        return result(found) if found.verdict is not None else None

    def cases(self, run: int) -> tuple[Case, ...]:
        found = self.result(run) if any(known.id == run for known in self.known_runs) else None
        return found.cases if found else ()

    def whole(self, run: int) -> WholeRun:
        self._enter("whole")
        found = self.run(run)
        queued = Status(RunState.QUEUED, found.created_at, reason="Resources", source="squeue: PENDING (Resources)")
        return WholeRun(found, self.placing(found), self.result(run), (queued, found.status))

    def progress(self, run: int) -> list[Progress]:
        return list(PROGRESS) if self.run(run).state is RunState.RUNNING else []

    def code(self, run: int) -> tuple[str, bytes]:
        self._enter("code")
        return "submission.py", f"# run {run}\nimport torch\n\n\n{KERNEL}".encode()

    def log(self, run: int) -> str:
        return self.logs.get(run, "")

    def pages(
        self,
        task: str,
        gpus: Sequence[str],
        *,
        version: str | None = None,
        rows: Rows = Rows.USERS,
        limit: int | None = None,
        offset: int = 0,
        user: str | None = None,
    ) -> list[Page]:
        self._enter("pages")
        reader = user or self.user
        pages = []
        for gpu in dict.fromkeys(self.gpu(name).name for name in gpus):
            everyone = self.boards.get(gpu, ()) if task == "vectoradd" else ()
            own = next((row for row in everyone if reader in (row.user, *row.members)), None)
            personal = rows in (Rows.OWN, Rows.NEWEST)
            shown: Sequence[Standing] = everyone
            if personal:
                shown = [row for row in self.histories.get(gpu, everyone) if row.user == reader]
                shown = [replace(row, rank=place) for place, row in enumerate(shown, start=1)]
            end = None if limit is None else offset + limit
            part = tuple(shown[offset:end])
            self.read_rows.append(len(part))
            beside = self.milestones.get(gpu, ()), self.references.get(gpu)
            pages.append(Page(gpu, version or "v1", part, len(shown), offset, own, *beside))
        return pages

    def records(self, task: str, gpu: str, *, version: str | None = None) -> tuple[Record, ...]:  # noqa: ARG002
        found: list[Record] = []
        rows = {row.run: row for row in (*self.histories.get(gpu, ()), *self.boards.get(gpu, ()))}
        for row in sorted(rows.values(), key=lambda row: row.submitted_at):
            if not found or row.score_s < found[-1].score_s:
                found.append(Record(row.submitted_at, row.user, row.score_s, row.run))
        return tuple(found)

    def uncounted(self, task: str, gpu: str, version: str | None = None) -> tuple[Run, ...]:  # noqa: ARG002
        return tuple(run_ for run_ in self.uncounted_runs if (run_.task, run_.gpu) == (task, gpu))

    def feed(
        self,
        *,
        task: str | None = None,
        gpu: str | None = None,
        user: str | None = None,
        before: int | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> tuple[FeedEntry, ...]:
        self._enter("feed")
        fitting = [
            entry
            for entry in self.entries
            if task in (None, entry.task)
            and gpu in (None, entry.gpu)
            and user in (None, entry.user)
            and (before is None or entry.id < before)
        ]
        return tuple(entry.seen_by({self.user}) for entry in fitting[offset:][:limit])

    def placing(self, run: Run) -> Placing | None:
        rows = self.boards.get(run.gpu, ())
        best = next((row for row in rows if row.user == run.user), None)
        if best is None or run.score_s is None:
            return None
        rank = best.rank if best.run == run.id else None
        return Placing(rank, len(rows), best.score_s, best.run, first=False)

    def places(self) -> tuple[Place, ...]:
        self._enter("places")
        version = next((task.version for task in self.known_tasks if task.name == "vectoradd"), "")
        own = [(gpu, len(rows), row) for gpu, rows in self.boards.items() for row in rows if row.user == self.user]
        return tuple(Place("vectoradd", version, gpu, row.rank, users, row.score_s) for gpu, users, row in own)

    def of_user(self, user: str, by: By = By.ACCOUNT) -> UserPage:
        self._enter("of_user")
        rows = [(gpu, rows, row) for gpu, rows in self.boards.items() for row in rows if row.user == user]
        ranks = tuple(
            UserRank("vectoradd", gpu, row, len(rows), rows[0].score_s, Reference(1.5 * row.score_s, 1))
            for gpu, rows, row in rows
        )
        return UserPage(user, ranks, tuple(run_ for run_ in self.known_runs if run_.user == user), by)

    def competitions(self) -> dict[str, tuple[str, ...]]:
        return {}

    def users(self, part: str = "", limit: int = 1_000) -> tuple[str, ...]:
        self._enter("users")
        names = sorted({row.user for rows in self.boards.values() for row in rows})
        return tuple(name for name in names if part in name)[:limit]


class InRows(FakeBoard):
    """The run that passed was timed in rows on a busy machine, as on a CPU."""

    def __init__(self) -> None:
        scored = [replace(each, score_s=4.2e-3, interval=Interval(3.81e-3, 4.8e-3)) for each in RUNS if each.id == 39]
        super().__init__(
            runs=[each for each in RUNS if each.id > 39] + scored + [each for each in RUNS if each.id < 39]
        )

    def result(self, run: int) -> Result | None:
        told = super().result(run)
        if told is None:
            return None
        cases = [replace(case, timing=case.timing and in_rows(case.index)) for case in told.cases]
        return replace(told, cases=tuple(cases), provenance={**told.provenance, "cpus": 2})
