"""The judge, the clocks and the supervisor, beyond the verdict on an honest kernel."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hpc_board.harness.bundle import harness_bytes
from hpc_board.harness.confine.sandbox import readable_folders
from hpc_board.harness.judge.judge import _amounts
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode, Task, TaskFile, Timeouts
from hpc_board.runs import job_folder
from tests.harness.evaluations import QUICK, REFERENCE, RIGHT, a_task, evaluate, make_job_folder, progress, result_in

ROOT = Path(__file__).resolve().parents[2]


def forging(layout: str) -> str:
    """A submission whose worker writes `layout` where its output belongs."""
    return (
        "import json, os\nfrom hpc_board.harness.wire import payload\n"
        "def write(self, descriptor, *arguments):\n"
        f"    header = json.dumps({layout}).encode()\n"
        "    data = payload.MAGIC + len(header).to_bytes(8, 'little') + header\n"
        "    os.pwrite(descriptor, data.ljust(4096, b'x'), 0)\n"
        "    self.size = 4096\n"
        "payload.Laid.write = write\n" + RIGHT
    )


@pytest.mark.parametrize(
    "layout",
    [
        "{'k': 'tensor', 'dtype': 'float32', 'shape': [2**47, 2**47, 0], 'at': 0}",
        "{'k': 'tensor', 'dtype': [], 'shape': [1], 'at': 0}",
        "{'k': 'array', 'dtype': 'bfloat16', 'shape': [1], 'at': 0}",
        "{'k': 'array', 'dtype': 'float32', 'shape': [2**47, 2**47, 0], 'at': 0}",
    ],
)
@pytest.mark.torch
def test_an_output_that_no_library_can_hold_is_the_worker_s_fault(tmp_path: Path, layout: str) -> None:
    pytest.importorskip("torch")
    result = evaluate(tmp_path, forging(layout)).result
    assert result.verdict is Verdict.PROTOCOL_VIOLATION, result.message
    assert "follow the last leaf" not in result.message


@pytest.mark.torch
def test_an_output_that_the_device_cannot_hold_beside_the_inputs_is_out_of_memory_while_checking(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torch")
    reference = (
        "import torch\n"
        "from hpc_board.harness.device.device import CpuDevice\n"
        "def place(self, tensor):\n    raise torch.OutOfMemoryError('Tried to allocate 20 GiB')\n"
        "def generate_input(size, seed):\n    CpuDevice.place = place\n    return torch.ones(size)\n"
        "def check_implementation(data, output):\n    return True\n"
    )
    task = a_task(reference, tests=({"size": 3, "seed": 1},))
    result = evaluate(tmp_path, "def custom_kernel(data):\n    return data\n", task).result
    assert result.verdict is Verdict.OUT_OF_MEMORY, result.message
    assert "no memory was left to check the output" in result.message


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        ("RuntimeError('CUDA error: an illegal memory access was encountered')", Verdict.CRASH),
        ("RuntimeError('CUDA error: uncorrectable ECC error encountered')", Verdict.EXCEPTION),
        ("ValueError('CUDA error: no CUDA-capable device is detected')", Verdict.EXCEPTION),
    ],
)
def test_what_a_submission_says_of_a_device_never_exonerates_it(tmp_path: Path, error: str, verdict: Verdict) -> None:
    result = evaluate(tmp_path, f"def custom_kernel(data):\n    raise {error}\n").result
    assert result.verdict is verdict
    assert "CUDA error" in result.cases[0].message


NO_DEVICE = "RuntimeError('CUDA error: no CUDA-capable device is detected')"
NO_MEMORY = "type('OutOfMemoryError', (RuntimeError,), {})('CUDA error: no memory')"
MUTE = "type('CUDA error', (Exception,), {'__str__': lambda self: 1 / 0})()"


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("def generate_input(size, seed):", NO_DEVICE),
        ("def check_implementation(data, output):", NO_DEVICE),
        ("import random", NO_DEVICE),
        ("def generate_input(size, seed):", NO_MEMORY),
        ("def check_implementation(data, output):", MUTE),
        ("import random", MUTE),
    ],
)
def test_what_a_task_raises_on_a_cpu_is_the_task_s_fault_whatever_it_says(
    tmp_path: Path, place: str, error: str
) -> None:
    indent = "    " if place.endswith(":") else ""
    reference = REFERENCE.replace(place, f"{place}\n{indent}raise {error}")
    result = evaluate(tmp_path, RIGHT, a_task(reference)).result
    assert result.verdict is Verdict.TASK_ERROR, result.message
    message = result.cases[0].message if result.cases else result.message
    assert "the task cannot" in message or "reference.py cannot be imported" in message
    assert "CUDA error" in message


def test_the_least_work_of_a_case_comes_with_its_times(tmp_path: Path) -> None:
    reference = f"{REFERENCE}\ndef minimal_work(size, seed):\n    return 8 * size, size\n"
    result = evaluate(tmp_path, RIGHT, a_task(reference), mode=Mode.BENCHMARK).result
    assert result.verdict is Verdict.PASS, result.message
    for case in result.cases:
        assert case.work is not None
        assert case.work.memory_bytes == 8 * case.work.operations > 0


@pytest.mark.parametrize(
    "found",
    [(math.nan, 1), (1, math.inf), (-1, 1), (1, 10**400), (1, 1e31), (1, "x"), None, 1, "12", (1, 2, 3), {1: 1, 2: 2}],
)
def test_a_work_is_two_finite_numbers_from_zero(found: Any) -> None:
    assert _amounts([0, 2.5]) == [0.0, 2.5]
    with pytest.raises(ValueError, match="not \\(bytes, operations\\): two numbers, each from 0 to"):
        _amounts(found)


def test_the_inputs_of_a_call_that_failed_are_not_kept(tmp_path: Path) -> None:
    reference = (
        "import gc\n"
        "def generate_input(size, seed):\n"
        "    kept = [o for o in gc.get_objects() if type(o) is list and o[:1] == ['marked inputs']]\n"
        "    assert not kept, f'{len(kept)} inputs are kept'\n"
        "    return ['marked inputs', size]\n"
        "def check_implementation(data, output):\n    return True\n"
    )
    result = evaluate(tmp_path, "def custom_kernel(data):\n    return 1 / 0\n", a_task(reference)).result
    assert [case.verdict for case in result.cases] == [Verdict.EXCEPTION] * 3, result.message


@pytest.mark.quiet
def test_a_slow_reference_costs_the_kernel_none_of_its_time(tmp_path: Path) -> None:
    reference = REFERENCE.replace("rng = ", "import time; time.sleep(0.5)\n    rng = ")
    result = evaluate(tmp_path, RIGHT, a_task(reference, timeouts=Timeouts(1, 60, 60))).result
    assert result.verdict is Verdict.PASS, result.message


@pytest.mark.quiet
def test_calls_that_fail_use_up_the_kernel_s_time_too(tmp_path: Path) -> None:
    submission = "import time\ndef custom_kernel(data):\n    time.sleep(0.6)\n    raise ValueError\n"
    result = evaluate(tmp_path, submission, a_task(timeouts=Timeouts(1, 60, 60))).result
    assert [case.verdict for case in result.cases] == [Verdict.EXCEPTION, Verdict.TIMEOUT]
    assert "1 s for all test cases" in result.cases[-1].message


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("def check_implementation(data, output):", "did not check the output within 0.5 s"),
        ("def generate_input(size, seed):", "did not generate the inputs within 0.5 s"),
    ],
)
@pytest.mark.quiet
def test_a_judge_that_takes_too_long_is_the_task_s_fault_and_says_at_what(
    tmp_path: Path, place: str, words: str
) -> None:
    reference = REFERENCE.replace(place, f"{place}\n    import time; time.sleep(60)")
    result = evaluate(tmp_path, RIGHT, a_task(reference, limits={**QUICK, "judge_seconds": 0.5})).result
    assert result.verdict is Verdict.TASK_ERROR
    assert words in result.message


@pytest.mark.quiet
def test_the_judge_s_time_for_all_cases_is_bounded(tmp_path: Path) -> None:
    reference = REFERENCE.replace("rng = ", "import time; time.sleep(0.9)\n    rng = ")
    task = a_task(
        reference,
        tests=tuple({"size": 3, "seed": seed} for seed in range(5)),
        timeouts=Timeouts(1, 60, 60),
        limits={**QUICK, "judge_seconds": 2},
    )
    result = evaluate(tmp_path, RIGHT, task).result
    assert result.verdict is Verdict.TASK_ERROR
    assert "the task took 3 s in all for the test cases" in result.message


@pytest.mark.parametrize(
    ("mode", "task", "missing"),
    [
        (Mode.TEST, a_task(tests=()), "test"),
        (Mode.BENCHMARK, a_task(benchmarks=()), "benchmark"),
        (Mode.RANKED, a_task(tests=()), "test"),
        (Mode.RANKED, a_task(benchmarks=()), "benchmark"),
    ],
    ids=["test", "benchmark", "ranked without tests", "ranked without benchmarks"],
)
def test_a_task_without_cases_passes_nobody(tmp_path: Path, mode: Mode, task: Task, missing: str) -> None:
    result = evaluate(tmp_path, RIGHT, task, mode).result
    assert result.verdict is Verdict.TASK_ERROR
    assert f"the task has no {missing} cases" in result.message


def test_a_submission_and_its_files_may_lie_in_folders(tmp_path: Path) -> None:
    files = (
        TaskFile("src/submission.py", None),
        TaskFile("reference.py", REFERENCE),
        TaskFile("src/factor.py", "FACTOR = 2\n"),
    )
    source = "from src.factor import FACTOR\ndef custom_kernel(data):\n    return [FACTOR * x for x in data]\n"
    result = evaluate(tmp_path, source, a_task(files=files)).result
    assert result.verdict is Verdict.PASS, result.message


def test_only_the_reference_and_the_checks_are_hidden_from_a_submission(tmp_path: Path) -> None:
    names = ("evaluate_utils.py", "references.py", "eval.py", "eval.cu", "reference.cuh", "lib/reference.py")
    files = (
        TaskFile("submission.py", None),
        TaskFile("reference.py", REFERENCE),
        *(TaskFile(name, "X = 1\n") for name in names),
    )
    source = (
        "import os\n"
        "found = [name for _, _, names in os.walk(os.path.dirname(__file__)) for name in names]\n"
        "print('SEEN', sorted(name for name in found if not name.endswith('.pyc')))\n" + RIGHT
    )
    result = evaluate(tmp_path, source, a_task(files=files)).result
    assert result.verdict is Verdict.PASS, result.message
    assert "SEEN ['evaluate_utils.py', 'references.py', 'submission.py']" in result.stdout.text


@pytest.mark.torch
def test_any_whole_number_is_a_seed(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    reference = "import numpy, torch\n" + REFERENCE
    tests = tuple({"size": 3, "seed": seed} for seed in (2**32, -1, 2**70))
    result = evaluate(tmp_path, RIGHT, a_task(reference, tests=tests)).result
    assert [case.verdict for case in result.cases] == [Verdict.PASS] * 3, result.message


def test_an_output_over_the_limit_is_called_that(tmp_path: Path) -> None:
    source = "def custom_kernel(data):\n    return b'x' * 10_000\n"
    result = evaluate(tmp_path, source, a_task(limits={**QUICK, "value_bytes": 5000})).result
    assert result.verdict is Verdict.OUTPUT_LIMIT
    assert "more than the limit of 5000" in result.message


def test_a_submission_can_use_the_site_s_toolchain(tmp_path: Path) -> None:
    for name in ("tool/bin/nvcc", "tool/include/cuda.h", "rocm/hip.h"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("is there")
    (tmp_path / "bin").mkdir()
    source = (
        "import os\n"
        f"root = {str(tmp_path)!r}\n"
        "for name in ('tool/bin/nvcc', 'tool/include/cuda.h', 'rocm/hip.h', 'job/runs/7/job.json'):\n"
        "    try:\n        print(name, open(os.path.join(root, name)).read()[:8])\n"
        "    except OSError:\n        print(name, 'is hidden')\n" + RIGHT
    )
    path = f"{tmp_path}/tool/bin:{tmp_path}/bin:{os.environ['PATH']}"
    environ = {"PATH": path, "ROCM_PATH": str(tmp_path / "rocm")}
    result = evaluate(tmp_path / "job", source, environ=environ).result
    assert result.verdict is Verdict.PASS, result.message
    if result.provenance["isolation"] < "S3":
        pytest.skip(f"this kernel confines workers at {result.provenance['isolation']} only")
    names = ("tool/bin/nvcc", "tool/include/cuda.h", "rocm/hip.h")
    assert result.stdout.text.splitlines() == [*(f"{name} is there" for name in names), "job/runs/7/job.json is hidden"]


def test_no_folder_above_a_hidden_one_becomes_readable(tmp_path: Path) -> None:
    home, link = tmp_path / "home/ada", tmp_path / "link"
    home.mkdir(parents=True)
    link.symlink_to(home)
    environ = {"PATH": f"{home}/bin:{home}:{link}:{tmp_path}:/:relative", "CUDA_HOME": str(home.parent)}
    found = readable_folders(environ, [str(home), "/"], [str(home)])
    assert f"{home}/bin" in found
    assert f"{home}/lib" in found
    assert not {str(home), str(link), str(home.parent), str(tmp_path), "/", "relative"} & set(found)


def test_a_supervisor_that_was_killed_when_memory_ran_out_is_out_of_memory(tmp_path: Path) -> None:
    folder = make_job_folder(tmp_path, RIGHT, a_task(), Mode.TEST)
    lines = (
        {"phase": "start", "case": None, "of": None, "message": "", "oom_kills": -1},
        {"phase": "test", "case": 2, "of": 3, "message": "size: 10"},
    )
    (folder / job_folder.PROGRESS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = [sys.executable, "-I", "-B", job_folder.HARNESS, "account", job_folder.FACTS, "137"]
    subprocess.run(command, cwd=folder, timeout=60, check=True)
    result = result_in(folder)
    assert result.verdict is Verdict.OUT_OF_MEMORY
    assert "killed by signal 9 while test case 2 of 3 ran (size: 10)" in result.message
    assert result.cases[0].index == 1


TRACER = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
seized = libc.ptrace(0x4206, ctypes.c_int(int(sys.argv[1])), None, None)
print("seized" if seized == 0 else "refused", flush=True)
sys.stdin.read()
"""
"""Seizes a process: when that is killed, its parent cannot reap it while this one lives."""


def _held_back(pid: int) -> "subprocess.Popen[str]":
    tracer = subprocess.Popen(
        [sys.executable, "-c", TRACER, str(pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert tracer.stdout is not None
    if tracer.stdout.readline() != "seized\n":
        tracer.communicate()
        pytest.skip("this system lets no process trace another")
    return tracer


ENDER = """
import os, sys
from pathlib import Path
from hpc_board.harness.processes.spawn import Zygote
from hpc_board.harness.processes.output import Printed
zygote = Zygote(Path(sys.argv[1]), env=dict(os.environ), modules=[], printed=Printed())
print(zygote.pid, flush=True)
sys.stdin.readline()
zygote.end()
print("went on", flush=True)
"""


def test_a_process_that_does_not_go_when_killed_is_not_waited_for_forever(tmp_path: Path) -> None:
    harness = tmp_path / "harness.pyz"
    harness.write_bytes(harness_bytes())
    ender = subprocess.Popen(
        [sys.executable, "-c", ENDER, str(harness)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert ender.stdin is not None
    assert ender.stdout is not None
    tracer = _held_back(int(ender.stdout.readline()))
    ender.stdin.write("end\n")
    ender.stdin.flush()
    assert ender.stdout.readline() == "went on\n"
    tracer.communicate()
    ender.communicate()


KILLER = """
import subprocess, sys
from hpc_board.harness.processes.tree import kill_orphans
orphan = subprocess.Popen(["sleep", "100"])
print(orphan.pid, flush=True)
sys.stdin.readline()
print(kill_orphans([]), flush=True)
sys.stdin.readline()
print(kill_orphans([]), flush=True)
"""


def test_an_orphan_that_does_not_go_when_killed_is_counted() -> None:
    killer = subprocess.Popen(
        [sys.executable, "-c", KILLER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert killer.stdin is not None
    assert killer.stdout is not None
    tracer = _held_back(int(killer.stdout.readline()))
    killer.stdin.write("kill\n")
    killer.stdin.flush()
    assert killer.stdout.readline() == "1\n"
    tracer.communicate()
    rest, _ = killer.communicate("again\n")
    assert rest == "0\n"


def test_the_times_so_far_are_told_with_the_next_step_and_end_as_those_of_the_result(tmp_path: Path) -> None:
    task = a_task(limits={**QUICK, "workers": 2})
    found = evaluate(tmp_path, RIGHT, task, Mode.RANKED)
    assert found.result.verdict is Verdict.PASS, found.result.message
    steps = [line for line in progress(found.folder) if line["phase"] == "benchmark"]
    assert [line.get("timed", {}).get("case") for line in steps] == [None, 1, 2, 1]
    assert all("timed" not in line for line in progress(found.folder) if line["phase"] != "benchmark")
    first = found.result.cases[-2].timing
    assert first is not None
    last = steps[-1]["timed"]
    assert last == {"case": 1, "time_ns": first.time_ns, "reference_ns": first.reference_ns}


def test_a_run_at_one_go_of_one_case_has_no_time_before_its_result(tmp_path: Path) -> None:
    task = a_task(benchmarks=({"size": 100, "seed": 4},))
    found = evaluate(tmp_path, RIGHT, task, Mode.BENCHMARK)
    assert found.result.verdict is Verdict.PASS, found.result.message
    assert all("timed" not in line for line in progress(found.folder))
