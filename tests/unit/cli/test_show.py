"""The output of `show`, `history`, `feed` and `admin milestones`. Nothing is evaluated here."""

import getpass
import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import Result

from hpc_board.board.context import Context
from hpc_board.domain.feed import Entry, FeedEntry, FeedKind, News
from hpc_board.domain.moderation import BAN, EVERYTHING, START, STOP, USER, Decision
from hpc_board.domain.roles import Role
from hpc_board.domain.run import Run, RunState
from hpc_board.domain.standing import Mark, MarkKind, Page, Rows, Standing
from hpc_board.errors import SchedulerRefused, UnreadableError
from hpc_board.model.result import Case, Verdict
from hpc_board.model.result import Result as RunResult
from hpc_board.model.task import Mode
from hpc_board.report.blocks import Paragraph
from hpc_board.report.comparisons import comparison_plot
from hpc_board.report.feeds import feed_line, record_text
from hpc_board.report.histories import history_report
from hpc_board.report.plain import plain
from hpc_board.report.standings import board_report
from hpc_board.schedulers import Job
from hpc_board.schedulers.local.client import LocalScheduler
from hpc_board.store import Store
from tests.unit.recorded import AT, TASK, Recorded, call, read, result_of, status_of, timed_case
from tests.values import replace

ME = getpass.getuser()


def benchmark(time_ns: float, reference_ns: float | None = 40_000.0) -> Case:
    case = timed_case(time_ns=time_ns)
    assert case.timing is not None
    return replace(case, timing=replace(case.timing, reference_ns=reference_ns))


def passed(board: Recorded, user: str | None, score_s: float, *, reference_ns: float | None = 40_000.0) -> Run:
    result = result_of(Verdict.PASS, benchmark(score_s * 1e9, reference_ns))
    return board.add(result=result, score_s=score_s, user=user)


def lines(done: Result) -> list[str]:
    assert done.exit_code == 0, done.output
    return [" ".join(line.split()) for line in done.stdout.splitlines()]


def crowd(board: Recorded, users: int) -> None:
    for number in range(users):
        passed(board, f"u{number:02}", (10 + number) * 1e-6)


def test_a_board_shows_a_page_and_says_how_to_see_the_rest(board: Recorded) -> None:
    crowd(board, 25)
    shown = lines(call(board, "show", "vectoradd_py", "--gpu", "CPU"))
    assert [line.split()[:2] for line in shown[2:22]] == [[str(rank), f"u{rank - 1:02}"] for rank in range(1, 21)]
    assert "20 of 25 entries. Next: `--from 21`. All: `--top all`." in shown
    last = lines(call(board, "show", "vectoradd_py", "--gpu", "CPU", "--from", "21"))
    assert last[2].startswith("21 u20 30.0 µs")
    assert "5 of 25 entries, from rank 21. All: `--top all`." in last
    assert "entries" not in call(board, "show", "vectoradd_py", "--gpu", "CPU", "--top", "all").stdout


def test_the_own_row_is_shown_below_a_gap_however_far_it_is(board: Recorded) -> None:
    crowd(board, 5)
    passed(board, None, 99e-6)
    shown = lines(call(board, "show", "vectoradd_py", "--gpu", "CPU", "--top", "2"))
    assert [line.split(" ")[0] for line in shown[1:6]] == ["RANK", "1", "2", "...", "6"]
    assert f"6 {ME} (you) 99.0 µs" in shown[5]
    passed(board, None, 1e-6)
    below = lines(call(board, "show", "vectoradd_py", "--gpu", "CPU", "--from", "5", "--top", "2"))
    assert [line.split(" ")[0] for line in below[2:6]] == ["1", "...", "5", "6"]


def test_a_users_ranks_are_those_of_the_present_boards_that_count(board: Recorded) -> None:
    passed(board, "eve", 9e-6)
    passed_narrow(board, 5e-6)
    narrow(board, "changed")
    crowd(board, 3)
    passed(board, "ada", 11e-6)
    slower = passed(board, "ada", 44e-6, reference_ns=None)
    (rank,) = (page := read(board, "show", "--user", "ada"))["ranks"]
    assert (rank["task"], rank["gpu"], rank["rank"], rank["users"]) == ("vectoradd_py", "CPU", 3, 5)
    assert rank["speedup"] == pytest.approx(40 / 11)
    assert (page["records"], page["runs"][0]["id"], len(page["runs"])) == (0, slower.id, 3)
    assert read(board, "show", "--user", "eve")["records"] == 1
    board.board.moderation.remove([rank["submission"]], "a cheat")
    (rank,) = read(board, "show", "--user", "ada")["ranks"]
    assert (rank["rank"], rank["run"]) == (5, slower.id)
    shown = lines(call(board, "show", "--user", "ada"))
    assert shown[0] == "ada: 1 rank"
    assert [line.split()[:6] for line in shown[1:3]] == [
        ["TASK", "GPU", "RANK", "USERS", "SCORE", "SPEEDUP"],
        ["vectoradd_py", "CPU", "5", "5", "44.0", "µs"],
    ]
    for words in (
        ("show", "--user", "adda"),
        ("history", "vectoradd_py", "--user", "adda/x"),
        ("feed", "--user", "adda"),
    ):
        refused = call(board, *words)
        assert (refused.exit_code, 'unknown user "adda". Did you mean "ada"?' in refused.stderr) == (2, True)


def narrow(board: Recorded, description: str) -> None:
    (board.folder / "tasks" / "narrow" / "reference.py").write_text(
        f"# {description}\ngenerate_input = check_implementation = abs\n"
    )


def passed_narrow(board: Recorded, score_s: float, mode: Mode = Mode.RANKED) -> None:
    at, result = AT + timedelta(seconds=1e6 * score_s), result_of(Verdict.PASS)
    board.add(result=result, score_s=score_s, task="narrow", gpu="H100", user="ada", mode=mode, at=at)


def test_the_boards_of_former_versions_stay_readable(board: Recorded) -> None:
    passed(board, "ada", 1e-6)
    passed_narrow(board, 1e-6)
    old = board.board.tasks.get("narrow").version
    narrow(board, "changed")
    assert read(board, "show", "narrow")["boards"][0]["rows"] == []
    passed_narrow(board, 2e-6)
    new = board.board.tasks.get("narrow").version
    found = read(board, "show", "narrow", "--versions")["versions"]
    assert [(each["version"], each["entries"], each["present"]) for each in found] == [(new, 1, True), (old, 1, False)]
    for word in ("previous", old, old[:12], old[:12].upper()):
        (shown,) = read(board, "show", "narrow", "--task-version", word)["boards"]
        assert (shown["version"], [row["score_s"] for row in shown["rows"]]) == (old, [1e-6])
    text = call(board, "show", "narrow", "--versions").stdout
    assert f"{new[:12]}" in text
    assert text.splitlines()[1].endswith("current")


def test_standings_that_began_anew_say_where_those_before_are(board: Recorded) -> None:
    told = "Standings reset. Former standings: `hpc-board show narrow --task-version previous`"
    assert told not in call(board, "show", "narrow").stderr
    passed_narrow(board, 1e-6)
    assert told not in call(board, "show", "narrow").stderr
    narrow(board, "changed")
    assert told in call(board, "show", "narrow").stderr
    assert told not in call(board, "show", "narrow", "--task-version", "previous").stderr
    passed_narrow(board, 2e-6)
    assert told not in call(board, "show", "narrow").stderr


def test_the_previous_version_is_the_one_that_was_ranked_last(board: Recorded) -> None:
    passed_narrow(board, 1e-6)
    ranked = board.board.tasks.get("narrow").version
    narrow(board, "changed")
    passed_narrow(board, 2e-6, Mode.TEST)
    tried = board.board.tasks.get("narrow").version
    narrow(board, "changed again")
    (shown,) = read(board, "show", "narrow", "--task-version", "previous")["boards"]
    assert (shown["version"], len({ranked, tried, board.board.tasks.get("narrow").version})) == (ranked, 3)


@pytest.mark.parametrize(
    ("word", "message"),
    [("previous", "no earlier version of vectoradd_py"), ("abc", "is too short"), ("zzzz", "matches no versions")],
)
def test_a_version_that_there_is_not_is_an_error(board: Recorded, word: str, message: str) -> None:
    passed(board, "ada", 1e-6)
    done = call(board, "show", "vectoradd_py", "--task-version", word)
    assert (done.exit_code, message in done.stderr) == (2, True)


# Marks


def row(rank: int, user: str, score_s: float) -> Standing:
    return Standing(rank, user, score_s, rank, rank, AT, "kernel.py", "self-run", user)


def mark(name: str, score_s: float) -> Mark:
    return Mark(MarkKind.MILESTONE, name, score_s, 9, 9, AT)


def shown_names(page: Page) -> list[str]:
    text = plain(board_report("softmax", page, "me"))
    return [line.split()[1] for line in text.splitlines()[2:] if line.strip() and line.split()[0] != "SPEEDUP"]


def test_marks_stand_where_their_times_belong_and_on_the_page_where_that_is() -> None:
    rows = tuple(row(rank, f"u{rank}", rank * 10e-6) for rank in range(1, 5))
    marks = (mark("a", 5e-6), mark("b", 25e-6), mark("c", 99e-6))
    whole = Page("H100", "v", rows, 4, milestones=marks)
    assert shown_names(whole) == ["[a]", "u1", "u2", "[b]", "u3", "u4", "[c]"]
    assert shown_names(replace(whole, rows=rows[:2]))[:3] == ["[a]", "u1", "u2"]
    assert "[b]" not in shown_names(replace(whole, rows=rows[:2]))
    assert shown_names(replace(whole, rows=rows[2:], offset=2))[:3] == ["u3", "u4", "[c]"]
    assert shown_names(replace(whole, rows=(), total=0)) == ["[a]", "[b]", "[c]"]


MILESTONES = """\
hpc_board:
  milestones:
    - {name: PyTorch eager, source: eager.py, description: one call of the library}
    - {name: naive, source: naive.py, exclude_gpus: [h100]}
"""


def with_milestones(board: Recorded, text: str = MILESTONES) -> None:
    folder = board.folder / "tasks" / "narrow"
    (folder / "eager.py").write_text("def custom_kernel(data):\n    return data\n")
    (folder / "naive.py").write_text("def custom_kernel(data):\n    return [*data]\n")
    (folder / "task.yml").write_text(TASK + "benchmarks: [{}]\n" + text)


def test_milestones_of_a_task_file_travel_with_its_definition_and_change_no_version(board: Recorded) -> None:
    (board.folder / "tasks" / "narrow" / "task.yml").write_text(TASK + "benchmarks: [{}]\n")
    before = board.board.tasks.get("narrow").version
    with_milestones(board)
    task = board.board.tasks.get("narrow")
    assert task.version == before
    assert [(each.name, each.file_name, each.exclude_gpus) for each in task.milestones] == [
        ("PyTorch eager", "eager.py", ()),
        ("naive", "naive.py", ("h100",)),
    ]
    passed_narrow(board, 1e-6)
    store = Store(board.board.settings.board / "board.db")
    assert store.submissions.task("narrow", task.version) == task


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[{name: a, source: eager.py}, {name: a, source: naive.py}]", '"a" is given twice'),
        ("[{name: a, source: eager.cu}]", "expected a file that ends in .py"),
        ("[{name: a, source: none.py}]", "none.py"),
        ("[{name: '', source: eager.py}]", "up to 40 letters"),
        ("[{name: a, source: eager.py, gpus: [H100]}]", "gpus"),
    ],
)
def test_faults_of_milestones_are_told_with_their_place(board: Recorded, text: str, message: str) -> None:
    with_milestones(board, f"hpc_board: {{milestones: {text}}}\n")
    done = call(board, "show", "narrow")
    assert (done.exit_code, message in done.stderr) == (2, True), done.stderr


def test_admin_milestones_sends_each_to_the_gpus_that_it_is_shown_on(board: Recorded) -> None:
    with_milestones(board)
    runs = read(board, "admin", "milestones", "narrow")
    assert [(run["file_name"], run["gpu"], run["mode"]) for run in runs] == [("eager.py", "H100", "ranked")]
    store = Store(board.board.settings.board / "board.db")
    run = store.runs.get(runs[0]["id"])
    assert run.milestone == "PyTorch eager"
    assert store.submissions.code(run.code_sha256).startswith(b"def custom_kernel")
    store.runs.finish(run.id, status_of(RunState.FINISHED), replace(result_of(Verdict.PASS), run=run.id), 5e-6)
    passed_narrow(board, 1e-6)
    (shown,) = read(board, "show", "narrow")["boards"]
    assert [row["user"] for row in shown["rows"]] == ["ada"]
    assert [(mark["kind"], mark["name"], mark["score_s"]) for mark in shown["marks"]] == [
        ("milestone", "PyTorch eager", 5e-6)
    ]
    text = lines(call(board, "show", "narrow"))
    assert text[3].startswith("- [PyTorch eager] 5.00 µs")
    with_milestones(board, "")
    assert read(board, "show", "narrow")["boards"][0]["marks"] == []


def test_the_feed_tells_of_no_task_that_is_not_here(board: Recorded) -> None:
    passed_narrow(board, 1e-6)
    assert len(read(board, "feed")) == 1
    (board.folder / "tasks" / "narrow" / "task.yml").unlink()
    assert read(board, "feed") == []


def test_a_task_without_milestones_says_where_they_would_be(board: Recorded) -> None:
    done = call(board, "admin", "milestones", "narrow")
    assert (done.exit_code, "narrow has no milestones" in done.stderr) == (2, True)


def test_participants_may_not_measure_milestones(board: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    with_milestones(board)
    monkeypatch.setattr(Context, "owns_folder", lambda *_: False)
    assert call(board, "admin", "milestones", "narrow").exit_code == 5


def test_milestones_are_sent_only_where_a_submission_may_be(board: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    with_milestones(board)
    strange = call(board, "admin", "milestones", "narrow", "--gpu", "CPU")
    assert (strange.exit_code, "GPU CPU not available for narrow" in strange.stderr) == (2, True)
    monkeypatch.setattr(Context, "role", Role.CREATOR)
    store = Store(board.board.settings.board / "board.db")
    store.moderation.switch(Decision(STOP, EVERYTHING, "", "root", AT))
    assert call(board, "admin", "milestones", "narrow").exit_code == 5
    store.moderation.switch(Decision(START, EVERYTHING, "", "root", AT))
    store.moderation.switch(Decision(BAN, USER, ME, "root", AT, "a test"))
    assert call(board, "admin", "milestones", "narrow").exit_code == 5
    assert store.runs.list() == ()


def test_milestones_that_are_shown_on_none_of_the_gpus_are_an_error(board: Recorded) -> None:
    with_milestones(board, "hpc_board: {milestones: [{name: naive, source: naive.py, exclude_gpus: [H100]}]}\n")
    done = call(board, "admin", "milestones", "narrow")
    assert (done.exit_code, "no milestone of narrow is shown on H100." in done.stderr) == (2, True)


def test_a_milestone_that_the_scheduler_refuses_is_seen_in_the_exit_code(
    board: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = LocalScheduler.submit

    def refuse_on_cpu(scheduler: LocalScheduler, job: Job) -> str:
        if job.gpu.name == "CPU":
            raise SchedulerRefused("invalid partition")
        return send(scheduler, job)

    monkeypatch.setattr(LocalScheduler, "submit", refuse_on_cpu)
    with_milestones(board)
    file = board.folder / "tasks" / "narrow" / "task.yml"
    file.write_text(file.read_text().replace("gpus: [H100]", "gpus: [H100, CPU]"))
    done = call(board, "admin", "milestones", "narrow", "--json")
    first, sent, last = (run["state"] for run in json.loads(done.stdout))
    assert (first, last) == ("error", "error")
    assert sent in ("queued", "running")
    assert done.exit_code == 3


# History


@pytest.mark.parametrize(
    ("spread_ns", "change"), [(3.0, "1.10x faster (± 0.02x)"), (3000.0, "within noise (1.10x faster, 0.53x to 2.30x)")]
)
def test_a_change_is_told_alike_by_run_feed_history_and_compare(board: Recorded, spread_ns: float, change: str) -> None:
    for time_ns in (11_000.0, 10_000.0, 11_000.0):
        case = timed_case(time_ns=time_ns)
        assert case.timing is not None
        samples = tuple(time_ns + spread_ns * step for step in (-1, 0, 1))
        measured = replace(case, timing=replace(case.timing, samples_ns=samples))
        board.add(result=result_of(Verdict.PASS, measured), score_s=time_ns / 1e9, user="ada")
    assert lines(call(board, "feed"))[0].endswith(f"(was 11.0 µs: {change})")
    assert f"Rank 1 of 1 on CPU: 10.0 µs, was 11.0 µs: {change}" in " ".join(lines(call(board, "run", "2")))
    back = change.replace("faster", "slower")
    back = f"{back} {'of' if 'noise' in back else 'than'}"
    assert f"Score on CPU: 11.0 µs, {back} the user's best, 10.0 µs" in " ".join(lines(call(board, "run", "3")))
    history = lines(call(board, "history", "vectoradd_py", "--user", "ada"))
    assert [line.split(" ", 2)[2] for line in history[-2:]] == [
        f"10.0 µs ● {change} 2 kernel.py",
        f"11.0 µs {change.replace('faster', 'slower')} 3 kernel.py",
    ]
    compared = " ".join(lines(call(board, "compare", "1", "2")))
    assert f"10.0 µs {change}" in compared


def add_two_alike(board: Recorded) -> None:
    """Two runs of ada's whose times scatter by more than they differ."""
    for time_ns in (11_000.0, 10_000.0):
        board.add(result=scattered(time_ns), score_s=time_ns / 1e9, user="ada")


def scattered(time_ns: float) -> RunResult:
    case = timed_case(time_ns=time_ns)
    assert case.timing is not None
    samples = tuple(time_ns + 3000.0 * step for step in (-1, 0, 1))
    return result_of(Verdict.PASS, replace(case, timing=replace(case.timing, samples_ns=samples)))


def test_a_run_that_was_looked_at_in_flight_has_its_noise_at_the_end(board: Recorded) -> None:
    add_two_alike(board)
    going = board.add(status_of(RunState.RUNNING), user="ada")
    opened = board.board

    def change_spread() -> float | None:
        placing = opened.runs.whole(going.id).placing
        assert placing is not None
        return placing.change_spread

    assert change_spread() is None
    result = replace(scattered(10_500.0), run=going.id)
    opened.context.store.runs.finish(going.id, status_of(RunState.FINISHED), result, 10_500e-9, AT)
    assert change_spread() is not None


def test_a_passing_fault_leaves_no_answer_behind(board: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    add_two_alike(board)
    standings, runs = board.board.standings, type(board.board.context.store.runs)
    with monkeypatch.context() as patch:
        patch.setattr(runs, "result", Mock(side_effect=UnreadableError("database is locked")))
        with pytest.raises(UnreadableError):
            standings.feed()
    assert [each.change_spread is not None for each in standings.feed()] == [True, False]
    # The scores of ended runs are read once.
    monkeypatch.setattr(runs, "result", Mock(side_effect=UnreadableError("database is locked")))
    assert [each.change_spread is not None for each in standings.feed()] == [True, False]


def test_the_newest_changes_alone_are_compared_by_their_measurements(
    board: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_two_alike(board)
    for module in ("boards.comparison", "report.histories"):
        monkeypatch.setattr(f"hpc_board.{module}.COMPARED_MAX", 1)
    faster = replace(timed_case(time_ns=9_000.0), timing=None)
    board.add(result=result_of(Verdict.PASS, faster), score_s=9e-6, user="ada")
    assert [each.change_spread for each in board.board.standings.feed()] == [None, None, None]
    (page,) = board.board.standings.pages("vectoradd_py", ["CPU"], rows=Rows.NEWEST, user="ada")
    history = plain(history_report("vectoradd_py", page, "ada"))
    assert "1.10x faster" in history
    assert 'Runs before the newest 1 never show "within noise".' in history


def test_a_plot_fits_80_columns_and_has_every_run() -> None:
    for count in (2, 3, 17, 400):
        rows = tuple(
            replace(row(number, "ada", 1e-3 / number), submitted_at=AT + timedelta(hours=number))
            for number in range(1, count + 1)
        )
        page = Page("H100", "v", rows, count)
        plot = plain(history_report("softmax", page, "ada")[1:2]).splitlines()[1:]
        assert max(map(len, plot)) <= 80
        assert re.search("│ +●", plot[0])
        assert plot[10].endswith("●")
        points = "".join(plot[:11]).count("●")
        assert points == count if count < 20 else points > 30


def test_a_history_of_which_a_part_was_read_says_how_many_are_left_out() -> None:
    rows = tuple(replace(row(number, "ada", 1e-3 / number), run=number) for number in (1, 2, 3))
    assert "The newest 3 of 1,204 runs; 1,201 older ones left out" in plain(
        history_report("softmax", Page("H100", "v", rows, 1204), "ada")
    )
    whole = Page("H100", "v", rows, 3, own=rows[2])
    assert len(history_report("softmax", whole, "ada")) == 3, "no paragraph if the fastest run has the score"
    (_, paragraph, *_) = history_report("softmax", replace(whole, own=replace(rows[1], runs=3)), "ada")
    assert paragraph == Paragraph("In the standings: 500 µs, the median of 3 runs.")


def test_a_plot_of_equal_times_is_a_line() -> None:
    rows = tuple(replace(row(number, "ada", 1e-3), run=number) for number in range(4))
    plot = plain(history_report("softmax", Page("H100", "v", rows, 4), "ada")[1:2])
    (line,) = [line for line in plot.splitlines() if "1.00 ms" in line]
    assert (line.count("●"), line.count("○")) == (1, 3)


@pytest.mark.parametrize("command", ["history vectoradd_py --user ada", "compare 1 2"])
def test_a_plot_is_written_as_svg_and_never_over_another_file_or_by_another_ending(
    board: Recorded, command: str, tmp_path: Path
) -> None:
    add_two_alike(board)
    file = tmp_path / "plots" / "plot.svg"
    file.parent.mkdir()
    printed = call(board, *command.split())
    done = call(board, *command.split(), "--gpu", "CPU", "--plot", str(file))
    assert (done.exit_code, done.stdout) == (0, printed.stdout)
    assert f"{file} has the plot." in done.stderr
    drawn = file.read_text()
    assert 'role="img"' in drawn
    assert "vectoradd_py on CPU: " in drawn
    again = call(board, *command.split(), "--plot", str(file))
    assert (again.exit_code, "--force" in again.stderr) == (2, True)
    assert call(board, *command.split(), "--plot", str(file), "--force", "--json").exit_code == 0
    for name in ("plot.png", "plot", ".svg"):
        other = call(board, *command.split(), "--plot", str(file.parent / name))
        assert (other.exit_code, "Choose a name that ends in .svg." in other.stderr) == (2, True)
    assert list(file.parent.iterdir()) == [file]


def test_a_plot_of_nothing_or_of_several_boards_is_an_error_and_no_file(board: Recorded, tmp_path: Path) -> None:
    file = tmp_path / "plot.svg"
    passed(board, "ada", 1e-6)
    none = call(board, "history", "vectoradd_py", "--user", "ada", "--gpu", "H100", "--plot", str(file))
    assert (none.exit_code, "ada has fewer than two passing ranked runs there" in none.stderr) == (2, True)
    for gpu in ("CPU", "H100", "H100"):
        board.add(result=result_of(Verdict.PASS, benchmark(1e3)), score_s=1e-6, user="ada", gpu=gpu)
    several = call(board, "history", "vectoradd_py", "--user", "ada", "--plot", str(file))
    assert (several.exit_code, "Choose one with --gpu." in several.stderr) == (2, True)
    assert not file.exists()


def test_the_bars_of_a_comparison_are_relative_to_the_first_submission(board: Recorded) -> None:
    add_two_alike(board)
    (found,) = board.board.submissions.compare(1, 2)
    plot = comparison_plot(found.runs, found.comparison)
    assert plot is not None
    newer, older = plot.series
    assert ([each for _, each in older.points], older.bounds) == ([1.0], ())
    assert [each for _, each in newer.points] == [pytest.approx(10 / 11)]
    ((low, high),) = newer.bounds
    assert low < 10 / 11 < high
    assert "within noise" in plot.words
    assert comparison_plot(found.runs, replace(found.comparison, cases=())) is None


# The feed


def told(news: News, user: str = "ada") -> str:
    at = datetime(2026, 11, 22, 10, 2, tzinfo=AT.tzinfo)
    return feed_line(FeedEntry(1, at, "softmax_py", "v", "H100", user, 1, 1, user, emulated=False, news=news))


@pytest.mark.parametrize(
    ("news", "line"),
    [
        (
            News(FeedKind.RECORD, 1, 12.3e-6, 2, 14e-6, Entry("bob", 13e-6)),
            "ada took first place on softmax_py, H100: 12.3 µs (was bob, 13.0 µs: 1.06x faster)",
        ),
        (News(FeedKind.RECORD, 1, 12.3e-6), "ada set the first score on softmax_py, H100: 12.3 µs"),
        (
            News(FeedKind.RECORD, 1, 12.3e-6, 1, 14e-6),
            "ada improved first place on softmax_py, H100: 12.3 µs (was 14.0 µs: 1.14x faster)",
        ),
        (
            News(FeedKind.PODIUM, 2, 12.3e-6, None, None, Entry("bob", 13e-6), (Entry("c", 20e-6),)),
            "ada took second place on softmax_py, H100: 12.3 µs (ahead of bob, 13.0 µs; no longer in the top three: c)",
        ),
        (
            News(FeedKind.PODIUM, 1, 12.3e-6, None, None, Entry("bob", 13e-6)),
            "ada shares first place on softmax_py, H100: 12.3 µs (ahead of bob, 13.0 µs)",
        ),
        (News(FeedKind.PODIUM, 1, 12.3e-6), "ada shares first place on softmax_py, H100: 12.3 µs"),
        (News(FeedKind.FIRST, 7, 12.3e-6), "ada passed for the first time, rank 7, on softmax_py, H100: 12.3 µs"),
        (
            News(FeedKind.BEST, 7, 12.3e-6, 9, 14e-6, Entry("bob", 13e-6)),
            "ada set a personal best, rank 7, on softmax_py, H100: 12.3 µs (was 14.0 µs: 1.14x faster, 9th to 7th)",
        ),
        (
            News(FeedKind.RECORD, 1, 1e-6, 4, None, None, tuple(Entry(f"u{n}", 1e-5) for n in range(9))),
            "ada took first place on softmax_py, H100: 1.00 µs (no longer in the top three: u0, u1, u2, 6 others)",
        ),
    ],
)
def test_each_change_is_told_on_one_line(news: News, line: str) -> None:
    assert told(news) == line


def test_a_name_in_the_feed_cannot_paint_the_terminal() -> None:
    assert "\x1b" not in told(News(FeedKind.FIRST, 7, 1e-6), user="\x1b]0;owned\x07\x1b[31mred")


def test_a_record_within_noise_of_the_former_one_says_so_and_beats_none(board: Recorded) -> None:
    def timed(time_ns: float, spread_ns: float, user: str) -> None:
        case = timed_case(time_ns=time_ns)
        assert case.timing is not None
        samples = tuple(time_ns + spread_ns * step for step in (-1, 0, 1))
        measured = replace(case, timing=replace(case.timing, samples_ns=samples))
        board.add(result=result_of(Verdict.PASS, measured), score_s=time_ns / 1e9, user=user)

    timed(11_000.0, 3.0, "bob")
    timed(10_000.0, 3.0, "ada")
    timed(9_900.0, 3000.0, "bob")
    newest, clear, first = board.board.standings.feed()
    assert [each.beats_record for each in (newest, clear, first)] == [False, True, False]
    assert feed_line(clear).endswith("(was bob, 11.0 µs: 1.10x faster (± 0.02x))")
    assert "(was ada, 10.0 µs: within noise (" in feed_line(newest)
    assert record_text(clear) == ("Record on CPU", "vectoradd_py 10.0 µs, by ada")
    # The spread is unknown then: that of the change from bob's own former run is of another change.
    board.board.moderation.remove([clear.submission], "a cheat")
    newest, _ = board.board.standings.feed()
    assert (newest.former_run, newest.change_spread) == (None, None)


def test_the_feed_is_listed_and_filtered(board: Recorded) -> None:
    passed(board, "ada", 2e-6)
    passed(board, "bob", 1e-6)
    shown = lines(call(board, "feed"))
    assert [line.split(" ", 2)[2] for line in shown] == [
        (
            "bob took first place on vectoradd_py, CPU: 1.00 µs "
            "(was ada, 2.00 µs: within noise (2.00x faster, 0.25x to 15.7x))"
        ),
        "ada set the first score on vectoradd_py, CPU: 2.00 µs",
    ]
    newest = read(board, "feed", "vectoradd_py", "--gpu", "cpu", "--limit", "1")
    assert (newest[0]["kind"], newest[0]["beaten"]) == ("record", {"user": "ada", "score_s": 2e-6})
    assert [entry["user"] for entry in read(board, "feed", "--before", str(newest[0]["id"]))] == ["ada"]
    assert read(board, "feed", "--gpu", "H100") == []
    assert call(board, "feed", "narrow").stdout == "No changes yet.\n"
    assert call(board, "feed", "nothing").exit_code == 2


def test_a_history_tells_of_runs_that_it_leaves_out(board: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        board.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-3)
    assert "left out" not in call(board, "history", "vectoradd_py").stdout
    monkeypatch.setattr("hpc_board.cli.standings._HISTORY_MAX", 2)
    done = call(board, "history", "vectoradd_py")
    assert ("The newest 2 of 3 runs; 1 older one left out." in done.stdout, done.stderr) == (True, "")


def test_a_benchmark_is_told_relative_to_the_users_best_earlier_run(board: Recorded) -> None:
    for time_ns in (468e6, 500e6, 14e6):
        result = result_of(Verdict.PASS, timed_case(time_ns=time_ns))
        board.add(result=result, score_s=time_ns / 1e9, user="ada", mode=Mode.BENCHMARK)
    ended = " ".join(call(board, "run", "3").stdout.split())
    assert re.search(r"Score on CPU: 14.0 ms, 33.4x faster .*than the user's best before, 468 ms \(run 1\)", ended)
    assert " BEST " in ended
    first = " ".join(call(board, "run", "1").stdout.split())
    assert "best before" not in first
    assert "BEST" not in first
