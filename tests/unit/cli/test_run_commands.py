"""The output of `run`, `runs` and `code`: the note of a run, its outcome, and its own output."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest
from click.testing import CliRunner

from hpc_board.cli.main import cli
from hpc_board.domain.run import Run, RunState
from hpc_board.model.result import Case, Verdict
from hpc_board.model.task import Mode
from hpc_board.store import NewRun, NewSubmission, RunQuery, Store
from tests.e2e.boards import RIGHT, BoardFiles, board_files
from tests.unit.recorded import AT, KERNEL, Recorded, call, result_of, row_case, status_of, timed_case

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


def test_a_note_is_shown_with_its_run(loud: tuple[BoardFiles, str]) -> None:
    files, _ = loud
    assert "note       eight per thread\n" in files.run("run", "1").stdout
    assert "\nnote" not in files.run("run", "2").stdout
    assert files.json("run", "1")["note"] == "eight per thread"
    assert [run["note"] for run in files.json("runs")] == ["", "eight per thread"]


def test_a_loud_kernel_floods_neither_the_summary_nor_the_report(loud: tuple[BoardFiles, str]) -> None:
    files, summary = loud
    for shown in (summary, files.run("run", "1").stdout):
        assert "lines left out; all of it: `hpc-board run 1 --log` ...]\nline 280\n" in shown
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
    assert printed.stderr == "Run 2 has no output: job and kernel printed nothing.\n"
    assert printed.returncode == 0


def test_a_finished_run_says_when_its_job_ended(loud: tuple[BoardFiles, str]) -> None:
    files, _ = loud
    run = files.json("run", "1")
    submitted, ended, collected = (
        datetime.fromisoformat(run[key]) for key in ("submitted_at", "ended_at", "state_since")
    )
    assert submitted <= ended <= collected
    assert f"finished at {ended.astimezone():%Y-%m-%d %H:%M}\n" in files.run("run", "1").stdout


def test_a_report_ends_with_the_outcome_and_a_summary_does_not(loud: tuple[BoardFiles, str]) -> None:
    files, summary = loud
    assert files.run("run", "1").stdout.endswith("\n\nRun 1 failed: exception in test case 1.\n")
    assert files.run("run", "2").stdout.endswith("\n\nRun 2 passed: 2 tests.\n")
    assert "Run 1 failed" not in summary
    assert "Run 1 failed" not in files.run("watch", "1").stdout


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


def test_a_stream_that_is_alone_has_its_title_on_stderr(board: Recorded) -> None:
    board.add(result=result_of(Verdict.PASS, stdout="from the kernel\n"))
    done = call(board, "run", "1", "--log")
    assert (done.stdout, done.stderr) == ("from the kernel\n", "--- kernel stdout ---\n")


def test_json_has_what_times_of_rows_come_with(board: Recorded) -> None:
    board.add(result=result_of(Verdict.PASS, row_case(busy=0.8), timed_case(1)), score_s=2.1e-3)
    (one,) = json.loads(call(board, "runs", "--all", "--json").stdout)
    for cases in (json.loads(call(board, "run", "1", "--json").stdout)["cases"], one["cases"]):
        keys = ("low_ns", "high_ns", "least_ns", "claimed_ns", "busy_processors", "speedup")
        assert [cases[0][key] for key in keys] == pytest.approx([1.9e6, 2.4e6, 5e5, 2.1e6 - 1, 0.8, 3.4])
        assert [cases[1][key] for key in keys] == [None, None, None, None, 0.0, None]


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (RunState.COLLECTING, "no job output; kernel output arrives with the result"),
        (RunState.CANCELLED, "the job left none, and kernel output comes only with a result"),
    ],
)
def test_a_run_without_output_says_why(board: Recorded, state: RunState, reason: str) -> None:
    board.add(status_of(state))
    done = call(board, "run", "1", "--log")
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1] == f"Run 1 has no output: {reason}."


def test_the_outcome_of_a_ranked_run_ends_its_report(board: Recorded) -> None:
    board.add(result=result_of(Verdict.PASS, timed_case()), score_s=1.13e-3)
    assert call(board, "run", "1").stdout.endswith("\n\nRun 1 passed: first place on CPU: 1.13 ms.\n")


def test_a_run_that_has_not_ended_has_no_outcome(board: Recorded) -> None:
    board.add(status_of(RunState.COLLECTING))
    assert "Run 1 " not in call(board, "run", "1").stdout


def test_a_list_says_when_a_job_ended_as_its_report_does(board: Recorded) -> None:
    board.add(result=result_of(Verdict.PASS))
    board.add(status_of(RunState.LOST))
    reports = [json.loads(call(board, "run", number, "--json").stdout)["ended_at"] for number in "21"]
    listed = [run["ended_at"] for run in json.loads(call(board, "runs", "--json").stdout)]
    assert listed == reports == [None, "2026-05-01T12:00:09Z"]


def test_a_cell_of_a_piped_table_holds_one_line_of_a_traceback(board: Recorded) -> None:
    message = "ValueError: bad\nTraceback (most recent call last):\n  line 3\nValueError: bad"
    board.add(result=result_of(Verdict.EXCEPTION, Case("test", 0, "size: 3", Verdict.EXCEPTION, message)))
    assert "1  exception  ValueError: bad  3\n" in call(board, "run", "1").stdout


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
    assert numbers("--sort", "outcome") == [2, 1, 3]
    assert numbers("--sort", "outcome", "--reverse", "--limit", "2") == [3, 1]


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
        )
    )


def test_the_number_of_a_run_that_is_no_submissions_leads_to_its_submission(board: Recorded) -> None:
    add_on_two_gpus(board, board.board.user)
    done = call(board, "code", "2")
    assert done.exit_code == 2
    assert "there is no submission 2" in done.stderr
    assert "Run 2 belongs to submission 1: use that number." in done.stderr
    assert "belongs to" not in call(board, "code", "3").stderr


def test_the_number_of_somebody_elses_run_promises_no_file(board: Recorded) -> None:
    add_on_two_gpus(board, "somebody")
    done = call(board, "code", "2")
    assert done.exit_code == 2
    assert "there is no submission 2" in done.stderr
    assert "belongs to" not in done.stderr


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

    def found(job: str, *more: str) -> list[int]:
        return [run["id"] for run in json.loads(call(board, "runs", "--job", job, "--json", *more).stdout)]

    assert found("184") == [alone.id]
    assert found("1844") == [together.id, second.id, first.id]
    assert found("1844", "--limit", "1") == [together.id]
    assert found("1844", "--note", "fused") == []
    assert found("1844_11") == [second.id]
    assert found("1844_1") == found("18") == found("") == found("%") == []
    assert "No matching runs." in call(board, "runs", "--job", "9").stdout
    assert [run.id for run in Store(board.folder / "board" / "board.db").runs.list(RunQuery(words="1844_11"))] == [
        second.id
    ]


def test_the_runs_of_one_user_are_listed(board: Recorded) -> None:
    board.add(status_of(RunState.QUEUED), user="ada")
    own = board.add(status_of(RunState.QUEUED))
    both = [str(run["id"]) for run in json.loads(call(board, "runs", "--all", "--json").stdout)]
    assert both == ["2", "1"]
    adas = json.loads(call(board, "runs", "--user", "ada", "--json").stdout)
    assert [run["user"] for run in adas] == ["ada"]
    assert [run.id for run in board.board.runs.list(everyone=True, user=own.user)] == [own.id]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--state", "wrong value"), "kernel.py"),
        (("--gpu", "cpu", "--mode", "leaderboard", "--state", "PASS"), "No matching runs"),
        (("--state", "quued"), "Did you mean"),
        (("--mode", "fast"), "fast"),
        (("--sort", "scor"), "Did you mean"),
        (("--gpu", "B999"), "unknown GPU"),
        (("--user", "nobody-here"), "No matching runs"),
    ],
)
def test_the_filters_of_runs_say_what_they_do_not_know(board: Recorded, words: Sequence[str], told: str) -> None:
    board.add(result=result_of(Verdict.WRONG_VALUE), mode=Mode.TEST)
    done = CliRunner().invoke(cli, ["runs", *words], obj=lambda: board.board)
    assert told in done.output
