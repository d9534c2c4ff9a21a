"""The JSON of tasks and of the checks of them."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from hpc_board.domain.diagnostic import Diagnostic
from hpc_board.domain.imported import Imported
from hpc_board.domain.moderation import GpuLimit, Limits
from hpc_board.domain.user_board import CreatedBoard
from hpc_board.model.gpu import Gpu
from hpc_board.model.lint import PROBES, CheckedCase, CheckedSubmission, Lint, Probed
from hpc_board.model.task import ISOLATED, Task
from hpc_board.report.views import Lines, Moment, Seconds, View, view_of, views_of
from hpc_board.report.views.diagnostics import DiagnosticView
from hpc_board.report.views.leaderboards import OptionsView


class TaskView(View, frozen=True):
    """A task in a list."""

    ATTRIBUTES: ClassVar = {"languages": "accepted"}
    name: str
    """the name of the task"""
    language: str
    """the language of its submissions, the first of `languages`"""
    deadline: Moment | None
    """its deadline"""
    gpus: list[str]
    """the GPUs on which it may run here"""
    description: Lines
    """its description, in Markdown"""
    languages: list[str]
    """the languages that it accepts"""
    board: OptionsView | None
    """the options of the board, where a user made it"""
    start_here: bool
    """true for the task with which a newcomer starts"""

    @classmethod
    def of(cls, task: Task, gpus: Sequence[Gpu], board: CreatedBoard | None = None, **others: Any) -> Self:
        """Return the object of a task; `gpus` are those on which it may run here, `others` the keys of a whole task."""
        return view_of(
            cls,
            task,
            gpus=[gpu.name for gpu in gpus],
            board=board and view_of(OptionsView, board.options),
            **others,
        )


class TemplateView(View, frozen=True):
    """A template of submissions, or the header for compiled ones."""

    task: str
    text: str
    """its text"""


class NewTaskView(View, frozen=True):
    """A new folder: of a new task, or to work on a task in."""

    folder: str
    """its path"""
    files: list[str]
    """the names of its files"""


class PartView(View, frozen=True):
    """One part of a source, and the part of the task that was made of it."""

    name: str
    """the name of the part in the source"""
    basis: str
    """`taken` from the source, `guessed`, or `missing` there"""
    became: str
    """its meaning for the task"""


class ImportView(View, frozen=True):
    """A task that was imported from another benchmark's format."""

    ATTRIBUTES: ClassVar = {"task": "name"}
    task: str
    """the name of the task"""
    format: str
    """the format of its source"""
    source: str
    """the path of its source"""
    licence: str
    """the licence of the source, as a file or a line of it states it; empty if none does"""
    folder: str | None
    """the path of the folder that was written; `null` with `--explain`"""
    files: list[str]
    """the names of its files"""
    parts: list[PartView]
    """the parts of the source"""

    @classmethod
    def of(cls, imported: Imported, folder: str | None) -> "ImportView":
        """Return the object of an imported task."""
        parts = views_of(PartView, imported.parts)
        return view_of(
            cls, imported, source=str(imported.source), folder=folder, files=sorted(imported.files), parts=parts
        )


class TimeoutsView(View, frozen=True):
    """The time limits of a task."""

    ATTRIBUTES: ClassVar = {"test": "test_seconds", "benchmark": "benchmark_seconds", "ranked": "ranked_seconds"}
    test: Seconds
    """for the test cases"""
    benchmark: Seconds
    """for the benchmark cases"""
    ranked: Seconds
    """for a ranked run"""


class SubmissionLimitsView(View, frozen=True):
    """The numbers of submissions that the user may send within a period."""

    per: str
    """the period: `hour`, `day`, `week` or `all`"""
    ranked: int | None
    """ranked submissions"""
    other: int | None
    """other submissions"""


class GpuLimitView(View, frozen=True):
    """The limit on the GPU time of each user."""

    gpu_seconds: int
    """the GPU-seconds"""
    per: str
    """their period: `hour`, `day`, `week` or `all`"""


class MilestoneView(View, frozen=True):
    """A milestone of a task's author."""

    name: str
    """its name"""
    description: str
    """its description"""
    exclude_gpus: list[str]
    """the GPUs on which it is not run"""


class MeansRuleView(View, frozen=True):
    """A task's [rule on means](tasks.md#means)."""

    require: list[str]
    """the kinds of kernels and the libraries that a submission must use"""
    forbid: list[str]
    """those that it must not use"""


class WholeTaskView(TaskView, frozen=True):
    """A task with its rules and cases."""

    ATTRIBUTES: ClassVar = TaskView.ATTRIBUTES | {"timeouts_s": "timeouts"}
    version: str
    """sha256 of all in it that affects a result"""
    ranking_by: str
    """`last`, `mean` or `geom`: the way from the benchmark cases to the score"""
    harness: str
    timeouts_s: TimeoutsView
    """its time limits"""
    limits: dict[str, Any]
    """its limits for measuring"""
    submission_limits: list[SubmissionLimitsView]
    """the limits of the board for the user, one object a period that has any"""
    gpu_limit: GpuLimitView | None
    """the limit on the GPU time of each user, on all boards; `null` for none"""
    flags: list[str]
    """the compiler's options"""
    libraries: list[str]
    """the libraries that submissions may be linked with"""
    prepare: list[str | int]
    """the keys or positions of the inputs that a submission may [prepare](tasks.md#inputs-to-prepare)"""
    means: MeansRuleView
    """the rule on kernels and libraries; empty lists without one"""
    const_inputs: bool
    """true if a call must leave its inputs unchanged"""
    fresh_output: bool
    """true if the output must lie in memory of its own"""
    tests: list[dict[str, Any]]
    """the test cases"""
    benchmarks: list[dict[str, Any]]
    """the benchmark cases"""
    hidden_tests: int
    """the number of test cases that only ranked runs judge, and that are not shown"""
    hidden_benchmarks: int
    """the number of such benchmark cases"""
    templates: list[str]
    """the languages that it has a template for"""
    files: list[str]
    """the names of its files"""
    submission_name: str
    """the name under which its files know the submission"""
    milestones: list[MilestoneView]
    """the milestones of its author"""

    @classmethod
    def with_limits(
        cls,
        task: Task,
        gpus: Sequence[Gpu],
        board: CreatedBoard | None,
        limits: Sequence[Limits],
        of_gpus: GpuLimit | None,
    ) -> "WholeTaskView":
        """Return the object of a task with its rules, its cases and the names of its files."""
        return cls.of(
            task,
            gpus,
            board,
            submission_limits=views_of(SubmissionLimitsView, limits),
            gpu_limit=None if of_gpus is None else view_of(GpuLimitView, of_gpus),
            files=[file.name for file in task.files],
            hidden_tests=len(task.hidden_tests),
            hidden_benchmarks=len(task.hidden_benchmarks),
        )


class ProbeView(View, frozen=True):
    """The judge's answer to a probe."""

    ATTRIBUTES: ClassVar = {"right_answer": "same"}
    probe: str
    """the name of the probe"""
    expected: str
    """`pass`, `refused`, or `any`"""
    verdict: str
    """the judge's verdict"""
    right_answer: bool
    """true if the probe was the reference's own answer"""
    margin: int | None
    """the largest power of two by which its differences from the reference's answer may be multiplied; `null` if it has
    none or was not looked for"""
    seeds: int
    """the number of seeds that it was made with"""
    message: Lines

    @classmethod
    def of(cls, probed: Probed, accepts: Sequence[str]) -> "ProbeView":
        """Return the object of a probe, for a task that accepts these wrong answers."""
        return view_of(cls, probed, expected=PROBES[probed.probe].expected(accepts))


class CheckedCaseView(View, frozen=True):
    """A case that was probed."""

    ATTRIBUTES: ClassVar = {"case": "spec"}
    phase: str
    """`test` or `benchmark`"""
    index: int
    """the number of the case, from 0"""
    case: str
    """the arguments of the case"""
    probes: list[ProbeView]
    """the probes"""
    complete: bool
    """true if every probe was run"""

    @classmethod
    def of(cls, case: CheckedCase, accepts: Sequence[str]) -> "CheckedCaseView":
        """Return the object of a case, for a task that accepts these wrong answers."""
        probes = [ProbeView.of(probed, accepts) for probed in case.probed if probed.probe in PROBES]
        return view_of(cls, case, probes=probes, complete=not (case.left_out or case.failure))


class LeftOutView(View, frozen=True):
    """A case that was not probed."""

    ATTRIBUTES: ClassVar = {"why": "left_out"}
    phase: str
    """`test` or `benchmark`"""
    index: int
    """the number of the case, from 0"""
    why: str
    """the reason"""


class SubmissionCaseView(View, frozen=True):
    """A case that a template or a milestone was called with."""

    ATTRIBUTES: ClassVar = {"case": "spec"}
    phase: str
    """`test` or `benchmark`"""
    index: int
    """the number of the case, from 0"""
    case: str
    """the arguments of the case"""
    verdict: str | None
    """the judge's verdict; `null` if there is none"""
    margin: int | None
    """as of a probe"""
    seeds: int
    """the number of seeds that it was called with, the public one first"""
    message: Lines

    @classmethod
    def of(cls, case: CheckedCase) -> "SubmissionCaseView":
        """Return the object of a case; it has one answer at most."""
        found = next(iter(case.probed), None)
        if found is None:
            return view_of(cls, case, verdict=None, margin=None, seeds=0, message=case.failure or case.left_out)
        return view_of(cls, case, verdict=found.verdict, margin=found.margin, seeds=found.seeds, message=found.message)


class CheckedSubmissionView(View, frozen=True):
    """A template or a milestone of a task, judged like a submission."""

    name: str
    """`template` or `milestone`, and its name"""
    cases: list[SubmissionCaseView]
    """the cases that it was called with"""
    left_out: str
    """the reason why it was not called; empty otherwise"""
    message: Lines
    """the reason why it could not be called; empty otherwise"""

    @classmethod
    def of(cls, submission: CheckedSubmission) -> "CheckedSubmissionView":
        """Return the object of a template or a milestone."""
        cases = [SubmissionCaseView.of(case) for case in submission.lint.cases]
        return view_of(cls, submission, cases=cases, message=submission.lint.message)


class TaskCheckView(View, frozen=True):
    """A checked task."""

    task: str
    version: str
    harness: str
    passed: bool
    """true without errors"""
    functions: list[str]
    """the functions that its reference defines"""
    accepts: list[str]
    """the wrong answers that it declares to be right"""
    findings: list[DiagnosticView]
    """the findings"""
    cases: list[CheckedCaseView]
    """the cases that were probed"""
    left_out: list[LeftOutView]
    """the cases that were not"""
    submissions: list[CheckedSubmissionView]
    """the task's templates and milestones"""

    @classmethod
    def of(
        cls,
        task: Task,
        functions: Sequence[str],
        lint: Lint,
        submissions: Sequence[CheckedSubmission],
        findings: Sequence[Diagnostic],
        *,
        passed: bool,
    ) -> "TaskCheckView":
        return view_of(
            cls,
            task,
            task=task.name,
            passed=passed,
            functions=list(functions),
            findings=views_of(DiagnosticView, findings),
            cases=[CheckedCaseView.of(case, task.accepts) for case in lint.cases],
            left_out=views_of(LeftOutView, lint.left_out),
            submissions=[CheckedSubmissionView.of(each) for each in submissions],
        )


class FileView(View, frozen=True):
    """A file of evaluation code."""

    name: str
    """its name"""
    lines: int
    """the number of its lines"""
    about: str
    """the first sentence of its docstring"""


class EvalCodeView(View, frozen=True):
    """The code that judges submissions."""

    task: str | None
    """the name of the task, where one was named"""
    harness: str
    files: list[FileView]
    """the files"""

    @classmethod
    def of(
        cls, task: str | None, own: str | None, files: Mapping[str, str], about: Mapping[str, str]
    ) -> "EvalCodeView":
        """Return the object of the files, by their names; `own` is the harness of a task with its own judge."""
        views = [
            FileView(name=name, lines=len(text.splitlines()), about=about.get(name, "")) for name, text in files.items()
        ]
        return cls(task=task, harness=own or ISOLATED, files=views)
