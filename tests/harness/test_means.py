"""A task's rule on means: proved by the pages of code that ran, and by the kernels that a call launched."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpc_board.model.gpu import Device
from hpc_board.model.kernels import Used
from hpc_board.model.means import KINDS, kernel_means, library_means, means_text, rule_fault
from hpc_board.model.result import HIDDEN_MESSAGE, Result, Verdict
from hpc_board.model.task import MeansRule, Mode
from hpc_board.runs import job_folder
from tests.harness.compiling import BODY, compiled, kernel, needs_gcc
from tests.harness.evaluations import ARRAYS, Evaluation, a_task, evaluate, make_job_folder
from tests.harness.harness_file import Edit, edited
from tests.harness.simulated_gpu import simulating
from tests.harness.test_windows import REFERENCE as TENSORS

ELEMENTWISE = "def custom_kernel(data):\n    return data + data\n"

PRODUCT = """
import numpy as np
def custom_kernel(data):
    return data * (np.ones((8, 8)) @ np.ones((8, 8)))[0, 0] / 4
"""


def judged(folder: Path, submission: str, mode: Mode = Mode.TEST, **changes: Any) -> Evaluation:
    return evaluate(folder, submission, a_task(ARRAYS, **changes), mode)


def test_only_code_that_ran_counts_as_used(tmp_path: Path) -> None:
    # Both have OpenBLAS in their memory: NumPy brings it along.
    rule = MeansRule(forbid=("openblas",))

    kept = judged(tmp_path / "kept", ELEMENTWISE, Mode.RANKED, means=rule).result
    broken = judged(tmp_path / "broken", PRODUCT, Mode.RANKED, means=rule).result
    unruled = judged(tmp_path / "unruled", PRODUCT, Mode.BENCHMARK).result

    assert (kept.verdict, kept.means) == (Verdict.PASS, ()), kept.message
    assert broken.verdict is Verdict.PROTOCOL_VIOLATION
    assert broken.message.startswith("the task forbids openblas: its processes used the library")
    assert broken.score_s is None
    assert not [case for case in broken.cases if case.phase == "benchmark"]
    assert (unruled.verdict, unruled.means) == (Verdict.PASS, (Used("openblas"),)), unruled.message


def test_a_required_library_has_to_be_used(tmp_path: Path) -> None:
    rule = MeansRule(require=("openblas",))

    lacking = judged(tmp_path / "lacking", ELEMENTWISE, means=rule).result
    kept = judged(tmp_path / "kept", PRODUCT, means=rule).result

    assert lacking.verdict is Verdict.PROTOCOL_VIOLATION
    assert "the task requires openblas, but the submission used no known library" in lacking.message
    assert kept.verdict is Verdict.PASS, kept.message


def test_a_node_that_cannot_report_libraries_blames_no_submission(tmp_path: Path) -> None:
    harness = edited((Edit("processes/libraries.py", 'Path("/proc/self/pagemap")', 'Path("/proc/self/nothing")'),))
    task = a_task(ARRAYS, means=MeansRule(require=("openblas",)))

    done = evaluate(tmp_path, PRODUCT, task, harness=harness).result

    assert done.verdict is Verdict.INFRA_ERROR
    assert done.message == "this node's kernel has no /proc/PID/pagemap, by which the rule on openblas is checked"


def test_a_process_of_the_submission_counts_as_the_submission(tmp_path: Path) -> None:
    forking = """
import os, time
import numpy as np
def custom_kernel(data):
    if not (pid := os.fork()):
        np.ones((9, 9)) @ np.ones((9, 9))
        while True:
            time.sleep(9)
    return data + data
"""
    importing = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import numpy; print(flush=True); input()"], stdin=-1, stdout=-1)
child.stdout.read(1)
def custom_kernel(data):
    return data + data
"""
    for name, submission in (("forking", forking), ("importing", importing)):
        done = judged(tmp_path / name, submission, means=MeansRule(forbid=("openblas",))).result

        assert done.verdict is Verdict.PROTOCOL_VIOLATION, name
        assert "openblas" in done.message


def test_a_fork_and_the_same_library_in_an_ended_process_are_no_use(tmp_path: Path) -> None:
    # OpenBLAS has a handler of forks, and the kernel marks the pages that all processes share when one of them ends.
    forking = """
import os, subprocess, sys
subprocess.run([sys.executable, "-c", "import numpy"])
def custom_kernel(data):
    if not (pid := os.fork()):
        os._exit(0)
    os.waitpid(pid, 0)
    return data + data
"""
    done = judged(tmp_path, forking, means=MeansRule(forbid=("openblas",))).result

    assert done.verdict is Verdict.PASS, done.message


def test_a_memory_with_too_many_parts_proves_nothing(tmp_path: Path) -> None:
    harness = edited((Edit("processes/libraries.py", "_SECONDS_MAX = 2.0", "_SECONDS_MAX = 0.001"),))
    mapping = """
import ctypes, os
import numpy as np
mmap = ctypes.CDLL(None).mmap
mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
(name,) = (each for each in os.listdir(np.__path__[0] + ".libs") if "openblas" in each)
with open(np.__path__[0] + ".libs/" + name, "rb") as file:
    for at in range(20_000):
        mmap(None, 4096, (1, 5)[at % 2], 2, file.fileno(), 0)
def custom_kernel(data):
    return data + data
"""
    task = a_task(ARRAYS, means=MeansRule(forbid=("openblas",)))

    ruled = evaluate(tmp_path / "ruled", mapping, task, harness=harness).result
    unruled = evaluate(tmp_path / "unruled", mapping, a_task(ARRAYS), harness=harness).result

    assert ruled.verdict is Verdict.PROTOCOL_VIOLATION
    assert ruled.message == "its memory has too many parts to check the rule on openblas"
    assert (unruled.verdict, unruled.means) == (Verdict.PASS, ()), unruled.message


@needs_gcc
def test_a_compiled_submission_uses_a_library_by_running_its_code(tmp_path: Path) -> None:
    (path,) = Path(np.__path__[0] + ".libs").glob("lib*openblas*")
    load = f'void* library = dlopen("{path}", RTLD_NOW); if (!library) return 7;'
    run = (
        'auto run = (double (*)(long, double*, long, double*, long))dlsym(library, "scipy_cblas_ddot64_");'
        "double one = 1; if (run(1, &one, 1, &one, 1) != 1) return 8;"
    )

    loading, running = (
        compiled(tmp_path / name, kernel(lines + BODY, "#include <dlfcn.h>"))
        for name, lines in (("loading", load), ("running", load + run))
    )

    # NumPy has loaded it before.
    assert (loading.verdict, loading.means) == (Verdict.PASS, ()), loading.message
    assert (running.verdict, running.means) == (Verdict.PASS, (Used("openblas"),)), running.message


def test_the_result_has_no_means_of_hidden_cases(tmp_path: Path) -> None:
    secretive = PRODUCT.replace("    return ", "    return data + data if len(data) != 77 else ")
    case = ({"size": 77, "seed": 1},)

    unruled = judged(tmp_path / "unruled", secretive, Mode.RANKED, hidden_tests=case).result
    rule = MeansRule(forbid=("openblas",))
    ruled = judged(tmp_path / "ruled", secretive, Mode.RANKED, hidden_tests=case, means=rule).result

    assert (unruled.verdict, unruled.means) == (Verdict.PASS, ()), unruled.message
    assert (ruled.verdict, ruled.means, ruled.message) == (Verdict.PROTOCOL_VIOLATION, (), HIDDEN_MESSAGE)


NAMES = {
    "add_kernel": "triton",
    "add_kernel_0d1d2de3c4": "triton",
    "add_kernel_0": "triton",
    "add_kernel_1d": "cuda",
    "triton_poi_fused_add_0": "triton",
    "ampere_sgemm_128x64_nn": "cublas",
    "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x64_stage4_warpsize2x2x1_tensor16x8x16_kernel": "cublas",
    "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNT": "cublas",
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4>(cutlass_80_...::Params)": "cublas",
    "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>(cublasGemvParams)": "cublas",
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int> > >(Params)": "cutlass",
    "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(cudnn::ops::nchw2nhwc_params_t)": "cudnn",
    "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc": "cudnn",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int, float)": "torch",
    "void at_cuda_detail::cub::DeviceScanKernel<int>(int*)": "torch",
    "void cub::DeviceReduceKernel<float>(float*)": "cub",
    "Cijk_Ailk_Bljk_SB_MT128x128x8": "rocblas",
    "void my_gemv_kernel<c10::Half>(c10::Half const*, at::Tensor)": "cuda",
    "(anonymous namespace)::scale(float*, int)": "cuda",
}
"""Names of kernels as profilers print them, with their kinds."""


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_is_of_the_library_that_has_its_name(name: str) -> None:
    source = '@triton.jit\ndef add_kernel(x):\n    pass\nCUDA = """__global__ void scale(float*, int)"""'

    assert kernel_means([name], source) == (Used(NAMES[name], 1),)


def test_means_are_counted_in_words() -> None:
    names = ["add_kernel", "mul_kernel", "ampere_sgemm_128x64_nn", "Memcpy DtoD (Device -> Device)", "add_kernel"]
    kernels = kernel_means(names, "import triton\ndef add_kernel():\n    pass\ndef mul_kernel():\n    pass")
    libraries = library_means(["/venv/numpy.libs/libscipy_openblas64_-32a4.so", "/usr/lib/libc.so.6"])

    assert means_text((*kernels, *libraries)) == "3 kernels: 2 triton, 1 cublas; 1 library: openblas"
    assert kernel_means(["k"], "") == (Used("other", 1),)
    assert "other" not in KINDS


ON_GPU = "import torch\ndef custom_kernel(data):\n    return data[0] * 2\n"


def tracing(simulated: str, names: list[str]) -> bytes:
    """The harness file for a simulated GPU whose profiler reports kernels with these names."""
    edits = (
        Edit(
            "profile/profilers.py",
            "if gpu:\n                torch.cuda.synchronize()",
            "if False:\n                pass",
        ),
        Edit(
            "profile/profilers.py", "json.dumps(_kernels(rows, gpu=gpu))", f"json.dumps({[[x, 1, 9.0] for x in names]})"
        ),
    )
    return simulating(simulated, edits=edits)


def traced(folder: Path, simulated: str, names: list[str], rule: MeansRule) -> Result:
    """The result of a kernel on a simulated GPU, whose profiler reports kernels with these names."""
    task = a_task(TENSORS, means=rule, benchmarks=({"size": 100, "seed": 5},))
    return evaluate(folder, ON_GPU, task, Mode.TEST, Device.CUDA, harness=tracing(simulated, names)).result


@pytest.mark.torch
def test_kernels_that_a_call_launches_prove_a_rule(tmp_path: Path, simulated: str) -> None:
    names = ["triton_poi_fused_mul_0", "ampere_sgemm_128x64_nn"]

    plain = traced(tmp_path / "plain", simulated, names, MeansRule(require=("triton",)))
    broken = traced(tmp_path / "broken", simulated, names, MeansRule(forbid=("cublas",)))
    unseen = traced(tmp_path / "unseen", simulated, [], MeansRule(forbid=("cublas",)))

    assert plain.verdict is Verdict.PASS, plain.message
    assert means_text(plain.means) == "2 kernels: 1 cublas, 1 triton"
    assert broken.verdict is Verdict.PROTOCOL_VIOLATION
    assert broken.message.startswith("the task forbids cublas: a call launched 1 of its kernels")
    assert unseen.verdict is Verdict.INFRA_ERROR
    assert unseen.message.endswith("rule on kernels cannot be checked: the profiler of PyTorch saw no kernel of a call")


@pytest.mark.torch
def test_task_check_traces_the_kernels_of_a_template(tmp_path: Path, simulated: str) -> None:
    task = a_task(TENSORS, means=MeansRule(forbid=("cublas",)), tests=({"size": 3, "seed": 1},), benchmarks=())
    harness = tracing(simulated, ["ampere_sgemm_128x64_nn"])
    folder = make_job_folder(tmp_path, ON_GPU, task, Mode.TEST, Device.CUDA, harness=harness)
    command = [sys.executable, "-I", "-B", job_folder.HARNESS, "try", job_folder.FACTS, "9", "60"]

    subprocess.run(command, cwd=folder, env={"PATH": os.environ["PATH"]}, timeout=60, check=True)

    found = json.loads((folder / "lint.json").read_text())
    assert (found["message"], found["broken_rule"]) == (
        "",
        "the task forbids cublas: a call launched 1 of its kernels",
    )


def test_a_kind_of_kernels_is_required_only_where_kernels_are_known() -> None:
    rule, used = MeansRule(require=("triton",)), (Used("cublas", 2),)

    assert (
        rule_fault(rule, used, traced=True) == "the task requires triton, but the submission used 2 kernels: 2 cublas"
    )
    assert not rule_fault(rule, (), traced=False)
