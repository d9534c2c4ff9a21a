"""The JSON of runs and submissions."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hpc_board.domain.moderation import Removal
from hpc_board.domain.run import Run, Status
from hpc_board.domain.standing import Placing
from hpc_board.domain.usage import usage_of
from hpc_board.model.result import Case, Result
from hpc_board.model.text import one_line, printable
from hpc_board.report.run_columns import Line, json_fields
from hpc_board.report.views import LINE_CHARACTERS_MAX, MESSAGE_CHARACTERS_MAX, Moment, Seconds, View, moment_of, safe
from hpc_board.report.views.results import CaseView, KernelView, SanitizerFindingView, cases_of, log_text
from hpc_board.report.views.run_parts import RemovalView, RunUsageView


class RemovedRunView(View, frozen=True):
    """A passing ranked run that does not count in the standings."""

    run: int
    """the number of the run"""
    submission: int
    """that of its submission"""
    score_s: Seconds | None
    """its score"""
    by: str
    """the admin who removed it"""
    at: Moment
    """the time of that"""
    reason: str
    """the reason"""

    @classmethod
    def of(cls, run: Run, removal: Removal) -> "RemovedRunView":
        """Return the object of a removed run."""
        said = RemovalView.of(removal)
        return cls(
            run=run.id, submission=run.submission, score_s=run.score_s, by=said.by, at=said.at, reason=said.reason
        )


class StatusView(View, frozen=True):
    """A state that a run was in."""

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
        """Return the object of a status."""
        return cls(
            state=str(status.state),
            at=moment_of(status.at),
            job_id=status.job_id or None,
            node=status.node or None,
            reason=one_line(status.reason, LINE_CHARACTERS_MAX),
            evidence=one_line(status.source, LINE_CHARACTERS_MAX),
            attempt=status.attempt or None,
        )


RunView = Annotated[dict[str, Any], Meta(description="run")]
"""A run in a list."""

WholeRunView = Annotated[dict[str, Any], Meta(description="run with its result")]
"""A run, with the keys of `ResultView` behind it."""


class ResultView(View, frozen=True):
    """The keys that a run has besides, where a command prints it whole."""

    stopped: str
    """the progress of a job that was told to end: its cases are those of until then, and it has no verdict"""
    profile: str
    """the text of a profile, or the output of the tools of mode sanitize"""
    kernels: list[KernelView]
    """its kernels with their numbers, those of each case by the time that they took"""
    findings: list[SanitizerFindingView]
    """the faults that the tools of mode sanitize found"""
    history: list[StatusView]
    """the states that the run was in, oldest first"""
    provenance: dict[str, Any]
    """facts on the machine and the tools, which differ from node to node"""
    build: str
    """the output of the compiler"""
    stdout: str
    """the beginning and the end of the kernel's output"""
    stderr: str
    """those of its errors"""
    usage: RunUsageView | None
    """the memory and the processors that the job used; `null` without a result"""


class LookView(View, frozen=True):
    """Your runs in flight, and those that ended since the last look."""

    in_flight: list[RunView]
    """the runs in flight, oldest first"""
    ended: list[RunView]
    """the runs that ended since, newest first"""


class SubmissionView(View, frozen=True):
    """A submission with its runs."""

    submission: int
    """the number of the submission"""
    task: str
    """the name of the task"""
    mode: str
    """`test`, `benchmark`, `profile`, `sanitize` or `ranked`"""
    runs: list[WholeRunView]
    """its runs, one for each GPU"""

    @classmethod
    def of(cls, run: Run, runs: Sequence[WholeRunView]) -> "SubmissionView":
        """Return the object of a submission; `run` is one of its `runs`."""
        return cls(submission=run.submission, task=run.task, mode=str(run.mode), runs=list(runs))


class CodeView(View, frozen=True):
    """The file of a submission."""

    submission: int
    """the number of the submission"""
    file_name: str
    """the name of the file"""
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
    """the number of the run"""
    folder: str
    """the folder with its files"""
    files: list[RunFileView]
    """the files"""
    left_out: list[LeftOutFileView]
    """the files that exceed a bound"""


class SubmissionNoteView(View, frozen=True):
    """A new note."""

    submission: int
    """the number of its submission"""
    text: str
    """its text"""


class PreviewView(View, frozen=True):
    """The job of one GPU as it would be sent."""

    file_name: str
    """the name of the file"""
    gpu: str
    """the name of the GPU"""
    script: str
    """the batch script, byte for byte"""
    command: list[str]
    """the command that submits it"""
    array: str | None
    """the script of the job array that runs `script` together with others"""

    @classmethod
    def of(cls, file_name: str, gpu: str, script: str, command: Sequence[str], array: str) -> "PreviewView":
        """Return the object of a job; `array` is empty for a single job."""
        return cls(file_name=one_line(file_name), gpu=gpu, script=script, command=list(command), array=array or None)


class TrialView(View, frozen=True):
    """A submission that was judged on this machine."""

    task: str
    """the name of the task"""
    version: str
    """its version"""
    file_name: str
    """the name of the file"""
    mode: str
    """`test`, `benchmark`, `profile`, `sanitize` or `ranked`"""
    gpu: str
    """`CPU` or `GPU`: the device of this machine"""
    verdict: str
    """the [verdict](results.md#verdicts)"""
    score_s: Seconds | None
    """the score"""
    cases: list[CaseView]
    """the cases, with the time of every call"""
    message: str
    """the explanation of the verdict"""
    provenance: dict[str, Any]
    """facts on the machine and the tools"""
    profile: str
    """the text of a profile, or the output of the tools of mode sanitize"""
    kernels: list[KernelView]
    """its kernels with their numbers, those of each case by the time that they took"""
    findings: list[SanitizerFindingView]
    """the faults that the tools of mode sanitize found"""
    build: str
    """the output of the compiler"""
    stdout: str
    """the beginning and the end of the kernel's output"""
    stderr: str
    """those of its errors"""

    @classmethod
    def of(cls, run: Run, result: Result, version: str) -> "TrialView":
        """Return the object of a run that is in no store, for a version of its task."""
        return cls(
            task=run.task,
            version=version,
            file_name=one_line(run.file_name),
            mode=str(run.mode),
            gpu=run.gpu,
            verdict=str(result.verdict),
            score_s=result.score_s,
            cases=cases_of(result, samples=True),
            message=printable(result.message, MESSAGE_CHARACTERS_MAX),
            provenance=safe(dict(result.provenance)),
            profile=log_text(result.profile),
            kernels=list(map(KernelView.of, result.kernels)),
            findings=list(map(SanitizerFindingView.of, result.findings)),
            build=log_text(result.build),
            stdout=log_text(result.stdout),
            stderr=log_text(result.stderr),
        )


def listed(run: Run, placing: Placing | None, cases: Sequence[Case]) -> RunView:
    """Return a run with its cases: an object of a list of runs, which does not read whole results."""
    return _keys(Line(run, placing, [CaseView.of(case) for case in cases]))


def whole(
    run: Run, placing: Placing | None, result: Result | None, history: Sequence[Status], *, samples: bool = False
) -> WholeRunView:
    """Return a run with its cases, its history, its node and its output; `samples` adds the time of every call."""
    usage = usage_of(result) if result else None
    about = ResultView(
        stopped=printable(result.message, MESSAGE_CHARACTERS_MAX) if result and result.interrupted else "",
        profile=log_text(result.profile) if result else "",
        kernels=list(map(KernelView.of, result.kernels)) if result else [],
        findings=list(map(SanitizerFindingView.of, result.findings)) if result else [],
        history=[StatusView.of(status) for status in history],
        provenance=safe(dict(result.provenance)) if result else {},
        build=log_text(result.build) if result else "",
        stdout=log_text(result.stdout) if result else "",
        stderr=log_text(result.stderr) if result else "",
        usage=RunUsageView.of(usage) if usage else None,
    )
    cases = cases_of(result, samples=samples) if result else []
    return {**_keys(Line(run, placing, cases)), **msgspec.structs.asdict(about)}


def _keys(line: Line) -> RunView:
    return {field.key: field.value(line) for field in json_fields()}
