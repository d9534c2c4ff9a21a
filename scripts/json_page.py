"""Print docs/json.md, the reference of JSON, from the Structs of `hpc_board.report.views`."""

import inspect
import re
import runpy
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

import msgspec
from msgspec import Struct, UnsetType

from hpc_board.report.views import (
    MEANINGS,
    View,
    diagnostics,
    errors,
    leaderboards,
    moderation,
    runs,
    setup,
    standings,
    tasks,
    usage,
)

meanings = runpy.run_path(str(Path(__file__).with_name("settings_page.py")))["meanings"]

_INTRODUCTION = """\
# JSON

`--json` makes a command print one JSON object or a list of them. New versions add keys, and never rename or remove
them. A moment is a text in ISO 8601, UTC; unknown values are `null`; a key that is "optional" may be absent. Text from
nodes and submissions is bounded, and free of control characters. [In scripts](scripts.md#json) shows a run and
standings in full.

This page is made from the code by `make docs`.
"""

_PLAIN = {str: "text", int: "integer", float: "number", bool: "boolean"}


PRINTED = (
    (("submit",), runs.SubmissionView, ""),
    (("submit",), list[runs.SubmissionView], "of several files"),
    (("submit", "hold"), list[runs.PreviewView], "with `--dry-run`"),
    (("status",), runs.LookView, ""),
    (("hold",), runs.RunnerView, ""),
    (("release",), list[runs.RunnerView], ""),
    (("run", "watch"), runs.WholeRunView, ""),
    (("run",), runs.RunFilesView, "with `--files`"),
    (("runs", "poll", "cancel", "admin milestones"), list[runs.RunView], ""),
    (("show",), standings.StandingsView, ""),
    (("show",), list[standings.StandingsView], "without a name: the first row of each leaderboard"),
    (("show",), standings.RanksView, "with `--rank`"),
    (("show",), standings.VersionsView, "with `--versions`"),
    (("show-personal",), standings.OwnStandingsView, ""),
    (("history",), standings.HistoriesView, ""),
    (("code",), runs.CodeView, ""),
    (("note",), runs.SubmissionNoteView, ""),
    (("feed",), list[standings.FeedView], ""),
    (("compare",), standings.ComparisonsView, ""),
    (("list",), list[tasks.TaskView], ""),
    (("task show",), tasks.WholeTaskView, ""),
    (("task check",), tasks.TaskCheckView, ""),
    (("task check",), list[tasks.TaskCheckView], "of several tasks"),
    (("task test",), runs.TrialView, ""),
    (("task new",), tasks.NewTaskView, ""),
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
    (("admin ban", "admin unban", "admin stop", "admin start"), moderation.SwitchView, ""),
    (("admin remove", "admin readmit"), moderation.RemovalsView, ""),
    (("admin bans", "admin log"), list[moderation.DecisionView], ""),
    (("admin rerun",), moderation.RerunsView, ""),
    (("admin rerun",), list[moderation.RerunCandidateView], "with `--dry-run`"),
    (("admin stats",), usage.StatisticsView, ""),
    (("admin sync",), list[leaderboards.SyncedView], ""),
    ((), errors.FailureView, "any command that fails before it has printed its object"),
)
"""The commands that print JSON, the type of their objects, and the case where they do, in the order of the page."""


def json_page() -> str:
    """The whole page as Markdown."""
    commands = ["## Commands\n", "| command | prints |", "|---|---|"]
    for names, type_, when in PRINTED:
        words = ", ".join(f"`{name}`" for name in names)
        commands.append(f"| {words}{' ' * bool(words and when)}{when} | {_words(type_)} |")
    return "\n".join([_INTRODUCTION, *commands, "", "## Objects", "", "\n".join(_objects())])


def _objects() -> Iterator[str]:
    for struct in _structs():
        about = inspect.cleandoc(struct.__doc__ or "")
        fields, (parent, *_) = msgspec.structs.fields(struct), struct.__bases__
        if parent is not View:
            about += f" Its first keys are those of a {_link(_title(parent))}."
            fields = fields[len(msgspec.structs.fields(parent)) :]
        found = MEANINGS | meanings(struct)
        yield _section(_title(struct), about, [(each.name, _words(each.type), found[each.name]) for each in fields])


def _structs() -> list[type[Struct]]:
    """Every Struct that a command prints, in the order of the commands, each before its parts."""
    found: dict[type[Struct], None] = {}

    def add(type_: Any) -> None:
        if isinstance(type_, type) and issubclass(type_, View):
            if type_ in found or type_ is View:
                return
            add(type_.__bases__[0])
            found[type_] = None
            for field in msgspec.structs.fields(type_):
                add(field.type)
        for member in get_args(type_):
            add(member)

    for _, type_, _ in PRINTED:
        add(type_)
    return list(found)


def _section(title: str, about: str, rows: Sequence[tuple[str, str, str]]) -> str:
    lines = [f"| `{key}` | {kind} | {meaning} |" for key, kind, meaning in rows]
    return "\n".join([f"### {title}", "", about, "", "| key | type | meaning |", "|---|---|---|", *lines, ""])


def _title(struct: type[Struct]) -> str:
    words = re.findall(r"[A-Z][a-z]*", struct.__name__.removesuffix("View"))
    return " ".join([words[0], *map(str.lower, words[1:])]).replace("Gpu", "GPU").replace("gpu", "GPU")


def _link(title: str) -> str:
    return f"[{title if title.startswith('GPU') else title.lower()}](#{title.lower().replace(' ', '-')})"


def _words(type_: Any) -> str:
    if get_origin(type_) is Annotated:
        return str(type_.__metadata__[0].description)
    if get_origin(type_) is list:
        return f"list of {_words(get_args(type_)[0])}"
    if get_origin(type_) is dict:
        return "object"
    members = [each for each in get_args(type_) if each not in (NoneType, UnsetType)]
    if members:
        words = " or ".join(map(_words, members))
        words += " or `null`" if NoneType in get_args(type_) else ""
        return words + (", optional" if UnsetType in get_args(type_) else "")
    return _PLAIN.get(type_) or _link(_title(type_))


if __name__ == "__main__":
    print(json_page(), end="")
