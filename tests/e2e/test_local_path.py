"""The whole path on the embedded scheduler, through the command line as a participant uses it."""

import json
import os
import re
import sqlite3
import subprocess
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from hpc_board.model.peaks import CPU_PEAKS
from hpc_board.model.result import CPU_PEAK_FACTS
from tests.e2e.boards import HANGING, RIGHT, WRONG, BoardFiles, board_files, fill
from tests.waiting import awaited

SLOW = RIGHT.replace("    return", "    import time; time.sleep(0.02)\n    return")


@pytest.fixture
def board(tmp_path: Path) -> BoardFiles:
    return board_files(tmp_path, slurm=False)


def integrity(board: BoardFiles) -> str:
    with sqlite3.connect(board.folder / "board" / "board.db") as db:
        return str(db.execute("PRAGMA integrity_check").fetchone()[0])


def test_the_best_run_of_a_user_stands_on_the_board_and_all_of_them_in_the_history(board: BoardFiles) -> None:
    for name, text in (("slow.py", SLOW), ("fast.py", RIGHT), ("wrong.py", WRONG)):
        done = board.run("submit", board.kernel(text, name), "--mode", "ranked", "--wait")
        assert done.returncode == (1 if text is WRONG else 0), done.stderr
    (shown,) = board.json("show", "double")["boards"]
    assert [(row["rank"], row["file_name"]) for row in shown["rows"]] == [(1, "fast.py")]
    (personal,) = board.json("show", "double", "--own")["boards"]
    assert [(row["rank"], row["file_name"]) for row in personal["rows"]] == [(1, "fast.py"), (2, "slow.py")]
    runs = {run["file_name"]: run for run in board.json("runs")}
    assert runs["wrong.py"]["verdict"] == "wrong_value"
    assert runs["wrong.py"]["rank"] is None
    assert board.run("code", "1").stdout == SLOW


def test_a_part_of_an_evaluation_is_judged_and_a_benchmark_that_is_slower_stops(board: BoardFiles) -> None:
    def waited(kernel: str, *options: str) -> dict[str, Any]:
        answer: dict[str, Any] = board.json("submit", board.kernel(kernel), "--gpu", "CPU", "--wait", *options)
        (run,) = answer["runs"]
        assert run["verdict"] == "pass", run
        return dict(run)

    (task,) = board.folder.glob("**/double/task.yml")
    # The time of a single row cannot be compared.
    text = task.read_text().replace("rows: 1\n", "rows: 3\n")
    task.write_text(text.replace("hpc_board:\n", "hpc_board:\n  hidden_benchmarks: [{size: 50, seed: 9}]\n"))
    one = waited(RIGHT, "--case", "2")
    assert [(case["phase"], case["index"], case["spec"]) for case in one["cases"]] == [("test", 1, "size: 10; seed: 2")]
    slow = RIGHT.replace("    return", "    import time; time.sleep(0.05)\n    return")
    first = waited(slow, "--mode", "benchmark", "--effort", "quick", "--stop-if-slower")
    told = "--stop-if-slower had no effect: no earlier run of yours has times of the same cases to compare with"
    assert (first["score_s"] > 0, first["message"]) == (True, told)
    assert f"{told}." in " ".join(board.run("run", str(first["id"])).stdout.split())
    best = waited(RIGHT, "--mode", "ranked")
    alone = waited(slow, "--mode", "benchmark", "--case", "1", "--stop-if-slower")
    assert ([case["index"] for case in alone["cases"]], alone["message"]) == ([0], told)
    stopped = waited(slow, "--mode", "benchmark", "--stop-if-slower")
    told = rf"stopped early: it is slower than your run {best['id']} \([0-9.]+ .s\)"
    assert re.fullmatch(told, stopped["message"])
    assert stopped["message"] in " ".join(board.run("run", str(stopped["id"])).stdout.split())
    refused = board.run("submit", board.kernel(slow), "--gpu", "CPU", "--mode", "ranked", "--stop-if-slower")
    assert "--stop-if-slower is an option of mode benchmark, not of mode ranked." in refused.stderr


def test_two_entrants_are_ranked_and_compared(board: BoardFiles) -> None:
    parent: tuple[str, ...] = ()
    for entrant, texts in (("agent-a", (WRONG, SLOW)), ("agent-b", (SLOW, RIGHT))):
        for step, text in enumerate(texts):
            words = ("--as", entrant, "--tag", f"step={step}", *parent, "--mode", "ranked")
            (run,) = board.json("submit", board.kernel(text), *words, "--wait")["runs"]
            assert (run["entrant"], run["tags"]) == (entrant, {"step": str(step)})
            parent = "--parent", str(run["submission"])
    found = board.json("experiment", "agent-a", "agent-b", "--task", "double")
    (match,) = found["boards"]
    assert [(side["runs"], side["files"], side["passed"]) for side in match["sides"]] == [(2, 2, 1), (2, 2, 2)]
    assert [[best["run"] for best in side["by_runs"]] for side in match["sides"]] == [[2], [3, 4]]
    assert match["score"]["speedup"] > 1
    assert [each["rates"] for each in found["pass_at_k"]] == [[0.5, 1.0], [1.0, 1.0]]
    (shown,) = board.json("show", "double", "--by", "entrant")["boards"]
    assert [(row["rank"], row["entrant"], row["run"]) for row in shown["rows"]] == [
        (1, "agent-b", 4),
        (2, "agent-a", 2),
    ]
    assert board.json("run", "3")["children"] == [4]


def test_a_pruned_run_keeps_its_report_its_output_and_its_code(board: BoardFiles) -> None:
    loud = RIGHT.replace("    return", "    print('from the kernel')\n    return")
    board.run("submit", board.kernel(loud), "--mode", "ranked", "--wait")
    board.run("submit", board.kernel(HANGING), "--mode", "test", "--wait", "--timeout", "0")
    board.run("cancel", "2")
    board.run("watch", "2")
    with (board.folder / "board" / "runs" / "1" / "slurm-1.out").open("a") as log:
        log.write("from the job\n")
    asked = [("run", "1"), ("run", "1", "--log"), ("run", "2"), ("code", "1"), ("run", "1", "--json")]
    before = [board.run(*words).stdout for words in asked]
    assert "from the job" in before[1]
    assert board.json("admin", "prune", "--older-than", "0d", "--dry-run")["clusters"][0]["folders"] == 2
    done = board.run("admin", "prune", "--older-than", "0d")
    assert done.stdout.startswith("Removed 2 job folders of runs that ended before ")
    assert not any((board.folder / "board" / "runs").iterdir())
    assert [board.run(*words).stdout for words in asked] == before
    board.json("admin", "rerun", "double", "--submission", "1")
    assert board.ended(3)["verdict"] == "pass"


def test_a_run_that_nobody_waits_for_goes_on_until_it_is_cancelled_and_says_where_it_stood(board: BoardFiles) -> None:
    done = board.run("submit", board.kernel(HANGING), "--mode", "test", "--wait", "--timeout", "1", "--json")
    assert done.returncode == 4
    assert "Timed out" in done.stderr
    progress = board.folder / "board" / "runs" / "1" / "progress.jsonl"
    awaited(lambda: progress.exists() and '"case": 1' in progress.read_text())
    assert board.run("cancel", "1").returncode == 0
    assert board.run("watch", "1").returncode == 3
    shown = board.json("run", "1")
    assert (shown["state"], shown["verdict"], shown["score_s"], shown["rank"]) == ("cancelled", None, None, None)
    assert "while test case 1 of 2 ran (size: 3; seed: 1) for " in shown["stopped"]
    assert "tests passed: 0 of 2" in shown["stopped"]
    assert shown["provenance"]["interrupted"] == "SIGTERM"
    text = " ".join(board.run("run", "1").stdout.split())
    assert "Cancelled by you after" in text


def test_the_line_of_a_run_comes_when_it_has_ended_while_others_go_on(board: BoardFiles) -> None:
    files = board.kernel(RIGHT, "fast.py"), board.kernel(HANGING, "hanging.py")
    words = board.command("submit", *files, "--wait", "--json=lines", "--fields", "id,verdict,state")
    environ = {**os.environ, **board.environ}
    with subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as waiting:
        assert waiting.stdout is not None
        assert json.loads(waiting.stdout.readline()) == {"id": 1, "verdict": "pass", "state": "finished"}
        assert waiting.poll() is None
        board.run("cancel", "2")
        assert json.loads(waiting.stdout.readline()) == {"id": 2, "verdict": None, "state": "cancelled"}
        assert (waiting.stdout.read(), waiting.wait(60)) == ("", 3)


@pytest.mark.root
@pytest.mark.parametrize("left_bytes", [0, 300_000])
def test_a_full_disk_is_an_error_and_leaves_nothing_half_written(
    board: BoardFiles, small_disk: Path, left_bytes: int
) -> None:
    board.settings.write_text(
        board.settings.read_text().replace(str(board.folder / "board"), str(small_disk / "board"))
    )
    (board.folder / "board").symlink_to(small_disk / "board")
    assert board.run("submit", board.kernel(), "--mode", "test", "--wait").returncode == 0
    ballast = small_disk / "ballast"
    fill(ballast, left_bytes)
    submission = board.kernel(RIGHT + "#" * 200_000)
    done = board.run("submit", submission, "--mode", "test")
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    folders = {path.name for path in (small_disk / "board/runs").iterdir()}
    assert folders == {"1"}
    ballast.unlink()
    assert integrity(board) == "ok"
    assert board.run("submit", submission, "--mode", "test", "--wait").returncode == 0
    for run in board.json("runs"):
        assert board.run("watch", str(run["id"])).returncode in (0, 3)
    assert {run["state"] for run in board.json("runs")} <= {"finished", "error"}


def test_this_machine_is_proven_by_a_probe_job_that_leaves_nothing(board: BoardFiles) -> None:
    (found,) = board.json("admin", "check")
    assert (found["gpu"], found["proven"]) == ("CPU", True)
    assert [line["subject"] for line in found["lines"]][:2] == ["job", "python"]
    assert board.json("runs") == []
    assert not (board.folder / "board" / "checks").exists()


def test_a_run_on_a_cpu_shows_its_share_of_the_peaks_that_the_admin_s_check_has_measured(board: BoardFiles) -> None:
    if which("g++") is None:
        pytest.skip("needs g++")
    with (board.folder / "tasks" / "double" / "reference.py").open("a") as file:
        file.write("\ndef minimal_work(size, seed):\n    return 16 * size, 0\n")

    def benchmarked() -> dict[str, Any]:
        answer = board.json("submit", board.kernel(), "--gpu", "CPU", "--mode", "benchmark", "--wait")
        return dict(answer["runs"][0])

    assert "of_peak" not in benchmarked()["cases"][0]
    (found,) = board.json("admin", "check")
    assert [line["level"] for line in found["lines"] if line["subject"] == "peak"] == ["ok"]
    run = benchmarked()
    (case,) = run["cases"]
    bytes_per_s, operations_per_s = (run["provenance"][name] for name in CPU_PEAK_FACTS)
    assert 1e8 < bytes_per_s < 1e13
    assert 1e8 < operations_per_s < 1e15
    share = case["of_peak"]
    assert (share["resource"], share["rate"]) == ("memory", bytes_per_s)
    assert share["reached"] == pytest.approx(share["share"] * bytes_per_s)
    shown = " ".join(board.run("run", str(run["id"])).stdout.split())
    assert "of memory bandwidth, as measured by `admin check`." in shown
    peaks = board.folder / "board" / CPU_PEAKS
    peaks.unlink()
    peaks.mkdir()
    (found,) = board.json("admin", "check")
    (line,) = [line for line in found["lines"] if line["subject"] == "peak"]
    assert (line["level"], "cannot be written" in line["message"]) == ("warning", True)
