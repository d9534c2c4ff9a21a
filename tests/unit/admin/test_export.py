"""`admin export`: every run as CSV, JSON and Parquet, whole files, and nothing in them that a spreadsheet computes."""

import csv
import getpass
import io
import json
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jinja2
import pytest
from click.testing import CliRunner, Result

from hpc_board.admin.export import write_csv
from hpc_board.admin.export.columns import (
    COLUMNS as TABLE_COLUMNS,
)
from hpc_board.admin.export.columns import (
    CaseColumns,
    OutputColumns,
    RunColumns,
    SampleColumns,
    kinds_of,
)
from hpc_board.board import Board
from hpc_board.catalog.sources import read_imports
from hpc_board.cli.main import cli
from hpc_board.domain.board_options import RequestedOptions
from hpc_board.domain.export import FORMATS, OVERALL, TABLES
from hpc_board.domain.imported import Imported
from hpc_board.domain.moderation import Rerun
from hpc_board.domain.run import RunState
from hpc_board.domain.score_interval import Interval
from hpc_board.domain.standing import Mark, MarkKind, Page, Record, Standing
from hpc_board.errors import InputError
from hpc_board.files import write_new_folder
from hpc_board.model.kernels import Kernel
from hpc_board.model.result import Case, Log, Verdict
from hpc_board.model.task import Mode
from hpc_board.report.histories import records_plot, records_span
from hpc_board.store import Store
from hpc_board.store.export import ExportGateway, RunSelection
from hpc_board.store.submissions import NewRun, NewSubmission
from hpc_board.web.plots import svg
from hpc_board.web.rendering import template
from hpc_board.web.standings import rows
from tests.unit.recorded import AT, KERNEL, REPOSITORY, Recorded, result_of, row_case, status_of, timed_case
from tests.values import created, replace

COLUMNS = kinds_of(RunColumns)
FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\uff1d1+1", "'=1", "'")


def call(board: Recorded, *argv: str | Path) -> Result:
    return CliRunner().invoke(cli, ["admin", "export", *map(str, argv)], obj=lambda: board.board)


def passed(board: Recorded, score_s: float, **more: Any) -> int:
    return board.add(result=result_of(Verdict.PASS, timed_case()), score_s=score_s, **more).id


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_every_run_is_a_row_with_its_times_and_its_rank(board: Recorded) -> None:
    running = replace(status_of(RunState.RUNNING), at=AT + timedelta(seconds=30))
    passed(board, 2e-3, user="ada")
    board.add(running, result=result_of(Verdict.PASS, timed_case()), score_s=1e-3, user="bob")
    board.add(result=result_of(Verdict.WRONG_VALUE, message="element 3\ndiffers"), mode=Mode.TEST, user="ada")
    board.add(status_of(RunState.QUEUED), user="eve")
    rows = read_csv(call(board, "--format", "csv").stdout)

    assert [row["run"] for row in rows] == ["1", "2", "3", "4"]
    assert [row["rank"] for row in rows] == ["2", "1", "", ""]
    assert [row["verdict"] for row in rows] == ["pass", "pass", "wrong_value", ""]
    assert [RunState(row["state"]).ended for row in rows] == [True, True, True, False]
    second = rows[1]
    assert (second["score_s"], second["waited_s"], second["ran_s"]) == ("0.001", "30.0", "0.0")
    assert second["submitted_at"] == "2026-05-01T12:00:00.000000Z"
    assert second["started_at"] == "2026-05-01T12:00:30.000000Z"
    assert second["ended_at"] == "2026-05-01T12:00:09.000000Z"
    assert rows[0]["started_at"] == rows[0]["waited_s"] == rows[3]["ended_at"] == ""
    assert rows[2]["message"] == "element 3 differs"
    assert rows[3]["emulated"] == "false"


def test_results_of_a_definition_are_exported_as_traces(board: Recorded) -> None:
    definition = {
        "name": "rows_k4",
        "axes": {"M": {"type": "var"}, "K": {"type": "const", "value": 4}},
        "inputs": {"x": {"shape": ["M", "K"], "dtype": "float32"}, "eps": {"shape": None, "dtype": "float32"}},
        "outputs": {"y": {"shape": ["M", "K"], "dtype": "float32"}},
        "reference": "def run(x, eps):\n    return x\n",
    }
    source = board.folder / "rows"
    source.mkdir()
    (source / "definition.json").write_text(json.dumps(definition))
    workload = {
        "uuid": "a",
        "axes": {"M": 3},
        "inputs": {"x": {"type": "random"}, "eps": {"type": "scalar", "value": 2}},
    }
    (source / "workload.jsonl").write_text(json.dumps(workload))
    (found,) = read_imports(source)
    assert isinstance(found, Imported)
    write_new_folder(board.folder / "tasks" / found.name, found.files)
    passed(board, 1e-3)
    empty = call(board, "--format", "traces", "-o", board.folder / "traces.jsonl")
    assert "Only runs of tasks that were imported from FlashInfer Trace have traces." in empty.stderr
    passed(board, 2e-3, task="rows_k4")
    board.add(result=result_of(Verdict.PASS, row_case()), score_s=2.1e-3, task="rows_k4")
    hostile = {"name": 1, "axes": [], "inputs": [], "outputs": [], "reference": ""}
    files = {**found.files, "definition.json": json.dumps(hostile)}
    write_new_folder(board.folder / "tasks" / "hostile", files)
    passed(board, 2e-3, task="hostile")
    told = "too small in kernel.py at /home/{}/k"
    wrong = Case("test", 0, "M: 3", Verdict.WRONG_SHAPE, told.format(getpass.getuser()))
    board.add(result=result_of(Verdict.WRONG_SHAPE, wrong), task="rows_k4", mode=Mode.TEST)
    board.add(result=result_of(Verdict.INFRA_ERROR), task="rows_k4")
    right, refused = [json.loads(line) for line in call(board, "--format", "traces").stdout.splitlines()]

    assert (right["definition"], right["solution"]) == ("rows_k4", "submission-3")
    assert right["workload"]["axes"] == {"M": 3}
    assert right["workload"]["inputs"] == {"x": {"type": "random"}, "eps": {"type": "scalar", "value": 2}}
    evaluation = right["evaluation"]
    assert (evaluation["status"], evaluation["environment"]["hardware"]) == ("PASSED", "CPU")
    assert evaluation["performance"] == pytest.approx(
        {"latency_ms": 2.1, "reference_latency_ms": 7.14, "speedup_factor": 3.4}
    )
    assert refused["evaluation"]["status"] == "INCORRECT_SHAPE"
    assert (refused["evaluation"]["correctness"], refused["evaluation"]["performance"]) == (None, None)
    assert refused["evaluation"]["log"] == told.format(getpass.getuser())
    *_, anonymous = call(board, "--format", "traces", "--anonymous").stdout.splitlines()
    log = json.loads(anonymous)["evaluation"]["log"]
    assert re.fullmatch(r"too small in submission\.py at /home/user-[0-9a-f]{8}/k", log)


def remarked(board: Recorded) -> tuple[int, int]:
    """A submission with notes that was removed, and a rerun of it, which is ranked."""
    opened, first = board.board, passed(board, 2e-3)
    store = Store(opened.settings.board / "board.db")
    for text in ("four values per thread", "=1+1, no conflicts"):
        opened.submissions.note(first, text)
    opened.moderation.remove([first], "returns what an earlier call computed")
    run = NewRun("CPU", "here", "", "hb-again", "nonce", "verified", False, "")
    again = NewSubmission(
        opened.tasks.get("vectoradd_py"), "ada", "kernel.py", KERNEL.encode(), Mode.RANKED, "<b>", AT, [run],
        rerun=Rerun(first, "root<", AT),
    )  # fmt: skip
    ((_, (sent,)),) = store.submissions.add_all([again], sender=None)
    result = replace(result_of(Verdict.PASS, timed_case()), run=sent.id)
    store.runs.finish(sent.id, status_of(RunState.FINISHED), result, 1e-3)
    return first, sent.id


def test_notes_removals_and_reruns_are_in_every_format(board: Recorded) -> None:
    first, again = remarked(board)
    notes = ["four values per thread", "=1+1, no conflicts"]
    removed, rerun = read_csv(call(board, "--format", "csv").stdout)
    assert json.loads(removed["notes"]) == notes
    assert (removed["removed"], removed["removed_reason"]) == ("true", "returns what an earlier call computed")
    assert (removed["removed_by"], removed["removed_at"][-1]) == (board.board.user, "Z")
    assert (removed["rerun_of"], rerun["rerun_of"], rerun["rerun_by"]) == ("", str(first), "root<")
    assert (rerun["notes"], rerun["removed_by"]) == ('["<b>"]', "")

    in_json, _ = json.loads(call(board, "--format", "json").stdout)["runs"]
    assert in_json["notes"] == notes
    assert in_json["removed_reason"] == "returns what an earlier call computed"

    board.board.submissions.note(first, "unseen")
    page = call(board, "--format", "html").stdout
    assert "rerun by root&lt;" in page
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert f'data-key="{again}"' in page
    assert "unseen" not in page


@pytest.mark.parametrize("text", FORMULAS)
def test_no_text_is_a_formula_and_each_can_be_read_again(board: Recorded, text: str) -> None:
    passed(board, 1e-3, file_name=text, user=text)
    (row,) = read_csv(call(board, "--format", "csv").stdout)
    for name in ("file_name", "user"):
        assert row[name] == f"'{text}"
        assert row[name].removeprefix("'") == text


def test_spaces_before_a_formula_hide_it_from_nobody(board: Recorded) -> None:
    passed(board, 1e-3, code=b"\n =1+1")
    (row,) = read_csv(call(board, "--format", "csv", "--with-code").stdout)
    assert row["code"] == "'\n =1+1"


@pytest.mark.parametrize("text", ["\ufeff=1", "\u200b+1", " \u2060@SUM(A1)"])
def test_invisible_characters_before_a_formula_hide_it_from_nobody(text: str) -> None:
    sink = io.BytesIO()
    write_csv(sink, [("name",), (text,)])
    assert sink.getvalue().decode() == f"name\n'{text}\n"


def test_numbers_are_no_formulas(board: Recorded) -> None:
    passed(board, 1e-7)
    (row,) = read_csv(call(board, "--format", "csv").stdout)
    assert float(row["score_s"]) == 1e-7


def test_hostile_texts_stay_in_their_cells(board: Recorded) -> None:
    name = 'a",\n\x1b[31m=b\u202e\x01.py'
    passed(board, 1e-3, file_name=name, user="véra; ,")
    done = call(board, "--format", "csv")
    (row,) = read_csv(done.stdout)
    assert row["file_name"] == 'a", =b··.py'
    assert row["user"] == "véra; ,"
    assert "\x1b" not in done.stdout


def test_json_has_the_standings_and_the_same_rows(board: Recorded) -> None:
    passed(board, 2e-3, user="ada", file_name="=1")
    passed(board, 1e-3, user="bob", gpu="H100")
    text = call(board, "--format", "json").stdout
    found = json.loads(text)
    assert text.isascii()
    assert (found["format"], found["tasks"], found["since"]) == ("hpc-board export 1", [], None)
    assert [(each["task"], each["gpu"]) for each in found["boards"]] == [
        ("vectoradd_py", "CPU"),
        ("vectoradd_py", "H100"),
    ]
    assert [(row["user"], row["rank"], row["run"]) for each in found["boards"] for row in each["rows"]] == [
        ("ada", 1, 1),
        ("bob", 1, 2),
    ]
    assert [(row["file_name"], row["rank"]) for row in found["runs"]] == [("=1", 1), ("kernel.py", 1)]
    rows = read_csv(call(board, "--format", "csv").stdout)
    assert [list(row) for row in found["runs"]] == [list(row) for row in rows] == [[*COLUMNS]] * 2
    assert found["runs"][0]["waited_s"] is None


def test_the_submitted_files_come_where_they_are_asked_for(board: Recorded) -> None:
    passed(board, 1e-3)
    passed(board, 1e-3, code=b"=cmd\n\xff\n")
    assert "code" not in json.loads(call(board, "--format", "json").stdout)["runs"][0]
    found = json.loads(call(board, "--format", "json", "--with-code").stdout)
    assert [row["code"] for row in found["runs"]] == [KERNEL, "=cmd\n\N{REPLACEMENT CHARACTER}\n"]
    rows = read_csv(call(board, "--format", "csv", "--with-code").stdout)
    assert rows[1]["code"] == "'=cmd\n\N{REPLACEMENT CHARACTER}\n"


def numbers(done: Result) -> list[int]:
    assert done.exit_code == 0, done.output
    return [row["run"] for row in json.loads(done.stdout)["runs"]]


def test_runs_are_chosen_by_task_gpu_and_moment(board: Recorded) -> None:
    passed(board, 1e-3)
    passed(board, 1e-3, gpu="H100")
    assert numbers(call(board, "--format", "json", "--gpu", "h100")) == [2]
    assert numbers(call(board, "--format", "json", "--gpu", "CPU,H100")) == [1, 2]
    assert numbers(call(board, "--format", "json", "--task", "vectoradd_py")) == [1, 2]
    assert numbers(call(board, "--format", "json", "--task", "narrow")) == []
    assert numbers(call(board, "--format", "json", "--since", "2026-05-01")) == [1, 2]
    assert numbers(call(board, "--format", "json", "--since", "2026-05-01T14:00+02:00")) == [1, 2]
    assert numbers(call(board, "--format", "json", "--since", "2026-05-01T12:00:01")) == []
    days = (datetime.now(UTC) - AT).days
    assert numbers(call(board, "--format", "json", "--since", f"{days + 1}d")) == [1, 2]
    assert numbers(call(board, "--format", "json", "--since", f"{days - 1}d")) == []


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--format", "csv", "--task", "vectorad_py"), "vectoradd_py"),
        (("--format", "csv", "--gpu", "H10"), "H100"),
        (("--format", "csv", "--since", "yesterday"), "is not a valid time. Use a date"),
        (("--format", "csv", "--since", "999999w"), "is not a valid time"),
        (("--format", "xls"), "'csv', 'jsonl', 'parquet', 'traces', 'json', 'html'"),
        (("--format", "html", "--with-code"), "the format html has the standings of all users"),
        (("--format", "html", "--since", "1d"), "the format html has the standings of all users"),
    ],
)
def test_what_cannot_be_exported_is_refused_with_a_hint(board: Recorded, argv: Sequence[str], words: str) -> None:
    done = call(board, *argv, "-o", board.folder / "out")
    assert done.exit_code == 2
    assert words in done.output
    assert not (board.folder / "out").exists()


def test_a_file_is_written_whole_and_replaced_only_by_force(board: Recorded) -> None:
    passed(board, 1e-3)
    target = board.folder / "runs.csv"
    done = call(board, "--format", "csv", "-o", target)
    assert done.exit_code == 0, done.output
    assert f"{target} has 1 run." in done.stderr
    before = target.read_text(encoding="utf-8")
    passed(board, 1e-3)
    done = call(board, "--format", "csv", "-o", target)
    assert (done.exit_code, target.read_text(encoding="utf-8")) == (2, before)
    assert "--force to overwrite it" in done.stderr
    assert call(board, "--format", "csv", "-o", target, "--force").exit_code == 0
    assert len(read_csv(target.read_text(encoding="utf-8"))) == 2
    done = call(board, "--format", "json", "-o", board.folder / "all.json")
    assert "all.json has 2 runs and 1 board." in done.stderr


def test_an_export_that_fails_halfway_leaves_what_was_there(board: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    passed(board, 1e-3)
    target = board.folder / "runs.csv"
    target.write_text("before")
    whole = ExportGateway.runs

    def broken(self: ExportGateway, chosen: RunSelection, **options: bool) -> Any:
        yield from whole(self, chosen, **options)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ExportGateway, "runs", broken)
    done = call(board, "--format", "csv", "-o", target, "--force")
    assert (done.exit_code, target.read_text()) == (2, "before")
    assert "cannot be written: No space left on device" in done.stderr
    assert [path.name for path in board.folder.iterdir() if path.name.startswith(".runs")] == []


def test_a_value_that_cannot_be_decoded_is_reported_as_damage(board: Recorded) -> None:
    board.board.submissions.note(board.add(status_of(RunState.CANCELLED)).submission, "a note")
    with closing(sqlite3.connect(board.folder / "board" / "board.db")) as db, db:
        for table in ("remarks", "submissions"):
            db.execute(f"DROP TRIGGER {table}_stay")
        db.execute("PRAGMA ignore_check_constraints = ON")
        db.execute("UPDATE remarks SET at = 'yesterday'")
        db.execute("UPDATE submissions SET submitted_at = 'yesterday'")
    done = CliRunner().invoke(cli, ["admin", "export", "--format", "csv"], obj=lambda: board.board)
    assert done.exit_code == 2, done.output
    assert "the database is damaged (" in " ".join(done.stderr.split())


def test_only_admins_export(board: Recorded) -> None:
    passed(board, 1e-3)
    stranger = Board(board.board.settings, user="nobody")
    done = CliRunner().invoke(cli, ["admin", "export", "--format", "csv"], obj=lambda: stranger)
    assert (done.exit_code, done.stdout) == (5, "")
    assert "you may not export the board: this requires the role admin" in done.stderr


def test_parquet_has_the_same_rows_with_types(board: Recorded) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    passed(board, 2e-3, user="ada", file_name="=1")
    board.add(status_of(RunState.RUNNING), user="bob")
    target = board.folder / "runs.parquet"
    done = call(board, "--format", "parquet", "-o", target, "--with-code")
    assert done.exit_code == 0, done.output
    table = parquet.read_table(target)
    assert table.column_names == [*COLUMNS, "code"]
    first, second = table.to_pylist()
    assert (first["file_name"], first["rank"], first["score_s"], first["code"]) == ("=1", 1, 2e-3, KERNEL)
    assert first["submitted_at"] == AT
    assert (second["rank"], second["ended_at"], second["started_at"]) == (None, None, AT)
    assert str(table.schema.field("submitted_at").type) == "timestamp[us, tz=UTC]"


def test_without_pyarrow_parquet_says_what_to_install(board: Recorded) -> None:
    passed(board, 1e-3)
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import importlib.util as util; found = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'pyarrow' else found(name, *rest)\n"
        "from hpc_board.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "admin", "export", "--format", "parquet", "-o", "runs.parquet"],
        cwd=board.folder,
        env=board.environ(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "pip install 'hpc-board[parquet]'" in done.stderr
    assert not (board.folder / "runs.parquet").exists()


def html(board: Recorded) -> str:
    done = call(board, "--format", "html")
    assert done.exit_code == 0, done.output
    return done.stdout


def lines(page: str) -> list[str]:
    """The rows of the first table, each as the texts of its first three cells."""
    table = page.partition("<tbody>")[2].partition("</tbody>")[0]
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row)[:3] for row in table.splitlines() if row.startswith("<tr")]
    return [" ".join(re.sub(r"<[^>]+>", " ", cell).strip() for cell in row).strip() for row in rows]


def test_the_page_has_the_reference_where_its_time_belongs(board: Recorded) -> None:
    case = timed_case(time_ns=2_000_000)
    assert case.timing is not None
    slow = replace(case, timing=replace(case.timing, reference_ns=4_000_000.0))
    board.add(result=result_of(Verdict.PASS, slow), score_s=2e-3, user="ada")
    passed(board, 6e-3, user="bob")
    page = html(board)
    assert "2 users, best 2.00 ms, 2.00x as fast as the reference" in page
    assert lines(page) == ["1 ada kernel.py 2.00 ms", "reference 4.00 ms", "2 bob kernel.py 6.00 ms"]


def test_the_page_has_the_scores_of_users_with_several_runs(board: Recorded) -> None:
    for user, score_s in (("ada", 2e-3), ("ada", 1e-3), ("bob", 3e-3)):
        board.add(result=result_of(Verdict.PASS, timed_case()), score_s=score_s, user=user)
    page = html(board)
    assert page.count("<figcaption>Scores of ") == 1
    assert "<figcaption>Scores of ada by submission</figcaption><svg" in page


def test_intervals_and_overlaps_are_in_every_format(board: Recorded) -> None:
    for user, low_s, score_s, high_s, busy in (("ada", 1.9, 2.1, 2.4, 0.8), ("bob", 2.2, 2.3, 2.31, 0.0)):
        interval = Interval(low_s / 1e3, high_s / 1e3)
        result = result_of(Verdict.PASS, row_case(busy=0.1), row_case(1, busy=busy))
        board.add(result=result, score_s=score_s / 1e3, interval=interval, user=user)
    passed(board, 9e-3, user="cyd")
    passed(board, 9e-3, user="cyd")

    rows = read_csv(call(board, "--format", "csv").stdout)
    names = ("score_low_s", "score_high_s", "overlaps_above", "busy_processors")
    assert [[row[name] for name in names] for row in rows] == [
        ["0.0019", "0.0024", "false", "0.8"],
        ["0.0022", "0.00231", "true", "0.1"],
        ["", "", "false", "0.0"],
        ["", "", "", "0.0"],
    ]
    told = json.loads(call(board, "--format", "json").stdout)
    assert [row["overlaps_above"] for row in told["boards"][0]["rows"]] == [False, True, False]
    assert [row["score_high_s"] for row in told["boards"][0]["rows"]] == [0.0024, 0.00231, None]
    assert [run["overlaps_above"] for run in told["runs"]] == [False, True, False, None]

    page = html(board)
    assert lines(page)[:2] == ["1 ada kernel.py 2.10 ms 1.90 to 2.40 ms", "~2 bob kernel.py 2.30 ms"]
    assert page.count("~ is a statistical tie with the row above: the intervals overlap.") == 1


def test_the_page_says_what_a_task_is_about(board: Recorded) -> None:
    opened = board.board
    task = opened.runs.get(passed(board, 6e-3)).task
    shutil.copytree(REPOSITORY / "tasks", board.folder / "told")
    folder = board.folder / "told" / task
    described = (
        (folder / "task.yml").read_text().replace("description: |\n", "description: |\n  `a<b>` and ` odd.\n\n", 1)
    )
    (folder / "task.yml").write_text(described)
    created(opened, str(folder), task, RequestedOptions(deadline="2100-01-01 12:00"))
    page = html(board)
    assert '<p class="quiet"><code>a&lt;b&gt;</code> and ` odd.</p>' in page
    assert '<p class="quiet">Deadline: 2100-01-01 12:00 UTC</p>' in page


def test_a_closed_board_is_on_the_page_only_where_it_is_named(board: Recorded) -> None:
    number = passed(board, 6e-3, user="bob")
    assert ">bob<" in html(board)
    opened = board.board
    task = opened.runs.get(number).task
    created(opened, task, None, RequestedOptions(closed=True))
    assert "bob" not in html(board)
    target = board.folder / "boards.html"
    without = call(board, "--format", "html", "-o", target)
    assert "boards.html has 0 boards." in without.stderr
    assert "Not included: 1 closed board with results; --task TASK adds one." in without.stderr
    named = call(board, "--format", "html", "--task", task, "-o", target, "--force")
    assert (named.exit_code, ">bob<" in target.read_text(), "It lacks" in named.stderr) == (0, True, False)


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_with_runs_is_for_its_writer_alone_and_the_page_is_public(board: Recorded, form: str) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    passed(board, 1e-3)
    target = board.folder / f"out.{form}"
    former = os.umask(0o022)
    try:
        done = call(board, "--format", form, "-o", target)
    finally:
        os.umask(former)
    assert done.exit_code == 0, done.output
    assert stat.S_IMODE(target.stat().st_mode) == (0o644 if form == "html" else 0o600)


def test_what_has_no_rank_is_between_the_ranks() -> None:
    def standing(rank: int, score_s: float) -> Standing:
        return Standing(rank, f"user{rank}", score_s, rank, rank, AT, "k.py", "self-run", "ada")

    marks = (
        Mark(MarkKind.MILESTONE, "best", 1e-3, 7, 7, AT, "m.py"),
        Mark(MarkKind.MILESTONE, "naive", 9e-3, 8, 8, AT, "m.py"),
    )
    found = Page("CPU", "v", (standing(1, 2e-3), standing(2, 3e-3)), 2, milestones=marks)
    assert [row.run for row in rows(found)] == [7, 1, 2, 8]
    # A mark that is slower than all shown rows may be faster than the others.
    assert len(list(rows(replace(found, total=3)))) == 3


def test_a_template_without_one_of_its_values_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError, match="'style' is undefined"):
        template("plot.svg").render()


def test_a_task_that_changed_or_left_is_on_the_page_as_it_is_now_or_was_last(board: Recorded) -> None:
    passed(board, 1e-3, user="ada")
    task = board.board.tasks.get("vectoradd_py")
    run = NewRun("CPU", "here", "", "token", "nonce", "self-run", False, "")
    store = Store(board.board.settings.board / "board.db")
    for name, size, user in (("vectoradd_py", 1, "bob"), ("gone", 1, "eve"), ("gone", 2, "eva")):
        _, (added,) = store.submissions.add(
            NewSubmission(
                task=replace(task, name=name, benchmarks=({"size": size, "seed": 1},)),
                user=user,
                file_name="k.py",
                code=b"",
                mode=Mode.RANKED,
                note="",
                at=AT + timedelta(days=size),
                runs=[replace(run, token=f"{name}-{size}")],
            ),
            sender=None,
        )
        result = replace(result_of(Verdict.PASS, timed_case()), run=added.id)
        assert store.runs.finish(added.id, status_of(RunState.FINISHED), result, 1e-3)
    page = html(board)
    assert ("ada" in page, "bob" in page, "eva" in page, "eve" in page) == (True, False, True, False)
    assert page.count("This task no longer accepts submissions.") == 1


def day(number: int, score_s: float, user: str = "ada") -> Record:
    return Record(datetime(2026, 5, number, tzinfo=UTC), user, score_s, number)


def test_a_chart_of_records_says_in_words_what_it_draws() -> None:
    records = [day(1, 2e-3), day(5, 1e-3, '"><script>')]
    drawn = svg(records_plot(records, records_span([records], datetime(2026, 5, 11, tzinfo=UTC)), UTC))
    assert 'aria-label="Best time: 2.00 ms on 2026-05-01, 1.00 ms since 2026-05-05"' in drawn
    assert "<script>" not in drawn
    path = re.search(r'class="steps good" d="M([\d.]+) ([\d.]+)H([\d.]+)V([\d.]+)H([\d.]+)', drawn)
    assert path is not None
    left, top, step, bottom, right = map(float, path.groups())
    assert top < bottom
    assert (step - left) / (right - left) == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize(("first", "last"), [(2e-3, 1.9999e-3), (5.0, 1e-9)])
def test_a_chart_of_any_range_has_its_ticks_in_order(first: float, last: float) -> None:
    records = [day(1, first), day(5, last)]
    drawn = svg(records_plot(records, records_span([records], datetime(2026, 5, 5, tzinfo=UTC)), UTC))
    heights = [float(y) for y in re.findall(r'class="grid"[^>]*y1="([\d.]+)"', drawn)]
    assert 1 <= len(heights) <= 10
    assert heights == sorted(heights, reverse=True)
    assert all(12 <= height <= 146 for height in heights)


# Other tables, and exports of users


def table(board: Recorded, *argv: str, own: str | None = None) -> list[dict[str, Any]]:
    """Return the rows of an export as JSON Lines, of all runs or of those of the user `own`."""
    opened = board.board if own is None else Board(board.board.settings, user=own)
    words = (
        ["export", "--format", "jsonl", *argv] if own is not None else ["admin", "export", "--format", "jsonl", *argv]
    )
    done = CliRunner().invoke(cli, words, obj=lambda: opened)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_json_lines_have_the_same_rows_as_json(board: Recorded) -> None:
    passed(board, 2e-3, user="ada")
    board.add(status_of(RunState.RUNNING), user="bob")
    assert table(board) == json.loads(call(board, "--format", "json").stdout)["runs"]


def test_a_case_is_a_row_with_its_times_and_its_message(board: Recorded) -> None:
    wrong = Case("test", 1, "size: 2", Verdict.WRONG_VALUE, "at [0]\nexpected 1")
    board.add(result=result_of(Verdict.WRONG_VALUE, row_case(busy=0.4), wrong), user="ada")
    board.add(status_of(RunState.RUNNING))
    first, second = table(board, "--what", "cases")
    assert (first["run"], first["phase"], first["index"], first["spec"]) == (1, "benchmark", 0, "size: 1024")
    assert (first["low_ns"], first["high_ns"], first["busy_processors"]) == (1.9e6, 2.4e6, 0.4)
    assert first["speedup"] == pytest.approx(3.4)
    assert (second["verdict"], second["message"], second["mean_ns"]) == ("wrong_value", "at [0]\nexpected 1", None)
    assert list(second) == list(kinds_of(CaseColumns))


def test_a_sample_is_a_row_with_its_process(board: Recorded) -> None:
    passed(board, 1e-3)
    board.add(result=result_of(Verdict.PASS, row_case(), Case("test", 0, "size: 1", Verdict.PASS)), user="ada")
    rows = table(board, "--what", "samples")
    assert [row["time_ns"] for row in rows] == [12_240.0, 12_340.0, 15_340.0, 1.9e6, 2.1e6, 2.4e6]
    assert [row["process"] for row in rows] == [0, 0, 0, 0, 1, 2]
    assert [row["sample"] for row in rows] == [0, 1, 2, 0, 1, 2]
    assert {tuple(row) for row in rows} == {tuple(kinds_of(SampleColumns))}


def test_the_text_of_a_task_is_a_row_for_each_version_with_runs(board: Recorded) -> None:
    passed(board, 1e-3, user="ada")
    passed(board, 1e-3, user="bob")
    (row,) = table(board, "--what", "tasks")
    task = board.board.tasks.get("vectoradd_py")
    assert (row["task"], row["task_version"], row["description"]) == (task.name, task.version, task.description)
    assert "def ref_kernel" in row["reference"]
    assert json.loads(row["benchmarks"])[0] == task.benchmarks[0]
    assert table(board, "--what", "tasks", "--task", "narrow") == []
    (own,) = table(board, "--what", "tasks", own="bob")
    assert own == {**row, "reference": None}
    assert table(board, "--what", "tasks", own="eve") == []


def output(board: Recorded, user: str) -> int:
    """Store a run whose output has the name of its user in paths."""
    kernel = Kernel(0, "add", 1, 12.0, stalls=(("barrier", 2.0),))
    facts = {"host": "n1", "cpu": "EPYC", "compiler": f"/home/{user}/bin/nvcc"}
    result = result_of(
        Verdict.PASS, timed_case(), stdout=f"\x1b[31mread /scratch/{user}/x by {user}\n", message=f"/{user}"
    )
    build = Log(f"/home/{user}/kernel.cu:1: unused\n", "end", 7)
    whole = replace(result, build=build, kernels=(kernel,), provenance=facts)
    return board.add(result=whole, user=user, code=KERNEL.encode()).id


def test_the_output_of_a_run_comes_with_its_metrics_and_facts(board: Recorded) -> None:
    output(board, "ada")
    board.add(status_of(RunState.QUEUED))
    assert "build" not in table(board)[0]
    first, second = table(board, "--with-output")
    assert first["build"] == "/home/ada/kernel.cu:1: unused\n\n[... 7 bytes left out ...]\nend"
    assert first["stdout"] == "read /scratch/ada/x by ada\n"
    (kernel,) = json.loads(first["kernels"])
    assert (kernel["name"], kernel["stalls"]) == ("add", {"barrier": 2.0})
    assert json.loads(first["provenance"])["cpu"] == "EPYC"
    assert [second[name] for name in kinds_of(OutputColumns)] == [None] * 7


def test_an_older_result_lacks_the_younger_parts(board: Recorded) -> None:
    output(board, "ada")
    with closing(sqlite3.connect(board.folder / "board" / "board.db")) as db, db:
        db.execute("DROP TRIGGER documents_stay")
        db.execute("UPDATE documents SET document = json_remove(document, '$.kernels', '$.build')")
    (row,) = table(board, "--with-output")
    assert (row["kernels"], row["build"], row["stdout"] is None) == (None, None, False)


def test_an_anonymous_export_names_nobody(board: Recorded) -> None:
    first, _ = remarked(board)
    output(board, "ada")
    output(board, "véra")
    crash = Case("test", 0, "size: 1", Verdict.CRASH, "killed at kernel.py:9 in custom_kernel")
    board.add(result=result_of(Verdict.CRASH, crash, message=crash.message), user="véra")
    rows = table(board, "--anonymous", "--with-output")
    text = json.dumps(rows, ensure_ascii=False)
    users = [row["user"] for row in rows]
    assert [users.index(user) for user in users] == [0, 1, 1, 3, 3]
    assert all(re.fullmatch("user-[0-9a-f]{8}", user) for user in users)
    assert [row["user"] for row in table(board, "--anonymous")] == users
    assert [
        word for word in ("/véra", "/ada", "root", "n1", "kernel.py", "four values", "computed") if word in text
    ] == []
    assert rows[3]["stdout"] == f"read /scratch/{users[3]}/x by véra\n"
    assert json.loads(rows[3]["provenance"])["compiler"] == f"/home/{users[3]}/bin/nvcc"
    assert rows[4]["message"] == "killed at submission.py:9 in custom_kernel"
    assert (rows[0]["removed"], rows[0]["removed_at"] is None, rows[1]["rerun_of"]) == (True, False, first)
    assert rows[0]["file_name"] == "submission.py"
    cases = table(board, "--anonymous", "--what", "cases")
    assert [row["run"] for row in cases] == [1, 2, 3, 4, 5]
    assert cases[-1]["message"] == rows[4]["message"]


def test_only_runs_that_have_ended_are_exported_on_demand(board: Recorded) -> None:
    passed(board, 1e-3)
    board.add(status_of(RunState.RUNNING))
    board.add(status_of(RunState.CANCELLED))
    assert [row["run"] for row in table(board, "--ended-only")] == [1, 3]


def test_a_user_exports_own_runs_and_learns_nothing_of_others(board: Recorded) -> None:
    output(board, "eve")
    output(board, "ada")
    output(board, "ada")
    rows = table(board, "--with-code", "--with-output", own="ada")
    assert [(row["run"], row["user"], row["rank"], row["code"]) for row in rows] == [
        (2, "ada", None, KERNEL),
        (3, "ada", None, KERNEL),
    ]
    assert [row["duplicate_of"] for row in rows] == [None, 2]
    assert [row["duplicate_of"] for row in table(board)] == [None, 1, 1]
    for what in ("cases", "samples"):
        assert {row["run"] for row in table(board, "--what", what, own="ada")} == {2, 3}
        assert table(board, "--what", what, own="nobody") == []
    assert table(board, own="nobody") == []


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("export", "--format", "json"), "'json' is not one of 'csv', 'jsonl', 'parquet'"),
        (("export", "--format", "csv", "--task", "vectorad_py"), "vectoradd_py"),
        (("admin", "export", "--format", "json", "--anonymous"), "the format json has all runs"),
        (("admin", "export", "--format", "json", "--what", "cases"), "the format json has all runs"),
        (("admin", "export", "--format", "csv", "--what", "cases", "--with-code"), "Omit --what."),
        (("admin", "export", "--format", "html", "--ended-only"), "the format html has the standings"),
    ],
)
def test_tables_that_do_not_exist_are_refused(board: Recorded, argv: Sequence[str], words: str) -> None:
    done = CliRunner().invoke(cli, argv, obj=lambda: board.board)
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in " ".join(done.stderr.split())


def test_own_runs_have_no_form_with_standings(board: Recorded) -> None:
    for form in ("json", "html"):
        with pytest.raises(InputError, match="the standings of all users"):
            board.board.admin.export(form, own=True)
    for form, what, words in (("xls", "runs", "unknown format 'xls'"), ("csv", "users", "unknown table 'users'")):
        with pytest.raises(InputError, match=words):
            board.board.admin.export(form, what=what)


def test_long_rows_go_to_no_terminal(board: Recorded) -> None:
    words = [
        sys.executable,
        "-m",
        "hpc_board",
        "--config",
        str(board.settings),
        "export",
        "--format",
        "csv",
        "--with-code",
    ]
    ours, terminal = os.openpty()
    with os.fdopen(ours, "rb"), os.fdopen(terminal, "wb") as stdout:
        done = subprocess.run(words, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, "not printed to a terminal; use -o FILE" in " ".join(done.stderr.split())) == (2, True)


@pytest.mark.parametrize("what", [name for name in TABLES if name != OVERALL])
def test_parquet_has_each_table(board: Recorded, what: str) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    for _ in range(3):
        output(board, "ada")
    target = board.folder / f"{what}.parquet"
    done = call(board, "--format", "parquet", "--what", what, "-o", target)
    assert done.exit_code == 0, done.output
    found = parquet.read_table(target)
    assert found.column_names == list(kinds_of(TABLE_COLUMNS[what]))
    assert done.stderr == f"{target} has {found.num_rows} {what if found.num_rows > 1 else what[:-1]}.\n"
    assert (
        table(board, "--what", what)[0]["task" if what == "tasks" else "run"]
        == found.to_pylist()[0]["task" if what == "tasks" else "run"]
    )


@pytest.mark.parametrize("what", ["runs", "cases", "samples"])
def test_a_page_of_one_run_gives_the_same_rows(board: Recorded, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for gpu in ("CPU", "H100"):
        passed(board, 1e-3, gpu=gpu)
    board.add(result=result_of(Verdict.PASS, row_case(0), row_case(1)), user="ada")
    whole = table(board, "--what", what)
    monkeypatch.setattr("hpc_board.store.export._PAGE_BYTES", 1)
    assert table(board, "--what", what) == whole
    assert len(whole) >= 3


@pytest.mark.slow
def test_an_export_of_many_runs_takes_no_more_memory_than_one_of_few(tmp_path: Path) -> None:
    generator = REPOSITORY / "scripts" / "board_generator.py"
    program = (
        "import sys; from pathlib import Path\n"
        "from datetime import UTC, datetime\n"
        "from hpc_board.admin.export import Export; from hpc_board.store import Store\n"
        "from hpc_board.store.export import RunSelection\n"
        "path, form, what = sys.argv[1:]; long = what == 'runs'\n"
        "export = Export(\n"
        "    Store(Path(path)), {}, form, RunSelection(), datetime.now(UTC), what, with_code=long, with_output=long)\n"
        "written = export.write(open('/dev/null', 'wb'))\n"
        "status = Path('/proc/self/status').read_text()\n"
        "print(written.rows, status.partition('VmHWM:')[2].split()[0])"
    )
    tables = [("csv", "runs"), ("json", "runs"), ("jsonl", "runs"), ("jsonl", "cases"), ("jsonl", "samples")]
    sizes = {}
    for runs in (1_000, 20_000):
        path = tmp_path / f"{runs}.db"
        sizes_of = ("--runs", str(runs), "--users", "200", "--tasks", "5", "--gpus", "2")
        subprocess.run([sys.executable, generator, path, *sizes_of], check=True, capture_output=True)
        for form, what in tables:
            done = subprocess.run(
                [sys.executable, "-c", program, path, form, what],
                env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
                capture_output=True,
                text=True,
                check=True,
            )
            written, kilobytes = map(int, done.stdout.split())
            assert written >= runs / 3
            sizes[runs, form, what] = kilobytes
    for each in tables:
        assert sizes[20_000, *each] < sizes[1_000, *each] + 5_000, sizes
