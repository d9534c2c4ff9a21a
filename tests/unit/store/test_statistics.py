"""`admin stats`: how much was submitted and run, from the events."""

import json
import os
from datetime import timedelta
from typing import Any

from click.testing import CliRunner, Result

from hpc_board.board import Board
from hpc_board.cli.main import cli
from hpc_board.domain.run import Retry, Run, RunState, Status
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.store import Store
from hpc_board.store.export import RunSelection
from hpc_board.store.runners import NewRunner
from hpc_board.store.statistics import statistics
from hpc_board.store.submissions import NewRun, NewSubmission
from tests.unit.recorded import AT, Recorded, result_of, status_of, timed_case
from tests.values import replace


def call(board: Recorded, *argv: str) -> Result:
    done = CliRunner().invoke(cli, ["admin", "stats", *argv], obj=lambda: board.board)
    assert done.exit_code == 0, done.output
    return done


def ran(board: Recorded, waited_s: float, ran_s: float, verdict: Verdict = Verdict.PASS, **more: Any) -> Run:
    """A run that started and ended these seconds after it was submitted and started."""
    start = AT + timedelta(seconds=waited_s)
    end = start + timedelta(seconds=ran_s)
    result = replace(result_of(verdict, timed_case()), started_at=start.isoformat(), ended_at=end.isoformat())
    score_s = 1e-3 if verdict is Verdict.PASS and more.get("mode") is not Mode.TEST else None
    return board.add(replace(status_of(RunState.RUNNING), at=start), result=result, score_s=score_s, **more)


def test_the_numbers_are_those_of_the_events(board: Recorded) -> None:
    ran(board, 10, 60, user="ada", code=b"one")
    ran(board, 20, 30, user="ada", code=b"other", mode=Mode.TEST)
    ran(board, 90, 5, Verdict.WRONG_VALUE, user="bob", code=b"one")
    board.add(status_of(RunState.QUEUED), user="eve", gpu="H100", code=b"one")
    found = json.loads(call(board, "--json").stdout)

    assert {key: found[key] for key in ("submissions", "runs", "waiting", "users", "unique_codes")} == {
        "submissions": 4,
        "runs": 4,
        "waiting": 1,
        "users": 3,
        "unique_codes": 2,
    }
    assert found["gpus"] == [
        {
            "gpu": "CPU",
            "runs": 3,
            "passed": 2,
            "scored": 1,
            "started": 3,
            "wait_median_s": 20,
            "wait_max_s": 90,
            "run_total_s": 95,
        },
        {
            "gpu": "H100",
            "runs": 1,
            "passed": 0,
            "scored": 0,
            "started": 0,
            "wait_median_s": None,
            "wait_max_s": None,
            "run_total_s": 0,
        },
    ]
    assert [(user["user"], user["submissions"], user["run_total_s"]) for user in found["top_users"]] == [
        ("ada", 2, 90),
        ("bob", 1, 5),
        ("eve", 1, 0),
    ]


def test_users_are_in_the_order_of_their_gpu_time(board: Recorded) -> None:
    ran(board, 1, 60, user="ada")
    ran(board, 1, 5, user="ada", gpu="H100", emulated=False)
    ran(board, 1, 1500, user="bob", gpu="H100", emulated=False)
    ran(board, 1, 70, user="eve")
    ran(board, 1, 80, user="kim", gpu="H100", mode=Mode.TEST)
    found = json.loads(call(board, "--json").stdout)
    assert found["gpu_seconds"] == 1505
    assert [(user["user"], user["gpu_seconds"], user["run_total_s"]) for user in found["top_users"]] == [
        ("bob", 1500, 1500),
        ("ada", 5, 65),
        ("kim", 0, 80),
        ("eve", 0, 70),
    ]
    printed = [line.split() for line in call(board).stdout.splitlines()]
    assert ["GPU-seconds", "1,505"] in printed
    assert ["bob", "1", "1", "1,500", "0", "25", "min"] in printed


def held(board: Recorded, user: str, seconds: float, gpu: str = "H100", *, hours_later: float = 0) -> None:
    """A runner that held its GPU for these seconds."""
    runners = Store(board.board.settings.board / "board.db").runners
    at = AT + timedelta(hours=hours_later)
    runner = runners.add(
        NewRunner(user, "", gpu, "here", "", os.urandom(8).hex(), "a" * 64, 3600, 300, 1, "b" * 64, "{}", at)
    )
    for state, end in ((RunState.RUNNING, at), (RunState.FINISHED, at + timedelta(seconds=seconds))):
        runners.record(runner.id, Status(state, end, runner=runner.id))


def test_gpu_time_has_that_of_held_gpus(board: Recorded) -> None:
    ran(board, 1, 5, user="ada", gpu="H100", emulated=False)
    for user, seconds in (("ada", 900), ("ada", 90), ("bob", 1500), ("", 7)):
        held(board, user, seconds)
    found = json.loads(call(board, "--json").stdout)
    assert (found["gpu_seconds"], found["idle_gpu_seconds"], found["users"]) == (2502, 2497, 1)
    assert [
        (user["user"], user["runs"], user["gpu_seconds"], user["idle_gpu_seconds"]) for user in found["top_users"]
    ] == [
        ("bob", 0, 1500, 1500),
        ("ada", 1, 995, 990),
    ]
    printed = [line.split() for line in call(board).stdout.splitlines()]
    assert ["GPU-seconds", "2,502", "(2,497", "held", "idle)"] in printed
    assert ["ada", "1", "1", "995", "990", "5", "s"] in printed


def test_held_gpus_of_the_days_that_are_asked_for_count_and_those_of_no_task(board: Recorded) -> None:
    held(board, "ada", 30)
    held(board, "ada", 60, hours_later=24)
    since = AT + timedelta(hours=1)
    store = Store(board.board.settings.board / "board.db")
    chosen = [
        RunSelection(since=since),
        RunSelection(gpus=("H100",)),
        RunSelection(gpus=("CPU",)),
        RunSelection(("a",)),
    ]
    assert [statistics(store.file, each).idle_gpu_seconds for each in chosen] == [60, 90, 0, 0]


def test_a_submission_to_two_gpus_is_one(board: Recorded) -> None:
    runs = [NewRun(gpu, "here", "", f"token-{gpu}", "nonce", "self-run", False, "") for gpu in ("CPU", "H100")]
    task = board.board.tasks.get("vectoradd_py")
    board.board.runs.list()
    Store(board.board.settings.board / "board.db").submissions.add(
        NewSubmission(task=task, user="ada", file_name="k.py", code=b"", mode=Mode.TEST, note="", at=AT, runs=runs),
        sender=None,
    )
    found = json.loads(call(board, "--json").stdout)
    assert (found["submissions"], found["runs"]) == (1, 2)
    assert found["top_users"][0]["submissions"] == 1


def test_runs_that_were_stopped_count_with_the_time_that_they_took(board: Recorded) -> None:
    running = replace(status_of(RunState.RUNNING), at=AT + timedelta(seconds=5))
    board.add(running, replace(status_of(RunState.TIMEOUT), at=AT + timedelta(seconds=65)))
    (gpu,) = json.loads(call(board, "--json").stdout)["gpus"]
    assert (gpu["passed"], gpu["wait_max_s"], gpu["run_total_s"]) == (0, 5, 60)


def test_a_run_that_was_sent_again_took_the_time_of_its_last_job(board: Recorded) -> None:
    run = board.add(replace(status_of(RunState.RUNNING), at=AT + timedelta(minutes=2)))
    runs = Store(board.folder / "board" / "board.db").runs
    again = replace(status_of(RunState.CREATED), at=AT + timedelta(minutes=4))
    runs.retry_each({run.id: Retry("hb-0123456789abcdef", "n", again)})
    for state, minute in ((RunState.RUNNING, 600), (RunState.CANCELLED, 603)):
        runs.record(run.id, replace(status_of(state), at=AT + timedelta(minutes=minute)))
    (gpu,) = json.loads(call(board, "--json").stdout)["gpus"]
    assert (gpu["wait_max_s"], gpu["run_total_s"]) == (600 * 60, 3 * 60)


def test_only_the_days_and_the_task_that_are_asked_for_count(board: Recorded) -> None:
    ran(board, 1, 1)
    assert json.loads(call(board, "--json", "--days", "1").stdout)["runs"] == 0
    assert json.loads(call(board, "--json", "--days", "100000").stdout)["runs"] == 1
    assert json.loads(call(board, "--json", "--task", "vectoradd_py").stdout)["runs"] == 1
    found = json.loads(call(board, "--json", "--task", "narrow").stdout)
    assert (found["runs"], found["unique_codes"], found["gpus"]) == (0, 0, [])


def test_the_report_is_for_people(board: Recorded) -> None:
    ran(board, 4.2, 7300, user="ada\x1b[31m")
    printed = call(board).stdout
    assert "All tasks" in printed
    assert "1 (0 in flight)" in printed
    assert [line.split() for line in printed.splitlines() if line.startswith("CPU")] == [
        ["CPU", "1", "1", "1", "4", "s", "4", "s", "2", "h"]
    ]
    assert "\x1b" not in printed


def test_nothing_was_done_on_a_new_board(board: Recorded) -> None:
    assert "No submissions." in call(board).stdout


def test_a_task_that_is_none_is_an_error_and_others_than_admins_see_nothing(board: Recorded) -> None:
    done = CliRunner().invoke(cli, ["admin", "stats", "--task", "nothing"], obj=lambda: board.board)
    assert done.exit_code == 2
    stranger = Board(board.board.settings, user="nobody")
    done = CliRunner().invoke(cli, ["admin", "stats"], obj=lambda: stranger)
    assert (done.exit_code, done.stdout) == (5, "")
