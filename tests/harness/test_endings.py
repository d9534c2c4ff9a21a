"""Messages and files of an evaluation that ends before its time, by any fault."""

from pathlib import Path

import pytest

from hpc_board.domain.result_json import decode_result
from hpc_board.harness.progress import Progress
from hpc_board.harness.result_file import write_result
from hpc_board.model.result import Result, Verdict
from hpc_board.model.task import Mode
from tests.harness.evaluations import REFERENCE, RIGHT, a_task, evaluate
from tests.harness.harness_file import Edit, edited

LOADED_TWICE = (
    "import os, pathlib\n"
    'path = pathlib.Path(os.environ["XDG_CACHE_HOME"])\n'
    "path.mkdir(parents=True, exist_ok=True)\n"
    "before = len(list(path.iterdir()))\n"
    '(path / str(before)).write_text("")\n'
    'assert before < 2, "not a third time"\n'
)

ZYGOTE_ENDS = Edit(
    "processes/zygote.py",
    '    preload(frame["modules"])\n',
    '    print("libcudart.so.12: no such file")\n    raise SystemExit(3)\n',
)
NO_SECOND_WORKER = Edit(
    "measure/crew.py",
    "child or self._processes.loaded_worker()",
    "1 / vars(self).setdefault('left', [0, 1]).pop() and self._processes.loaded_worker()",
)
NO_SECOND_CASE = Edit(
    "measure/bench.py",
    "        case = dict(self.phase.cases[index])\n",
    '        case = dict(self.phase.cases[index])\n        1 / (1000 - case["size"])\n',
)


HOLDING = "held = bytearray(150 * 2**20)"


@pytest.mark.parametrize(
    "body", [HOLDING, f"subprocess.run([sys.executable, '-c', '{HOLDING}'])"], ids=["worker", "its child"]
)
def test_the_memory_and_the_processor_time_of_a_submission_are_counted(tmp_path: Path, body: str) -> None:
    submission = RIGHT.replace("    return", f"    import subprocess, sys\n    {body}\n    return")
    told = evaluate(tmp_path, submission).result.provenance
    assert 150 * 2**20 < told["memory_peak_bytes"] < 600 * 2**20
    assert 0 < told["cpu_seconds"] < 60
    assert told["elapsed_seconds"] > 0
    assert "memory_asked_bytes" not in told


def test_what_the_zygote_printed_is_told_where_it_can_start_nothing(tmp_path: Path) -> None:
    result = evaluate(tmp_path, RIGHT, harness=edited((ZYGOTE_ENDS,))).result
    assert result.verdict is Verdict.INFRA_ERROR
    assert "the process that starts the workers is gone: it exited with status 3" in result.message
    assert "The judge printed:\nlibcudart.so.12: no such file" in result.message


def test_a_judge_that_is_not_to_blame_is_not_quoted(tmp_path: Path) -> None:
    printing = a_task("print('never mind')\n" + REFERENCE)
    result = evaluate(tmp_path, RIGHT, printing, Mode.RANKED, harness=edited((NO_SECOND_WORKER,))).result
    assert result.verdict is Verdict.INFRA_ERROR
    assert "never mind" not in result.message


def test_times_are_kept_where_a_later_worker_cannot_load_the_submission(tmp_path: Path) -> None:
    result = evaluate(tmp_path, LOADED_TWICE + RIGHT, mode=Mode.RANKED).result
    assert result.verdict is Verdict.LOAD_ERROR, result.message
    assert "not a third time" in result.message
    assert result.score_s is None
    timings = [case.timing for case in result.cases if case.phase == "benchmark"]
    assert [len(timing.worker_samples) for timing in timings if timing] == [1, 1]


@pytest.mark.parametrize(
    ("edit", "cases"),
    [(NO_SECOND_WORKER, [0, 1]), (NO_SECOND_CASE, [0])],
    ids=["between workers", "within a case"],
)
def test_times_are_kept_where_the_harness_fails(tmp_path: Path, edit: Edit, cases: list[int]) -> None:
    result = evaluate(tmp_path, RIGHT, mode=Mode.RANKED, harness=edited((edit,))).result
    assert result.verdict is Verdict.INFRA_ERROR
    assert "the harness failed on this node: ZeroDivisionError" in result.message
    assert [case.index for case in result.cases if case.phase == "benchmark"] == cases
    assert all(case.timing for case in result.cases if case.phase == "benchmark")


def test_a_line_of_progress_that_cannot_be_written_costs_no_result(tmp_path: Path) -> None:
    progress = Progress(tmp_path / "gone")
    progress.say("end", None, None, "pass")
    assert progress.where().endswith("at end: pass")


def test_a_result_is_written_before_space_is_made_for_it_and_after_if_it_must_be(tmp_path: Path) -> None:
    result, made = Result(1, "n", "test", Verdict.PASS, "", ()), []
    write_result(result, tmp_path, make_space=lambda: made.append("space"))
    assert made == []
    full = tmp_path / "full"
    write_result(result, full, make_space=full.mkdir)
    assert decode_result((full / "result.json").read_bytes()) == result
    with pytest.raises(OSError, match="No such file"):
        write_result(result, tmp_path / "gone")
