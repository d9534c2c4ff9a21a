"""Cheats for the windows of a GPU do what they say, as far as a simulated GPU can tell."""

import dataclasses
import re
from pathlib import Path

import pytest

from hpc_board.catalog.folders import read_task
from hpc_board.model.gpu import Device
from hpc_board.model.result import Result, Verdict
from hpc_board.model.task import Mode
from tests.harness.evaluations import QUICK, evaluate
from tests.harness.harness_file import Edit
from tests.harness.simulated_gpu import simulating

HERE = Path(__file__).parent
TASKS = HERE.parents[1] / "tasks"


def any_time(name: str) -> bytes:
    """The harness with a simulated GPU, whose windows may have any time: other tests use this machine."""
    return simulating(
        name, edits=(Edit("measure/window_benchmarks.py", "_SHORT_NS = 500_000_000.0", "_SHORT_NS = 1e12"),)
    )


STREAMS = """
import torch
from types import SimpleNamespace

def slept(cycles):
    import gc
    queues = [each for each in gc.get_objects() if type(each).__name__ == "GpuQueue"]
    if cycles > 1:
        sign, done = (int(queues[0]._signals[at : at + 4].view(torch.int32)) for at in (0, 64))
        print("sign", sign, "done", done)

torch.cuda.Stream = lambda: SimpleNamespace(cuda_stream=1, wait_stream=lambda other: None)
torch.cuda.current_stream = torch.cuda.Stream
torch.cuda._sleep = slept
"""


def judged(folder: Path, name: str, task: str, size: int, more: str, harness: bytes) -> Result:
    """The result of a cheat with a double of PyTorch's streams, and with `more` behind its code."""
    case = {"size": size, "seed": 1}
    limits = {**QUICK, "workers": 1}
    found = dataclasses.replace(read_task(TASKS / task), benchmarks=(case,), limits=limits)
    code = STREAMS + (HERE / "cheats" / f"{name}.py").read_text() + more
    return evaluate(folder, code, found, Mode.BENCHMARK, Device.CUDA, harness=harness).result


@pytest.mark.torch
def test_done_too_early_writes_the_flag_of_its_own_call_before_its_work(tmp_path: Path, simulated: str) -> None:
    result = judged(tmp_path, "done_too_early", "vectoradd_py", 1000, "", any_time(simulated))
    assert (result.verdict, result.message) == (Verdict.PASS, "")
    pairs = re.findall(r"sign (\d+) done (\d+)", result.stdout.text)
    assert len(pairs) >= 3
    assert all(sign == done for sign, done in pairs)
    assert min(int(sign) for sign, _ in pairs) > 1, "windows without a call come first"


COPIED = """
def copied(source, target, stream):
    if number_of_sign():
        print("copied")
    target.copy_(source)
"""


@pytest.mark.torch
def test_the_cheat_with_a_copy_engine_copies_behind_the_sign_of_its_own_call(tmp_path: Path, simulated: str) -> None:
    args = ("copy_engine_after_the_sign", "identity_py", 2**15, COPIED)
    result = judged(tmp_path, *args, any_time(simulated))
    assert (result.verdict, result.message) == (Verdict.PASS, "")
    assert result.stdout.text.count("copied") >= 3
