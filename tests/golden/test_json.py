"""The JSON of every command that has `--json`, on the golden board.

`json/COMMAND.json` is the command's output, `json/COMMAND.WORD.json` its output with other options.
"""

import importlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from hpc_board.report.views.printed import BRIEF, PRINTED
from tests.golden.board import BUNDLED, VERDICTS, GoldenBoard
from tests.golden.files import FOLDER, Golden
from tests.golden.internals import REPOSITORY, commands
from tests.golden.normal import normal
from tests.values import replace

SCHEMA = json.loads((REPOSITORY / "docs" / "schema.json").read_text())

WITHOUT_JSON = {
    "admin-export": "its --format json writes JSON",
    "completion": "a shell reads its script",
    "export": "its --format jsonl writes JSON",
    "help": "its text is for people",
    "mcp": "it speaks MCP, which is JSON",
    "serve": "it answers clients, and logs in JSON",
}
"""The commands that have no --json, with the reasons."""


@dataclass(frozen=True)
class Case:
    """A command of `user`, and the name of its golden file.

    `before` holds commands of the same user to run first. With `answering`, Slurm judges jobs at once. `plain` removes
    facts of this machine from the JSON.
    """

    name: str
    argv: str
    user: str = "ada"
    exit_code: int = 0
    before: Sequence[str] = ()
    answering: bool = False
    form: str = "--json"
    settings: str = "hpc-board.yaml"
    plain: Callable[[Any], Any] = lambda value: value
    files_alone: str = ""
    """The reason for which the output of a served board differs."""


_TEXTS = "the service does not send the files of task"
_OWN_FILES = "the command works with the board's own settings and files"
_BY_ITSELF = "the service may have advanced the run before the command begins"
_ADVANCED = "a pass would send the runs of all users, and its answers are in the output"


def _shape_of_files(value: Any) -> Any:
    """Keep only the keys of the files: the judge's files change with each version."""
    return {**value, "files": [dict.fromkeys(value["files"][0], "...")]}


def _without_machine(value: Any) -> Any:
    """Remove the facts of this machine from a trial."""
    return {**value, "provenance": "..."}


def _without_secret(value: Any) -> Any:
    """Replace the secret of a link, and an end that is a month from now."""
    if isinstance(value, list):
        return list(map(_without_secret, value))
    return {**value, **{key: "..." for key in ("path", "until") if value.get(key)}}


_OF_THE_MACHINE = ("board", "file system", "locks", "space")


def _without_host(lines: Any) -> Any:
    """Keep the lines of `doctor` that are the same on every machine, without sizes and times."""
    kept = [line for line in lines if line["subject"] not in _OF_THE_MACHINE]
    for line in kept:
        if line["subject"] == "database" or " ms" in line["message"]:
            line["message"] = "..."
    return kept


CASES = (
    Case("submit", "submit kernel.py --note one"),
    Case("submit.several", "submit histogram.py other.py --task scan --gpu H100,A100 --mode benchmark --no-array"),
    Case("submit.array", "submit histogram.py other.py --task scan --gpu H100 --mode ranked --array"),
    Case("submit.wait", "submit kernel.py --wait", answering=True),
    Case("submit.dry-run", "submit kernel.py --dry-run"),
    Case("submit.dry-run-array", "submit histogram.py other.py --task scan --gpu H100 --array --dry-run"),
    Case("hold", "hold H100 --for 20m --idle 2m"),
    Case("hold.dry-run", "hold A100 --dry-run"),
    Case("release", "release", before=["hold H100"], files_alone=_BY_ITSELF),
    Case("list", "list", settings=BUNDLED),
    Case("gpus", "gpus"),
    Case("task-show", "task show scan"),
    Case("task-show.own-eval", "task show histo"),
    Case("task-show.created", "task course"),
    Case("task-check", "task check drafts/course"),
    Case("task-check.own-eval", "task check histo", files_alone=_TEXTS),
    Case(
        "task-test",
        "task test histo --submission histogram.py --mode benchmark",
        plain=_without_machine,
        files_alone=_TEXTS,
    ),
    Case("task-new", "task new mine --language py --language cu"),
    Case("task-import", "task import scaled.py -o imported"),
    Case("task-start", "task start scan mine --language py", files_alone="the service keeps the reference"),
    Case("eval-code", "eval-code", plain=_shape_of_files),
    Case("eval-code.own-eval", "eval-code histo", files_alone=_TEXTS),
    Case("show", "show scan"),
    Case("show.page", "show scan --gpu h100 --top 1 --from 2"),
    Case("show.all-runs", "show scan --all-runs"),
    Case("show.rank", "show scan --rank 2"),
    Case("show.versions", "show scan --versions"),
    Case("show.previous", "show scan --task-version previous"),
    Case("show.intervals", "show narrow"),
    Case("show.own-eval", "show histo"),
    Case("show.user", "show --user ada", files_alone=_ADVANCED),
    Case("show.own", "show scan --own"),
    Case("history", "history scan"),
    Case("history.user", "history scan --gpu H100 --user cyd --task-version previous"),
    Case("feed", "feed"),
    Case("feed.of-user", "feed scan --gpu H100 --user cyd --limit 2 --before 15"),
    Case("compare", "compare {first} {best}"),
    Case("compare.diff", "compare {best} {first} --gpu H100 --diff"),
    Case("compare.intervals", "compare {narrow_ada} {narrow_bob} --gpu CPU"),
    Case("experiment", "experiment bob/ cyd/ --task scan"),
    Case("runs", "runs", files_alone=_ADVANCED),
    Case("runs.all", "runs --all", "dean"),
    Case("runs.chosen", "runs --all --task scan --gpu H100 --mode ranked --state pass --note loop --limit 3"),
    Case("status", "status", files_alone=_ADVANCED),
    Case("cancel", "cancel {best}"),
    Case("runs.brief", "runs --all --limit 5", "dean", form="--json=brief"),
    Case("status.brief", "status", form="--json=brief", files_alone=_ADVANCED),
    Case("run.brief", "run {best}", form="--json=brief"),
    Case("run.brief-wrong", "run {wrong}", form="--json=brief"),
    Case("submit.brief", "submit kernel.py --wait", form="--json=brief", answering=True),
    Case("list.brief", "list", form="--json=brief"),
    Case("version.brief", "version", form="--json=brief"),
    Case("code", "code {best}"),
    Case("note", "note {best} another"),
    Case("template", "template scan --language py"),
    Case("version", "version"),
    Case("show.leaders", "show"),
    Case("run", "run {best}"),
    Case("run.samples", "run {best} --samples"),
    Case("run.intervals", "run {busy} --samples"),
    Case("run.own-eval", "run {histo_ada}"),
    Case("run.removed", "run {withdrawn}"),
    Case("run.rerun", "run {rerun}"),
    Case("run.tested", "run {tested}"),
    Case("run.profiled", "run {profiled}"),
    Case("run.wrong", "run {wrong}"),
    Case("run.uncompiled", "run {uncompiled}"),
    Case("run.interrupted", "run {timeout}"),
    Case("run.lost", "run {lost}"),
    Case("run.queued", "run {queued}"),
    Case("run.running", "run {running}"),
    Case("run.unconfirmed", "run {submitting}"),
    Case("watch", "watch {best}"),
    Case("watch.several", "watch {best} {wrong}", exit_code=1),
    Case("watch.expired", "watch {running} --timeout 0", exit_code=4),
    Case("create", "create another drafts/longer --deadline 2099-01-01 --gpu H100", "cyd"),
    Case(
        "create.dry-run", "create mine histo --deadline none --closed --member ada,@staff --show-code --dry-run", "cyd"
    ),
    Case("update", "update course --no-member bob --member eve --hide-code --reason less", "cyd"),
    Case("update.dry-run", "update course drafts/longer --dry-run", "cyd"),
    Case("update.history", "update open_sort --history"),
    Case("delete", "delete course --yes --reason over", "cyd"),
    Case("poll", "poll"),
    Case("poll.changed", "poll", before=["submit kernel.py"], answering=True, files_alone=_BY_ITSELF),
    Case("admin-init", "admin init new -o new.yaml", "dean", files_alone=_OWN_FILES),
    Case("admin-check", "admin check --no-job", "dean", files_alone=_OWN_FILES),
    Case("admin-check.job", "admin check H100", "dean", answering=True, files_alone=_OWN_FILES),
    Case("admin-doctor", "admin doctor", "dean", plain=_without_host, files_alone=_OWN_FILES),
    Case("admin-detect", "admin detect", "dean", files_alone=_OWN_FILES),
    Case("admin-backup", "admin backup saved.db", "dean"),
    Case("admin-prune", "admin prune --older-than 2020-01-01", "dean"),
    Case(
        "admin-restore",
        "admin restore saved.db --yes",
        "dean",
        before=["admin backup saved.db"],
        files_alone="the service has the database open and restores none",
    ),
    Case("admin-link", "admin link course projector", "dean", plain=_without_secret),
    Case("admin-links", "admin links", "dean", before=["admin link course projector"], plain=_without_secret),
    Case(
        "admin-unlink",
        "admin unlink course projector",
        "dean",
        before=["admin link course projector"],
        plain=_without_secret,
    ),
    Case("admin-ban", "admin ban cyd --reason floods --until 2099-01-01", "dean"),
    Case("admin-ban.again", "admin ban bob --reason floods", "dean", before=["admin ban bob --reason floods"]),
    Case("admin-unban", "admin unban eve", "dean"),
    Case("admin-stop", "admin stop --reason repairs", "dean"),
    Case("admin-start", "admin start", "dean"),
    Case("admin-remove", "admin remove {submission_best} {submission_first} --reason copied", "dean"),
    Case("admin-readmit", "admin readmit {submission_withdrawn}", "dean"),
    Case("admin-limit", "admin limit histo --ranked 0", "dean"),
    Case("admin-limit.gpu-time", "admin limit --gpu-seconds none", "dean"),
    Case("admin-limits", "admin limits"),
    Case("admin-bans", "admin bans", "dean"),
    Case("admin-log", "admin log", "dean"),
    Case("admin-log.chosen", "admin log --board scan --user ada --limit 3", "dean"),
    Case("admin-rerun", "admin rerun scan --gpu H100", "dean"),
    Case("admin-rerun.dry-run", "admin rerun scan --dry-run", "dean"),
    Case("admin-milestones", "admin milestones scan", "dean"),
    Case(
        "show.competition",
        "show --competition beginner",
        "dean",
        before=("admin sync competition --problem-set beginner --force",),
    ),
    Case("admin-grades", "admin grades --task scan --points pass:20,1x:50,2x:80", "dean"),
    Case("admin-copies", "admin copies --task scan --share 0", "dean"),
    Case("admin-stats", "admin stats", "dean"),
    Case(
        "admin-stats.of-task", "admin stats --task scan --days 1", "dean", plain=lambda value: {**value, "since": "..."}
    ),
    Case("admin-sync", "admin sync competition --problem-set beginner --force", "dean"),
    Case("admin-sync.skipped", "admin sync competition/beginner.yaml --dry-run", "dean", exit_code=5),
    Case("admin-sync.faulty", "admin sync competition/faulty.yaml", "dean", exit_code=2),
)


@cache
def validators() -> dict[str, Any]:
    """The validators of the schema by command."""
    checked = importlib.import_module("jsonschema").Draft202012Validator
    checked.check_schema(SCHEMA)
    names = {words for names, _, _ in (*PRINTED, *BRIEF) for words in names}
    return {"-".join(words.split()): checked({**SCHEMA, "$ref": f"#/$defs/{words}"}) for words in names}


def is_documented(command: str, printed: Any) -> bool:
    """Return whether the value has one of the types that the table of JSON names for the command."""
    types = [type_ for names, type_, _ in (*PRINTED, *BRIEF) if command in {"-".join(words.split()) for words in names}]
    for each in types:
        try:
            msgspec.convert(printed, each)
        except msgspec.ValidationError:
            continue
        return True
    return False


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_json_of_a_command_is_what_it_was(golden: Golden, board: GoldenBoard, case: Case) -> None:
    opened = replace(board, settings=case.settings)
    if case.answering:
        board.slurm.answering()
    for argv in case.before:
        opened.run(case.user, *argv.split())
    done = opened.run(case.user, *case.argv.split(), case.form)
    assert done.exit_code == case.exit_code, done.stderr
    printed = json.loads(done.stdout)
    command = case.name.partition(".")[0]
    assert is_documented(command, printed)
    validators()[command].validate(printed)
    value = case.plain(printed)
    golden.check(
        f"json/{case.name}.json",
        normal(f"{json.dumps(value, indent=2)}\n", board.folder),
        served=board.served is not None,
    )


def test_the_json_of_each_verdict_is_what_it_was(golden: Golden, board: GoldenBoard) -> None:
    found = {}
    for verdict in VERDICTS:
        run = json.loads(board.run("bob", "run", f"{{verdict_{verdict}}}", "--json").stdout)
        found[verdict] = {key: run[key] for key in ("state", "verdict", "score_s", "rank", "message", "reason")}
    golden.check(
        "json/run.verdicts.json",
        normal(f"{json.dumps(found, indent=2)}\n", board.folder),
        served=board.served is not None,
    )


def test_every_command_prints_json_or_has_a_reason_not_to() -> None:
    silent = {
        "-".join(words)
        for words, command in commands().items()
        if not isinstance(command, click.Group)
        and not any(isinstance(each, click.Option) and "--json" in each.opts for each in command.params)
    }
    assert silent == set(WITHOUT_JSON)


def test_every_command_that_prints_json_has_a_golden_file_and_no_file_is_left_over() -> None:
    printing = {
        "-".join(words)
        for words, command in commands().items()
        if any(isinstance(each, click.Option) and "--json" in each.opts for each in command.params)
    }
    stored = {file.stem for file in Path(FOLDER, "json").glob("*.json")}
    assert {name.partition(".")[0] for name in stored} == printing
    assert stored == {case.name for case in CASES} | {"run.verdicts"}
    assert {"-".join(words.split()) for names, _, _ in PRINTED for words in names} == printing
