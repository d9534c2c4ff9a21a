"""The output of `run`, `runs` and `code`: the note of a run, its outcome, and its own output."""

import json
from pathlib import Path
from typing import Any

import pytest

from hpc_board.domain.run import Run, RunState
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.store import Store
from hpc_board.store.listing import RunQuery
from hpc_board.store.submissions import NewRun, NewSubmission
from tests.e2e.boards import RIGHT, BoardFiles, board_files
from tests.unit.recorded import AT, KERNEL, Recorded, call, result_of, status_of, timed_case

LOUD = """\
#!POPCORN leaderboard double

def custom_kernel(data):
    for number in range(300):
        print("line", number)
    raise ValueError("bad")
"""


def print_from_job(board: Recorded, run: Run, text: str) -> None:
    """Leave `text` as what the run's job has printed."""
    folder = board.folder / "board" / "runs" / str(run.id)
    folder.mkdir(parents=True)
    (folder / f"slurm-{run.status.job_id}.out").write_text(text)


# A kernel that prints much and fails, evaluated on the embedded scheduler


@pytest.fixture(scope="module")
def loud(tmp_path_factory: pytest.TempPathFactory) -> tuple[BoardFiles, str]:
    """A board where run 1 is of a loud kernel with a note and run 2 of a right one, and what `--wait` printed of 1."""
    files = board_files(tmp_path_factory.mktemp("loud"), slurm=False)
    kernel = files.kernel(LOUD)
    done = files.run("submit", kernel, "--mode", "test", "--wait", "--note", "eight per thread")
    assert done.returncode == 1, done.stderr
    assert files.run("submit", files.kernel(RIGHT), "--mode", "test", "--wait").returncode == 0
    return files, done.stdout


def test_a_loud_kernel_floods_neither_the_summary_nor_the_report(loud: tuple[BoardFiles, str]) -> None:
    files, summary = loud
    for shown in (summary, files.run("run", "1").stdout):
        assert "lines left out; full output: `hpc-board run 1 --log` ...]\nline 280\n" in shown
        assert "line 279\n" not in shown
        assert len(shown.splitlines()) < 80


def test_the_log_has_all_that_the_kernel_printed(loud: tuple[BoardFiles, str]) -> None:
    files, _ = loud
    printed = files.run("run", "1", "--log")
    one_call = "".join(f"line {number}\n" for number in range(300))
    assert printed.stdout.startswith(one_call)
    assert printed.stderr == "--- kernel stdout ---\n"


def test_a_log_with_nothing_in_it_says_so_on_stderr_alone(loud: tuple[BoardFiles, str]) -> None:
    files, _ = loud
    printed = files.run("run", "2", "--log")
    assert printed.stdout == ""
    assert printed.stderr == "Run 2 has no output: finished.\n"
    assert printed.returncode == 0


# Recorded runs


def test_the_streams_of_a_run_are_told_apart_where_there_are_several(board: Recorded) -> None:
    result = result_of(Verdict.CRASH, stdout="from the kernel", stderr="a \x1b[31mwarning\n")
    run = board.add(result=result)
    print_from_job(board, run, "loading modules\n")
    assert call(board, "run", "1", "--log").stdout == (
        "--- job output ---\nloading modules\n\n"
        "--- kernel stdout ---\nfrom the kernel\n\n"
        "--- kernel stderr ---\na warning\n"
    )


def test_an_outcome_is_found_by_the_words_that_lists_have_for_it(board: Recorded) -> None:
    board.add(result=result_of(Verdict.LOAD_ERROR))
    board.add(result=result_of(Verdict.PASS), mode=Mode.TEST)
    assert "failed to load" in call(board, "runs").stdout
    for words in ("failed to load", "Failed to  load", "load_error", "load error"):
        assert [each["id"] for each in json.loads(call(board, "runs", "--json", "--state", words).stdout)] == [1]


def test_runs_are_sorted_by_a_column_and_in_reverse(board: Recorded) -> None:
    for verdict in (Verdict.WRONG_VALUE, Verdict.PASS, Verdict.CRASH):
        board.add(result=result_of(verdict), mode=Mode.TEST)

    def numbers(*words: str) -> list[int]:
        return [each["id"] for each in json.loads(call(board, "runs", "--json", *words).stdout)]

    assert numbers() == numbers("--sort", "RUN") == [3, 2, 1]
    assert numbers("--reverse") == [1, 2, 3]
    assert numbers("--sort", "state") == [2, 1, 3]
    assert numbers("--sort", "state", "--reverse", "-n", "2") == [3, 1]


def add_on_two_gpus(board: Recorded, user: str) -> None:
    """Store one submission with two runs."""
    opened = board.board
    opened.settings.board.mkdir()
    Store(opened.settings.board / "board.db").submissions.add(
        NewSubmission(
            task=opened.tasks.get("vectoradd_py"),
            user=user,
            file_name="kernel.py",
            code=KERNEL.encode(),
            mode=Mode.TEST,
            note="",
            at=AT,
            runs=[NewRun(gpu, "here", "", f"hb-{gpu}", "nonce", "self-run", False, "") for gpu in ("CPU", "H100")],
        ),
        sender=None,
    )


def test_code_takes_the_number_of_a_run(board: Recorded, tmp_path: Path) -> None:
    add_on_two_gpus(board, board.board.user)
    done = call(board, "code", "2")
    assert (done.stdout, done.stderr) == (KERNEL, "")
    done = call(board, "code", "2", "-o", tmp_path / "k.py")
    assert done.stderr == f"kernel.py of run 2 written to {tmp_path / 'k.py'}.\n"


def test_runs_are_narrowed_by_gpu_mode_and_state(board: Recorded) -> None:
    passing = result_of(Verdict.PASS, timed_case())
    fast = board.add(result=passing, score_s=1e-3)
    board.add(result=passing, score_s=1e-3, gpu="H100")
    wrong = board.add(result=result_of(Verdict.WRONG_VALUE), mode=Mode.TEST)
    waiting = board.add(status_of(RunState.QUEUED), mode=Mode.TEST, gpu="H100")
    ended = board.add(status_of(RunState.OUT_OF_MEMORY))
    store = Store(board.folder / "board" / "board.db")

    def numbers(limit: int | None = None, **wanted: Any) -> list[int]:
        plain = [run.id for run in store.runs.list(RunQuery(**wanted), limit)]
        assert [run.id for run in store.runs.list(RunQuery(**wanted, words="kernel"), limit)] == plain
        return plain

    assert numbers(gpu="CPU", mode=Mode.RANKED, outcome=Verdict.PASS) == [fast.id]
    assert numbers(mode=Mode.TEST) == [waiting.id, wrong.id]
    assert numbers(outcome=RunState.QUEUED) == [waiting.id]
    assert numbers(outcome=Verdict.OUT_OF_MEMORY) == [ended.id]
    assert numbers(outcome=RunState.FINISHED, limit=1) == [wrong.id]


def test_a_run_is_found_by_the_number_of_its_job_and_an_array_by_its_own(board: Recorded) -> None:
    alone = board.add(status_of(RunState.QUEUED, job_id="184"))
    first, second = (board.add(status_of(RunState.RUNNING, job_id=f"1844_{task}")) for task in (0, 11))
    together = board.add(status_of(RunState.QUEUED, job_id="1844_[12-15]"))
    board.add(status_of(RunState.CREATED))
    at_runner = board.add(status_of(RunState.RUNNING, job_id="77.6"))

    def found(job: str, *more: str) -> list[int]:
        return [run["id"] for run in json.loads(call(board, "runs", "--job", job, "--json", *more).stdout)]

    assert found("184") == [alone.id]
    assert found("1844") == [together.id, second.id, first.id]
    assert found("1844", "--limit", "1") == [together.id]
    assert found("1844", "--note", "fused") == []
    assert found("1844_11") == [second.id]
    assert found("77") == found("77.6") == [at_runner.id]
    assert found("7") == found("77.") == []
    assert found("1844_1") == found("18") == found("") == found("%") == []
    assert "No matching runs." in call(board, "runs", "--job", "9").stdout
    assert [run.id for run in Store(board.folder / "board" / "board.db").runs.list(RunQuery(words="1844_11"))] == [
        second.id
    ]
