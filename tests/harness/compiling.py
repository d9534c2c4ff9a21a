"""A small task that takes compiled submissions, a right one for it, and evaluations of others."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.model.result import Result
from hpc_board.model.task import Language, Mode
from tests.harness.evaluations import QUICK, a_task, evaluate

ALL = (Language.PY, Language.CPP, Language.CU, Language.HIP)

needs_gcc = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
needs_hipcc = pytest.mark.skipif(shutil.which("hipcc") is None, reason="needs hipcc (apt-get install hipcc)")
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")

REFERENCE = """
import numpy as np

def generate_input(size, seed):
    x = np.random.default_rng(seed).random(size, dtype=np.float32)
    return x, {"scale": 1.5, "shift": 3, "flag": True}

def ref_kernel(data):
    x, more = data
    return x * np.float32(more["scale"]) + np.float32(more["shift"])

def check_implementation(data, output):
    wrong = int((~(np.abs(output - ref_kernel(data)) <= 1e-5)).sum())
    return wrong == 0, f"{wrong} elements are wrong"
"""
"""Scale and shift a vector: its inputs hold an array, a number of each kind, and a truth value."""

BODY = """
    const float* x = static_cast<const float*>(in[0].data);
    float* y = static_cast<float*>(out[0].data);
    for (int64_t i = 0; i < in[0].shape[0]; ++i) y[i] = x[i] * (float)ctx->reals[0] + (float)params[0];
    return 0;
"""


def kernel(body: str = BODY, before: str = "") -> str:
    """A submission with this body, and text before its function."""
    arguments = (
        "const hpc_tensor* in, int n_in, hpc_tensor* out, int n_out, "
        "const int64_t* params, int n_params, const hpc_context* ctx"
    )
    return f'#include "hpc_board.h"\n{before}\nint custom_kernel({arguments}) {{\n{body}\n}}\n'


def compiled(
    folder: Path,
    source: str,
    *,
    reference: str = REFERENCE,
    ending: str = ".cpp",
    mode: Mode = Mode.TEST,
    device: Device = Device.CPU,
    arch: str = "",
    std: str = "",
    include: tuple[Path, ...] = (),
    flags: tuple[str, ...] = (),
    environ: dict[str, str] | None = None,
    env: dict[str, str] | None = None,
    **limits: Any,
) -> Result:
    """The result of a compiled submission for the task, with `env` in the settings of its GPU."""
    task = a_task(reference, languages=ALL, flags=flags, limits={**QUICK, **limits})
    folders = tuple(map(str, include))
    cluster = Cluster("here", "local")
    gpu = Gpu("CPU", cluster, device, python=sys.executable, arch=arch, std=std, include=folders, env=env or {})
    return evaluate(folder, source, task, mode, device, environ, file_name=f"k{ending}", gpu=gpu).result
