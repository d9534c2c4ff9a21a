"""Kernels in Triton on a CPU that stands in for a GPU: Triton's interpreter calls them."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hpc_board import bundled
from hpc_board.catalog.folders import read_task
from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.model.result import Result, Verdict
from hpc_board.model.task import Mode
from tests.harness.evaluations import evaluate

pytestmark = [
    pytest.mark.torch,
    # Not importorskip: an import of Triton in this process would decide about its interpreter for all tests.
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton"),
]

HERE = Cluster("here", "local")
EMULATED = Gpu("H100", HERE, Device.CPU, python=sys.executable)
CPU = Gpu("CPU", HERE, Device.CPU, python=sys.executable)


def judged(folder: Path, name: str, gpu: Gpu, old: str = "", new: str = "") -> Result:
    """The result of a bundled task's starter in Triton, with one word replaced, in mode test."""
    task = read_task(bundled.folder("tasks") / name)
    source = task.templates["Triton"].replace(old, new) if old else task.templates["Triton"]
    return evaluate(folder, source, replace(task, tests=task.tests[:2]), Mode.TEST, gpu=gpu).result


@pytest.mark.parametrize("name", ["vectoradd", "matmul"])
def test_the_starters_in_triton_pass_on_an_emulated_gpu(tmp_path: Path, name: str) -> None:
    result = judged(tmp_path, name, EMULATED)
    assert (result.verdict, result.provenance["emulated"]) == (Verdict.PASS, True), result.message


def test_a_wrong_kernel_in_triton_is_wrong_on_an_emulated_gpu(tmp_path: Path) -> None:
    result = judged(tmp_path, "vectoradd", EMULATED, "tl.load(a + at, mask=inside) +", "tl.load(a + at, mask=inside) -")
    assert result.verdict is Verdict.WRONG_VALUE


def test_the_cpu_itself_interprets_no_kernel_in_triton(tmp_path: Path) -> None:
    result = judged(tmp_path, "vectoradd", CPU)
    assert result.verdict is Verdict.EXCEPTION
    assert "active drivers" in result.message
