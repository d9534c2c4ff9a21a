"""The whole order of the GPU check on a machine without a GPU: its budget, its page, and children that hang or die."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hpc_board.harness.processes.tree import ended
from hpc_board.model.gpu import Device
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from tests.gpu.doubles import checking, harness_for, modules
from tests.gpu.test_cheats import any_time
from tests.harness.evaluations import QUICK, evaluate

pytestmark = pytest.mark.slow

EXPECTED = {
    "side_stream.py": "wrong_value",
    "deferred_work.py": "wrong_value",
    "no_response.py": "timing_inconsistent",
    "shape_replay.py": "wrong_value",
    "uninitialised_output.py": "wrong_value",
    "work_under_flush.py": "wrong_value",
    "sticky_error.py": "crash",
    "memory_hog.py": "out_of_memory",
    "spinning_kernel.py": "timeout",
}
"""Verdicts of the runs that must not pass, by their files."""

GRACE_SECONDS = 25
"""Time in which a check ends after its budget, on a busy machine."""


class Checked:
    """A check in a folder: its process, its page, its rows, and the processes that it had to kill."""

    def __init__(self, folder: Path, runs: Mapping[str, str], changes: Any = None, **more: Any) -> None:
        self._pids = folder / "pids"
        harness = harness_for({**EXPECTED, **runs}, self._pids, more.pop("harness", b""))
        self.bundle = checking(folder / "check.pyz", harness, changes or {}, **more)
        self.out = folder / "out"

    def start(self, seconds: int, *arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-I", self.bundle, "--out", self.out, "--name", "x", "--seconds", str(seconds)]
        environ = {"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "", "TMPDIR": str(self.out.parent)}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen([*map(str, command), *arguments], env=environ, text=True, **pipes)  # type: ignore[call-overload,no-any-return]

    def run(self, seconds: int, *arguments: str) -> tuple[int, str]:
        """The exit status and the output of a check that ends within its budget."""
        with self.start(seconds, *arguments) as process:
            try:
                output, _ = process.communicate(timeout=seconds + GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return process.returncode, output

    @property
    def page(self) -> str:
        return (self.out / "gpu-x.md").read_text()

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.out / "gpu-x" / "rows.jsonl").read_text().splitlines()]

    def row(self, name: str) -> dict[str, Any]:
        return next(row for row in self.rows if row["name"] == name)

    def left(self) -> list[int]:
        """The processes of runs that hang which are still there."""
        return [pid for pid in map(int, self._pids.read_text().split()) if not ended(pid)]


def entries(bundle: Path) -> int:
    listed = subprocess.run([sys.executable, bundle, "--list"], capture_output=True, text=True, check=True)
    return len(listed.stdout.splitlines())


@pytest.mark.torch
def test_the_whole_order_is_made_although_one_run_hangs_and_another_one_dies(tmp_path: Path, simulated: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(modules().order.__globals__["SUM"], "size", 1000)
        runs = {"persisting_l2.py": "die", "no_response.py": "hang", "vectoradd_item.py": "judge"}
        runs |= {"shape_replay.py": "odd", "spinning_kernel.py": "timeout, late"}
        limits = {"no_response": {"limit": 2}, "a call with .item()": {"limit": 60}}
        check = Checked(tmp_path, runs, limits, harness=any_time(simulated))
    status, _ = check.run(120)
    assert status == 1
    assert check.left() == []
    died, hung = check.row("persisting_l2"), check.row("no_response")
    assert (died["verdict"], died["message"]) == ("no result", "it exited with status -9: dying")
    assert (hung["verdict"], hung["message"]) == ("no result", "it was killed after 2 s")
    assert check.row("spinning_kernel")["verdict"] == "timeout", "it was killed, and had a result"
    odd = check.row("shape_replay")
    assert (odd["verdict"], odd["message"]) == ("no result", "gpu-check failed: KeyError: 'cases'")
    runs_of_rows = [row for row in check.rows if row["kind"] not in ("probe", "compare")]
    assert len(runs_of_rows) + 3 == entries(check.bundle), "the probe and the other clocks have rows of another form"
    assert runs_of_rows[-1]["name"] == "spinning_kernel"
    judged = check.row("a call with .item()")
    assert (judged["verdict"], judged["clock"]) == ("pass", "judge"), judged["message"]
    assert judged["result"]["cases"][0]["timing"]["samples_ns"]
    assert {"call", "response"} <= {line["made"] for line in judged["windows"]}
    assert judged["clock_reason"].startswith("the calls of benchmark case 1 synchronize")
    double = check.row("honest identity")
    assert (double["windows"][0]["window_ns"], double["clock_drift_ns"]) == (21_100.0, -30.0)
    sizes = [len(json.dumps(line)) + 1 for line in double["windows"]]
    assert 2**15 < sum(sizes) <= 2**16, "a run's windows are bounded"
    page = check.page
    assert "| honest identity | hidden | py | pass | 20.50 | 20.00 to 21.00 | 20.00 | 20.50 | 0.60 |  | audited" in page
    assert "- Not as expected: cheat persisting_l2 (py): no result" in page
    assert "- Rank: one file in 3 ranked runs has the scores 20.00, 20.00, 20.00 us, 0.00 % apart." in page
    assert "| attributes of the device | failed: the process judge did not answer in time |" in page
    assert "| copy engine in another's time | failed: the process one has ended |" in page
    assert re.search(r"^\| windows \| one, nothing: 12.70 us \(12.70 to 12.70\); two, nothing", page, re.MULTILINE)
    assert "| VMM memory by descriptor | shared |" in page
    assert "| judge: the calls of benchmark case 1 synchronize with the GPU themselves | " in page
    assert "| second_gpu | pass or infra_error | left out: this machine has one GPU |" in page
    files = [path for path in check.out.rglob("*") if path.is_file()]
    assert len(files) == 3
    assert all(path.stat().st_size < 16 * 2**20 for path in files)


def test_a_check_whose_runs_end_as_they_have_to_and_whose_clock_is_right_succeeds(tmp_path: Path) -> None:
    check = Checked(tmp_path, {})
    status, output = check.run(120)
    assert (status, check.page.count("**no**")) == (0, 0), output


def test_a_kernel_whose_time_the_other_clocks_contradict_fails_the_check(tmp_path: Path) -> None:
    check = Checked(tmp_path, {"kernels.py": "pass, slow FMAs"})
    status, output = check.run(30, "--only", "kernels")
    assert status == 1, output
    assert "- Clock: 9 of 10 kernels within 1 % or 1 us of the other clocks." in check.page
    assert "- Runs: 2 of 2 as expected." in check.page
    assert "| 10 ms of FMAs | 40.00, 40.00 | 20.00, 20.00 | 40.00, 40.00 |" in check.page


def test_a_run_that_hangs_ends_with_the_budget_and_the_runs_after_it_are_named(tmp_path: Path) -> None:
    check = Checked(tmp_path, {"done_too_early.py": "hang"}, {"done_too_early": {"limit": 1000}}, faster=100)
    status, _ = check.run(10, "--only", "honest", "--only", "done_too_early", "--only", "spinning")
    assert status == 1
    assert check.left() == []
    assert check.row("done_too_early")["left_out"].startswith("no time, it was killed after ")
    assert check.row("spinning_kernel")["left_out"].startswith("no time, it takes ")
    assert "of these are essential: give the check more `--seconds`." in check.page
    assert "cheat spinning_kernel (py)" in check.page


def test_a_check_that_is_killed_leaves_its_page_and_its_rows_and_no_process(tmp_path: Path) -> None:
    check = Checked(tmp_path, {"done_too_early.py": "hang"}, {"done_too_early": {"limit": 1000}}, faster=100)
    with check.start(300) as process:
        while not (tmp_path / "pids").exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    while check.left():
        time.sleep(0.05)
    assert check.row("work_before_the_sign")["verdict"] == "pass"
    assert "then it was ended" in check.page
    assert "| work_before_the_sign | pass | pass | yes |" in check.page


@pytest.mark.torch
def test_the_task_of_the_clock_is_judged_in_one_run_of_all_its_kernels(tmp_path: Path, simulated: str) -> None:
    bundle = modules()
    task = bundle.clock_task(bundle.read_task(bundle.TASKS / bundle.CHEATED))
    sizes = {"product_fp32": 32, "product_bf16": 32, "fma": 10}
    cases = tuple({**case, "size": sizes.get(str(case["kernel"]), 4096)} for case in task.benchmarks)
    limits = {**QUICK, "workers": 1, "warmup_calls": 1}
    task = bundle.dataclasses.replace(task, benchmarks=cases, limits=limits)
    code = bundle.CLOCK_KERNELS.read_text()
    result = evaluate(tmp_path, code, task, Mode.BENCHMARK, Device.CUDA, harness=any_time(simulated)).result
    assert (result.verdict, result.message) == (Verdict.PASS, "")
    assert [case.timing is not None for case in result.cases] == [True] * 10
    assert result.provenance["clock"] == "judge", "its inputs have a name and a number beside the tensors"
