"""The JSON of runs and submissions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, Self

import msgspec

from hpc_board.domain.reference import speedup_keys
from hpc_board.domain.run import Run, Status, WholeRun
from hpc_board.domain.runner import Runner
from hpc_board.domain.standing import Placing, verdict_line
from hpc_board.domain.usage import Usage, usage_of
from hpc_board.model.result import Result
from hpc_board.model.text import printable
from hpc_board.report.views import (
    MESSAGE_CHARACTERS_MAX,
    Moment,
    Seconds,
    Unchanged,
    View,
    moment,
    safe,
    view_of,
    views_of,
)
from hpc_board.report.views.results import (
    AdviceView,
    CaseView,
    KernelView,
    LoopView,
    RemarkView,
    SanitizerFindingView,
    UsedView,
    advice_of,
    cases_of,
    dense_text,
    log_text,
)


class JobView(View, frozen=True):
    """The job of a run."""

    ATTRIBUTES: ClassVar = {"id": "status.job_id", "node": "status.node"}
    cluster: str
    """the name of the cluster in the settings"""
    id: str | None
    """the scheduler's number of the job; in a job array that of the array and the run's index, `123_4`"""
    partition: str | None
    """the partition that it was sent to"""
    node: str | None
    """the node that it runs on"""


class NoteView(View, frozen=True):
    """A note on a submission."""

    ATTRIBUTES: ClassVar = {"by": "by_user"}
    text: str
    """the note"""
    by: str
    """its author"""
    at: Moment


class RerunView(View, frozen=True):
    """The origin of a submission that was sent again."""

    ATTRIBUTES: ClassVar = {"by": "by_user"}
    of_submission: int
    """the submission that it repeats"""
    by: str
    """the admin who sent it"""
    at: Moment


class RemovalView(View, frozen=True):
    """The removal of a submission from the standings."""

    ATTRIBUTES: ClassVar = {"by": "by_user"}
    by: str
    """the admin who removed it"""
    at: Moment
    reason: str


class RunUsageView(View, frozen=True):
    """The memory and the processors that a job used beside the amounts that it asked for; `null` if unknown."""

    memory_peak_bytes: int | None
    """the peak of its memory: that of its control group, else the sum of its processes, in which shared pages count
    several times"""
    memory_asked_bytes: int | None
    """the memory that it asked for"""
    cpu_seconds: Seconds | None
    """the processor time of all its processes"""
    elapsed_seconds: Seconds | None
    """the time in which it used that"""
    cpus_asked: int | None
    """the number of its CPUs"""
    advice: list[str]
    """remedies for amounts that are far from the need"""

    @classmethod
    def of(cls, usage: Usage) -> "RunUsageView":
        return view_of(cls, usage, advice=[*filter(None, (usage.memory_advice, usage.cpu_advice))])


class StatusView(View, frozen=True):
    """A state that a run was in."""

    ATTRIBUTES: ClassVar = {"evidence": "source"}
    state: str
    """the [state](results.md#states-of-a-run)"""
    at: Moment
    """its beginning"""
    job_id: str | None
    """the scheduler's number of the job"""
    node: str | None
    """the node"""
    reason: str
    """the reason of the scheduler or of hpc-board"""
    evidence: str
    """the words of the source"""
    attempt: int | None
    """the number of the attempt to send the job, counted from 1, in the state `submitting`; `null` in all others"""

    @classmethod
    def of(cls, status: Status) -> "StatusView":
        return view_of(cls, status, attempt=status.attempt or None)


class ReferenceView(View, frozen=True):
    """The reference of a board: the one time to which the speedups there are relative."""

    median_s: Seconds
    """the time of the task's reference, by the ranking rule: the median over the users of the medians of their passing
    ranked runs"""
    low_s: Seconds | None
    """the lower bound of its 80 % confidence interval; `null` below four users, or four runs of a single user"""
    high_s: Seconds | None
    """its upper bound"""
    runs: int
    """the number of these runs"""


class RunView(View, frozen=True):
    """A run in a list."""

    ATTRIBUTES: ClassVar = {
        "submitted_at": "created_at",
        "state_since": "status.at",
        "reason": "status.reason",
        "expected_start": "status.expected_start",
        "notes": "remarks.notes",
        "rerun": "remarks.rerun",
        "removed": "remarks.removal",
        "late_s": "late_seconds",
        "score_low_s": "interval.low_s",
        "score_high_s": "interval.high_s",
        "retries": "failures",
        "runner": "status.runner",
        "entrant": "origin.entrant",
        "tags": "origin.tags",
        "parent": "origin.parent",
    }
    id: int
    """the number of the run"""
    gpu: str
    state: str
    """the [state](results.md#states-of-a-run)"""
    verdict: str | None
    """the [verdict](results.md#verdicts); `null` for a run that is not `finished`"""
    score_s: Seconds | None
    """the score of a run that passed in mode `benchmark` or `ranked`; only a ranked one has a `rank`, too"""
    rank: int | None
    """the rank in the standings"""
    team: str | None
    """the [team](boards.md#teams) that has the `rank`; `null` if `user` has it"""
    job: JobView
    """the job"""
    cases: list[CaseView]
    """the cases"""
    message: str
    """the explanation of the verdict, or of an end without one"""
    task: str
    mode: str
    submission: int
    user: str
    """the user who submitted it"""
    file_name: str
    submitted_at: Moment
    state_since: Moment
    """the time at which the board noticed the state"""
    ended_at: Moment | None
    """the end of the job by the clock of the node; `null` if no result has a plausible one"""
    reason: str
    """the reason of the scheduler or of hpc-board for the state"""
    expected_start: Moment | None
    """the start that the scheduler expects"""
    trust: str
    """`self-run` or `verified`"""
    emulated: bool
    note: str
    """the text of `submit --note`"""
    verdict_line: str | None
    """the meaning of a ranked run that passed in the standings; of a benchmark, that of its score"""
    milestone: str | None
    """the name under which the task's author shows it beside the ranks"""
    account: str | None
    """the account of the job, where that is not the user"""
    notes: list[NoteView]
    """the notes that were put on the submission later"""
    rerun: RerunView | None
    """the submission that it repeats"""
    removed: RemovalView | None
    """the removal from the standings"""
    late_s: Seconds | None
    """the time by which the submission missed the deadline; `null` for one in time"""
    score_low_s: Seconds | None
    """the lower bound of the score's 80 % confidence interval; `null` if a case has none"""
    score_high_s: Seconds | None
    """its upper bound"""
    options: dict[str, Any]
    """the options that the user set for the job, by their names in `submit`"""
    retries: int
    """how often it was sent again after a fault of the cluster; `history` has the reasons"""
    runner: int | None
    """the number of the [runner](hold.md) that it goes to; `null` for a job of its own"""
    fresh: bool
    """true if it was sent with `--fresh`"""
    repeats: int | None
    """the newest earlier run with its file, task, GPU, mode, options and entrant that has a verdict on the kernel, or
    had none yet"""
    entrant: str | None
    """the [entrant](experiments.md) of the user's account who made it; `null` for the account itself"""
    tags: dict[str, Any]
    """the tags of the submission"""
    parent: int | None
    """the submission that it continues"""
    speedup: float | None
    """the speedup of its score over the reference of the board; `null` without one"""
    speedup_low: float | None
    """the lower bound of its 80 % confidence interval; `null` without one of the score"""
    speedup_high: float | None

    @classmethod
    def of(cls, run: Run, placing: Placing | None, cases: Sequence[CaseView], **others: Any) -> Self:
        """Return the object of a run with its cases; `others` are the keys that one with its result has besides."""
        line = None
        if placing is not None and run.score_s is not None:
            line = verdict_line(run.gpu, run.score_s, placing, run.interval)
        return view_of(
            cls,
            run,
            rank=placing and placing.rank,
            team=(placing and placing.team) or None,
            job=view_of(JobView, run),
            cases=list(cases),
            message=printable(run.explanation if run.state.ended else run.message, MESSAGE_CHARACTERS_MAX),
            verdict_line=line,
            options=msgspec.to_builtins(run.options),
            **speedup_keys(run.speedup),
            **others,
        )


class WholeRunView(RunView, frozen=True):
    """A run with its result."""

    stopped: str
    """the progress of a job that was told to end: its cases are those of until then, and it has no verdict"""
    profile: str
    kernels: list[KernelView]
    findings: list[SanitizerFindingView]
    loops: list[LoopView]
    remarks: list[RemarkView]
    means: list[UsedView]
    """the kernels of a call and the libraries that it used, where they are known"""
    advice: list[AdviceView]
    """remarks on its times, those of the report"""
    history: list[StatusView]
    """the states that the run was in, oldest first"""
    provenance: dict[str, Any]
    """facts on the machine and the tools, which differ from node to node"""
    build: str
    stdout: str
    stderr: str
    usage: RunUsageView | None
    """the memory and the processors that the job used; `null` without a result"""
    children: list[int]
    """the newest 100 submissions that continue its own"""
    reference: ReferenceView | None
    """the reference of its board; `null` if no ranked run has timed it"""

    @classmethod
    def with_result(cls, whole: WholeRun, *, samples: bool) -> "WholeRunView":
        """Return the object of a run with its result; `samples` adds the time of every call."""
        result = whole.result
        usage = usage_of(result) if result else None
        return cls.of(
            whole.run,
            whole.placing,
            cases_of(result, samples=samples) if result else [],
            **_output_keys(result),
            stopped=printable(result.message, MESSAGE_CHARACTERS_MAX) if result and result.interrupted else "",
            history=list(map(StatusView.of, whole.history)),
            usage=RunUsageView.of(usage) if usage else None,
            children=list(whole.children),
        )


class RemovedRunView(RemovalView, frozen=True):
    """A passing ranked run that does not count in the standings."""

    ATTRIBUTES: ClassVar = {
        "run": "id",
        "by": "remarks.removal.by_user",
        "at": "remarks.removal.at",
        "reason": "remarks.removal.reason",
    }
    run: int
    submission: int
    score_s: Seconds | None
    """its score"""


class LateRunView(View, frozen=True):
    """A late passing ranked run, which does not count in the standings."""

    ATTRIBUTES: ClassVar = {"run": "id", "late_s": "late_seconds"}
    run: int
    submission: int
    score_s: Seconds | None
    """its score"""
    late_s: Seconds
    """the time by which the submission missed the deadline"""


class RunnerView(View, frozen=True):
    """A runner: a job that holds a GPU for the runs of a user."""

    ATTRIBUTES: ClassVar = {
        "ending": "is_ending",
        "reason": "status.reason",
        "expected_start": "status.expected_start",
    }
    id: int
    """the number of the runner"""
    user: str | None
    """its user; `null` for one of the board itself, which judges the runs of all"""
    gpu: str
    state: str
    """the [state](results.md#states-of-a-run) of its job; `finished` if it ended by itself"""
    takes_runs: bool
    """true if new runs may go to it"""
    ending: bool
    """true once it is to end, or takes no more runs"""
    job: JobView
    """its job"""
    seconds: int
    """the longest time for which it holds the GPU"""
    idle_seconds: int
    """the longest time for which it waits for its next run"""
    runs: int
    """the number of runs that went to it"""
    held_seconds: Seconds
    """the time for which it has held the GPU"""
    left_seconds: Seconds | None
    """the time until its latest end; `null` for one that has ended"""
    created_at: Moment
    """the time of the request"""
    started_at: Moment | None
    """the start of its job"""
    ends_at: Moment | None
    """its latest end"""
    expected_start: Moment | None
    """the start that the scheduler expects"""
    ended_at: Moment | None
    """the time at which the board noticed its end"""
    reason: str
    """the reason of the scheduler or of hpc-board for the state"""

    @classmethod
    def of(cls, runner: Runner, now: datetime) -> "RunnerView":
        """Return the object of a runner with its times at the moment `now`."""
        ended = runner.state.ended
        return view_of(
            cls,
            runner,
            job=view_of(JobView, runner),
            held_seconds=round(runner.held_seconds(now), 3),
            left_seconds=None if ended else round(runner.left_seconds(now), 3),
            ended_at=moment(runner.status.at) if ended else None,
        )


class LookView(View, frozen=True):
    """Your runs in flight, and those that ended since the last look, with your runners."""

    in_flight: list[RunView]
    """the runs in flight, oldest first"""
    ended: list[RunView]
    """the runs that ended since, newest first"""
    runners: list[RunnerView]
    """the runners that have not ended, newest first"""
    ended_runners: list[RunnerView]
    """the runners that ended since, newest first"""


class BudgetView(View, frozen=True):
    """The rest of the budget of a submission's entrant, or of its user."""

    runs: int | None
    """the runs that are left; `null` without a limit"""
    gpu_seconds: Seconds | None
    """the GPU-seconds that are left, less the time limits of runs in flight; `null` without a limit"""
    per: str
    """the period of the budget: `hour`, `day`, `week` or `all`"""


class SubmissionView(View, frozen=True):
    """A submission with its runs."""

    submission: int
    task: str
    mode: str
    reused: bool
    """true if `--key` or `--if-new` found it, so that nothing was sent"""
    runs: list[WholeRunView]
    """its runs, one for each GPU"""
    budget: BudgetView | None
    """the rest of the budget of `--budget`; `null` without one"""


class CodeView(View, frozen=True):
    """The file of a run."""

    run: int
    file_name: str
    text: str
    """its text, unchanged"""


class RunFileView(View, frozen=True):
    """A file of a run that was written on this machine."""

    path: str
    """the path of the file"""
    bytes: int
    """its size"""
    sha256: str
    """its sha256"""


class LeftOutFileView(View, frozen=True):
    """A file of a run that stays in the job folder."""

    name: str
    """the name of the file"""
    bytes: int
    """its size"""
    reason: str
    """the bound that it exceeds"""


class RunFilesView(View, frozen=True):
    """The files of a run that were written on this machine."""

    run: int
    folder: str
    """the folder with its files"""
    files: list[RunFileView]
    """the files"""
    left_out: list[LeftOutFileView]
    """the files that exceed a bound"""


class SubmissionNoteView(View, frozen=True):
    """A new note."""

    submission: int
    text: str
    """its text"""


class PreviewView(View, frozen=True):
    """The job of one GPU as it would be sent."""

    ATTRIBUTES: ClassVar = {"gpu": "gpu.name"}
    file_name: str
    gpu: str
    script: Unchanged
    """the batch script, byte for byte"""
    command: list[Unchanged]
    """the command that submits it"""
    array: Unchanged | None
    """the script of the job array that runs `script` together with others"""


class TrialView(View, frozen=True):
    """A submission that was judged on this machine."""

    task: str
    version: str
    file_name: str
    mode: str
    gpu: str
    """`CPU` or `GPU`: the device of this machine"""
    verdict: str
    """the [verdict](results.md#verdicts)"""
    score_s: Seconds | None
    cases: list[CaseView]
    """the cases, with the time of every call"""
    advice: list[AdviceView]
    """remarks on the times, those of the report"""
    message: str
    provenance: dict[str, Any]
    """facts on the machine and the tools"""
    profile: str
    kernels: list[KernelView]
    findings: list[SanitizerFindingView]
    loops: list[LoopView]
    remarks: list[RemarkView]
    means: list[UsedView]
    """the kernels of a call and the libraries that it used, where they are known"""
    build: str
    stdout: str
    stderr: str

    @classmethod
    def of(cls, run: Run, result: Result, version: str) -> "TrialView":
        """Return the object of a run that is in no store, for a version of its task."""
        return view_of(
            cls,
            run,
            version=version,
            verdict=str(result.verdict),
            score_s=result.score_s,
            cases=cases_of(result, samples=True),
            message=printable(result.message, MESSAGE_CHARACTERS_MAX),
            **_output_keys(result),
        )


def _output_keys(result: Result | None) -> dict[str, Any]:
    logs = ("build", "stdout", "stderr")
    return {
        "profile": dense_text(result.profile) if result else "",
        **{name: log_text(getattr(result, name)) if result else "" for name in logs},
        "advice": advice_of(result) if result else [],
        "kernels": views_of(KernelView, result.kernels if result else ()),
        "findings": views_of(SanitizerFindingView, result.findings if result else ()),
        "loops": views_of(LoopView, result.loops if result else ()),
        "remarks": views_of(RemarkView, result.remarks if result else ()),
        "means": views_of(UsedView, result.means if result else ()),
        "provenance": safe(dict(result.provenance)) if result else {},
    }
