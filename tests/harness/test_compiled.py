"""Compiled submissions under the judge: what they are given, what they may do wrong, and what they cannot."""

import ctypes
import os
import re
import subprocess
from pathlib import Path

import pytest

from hpc_board.harness.build import toolchain
from hpc_board.harness.build.toolchain import header_text
from hpc_board.harness.confine import sandbox
from hpc_board.harness.wire import payload
from hpc_board.harness.worker import compiled as abi
from hpc_board.model.kernels import LIBRARY
from hpc_board.model.result import Verdict
from hpc_board.model.task import Language, Mode
from tests.harness.compiling import BODY, REFERENCE, compiled, kernel, needs_gcc

pytestmark = needs_gcc
numpy = pytest.importorskip("numpy")


def test_a_right_kernel_is_compiled_once_and_ranked(tmp_path: Path) -> None:
    result = compiled(tmp_path, kernel(), mode=Mode.RANKED)
    assert result.verdict is Verdict.PASS, result.message
    assert result.score_s is not None
    assert [case.phase for case in result.cases] == ["test"] * 3 + ["benchmark"] * 2
    assert result.provenance["compiles"] == 1
    assert result.provenance["arch"] == "native"
    assert "g++" in result.provenance["compiler"]
    assert len(result.provenance["library_sha256"]) == 64


def test_arguments_arrive_in_their_order_and_outputs_of_any_nesting_are_written(tmp_path: Path) -> None:
    reference = """
import numpy as np

def generate_input(size, seed):
    matrix = np.arange(6, dtype=np.float64).reshape(2, 3)
    return [7, {"a": (matrix, True), "b": 2.5}, np.array([seed], dtype=np.int32), -1, 0.25]

def ref_kernel(data):
    return {"sum": np.zeros(1, dtype=np.float64), "rest": (np.zeros((2, 3), dtype=np.int64), np.zeros((), np.bool_))}

def check_implementation(data, output):
    matrix, flag = output["rest"]
    good = output["sum"][0] == 15 and (matrix == np.arange(6).reshape(2, 3)).all() and flag
    return bool(good), str(output)
"""
    body = """
    if (n_in != 2 || n_out != 3 || n_params != 3 || ctx->n_reals != 2 || ctx->abi != HPC_BOARD_ABI) return 1;
    if (params[0] != 7 || params[1] != 1 || params[2] != -1) return 2;
    if (ctx->reals[0] != 2.5 || ctx->reals[1] != 0.25 || ctx->stream || ctx->device != -1) return 3;
    if (in[0].ndim != 2 || in[0].shape[0] != 2 || in[0].shape[1] != 3 || in[0].stride[0] != 3) return 4;
    if (in[0].dtype != HPC_FLOAT64 || in[1].dtype != HPC_INT32 || in[1].ndim != 1) return 5;
    if (out[1].dtype != HPC_INT64 || out[2].dtype != HPC_BOOL || out[2].ndim != 0) return 6;
    double sum = 0;
    for (int i = 0; i < 6; ++i) {
        sum += ((double*)in[0].data)[i];
        ((int64_t*)out[1].data)[i] = i;
    }
    *(double*)out[0].data = sum;
    *(bool*)out[2].data = true;
    return 0;
    """
    result = compiled(tmp_path, kernel(body), reference=reference)
    assert result.verdict is Verdict.PASS, result.message


@pytest.mark.torch
def test_inputs_keep_their_order_of_dimensions_and_outputs_are_row_major(tmp_path: Path) -> None:
    reference = """
import torch

def generate_input(size, seed):
    return torch.arange(12, dtype=torch.bfloat16).reshape(3, 4).T

def ref_kernel(data):
    return torch.zeros(4, 3).T, torch.zeros(0)

def check_implementation(data, output):
    good = output[0].stride() == (4, 1) and torch.equal(output[0], data.T.float())
    return good, f"{output} {output[0].stride()}"
"""
    body = """
    if (in[0].shape[0] != 4 || in[0].stride[0] != 1 || in[0].stride[1] != 4 || in[0].dtype != HPC_BFLOAT16) return 1;
    if (out[0].shape[0] != 3 || out[0].stride[0] != 4 || out[0].stride[1] != 1 || out[1].shape[0] != 0) return 2;
    float* y = (float*)out[0].data;
    for (int r = 0; r < 3; ++r)
        for (int c = 0; c < 4; ++c) {
            uint32_t bits = (uint32_t)((uint16_t*)in[0].data)[c * in[0].stride[0] + r * in[0].stride[1]] << 16;
            std::memcpy(&y[r * out[0].stride[0] + c * out[0].stride[1]], &bits, 4);
        }
    return 0;
    """
    result = compiled(tmp_path, kernel(body, "#include <cstring>"), reference=reference, first_call_seconds=60)
    assert result.verdict is Verdict.PASS, result.message


@pytest.mark.parametrize("index", [-1, 0])
def test_a_call_is_given_the_null_stream_and_its_device(tmp_path: Path, index: int) -> None:
    found = loaded(tmp_path, kernel("return ctx->stream ? 99 : 10 + ctx->device;"))
    call = found.prepared(numpy.ones(1), numpy.ones(1), index)
    with pytest.raises(abi.KernelFailed, match=f"returned {10 + index}$"):
        call()


def test_a_workspace_is_given_as_it_is_asked_for_and_kept(tmp_path: Path) -> None:
    body = """
    if (!ctx->workspace || ctx->workspace_bytes != 4 * in[0].shape[0] || (uintptr_t)ctx->workspace % 256) return 9;
    float* copy = (float*)ctx->workspace;
    for (int64_t i = 0; i < in[0].shape[0]; ++i) copy[i] = ((float*)in[0].data)[i];
    for (int64_t i = 0; i < in[0].shape[0]; ++i) ((float*)out[0].data)[i] = copy[i] * 1.5f + 3;
    return 0;
    """
    asked = (
        "int64_t hpc_workspace_bytes(const hpc_tensor* in, int, const hpc_tensor*, int, const int64_t*, int, "
        "const hpc_context* ctx) { return ctx->workspace || in[0].data ? -1 : 4 * in[0].shape[0]; }"
    )
    result = compiled(tmp_path, kernel(body, asked), mode=Mode.RANKED)
    assert result.verdict is Verdict.PASS, result.message
    refused = compiled(tmp_path / "b", kernel(BODY, asked.replace("ctx->workspace || in[0].data ?", "true ?")))
    assert refused.verdict is Verdict.EXCEPTION
    assert "hpc_workspace_bytes returned -1" in refused.message


def test_calls_that_are_laid_out_together_keep_workspaces_of_their_own_sizes(tmp_path: Path) -> None:
    body = """
    char* end = (char*)ctx->workspace + ctx->workspace_bytes - 1;
    *(volatile char*)end = 1;
    for (int64_t i = 0; i < in[0].shape[0]; ++i) ((float*)out[0].data)[i] = ((float*)in[0].data)[i] * 1.5f + params[0];
    return 0;
    """
    asked = (
        "int64_t hpc_workspace_bytes(const hpc_tensor*, int, const hpc_tensor*, int, const int64_t* params, int, "
        "const hpc_context*) { return params[0] % 2 ? 4096 : (int64_t)1 << (22 + params[0] % 3); }"
    )
    reference = REFERENCE.replace('"shift": 3', '"shift": seed % 10')
    result = compiled(tmp_path, kernel(body, asked), mode=Mode.RANKED, reference=reference)
    assert result.verdict is Verdict.PASS, result.message


def loaded(folder: Path, source: str) -> abi.CompiledKernel:
    """The function of a library that is made of a submission."""
    for name in (toolchain.HEADER, toolchain.CRASH):
        (folder / name).write_text(toolchain.own_source(name))
    (folder / "k.cpp").write_text(source)
    tools = toolchain.toolchain(Language.CPP, "", os.environ)
    subprocess.run(toolchain.command(tools, (), "k.cpp"), cwd=folder, check=True)
    return abi.open_kernel(folder / LIBRARY)


def test_a_workspace_is_asked_for_once_for_the_same_forms_and_numbers(tmp_path: Path) -> None:
    asked = (
        "static int64_t times; int64_t hpc_workspace_bytes(const hpc_tensor*, int, const hpc_tensor*, int, "
        "const int64_t*, int, const hpc_context*) { return ++times; }"
    )
    found = loaded(
        tmp_path, kernel("out[0].data ? *(int64_t*)out[0].data = ctx->workspace_bytes : 0; return 0;", asked)
    )

    def times(*data: object) -> int:
        (output,) = found.prepared(data, (numpy.zeros(1, dtype=numpy.int64),))()
        return int(output[0])

    one, two = numpy.ones(1), numpy.ones(2)
    assert [times(one, 7), times(one.copy(), 7), times(two, 7), times(one, 8), times(one, 7)] == [1, 1, 2, 3, 1]
    assert [times(one, 7, 0.5), times(one, 7, 0.25), times(one, one, 7), times(one.astype("f4"), 7)] == [4, 5, 6, 7]
    assert times(one, 7) == 1


def test_a_call_can_be_laid_out_before_its_inputs_are_written(tmp_path: Path) -> None:
    found = loaded(tmp_path, kernel("*(double*)out[0].data = 2 * *(double*)in[0].data; return 0;"))
    data, output = numpy.full(1, numpy.nan), numpy.full(1, numpy.nan)
    call = found.prepared(data, output)
    data[0] = 21
    assert call()[0] == 42


@pytest.mark.parametrize(
    ("source", "verdict", "message"),
    [
        (kernel("return 0;"), Verdict.WRONG_NONFINITE, "elements are wrong"),
        (kernel(BODY.replace("+ (float)params[0]", "")), Verdict.WRONG_VALUE, "elements are wrong"),
        (kernel("return 41;"), Verdict.EXCEPTION, "custom_kernel returned 41"),
        (kernel("*(volatile int*)8 = 1; return 0;"), Verdict.CRASH, "SIGSEGV"),
        (
            kernel("if (in[0].shape[0] == 10) __builtin_trap();" + BODY),
            Verdict.CRASH,
            "test case 2 (size: 10; seed: 2)",
        ),
        (kernel("for (;;) sleep(1);", "#include <unistd.h>"), Verdict.TIMEOUT, "did not return within 3 s"),
        (
            kernel(before="#include <unistd.h>\n__attribute__((constructor)) void early() { _exit(3); }"),
            Verdict.CRASH,
            "exited with status 3",
        ),
    ],
    ids=["nothing written", "wrong", "number", "segfault", "trap in case 2", "hang", "exit in constructor"],
)
def test_verdicts_on_compiled_kernels(tmp_path: Path, source: str, verdict: Verdict, message: str) -> None:
    result = compiled(tmp_path, source)
    assert result.verdict is verdict, result.message
    assert message in result.message


@pytest.mark.quiet
def test_an_output_that_is_written_after_the_call_has_returned_does_not_pass(tmp_path: Path) -> None:
    source = Path(__file__).parent.joinpath("kernels/late_write.cpp").read_text()
    result = compiled(tmp_path, source)
    # The memory of the output may be gone by the time that it is written.
    assert result.verdict in {Verdict.LATE_WRITE, Verdict.WRONG_NONFINITE, Verdict.WRONG_VALUE, Verdict.CRASH}


def test_what_a_constructor_and_a_kernel_print_is_shown(tmp_path: Path) -> None:
    before = '#include <cstdio>\n__attribute__((constructor)) static void early() { puts("loaded"); }'
    result = compiled(tmp_path, kernel('printf("size %ld\\n", (long)in[0].shape[0]);' + BODY, before))
    assert result.verdict is Verdict.PASS, result.message
    assert result.stdout.text.split("\n")[:2] == ["loaded", "size 3"]


def test_a_kernel_reads_neither_the_job_folder_nor_the_library_s_origin(tmp_path: Path) -> None:
    paths = [tmp_path / "runs/7/task/reference.py", tmp_path / "runs/7/job.json", tmp_path / "cache/build"]
    tries = "".join(
        f'    if (open("{path}", O_RDONLY) >= 0) return 1; else if (errno != EACCES) return 2;' for path in paths
    )
    result = compiled(tmp_path, kernel(tries + BODY, "#include <fcntl.h>\n#include <cerrno>"))
    if not sandbox.reaches(result.provenance["isolation"], "S3"):
        pytest.skip("this kernel has no Landlock")
    assert result.verdict is Verdict.PASS, result.message


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (REFERENCE.replace("ref_kernel", "expected_of"), "reference.py has no ref_kernel"),
        (REFERENCE.replace('"flag": True', '"flag": "on"'), "data[1]['flag'] is a str"),
        (
            REFERENCE.replace('* np.float32(more["scale"]) + np.float32(more["shift"])', ".tolist()"),
            "the reference's answer[0] is a float",
        ),
        (
            REFERENCE.replace("return x, {", "return x.reshape(size, *[1] * 8), {"),
            "data[0] has more than 8 dimensions",
        ),
        (
            REFERENCE.replace("return x, {", "return np.resize(x, size + seed % 3), {"),
            "the form of ref_kernel's answer depends on the seed",
        ),
    ],
    ids=["no ref_kernel", "text", "numbers as an answer", "nine dimensions", "shape by seed"],
)
def test_a_task_that_compiled_kernels_cannot_take_is_to_blame_itself(
    tmp_path: Path, reference: str, message: str
) -> None:
    result = compiled(tmp_path, kernel(), reference=reference, mode=Mode.RANKED)
    assert result.verdict is Verdict.TASK_ERROR
    assert message in result.message


def test_the_header_and_the_harness_state_the_same_numbers(tmp_path: Path) -> None:
    text = header_text()
    stated = {name.lower(): int(number) for name, number in re.findall(r"HPC_(\w+) = (\d+)", text)}
    assert stated == abi.DTYPES
    assert f"#define HPC_BOARD_ABI {abi.ABI}\n" in text
    assert f"#define HPC_MAX_DIMS {abi.DIMENSIONS_MAX}\n" in text
    sizes = (
        f"sizeof(hpc_tensor) != {ctypes.sizeof(abi._Tensor)} || sizeof(hpc_context) != {ctypes.sizeof(abi._Context)}"
    )
    result = compiled(tmp_path, kernel(f"if ({sizes}) return 1;" + BODY))
    assert result.verdict is Verdict.PASS, result.message


@pytest.mark.parametrize("standard", ["-std=c99", "-std=c++17"])
def test_the_header_is_plain_c_without_a_warning(tmp_path: Path, standard: str) -> None:
    compiler, language = ("gcc", "c") if standard == "-std=c99" else ("g++", "c++")
    (tmp_path / "hpc_board.h").write_text(header_text())
    options = ["-pedantic", "-Wall", "-Wextra", "-Werror", "-Wno-pragma-once-outside-header", "-fsyntax-only"]
    line = [compiler, standard, "-x", language, *options, "hpc_board.h"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_memory_after_a_form_has_its_shape_type_and_order_and_holds_no_right_answer() -> None:
    array = {"k": "array", "dtype": "float32", "shape": [2, 3], "at": 0}
    value = payload.empty({"k": "dict", "keys": ["a", 1], "items": [array, {"k": "tuple", "items": [array]}]})
    assert value["a"].shape == (2, 3)
    assert value["a"].dtype == numpy.float32
    assert numpy.isnan(value[1][0]).all()
    assert payload.empty({**array, "shape": []}).shape == ()
    assert payload.empty({**array, "shape": [0, 3]}).shape == (0, 3)
    with pytest.raises(payload.PayloadError, match="a float has no memory"):
        payload.empty({"k": "float", "v": "0x0p+0", "dtype": "float32", "shape": []})


THREADS = kernel(
    """
    const float* x = static_cast<const float*>(in[0].data);
    float* y = static_cast<float*>(out[0].data);
    int64_t count = in[0].shape[0];
    int threads = 0;
    #pragma omp parallel num_threads(2) reduction(+:threads)
    {
        threads += 1;
        #pragma omp for
        for (int64_t i = 0; i < count; ++i) y[i] = x[i] * (float)ctx->reals[0] + (float)params[0];
    }
    return threads == 2 ? 0 : 1;
"""
)


@needs_gcc
def test_openmp_that_binds_its_threads_by_their_ids_runs(tmp_path: Path) -> None:
    # libgomp ends the process if a thread of it cannot be bound.
    result = compiled(tmp_path, THREADS, env={"OMP_PROC_BIND": "true", "OMP_PLACES": "threads"})
    assert result.verdict is Verdict.PASS, result.message
