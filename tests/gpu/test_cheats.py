"""Cheats for the windows of a GPU do what they say, as far as a simulated GPU can tell."""

import dataclasses
import re
from pathlib import Path

import pytest

from hpc_board.catalog.folders import read_task
from hpc_board.model.gpu import Device
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from tests.harness.evaluations import QUICK, evaluate
from tests.harness.harness_file import Edit
from tests.harness.simulated_gpu import simulating

HERE = Path(__file__).parent
TASKS = HERE.parents[1] / "tasks"


def any_time(name: str) -> bytes:
    """The harness with a simulated GPU, whose windows may have any time: other tests use this machine."""
    return simulating(
        name, edits=(Edit("measure/window_benchmarks.py", "_SHORT_NS = 5_000_000.0", "_SHORT_NS = 1e12"),)
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

torch.cuda.Stream = lambda: SimpleNamespace(cuda_stream=1)
torch.cuda._sleep = slept
"""


@pytest.mark.torch
def test_done_too_early_writes_the_flag_of_its_own_call_before_its_work(tmp_path: Path, simulated: str) -> None:
    case = {"size": 1000, "seed": 1}
    task = dataclasses.replace(read_task(TASKS / "vectoradd_py"), benchmarks=(case,), limits={**QUICK, "workers": 1})
    code = STREAMS + (HERE / "cheats" / "done_too_early.py").read_text()
    result = evaluate(tmp_path, code, task, Mode.BENCHMARK, Device.CUDA, harness=any_time(simulated)).result
    assert (result.verdict, result.message) == (Verdict.PASS, "")
    pairs = re.findall(r"sign (\d+) done (\d+)", result.stdout.text)
    assert len(pairs) >= 3
    assert all(sign == done for sign, done in pairs)
    assert min(int(sign) for sign, _ in pairs) > 1, "windows without a call come first"
