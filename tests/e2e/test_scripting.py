"""The Python interface, on the embedded scheduler: the page's own programs, errors, and both doors."""

import getpass
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import hpc_board
from hpc_board import Board, BoardError, WaitExpired, scripting
from hpc_board.board import parts
from hpc_board.domain.score_interval import Interval
from hpc_board.errors import InputError
from hpc_board.model.mismatch import Cause, Mismatch
from hpc_board.model.result import Log, Verdict
from hpc_board.model.task import Mode
from hpc_board.scripting import Runs
from hpc_board.tui.local_files import sent_as
from hpc_board.tui.preferences import Memory, state_file
from tests.conftest import short_folder, skip_without
from tests.e2e.installation import install
from tests.service import serving
from tests.unit.recorded import KERNEL, REPOSITORY, Recorded, recorded, result_of, row_case, timed_case
from tests.values import replace

PAGE = (REPOSITORY / "docs" / "scripts.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
FIRST, SWEEP, PLOT, SEARCH = BLOCKS
SOFTMAX = "import torch\n\ndef custom_kernel(data):\n    return torch.softmax(data, dim=-1)\n"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("installed"))


def program(installed: Path, folder: Path, source: str) -> list[str]:
    """Run a program of the page in an empty home, with its kernel beside it, and return the lines that it prints."""
    skip_without("torch")
    (folder / "kernel.py").write_text(SOFTMAX)
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(installed)}
    command = [sys.executable, "-c", source]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.torch
def test_the_first_program_of_the_page_prints_a_run_with_its_cases(installed: Path, tmp_path: Path) -> None:
    names, run, *cases = program(installed, tmp_path, FIRST)
    assert "softmax_py" in names
    assert names.endswith("('CPU',)")
    assert re.fullmatch(r"1 pass [0-9.e-]+", run)
    of_case = re.compile(r" +(\w+) (.+?) (None None|[0-9.e-]+ [0-9.e-]+)")
    assert (len(cases), [case for case in cases if not of_case.fullmatch(case)]) == (3, [])


@pytest.mark.slow
@pytest.mark.torch
def test_the_programs_of_the_page_sweep_plot_and_search_tiles(installed: Path, tmp_path: Path) -> None:
    missing = [name for name in ("matplotlib", "optuna", "pandas") if find_spec(name) is None]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)}")
    whole = SWEEP + PLOT + SEARCH
    fewer = whole.replace("range(64, 3264, 64)", "range(1024, 2049, 1024)").replace("range(5)", "range(2)")
    fewer = fewer.replace("range(4)", "range(1)")
    assert len(whole) - len(fewer) == len("range(64, 3264, 64)") - len("range(1024, 2049, 1024)")
    lines = program(installed, tmp_path, fewer)
    assert lines[0] == "2 of 2 passed"
    assert re.fullmatch(r"best: tile(1024|2048)\.py, [0-9.]+ ms", lines[1])
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")
    found = re.fullmatch(r"\{'tile': (\d+)\} ([0-9.e-]+)", lines[-1])
    assert found, lines
    assert (1 <= int(found[1]) <= 4096, float(found[2]) > 0) == (True, True)


def test_every_public_name_is_on_the_page() -> None:
    for name in scripting.__all__:
        members = {name, *(member for member in vars(getattr(scripting, name)) if not member.startswith("_"))}
        assert {member for member in members if not re.search(rf"`[^`\n]*\b{member}\b[^`\n]*`", PAGE)} == set()


@pytest.fixture(params=["files", "service"])
def recording(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorded]:
    """A board that the interface reaches by its files, and by its service."""
    found = recorded(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("HPC_BOARD_SERVICE", raising=False)
    monkeypatch.setenv("HPC_BOARD_CONFIG", str(found.settings))
    if request.param == "files":
        yield found
        return
    with short_folder() as folder, serving(found.board.settings, folder / "board.sock"):
        monkeypatch.setenv("HPC_BOARD_SERVICE", str(folder / "board.sock"))
        yield found


def test_runs_and_standings_are_values_and_tables(recording: Recorded) -> None:
    result = result_of(Verdict.PASS, row_case(), timed_case(1))
    slow = recording.add(result=result, score_s=2.1e-3, interval=Interval(1.9e-3, 2.4e-3))
    fast = recording.add(result=result, score_s=1.5e-3, user="bob")
    with Board() as board:
        assert board.run(fast.id).rank == 1
    assert set(board.gpus) == {"CPU", "H100"}
    assert "vectoradd_py" in board.tasks
    run = board.run(slow.id)
    assert (run.passed, run.state, run.ended, run.low_s, run.rank) == (True, "finished", True, 1.9e-3, 2)
    case = run.cases[0]
    assert (case.phase, case.time_s, case.reference_s, case.low_s) == ("benchmark", 2.1e-3, 7.14e-3, 1.9e-3)
    assert case.speedup == pytest.approx(3.4)
    rows = board.standings("vectoradd_py", "CPU")
    assert [(row.rank, row.user, row.run) for row in rows] == [(1, "bob", fast.id), (2, getpass.getuser(), slow.id)]
    assert [row["score_s"] for row in board.standings("vectoradd_py").rows()] == [1.5e-3, 2.1e-3]
    assert [(row.task, row.gpu, row.rank) for row in board.ranks()] == [("vectoradd_py", "CPU", 2)]
    assert [row.run for row in board.ranks("bob")] == [fast.id]
    runs = board.wait([run])
    assert board.wait([run.id]) == runs
    assert board.wait(run) == board.wait(run.id) == board.cancel(run) == runs
    assert tuple(board.as_completed(run)) == tuple(board.as_completed(run.id)) == runs
    assert (len(runs), runs[0], runs.best, runs[0:]) == (1, run, run, (run,))
    assert "cases" not in runs.rows()[0]


@pytest.mark.usefixtures("recording")
def test_a_submission_has_an_entrant_tags_and_a_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board()
    (first,) = board.submit({"one.py": KERNEL}, gpus="CPU")
    (second,) = board.submit({"two.py": KERNEL}, gpus="CPU", entrant="agent-b", tags={"step": "2"}, parent=first)
    monkeypatch.setenv("HPC_BOARD_AS", "agent-e")
    (third,) = board.submit({"three.py": KERNEL}, gpus="CPU", parent=2)
    (fourth,) = board.submit({"four.py": KERNEL}, gpus="CPU", entrant="")
    assert [(run.entrant, run.tags, run.parent) for run in (first, second, third, fourth)] == [
        ("", {}, None),
        ("agent-b", {"step": "2"}, 1),
        ("agent-e", {}, 2),
        ("", {}, None),
    ]
    assert [run.id for run in board.runs(entrant="agent-b")] == [2]
    assert [run.id for run in board.runs(entrant="")] == [1, 4]
    assert [run.id for run in board.runs(tags={"step": "2"})] == [2]
    assert [run.id for run in board.runs(tags={"step": "2", "a": "b"})] == []
    with pytest.raises(
        BoardError, match=r"budget exhausted: .*/agent-b has sent 1 run within a week, and the budget is 1"
    ):
        board.submit({"five.py": KERNEL}, gpus="CPU", entrant="agent-b", budget="1/week")
    with pytest.raises(BoardError, match='the entrant "bob/agent-b" is not one of'):
        board.submit({"five.py": KERNEL}, gpus="CPU", entrant="bob/agent-b")
    board.cancel([first, second, third, fourth])


def test_a_run_has_its_advice_logs_usage_and_the_bounds_of_its_times(recording: Recorded) -> None:
    noisy, steady = row_case(busy=0.8), row_case(1, low_ns=2.0e6, time_ns=2.1e6, high_ns=2.15e6)
    cases = [
        replace(case, timing=replace(case.timing, reference_ns=7.4e6, reference_low_ns=2.8e6, reference_high_ns=7.6e6))
        for case in (noisy, steady)
        if case.timing is not None
    ]
    result = result_of(Verdict.PASS, *cases)
    told = {**result.provenance, "cpu_seconds": 12.5}
    result = replace(result, build=Log("built"), stdout=Log("said"), profile=Log("profiled"), provenance=told)
    own = recording.add(result=result, score_s=2.1e-3)
    run = Board().run(own.id)
    assert [each.kind for each in run.advice] == ["busy", "reference"]
    assert "Noisy reference: its time in benchmark 1, 7.40 ms (2.80 to 7.60 ms); 2, 7.40 ms" in run.advice[1].text
    assert (run.build, run.stdout, run.stderr, run.profile) == ("built", "said", "", "profiled")
    assert run.provenance == result.provenance
    assert (run.usage["cpu_seconds"], run.usage["memory_peak_bytes"]) == (12.5, None)
    case = run.cases[1]
    assert (case.reference_low_s, case.reference_high_s, case.noisy) == (2.8e-3, 7.6e-3, True)
    assert case.speedup == pytest.approx(7.4 / 2.1)
    assert (case.speedup_low or 0, case.speedup_high or 0) == pytest.approx((1.333, 3.725), abs=0.001)
    assert run.ended_at is None or run.ended_at >= run.submitted_at
    assert "build" not in Runs([run]).rows()[0]


def test_a_task_its_template_the_code_of_a_run_and_a_comparison_are_at_hand(recording: Recorded) -> None:
    slow = row_case(low_ns=2.0e6, time_ns=2.1e6, high_ns=2.15e6)
    fast = row_case(low_ns=1.0e6, time_ns=1.05e6, high_ns=1.1e6)
    runs = [recording.add(result=result_of(Verdict.PASS, each), score_s=1e-3) for each in (slow, fast)]
    board = Board()
    task = board.task("vectoradd_py")
    assert "reference.py" in task.files
    assert task.description
    assert task.tests[0].startswith("size:")
    assert "def custom_kernel" in board.template("vectoradd_py")
    with pytest.raises(InputError):
        board.template("vectoradd_py", "COBOL")
    one, other = (board.run(each.id) for each in runs)
    assert "custom_kernel" in board.code(one)
    (found,) = board.compare(one, other)
    assert (found.run, found.other, found.shown, found.caveats) == (one.id, other.id, True, ())
    assert found.speedup == pytest.approx(2)
    assert (found.speedup_low or 0) < 2 < (found.speedup_high or 0)
    assert board.compare(one.id, other.id) == board.compare(other, one.id) == (found,)
    assert (board.code(one.id), board.diff(one.id, other)) == (board.code(one), board.diff(one, other))
    assert [each.id for each in board.as_completed([one.id, other])] == [one.id, other.id]


def test_a_comparison_has_the_caveats_of_the_report(recording: Recorded) -> None:
    for reference_ns in (3.0e6, 6.0e6):
        recording.add(result=result_of(Verdict.PASS, row_case(reference_ns=reference_ns)), score_s=2.1e-3)
    (found,) = Board().compare(1, 2)
    (caveat,) = found.caveats
    assert caveat.startswith("Conditions differed: the task's reference took 2.00x as long in run 2;")


def test_a_case_with_wrong_values_has_their_number_and_places(recording: Recorded) -> None:
    wrong = Mismatch((4, 8), 32, wrong=7, pattern="the last 7 columns", of_tolerance=20.0, cause=Cause.NEVER_WRITTEN)
    case = replace(row_case(), verdict=Verdict.WRONG_VALUE, timing=None, mismatch=wrong)
    run = recording.add(result=result_of(Verdict.WRONG_VALUE, case))
    (found,) = Board().run(run.id).cases
    assert (found.wrong, found.pattern, found.cause) == (7, "the last 7 columns", "never_written")


def test_the_app_finds_the_files_that_the_interface_has_submitted(recording: Recorded) -> None:
    board = Board()
    texts = board.submit({"text.py": KERNEL}, gpus="CPU")
    files = board.submit(recording.kernel, gpus="CPU")
    board.cancel([*texts, *files])
    memory = Memory(state_file(os.environ))
    (run,) = [run for run in recording.board.runs.list() if run.id == files[0].id]
    address = os.environ.get("HPC_BOARD_SERVICE", recording.board.address)
    sent = sent_as(memory, Path(str(address)), run.code_sha256)
    assert sent == (recording.kernel,)


@pytest.mark.usefixtures("recording")
def test_a_repeated_submission_returns_its_runs() -> None:
    board = Board()
    for reused in (False, True):
        (run,) = board.submit({"one.py": KERNEL}, gpus="CPU", key="first")
        assert (run.id, run.repeats, run.reused) == (1, None, reused)
    (same,) = board.submit({"two.py": KERNEL}, gpus="CPU", if_new=True)
    (new,) = board.submit({"two.py": KERNEL}, gpus="CPU", key="second")
    assert (same.id, same.reused, new.id, new.repeats, new.reused) == (1, True, 2, 1, False)
    assert [each.id for each in board.runs(key="first")] == [1]
    with pytest.raises(InputError, match="has other contents"):
        board.submit({"two.py": KERNEL}, gpus="CPU", key="first")
    board.cancel([run, new])


@pytest.mark.usefixtures("recording")
def test_texts_are_submitted_waited_for_and_cancelled() -> None:
    slow = f"{KERNEL}\nimport time\n\ntime.sleep(600)\n"
    board = Board()
    runs = board.submit({"one.py": slow, "two.py": slow}, gpus="CPU", note="both", array=False)
    assert [(run.file_name, run.gpu, run.mode, run.note, run.ended) for run in runs] == [
        ("one.py", "CPU", "test", "both", False),
        ("two.py", "CPU", "test", "both", False),
    ]
    with pytest.raises(WaitExpired) as expired:
        board.wait(runs, timeout_seconds=0.1)
    assert [(run.id, run.ended) for run in expired.value.runs] == [(run.id, False) for run in runs]
    assert len(board.cancel(runs)) == 2
    assert {run.state for run in board.wait(runs)} == {"cancelled"}


def test_runs_come_as_they_end_and_an_expired_wait_keeps_those_that_have(recording: Recorded) -> None:
    ended = recording.add(result=result_of(Verdict.PASS, row_case()), score_s=2.1e-3, file_name="ended.py")
    board = Board()
    (going,) = board.submit({"going.py": f"{KERNEL}\nimport time\n\ntime.sleep(600)\n"}, gpus="CPU")
    both = [going, board.run(ended.id)]
    came: list[scripting.Run] = []
    with pytest.raises(WaitExpired) as expired:
        came.extend(board.run(run.id) for run in board.as_completed([*both, going], timeout_seconds=0.1))
    assert came == [both[1]]
    assert [(run.id, run.score_s, run.ended) for run in expired.value.runs] == [
        (going.id, None, False),
        (ended.id, 2.1e-3, True),
    ]
    board.cancel([going])
    assert {run.id for run in board.as_completed(both)} == {going.id, ended.id}
    assert list(board.as_completed([])) == []


def test_runs_are_found_again_by_their_note_task_gpu_and_mode(
    recording: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "_PART_ROWS", 2)
    passed = result_of(Verdict.PASS, row_case())
    of_other = recording.add(result=passed, user="bob")
    own = [recording.add(result=passed, mode=mode) for mode in (Mode.RANKED, Mode.TEST, Mode.RANKED, Mode.BENCHMARK)]
    board = Board()
    recording.board.submissions.note(own[1].submission, "tile 64")
    numbers = [run.id for run in own]
    assert of_other.id not in numbers
    assert [run.id for run in board.runs()] == numbers
    assert [run.id for run in board.runs(limit=3)] == numbers[-3:]
    assert [run.id for run in board.runs(note="TILE")] == [numbers[1]]
    assert [run.id for run in board.runs(mode="ranked", task="vectoradd_py", gpu="cpu")] == [numbers[0], numbers[2]]
    assert board.runs(gpu="H100") == ()
    for wrong in ({"task": "none"}, {"gpu": "none"}, {"mode": "none"}, {"limit": -1}):
        with pytest.raises(InputError):
            board.runs(**wrong)


def test_a_gpu_is_held_for_the_runs_of_a_block(recording: Recorded) -> None:
    board = Board()
    with board.hold("CPU", seconds=900, idle_seconds=60, wait=True) as runner:
        assert (runner.id, runner.gpu, runner.state, runner.seconds) == (1, "CPU", "running", 900)
        (run,) = board.wait(board.submit({"held.py": KERNEL}, gpus="CPU"), timeout_seconds=60)
        (fresh,) = board.submit({"fresh.py": KERNEL}, gpus="CPU", fresh=True)
        with board.hold("CPU") as inner:
            assert inner.id == runner.id
        assert not recording.board.runners.recent()[0].is_ending
    assert (run.verdict, run.runner, fresh.runner) == ("pass", 1, None)
    (own,) = board.wait([fresh], timeout_seconds=60)
    assert (own.verdict, own.runner) == ("pass", None)
    assert recording.board.runners.recent()[0].is_ending


def test_a_gpu_that_is_not_free_in_time_is_released(recording: Recorded) -> None:
    board = Board()
    with pytest.raises(WaitExpired), board.hold("CPU", wait=True, timeout_seconds=0):
        pytest.fail("the job had the GPU at once")
    assert recording.board.runners.recent()[0].is_ending


def test_the_files_of_a_run_are_written_and_named(recording: Recorded, tmp_path: Path) -> None:
    run = recording.add(result=result_of(Verdict.PASS, timed_case()), score_s=2e-3)
    folder = recording.folder / "board" / "runs" / str(run.id)
    folder.mkdir(parents=True)
    (folder / f"slurm-{run.status.job_id}.out").write_text("loading modules\n")
    board = Board()
    (path,) = board.files(board.run(run.id), tmp_path / "home")
    assert path == tmp_path / "home" / f"run-{run.id}" / f"slurm-{run.status.job_id}.out"
    assert path.read_text() == "loading modules\n"


def test_problems_are_board_errors(recording: Recorded) -> None:
    board = Board()
    with pytest.raises(BoardError, match="vectorad_py") as found:
        board.submit(recording.kernel, task="vectorad_py")
    assert (found.value.exit_code, "vectoradd_py" in str(found.value) + found.value.hint) == (2, True)
    for text in ("x = '\ud800'", "x = '\0'"):
        with pytest.raises(InputError, match=r"'k.py'.* is it (UTF-8|a binary file)"):
            board.submit({"k.py": text}, task="vectoradd_py", gpus="CPU")
    with pytest.raises(BoardError, match="unknown job option: partition"):
        board.submit(recording.kernel, partition="gpu")
    with pytest.raises(BoardError, match="--stop-if-slower is an option of mode benchmark, not of mode ranked"):
        board.submit(recording.kernel, mode="ranked", stop_if_slower=True)
    with pytest.raises(BoardError):
        board.run(99)
    with pytest.raises(BoardError, match="is not installed"):
        scripting.Runs([])._frame("no_such_library")


def test_the_package_has_the_interface_and_no_other_name() -> None:
    assert hpc_board.Board is Board
    with pytest.raises(AttributeError, match="no attribute 'Bord'"):
        _ = hpc_board.Bord


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_of_libraries_have_a_row_for_each_run(tmp_path: Path, library: str) -> None:
    pytest.importorskip(library)
    found = recorded(tmp_path)
    for _ in range(2):
        found.add(result=result_of(Verdict.PASS, timed_case()), score_s=2e-3)
    runs = Board(found.settings).wait(map(Board(found.settings).run, (1, 2)))
    table = getattr(runs, f"to_{library}")()
    assert (list(table["id"]), list(table["score_s"])) == ([1, 2], [2e-3, 2e-3])
