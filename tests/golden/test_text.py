"""The text of commands on a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from tests.golden.board import BUNDLED, VERDICTS, GoldenBoard
from tests.golden.files import FOLDER, Golden
from tests.golden.normal import normal
from tests.values import replace


@dataclass(frozen=True)
class Case:
    """Commands of one user whose texts share a golden file."""

    name: str
    argvs: Sequence[str]
    user: str = "ada"
    settings: str = "hpc-board.yaml"
    width: int = 80
    files_alone: str = ""
    """The reason for which the text of a served board differs."""
    later: str = ""
    """Words that stand in the text once the scheduler has been asked again, on a busy machine."""


CASES = (
    Case("list", ["list"], settings=BUNDLED),
    Case("gpus", ["gpus"]),
    Case("task", ["task scan", "task histo", "task course"]),
    Case("task.check", ["task check histo"], files_alone="the service does not send the files of task"),
    Case("runs", ["runs"], width=120),
    Case(
        "hold",
        ["hold H100 --for 20m", "hold A100", "status", "gpus", "release h100", "hold A100 --dry-run"],
        width=120,  # no line wraps, with those words or without
        files_alone="a pass would send the runs of all users",
        later=": waiting for resources (Resources)",
    ),
    Case("status", ["status"], files_alone="a pass would send the runs of all users"),
    Case(
        "runs.all",
        ["runs --all --limit 100", "runs --all --task narrow", "runs --task scan --gpu A100 --mode profile"],
        "dean",
    ),
    Case("run.passed", ["run {best}", "run {busy}", "run {histo_ada}", "run {withdrawn}", "run {rerun}"]),
    Case("run.modes", ["run {tested}", "run {benchmarked}", "run {profiled}", "run {tested} --log"]),
    Case("run.failed", ["run {wrong}", "run {uncompiled}"]),
    Case("run.stopped", [f"run {{{state}}}" for state in ("cancelled", "timeout", "out_of_memory", "node_fail")]),
    Case("run.gone", ["run {preempted}", "run {lost}", "run {error}"]),
    Case(
        "run.going",
        [f"run {{{state}}}" for state in ("queued", "running", "stuck", "created", "submitting")],
        files_alone="a pass would send the runs of all users, and its answers are in the text",
    ),
    Case("run.others", ["run {unheard}", "run {collecting}"]),
    Case("run.verdicts", [f"run {{verdict_{verdict}}}" for verdict in VERDICTS], "bob"),
    Case("watch", ["watch {best}", "watch {wrong}", "watch {lost}"]),
    Case("show", ["show scan", "show narrow", "show histo", "show course"]),
    Case("show.leaders", ["show"]),
    Case("show.parts", ["show scan --gpu H100 --top 1 --from 2", "show scan --all-runs", "show scan --rank 1"]),
    Case("show.versions", ["show scan --versions", "show scan --task-version previous", "show open_sort"]),
    Case("show.user", ["show --user ada", "show --user cyd"]),
    Case("show.own", ["show scan --own", "show narrow --own"]),
    Case("history", ["history scan", "history scan --user cyd --task-version previous"]),
    Case("feed", ["feed", "feed scan --user cyd"]),
    Case(
        "compare",
        [
            "compare {best} {first} --diff",
            "compare 6 {best}",
            "compare {narrow_ada} {narrow_bob}",
            "compare {histo_bob} {histo_cyd} --diff",
        ],
    ),
    Case("boards", ["update open_sort --history", "create mine drafts/course --dry-run"], "cyd"),
    Case("admin", ["admin log", "admin bans", "admin limits", "admin stats", "admin rerun scan --dry-run"], "dean"),
    Case("admin.sync", ["admin sync competition/beginner.yaml --dry-run"], "dean"),
    Case(
        "admin.check",
        ["admin check --no-job"],
        "dean",
        files_alone="the command works with the board's own settings and files",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_text_of_a_command_is_what_it_was(golden: Golden, board: GoldenBoard, case: Case) -> None:
    opened = replace(board, settings=case.settings)
    told = []
    for argv in case.argvs:
        done = opened.run(case.user, *argv.split(), width=case.width)
        ended = f"exit code {done.exit_code}\n" if done.exit_code else ""
        text = done.stdout.replace(case.later, "") if case.later else done.stdout
        told.append(f"$ hpc-board {argv}\n{text}{ended}")
    golden.check(f"text/{case.name}.txt", normal("\n".join(told), board.folder), served=board.served is not None)


def test_no_file_of_text_is_left_over() -> None:
    assert {file.name for file in (FOLDER / "text").iterdir()} == {f"{case.name}.txt" for case in CASES}
