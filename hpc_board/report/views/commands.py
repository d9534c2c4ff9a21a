"""The commands that print JSON, with the types of their objects: the contents of docs/json.md."""

from dataclasses import dataclass
from typing import Any

from hpc_board.report.views.diagnostics import DiagnosticView, GpuCheckView, NodeCheckView
from hpc_board.report.views.leaderboards import BoardChangeView, DeletionView, PlanView, SyncedView
from hpc_board.report.views.moderation import (
    DecisionView,
    LimitsView,
    RemovalsView,
    RerunCandidateView,
    RerunsView,
    SwitchView,
)
from hpc_board.report.views.runs import (
    CodeView,
    LookView,
    PreviewView,
    RunFilesView,
    RunView,
    SubmissionNoteView,
    SubmissionView,
    TrialView,
    WholeRunView,
)
from hpc_board.report.views.setup import BackupView, DetectionView, InitView, PrunedView, ReleaseView, RestoredView
from hpc_board.report.views.standings import (
    ComparisonsView,
    FeedView,
    HistoriesView,
    OwnStandingsView,
    RanksView,
    StandingsView,
    VersionsView,
)
from hpc_board.report.views.tasks import EvalCodeView, NewTaskView, TaskCheckView, TaskView, TemplateView, WholeTaskView
from hpc_board.report.views.usage import GpuView, StatisticsView


@dataclass(frozen=True)
class Printed:
    """The JSON that commands print, `when` they do not always."""

    commands: tuple[str, ...]
    type: Any
    when: str = ""


PRINTED = (
    Printed(("submit",), SubmissionView),
    Printed(("submit",), list[SubmissionView], "of several files"),
    Printed(("submit",), list[PreviewView], "with `--dry-run`"),
    Printed(("status",), LookView),
    Printed(("run", "watch"), WholeRunView),
    Printed(("run",), RunFilesView, "with `--files`"),
    Printed(("runs", "poll", "cancel", "admin milestones"), list[RunView]),
    Printed(("show",), StandingsView),
    Printed(("show",), list[StandingsView], "without a name: the first row of each leaderboard"),
    Printed(("show",), RanksView, "with `--rank`"),
    Printed(("show",), VersionsView, "with `--versions`"),
    Printed(("show-personal",), OwnStandingsView),
    Printed(("history",), HistoriesView),
    Printed(("code",), CodeView),
    Printed(("note",), SubmissionNoteView),
    Printed(("feed",), list[FeedView]),
    Printed(("compare",), ComparisonsView),
    Printed(("list",), list[TaskView]),
    Printed(("task show",), WholeTaskView),
    Printed(("task check",), TaskCheckView),
    Printed(("task check",), list[TaskCheckView], "of several tasks"),
    Printed(("task test",), TrialView),
    Printed(("task new",), NewTaskView),
    Printed(("template",), TemplateView),
    Printed(("eval-code",), EvalCodeView),
    Printed(("gpus",), list[GpuView]),
    Printed(("create", "update"), list[PlanView]),
    Printed(("update",), list[BoardChangeView], "with `--history`"),
    Printed(("delete",), DeletionView),
    Printed(("version",), ReleaseView),
    Printed(("admin detect",), DetectionView),
    Printed(("admin init",), InitView),
    Printed(("admin check",), list[GpuCheckView]),
    Printed(("admin check",), list[NodeCheckView], "with `--each-node`"),
    Printed(("admin doctor",), list[DiagnosticView]),
    Printed(("admin backup",), BackupView),
    Printed(("admin restore",), RestoredView),
    Printed(("admin prune",), PrunedView),
    Printed(("admin limit",), LimitsView),
    Printed(("admin limits",), list[LimitsView]),
    Printed(("admin ban", "admin unban", "admin stop", "admin start"), SwitchView),
    Printed(("admin remove", "admin readmit"), RemovalsView),
    Printed(("admin bans", "admin log"), list[DecisionView]),
    Printed(("admin rerun",), RerunsView),
    Printed(("admin rerun",), list[RerunCandidateView], "with `--dry-run`"),
    Printed(("admin stats",), StatisticsView),
    Printed(("admin sync",), list[SyncedView]),
)
"""Every form of JSON that commands print, in the order of the page."""
