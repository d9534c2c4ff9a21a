"""The objects that each command prints, as the reference of JSON, its schema and the option `--fields` need them."""

from collections.abc import Iterator, Sequence
from typing import Any, get_args, get_origin

import msgspec

from hpc_board.report.views import (
    View,
    brief,
    diagnostics,
    errors,
    experiments,
    grading,
    leaderboards,
    moderation,
    runs,
    setup,
    standings,
    tasks,
    usage,
)

PRINTED = (
    (("submit",), runs.SubmissionView, ""),
    (("submit",), list[runs.SubmissionView], "of several files"),
    (("submit", "hold"), list[runs.PreviewView], "with `--dry-run`"),
    (("status",), runs.LookView, ""),
    (("hold",), runs.RunnerView, ""),
    (("release",), list[runs.RunnerView], ""),
    (("run", "watch"), runs.WholeRunView, ""),
    (("watch",), list[runs.WholeRunView], "of several runs"),
    (("run",), runs.RunFilesView, "with `--files`"),
    (("runs", "poll", "cancel", "admin milestones"), list[runs.RunView], ""),
    (("show",), standings.StandingsView, ""),
    (("show",), list[standings.StandingsView], "without a name: the first row of the standings on each board"),
    (("show",), standings.RanksView, "with `--rank`"),
    (("show",), standings.VersionsView, "with `--versions`"),
    (("show",), standings.UserPageView, "with `--user`"),
    (("show",), grading.OverallView, "with `--competition`"),
    (("show",), standings.OwnStandingsView, "with `--own`"),
    (("history",), standings.HistoriesView, ""),
    (("code",), runs.CodeView, ""),
    (("note",), runs.SubmissionNoteView, ""),
    (("feed",), list[standings.FeedView], ""),
    (("compare",), standings.ComparisonsView, ""),
    (("experiment",), experiments.ExperimentView, ""),
    (("list",), list[tasks.TaskView], ""),
    (("task show",), tasks.WholeTaskView, ""),
    (("task check",), tasks.TaskCheckView, ""),
    (("task check",), list[tasks.TaskCheckView], "of several tasks"),
    (("task test",), runs.TrialView, ""),
    (("task new", "task start"), tasks.NewTaskView, ""),
    (("task import",), list[tasks.ImportView], ""),
    (("template",), tasks.TemplateView, ""),
    (("eval-code",), tasks.EvalCodeView, ""),
    (("gpus",), list[usage.GpuView], ""),
    (("create", "update"), list[leaderboards.PlanView], ""),
    (("update",), list[leaderboards.BoardChangeView], "with `--history`"),
    (("delete",), leaderboards.DeletionView, ""),
    (("version",), setup.ReleaseView, ""),
    (("admin detect",), setup.DetectionView, ""),
    (("admin init",), setup.InitView, ""),
    (("admin check",), list[diagnostics.GpuCheckView], ""),
    (("admin check",), list[diagnostics.NodeCheckView], "with `--each-node`"),
    (("admin doctor",), list[diagnostics.DiagnosticView], ""),
    (("admin backup",), setup.BackupView, ""),
    (("admin restore",), setup.RestoredView, ""),
    (("admin prune",), setup.PrunedView, ""),
    (("admin limit",), moderation.LimitsView, ""),
    (("admin limits",), list[moderation.LimitsView], ""),
    (("admin link", "admin unlink"), moderation.LinkView, ""),
    (("admin links",), list[moderation.LinkView], ""),
    (("admin ban", "admin unban", "admin stop", "admin start"), moderation.SwitchView, ""),
    (("admin remove", "admin readmit"), moderation.RemovalsView, ""),
    (("admin bans", "admin log"), list[moderation.DecisionView], ""),
    (("admin copies",), list[moderation.NearCopyView], ""),
    (("admin rerun",), moderation.RerunsView, ""),
    (("admin rerun",), list[moderation.RerunCandidateView], "with `--dry-run`"),
    (("admin grades",), grading.GradesView, ""),
    (("admin stats",), usage.StatisticsView, ""),
    (("admin sync",), list[leaderboards.SyncedView], ""),
    ((), errors.FailureView, "any command that fails before it has printed its object"),
)
"""The commands that print JSON, the type of their objects, and the case where they do, in the order of the page."""

_RUNS = ("submit", "runs", "watch", "poll", "cancel", "admin milestones")

BRIEF = (
    (("run", "watch"), brief.BriefRunView, "with `--json=brief`"),
    (_RUNS, list[brief.BriefRunView], "with `--json=brief`"),
    (("status",), brief.BriefLookView, "with `--json=brief`"),
    (("list",), list[brief.BriefTaskView], "with `--json=brief`"),
)
"""The same of the objects that `--json=brief` has of its own."""


def unknown_field(command: str, fields: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return the first of `fields` that no object of a command has, and those that they have; None if all are known."""
    types = [type_ for names, type_, _ in PRINTED if command in names]
    if runs.SubmissionView in types:
        # The short forms have the runs in the place of their submission, with its keys.
        types.insert(0, runs.WholeRunView)
    for field in fields:
        if not any(_has(each, field.split(".")) for each in types):
            return field, list(dict.fromkeys(name for each in types for name in _names(each)))
    return None


def _has(type_: Any, keys: Sequence[str]) -> bool:
    """Return whether objects of a type have the first of these keys, and the object there has the others."""
    return not keys or any(
        part is dict or (keys[0] in part and _has(part[keys[0]], keys[1:])) for part in _objects(type_)
    )


def _names(type_: Any, before: str = "") -> Iterator[str]:
    """Yield the keys of a type's objects, and behind each those of the object there."""
    for part in _objects(type_):
        for key, inner in part.items() if part is not dict else ():
            yield before + key
            yield from _names(inner, f"{before}{key}.")


def _objects(type_: Any) -> Iterator[Any]:
    """Yield the keys, with their types, of each kind of objects in a type; `dict` stands for any keys."""
    if get_origin(type_) is dict:
        yield dict
    elif isinstance(type_, type) and issubclass(type_, View):
        yield {field.name: field.type for field in msgspec.structs.fields(type_)}
    else:
        for member in get_args(type_):
            yield from _objects(member)
