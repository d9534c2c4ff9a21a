"""Compiling a submission: what is shown of it, what stops it, what it may read, and what is kept."""

import ctypes
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpc_board.harness.build.builder import BuildCache, exported
from hpc_board.harness.build.toolchain import BuildFailed, Inside, cache_key, command, header_text, toolchain
from hpc_board.harness.confine import sandbox
from hpc_board.model.gpu import Device
from hpc_board.model.result import Log, Result, Verdict
from hpc_board.model.task import Language
from tests.harness.compiling import BODY, compiled, kernel, needs_gcc, needs_hipcc, needs_nvcc

pytest.importorskip("numpy")

TASKS = Path(__file__).parents[2] / "tasks"
DOUBLINGS = "".join(f"#define B{level + 1} B{level} + B{level}\n" for level in range(40))
TIME_BOMB = kernel(before=f"#define B0 1 + 1\n{DOUBLINGS}long value = B40;")
MEMORY_BOMB = kernel(before=f"#define B0 one + one\n{DOUBLINGS}extern long one; long value() {{ return B40; }}")
CUDA = kernel(
    "add<<<1, 32, 0, (cudaStream_t)ctx->stream>>>((float*)in[0].data, (float*)out[0].data); return 0;",
    "__global__ void add(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x] + 1; }",
)


def left_behind(scratch: Path) -> list[str]:
    """Processes whose folder is one that a build below `scratch` had; other tests compile meanwhile."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                folder = str((entry / "cwd").readlink())
            except OSError:
                continue
            if folder.startswith(f"{scratch}/hpc-board-") and "/build-" in folder:
                found.append(f"{entry.name} in {folder}")
    return found


@needs_gcc
def test_the_compiler_s_text_is_shown_and_its_first_error_is_the_message(tmp_path: Path) -> None:
    result = compiled(tmp_path, kernel("int unused; retrun 0;"))
    assert result.verdict is Verdict.COMPILE_ERROR
    assert result.message.startswith("g++ exited with status 1: k.cpp:4:13: error: ")
    assert "unused variable" in result.build.text
    assert "k.cpp:4:5: warning" in result.build.text
    assert "submission.cpp" not in result.build.text
    assert "/tmp" not in result.build.text
    assert result.cases == ()
    assert result.provenance["compiles"] == 1
    assert result.provenance["isolation"] == result.provenance["compiler_isolation"]
    assert result.provenance["isolation"] in sandbox.LEVELS


FLOOD = kernel(
    before="template<int N> struct A { using L = typename A<2 * N>::T; using R = typename A<2 * N + 1>::T; };\nA<1> a;"
)


@needs_gcc
@pytest.mark.parametrize(
    ("source", "limits", "verdict", "message"),
    [
        (TIME_BOMB, {"build_seconds": 2}, Verdict.COMPILE_TIMEOUT, "within 2 s"),
        (MEMORY_BOMB, {"build_bytes": 2**28}, Verdict.COMPILE_ERROR, "exceeded the memory limit of 0.25 GiB"),
        (FLOOD, {"printed_bytes": 2**20}, Verdict.COMPILE_ERROR, "printed more than 1048576 bytes"),
    ],
    ids=["time", "memory", "output"],
)
def test_a_compilation_beyond_a_limit_is_stopped_and_nothing_is_left(
    tmp_path: Path, source: str, limits: dict[str, Any], verdict: Verdict, message: str
) -> None:
    result = compiled(tmp_path, source, environ={"TMPDIR": str(tmp_path)}, **limits)
    assert (result.verdict, message in result.message) == (verdict, True), result.message
    assert left_behind(tmp_path) == []
    assert len(result.build.text) < 200_000


@needs_gcc
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("int other() { return 0; }", "exports no function custom_kernel"),
        ("int custom_kernel(int) { return 0; }", "exports no function custom_kernel"),
        ('extern "C" int custom_kernel(int) { return 0; }', "exports no function custom_kernel"),
        (kernel().replace("int custom_kernel", "static int custom_kernel"), "static"),
        (kernel().replace("int custom_kernel", "float custom_kernel"), "ambiguating new declaration"),
    ],
)
def test_a_library_without_the_function_is_a_compile_error_that_helps(
    tmp_path: Path, source: str, message: str
) -> None:
    result = compiled(tmp_path, source)
    assert result.verdict is Verdict.COMPILE_ERROR
    assert message in result.message


@needs_gcc
@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/proc/self/environ", "{folder}/runs/7/task/reference.py", "{folder}/secret"]
)
@pytest.mark.parametrize("how", ['#include "{path}"\n', 'asm(".incbin \\"{path}\\"");\n'])
def test_the_compiler_reads_nothing_but_the_toolchain(tmp_path: Path, path: str, how: str) -> None:
    (tmp_path / "secret").write_text("int secret;\n")
    target = path.format(folder=tmp_path)
    result = compiled(tmp_path, how.format(path=target) + kernel())
    assert result.verdict is Verdict.COMPILE_ERROR
    assert "Permission denied" in result.message or "file not found" in result.message
    assert target in result.message


@needs_gcc
@pytest.mark.parametrize(
    ("std", "flags", "version"),
    [("", (), 202002), ("c++17", (), 201703), ("c++17", ("-std=c++14",), 201402)],
)
def test_the_standard_is_that_of_the_task_else_of_the_settings_else_c_plus_plus_20(
    tmp_path: Path, std: str, flags: tuple[str, ...], version: int
) -> None:
    source = kernel(before=f"static_assert(__cplusplus == {version});")
    result = compiled(tmp_path, source, std=std, flags=flags)
    assert result.verdict is Verdict.PASS, result.message


@pytest.mark.parametrize(
    ("ending", "source", "arch", "words"),
    [
        pytest.param(".cpp", kernel(), "", "g++ cannot be used: ", marks=needs_gcc),
        pytest.param(".cu", CUDA, "sm_90a", "Value 'c++99' is not defined", marks=needs_nvcc),
    ],
)
def test_a_standard_that_the_compiler_does_not_know_blames_the_node(
    tmp_path: Path, ending: str, source: str, arch: str, words: str
) -> None:
    result = compiled(tmp_path, source, ending=ending, arch=arch, std="c++99")
    assert (result.verdict, words in result.message) == (Verdict.INFRA_ERROR, True), result.message
    assert "c++99" in result.message


@needs_gcc
def test_headers_of_the_settings_are_readable_and_those_beside_them_are_not(tmp_path: Path) -> None:
    for name in ("offered", "hidden"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.h").write_text("constexpr float one = 1;\n")
    offered = compiled(tmp_path, kernel(before="#include <offered.h>"), include=(tmp_path / "offered",))
    assert offered.verdict is Verdict.PASS, offered.message
    beside = f'#include "{tmp_path}/hidden/hidden.h"'
    hidden = compiled(tmp_path / "b", kernel(before=beside), include=(tmp_path / "offered",))
    if sandbox.reaches(hidden.provenance["compiler_isolation"], "S3"):
        assert hidden.verdict is Verdict.COMPILE_ERROR
        assert "Permission denied" in hidden.message


@needs_gcc
def test_a_folder_of_headers_that_the_node_lacks_blames_the_settings(tmp_path: Path) -> None:
    result = compiled(tmp_path, kernel(), include=(tmp_path / "cutlass",))
    assert result.verdict is Verdict.INFRA_ERROR
    assert f"this node has no folder {tmp_path}/cutlass, which `include`" in result.message


UNDEFINED = kernel("return no_such_function();", 'extern "C" int no_such_function();')


@pytest.mark.parametrize(
    ("ending", "arch"),
    [
        pytest.param(".cpp", "", marks=needs_gcc),
        pytest.param(".cu", "sm_90a", marks=needs_nvcc),
        pytest.param(".hip", "gfx90a", marks=needs_hipcc),
    ],
)
def test_an_undefined_symbol_is_a_compile_error_that_names_it(tmp_path: Path, ending: str, arch: str) -> None:
    result = compiled(tmp_path, UNDEFINED, ending=ending, arch=arch)
    assert result.verdict is Verdict.COMPILE_ERROR
    assert "no_such_function" in result.message


@needs_gcc
def test_flags_of_the_task_reach_the_compiler(tmp_path: Path) -> None:
    source = kernel("#if SIZE != 4 || __cplusplus != 202002L\n#error no flags\n#endif\n" + BODY)
    result = compiled(tmp_path, source, flags=("-D SIZE=4", "-std=c++20", "-ffast-math", "--use_fast_math", "-lcublas"))
    assert result.verdict is Verdict.PASS, result.message


def kept_builds(folder: Path) -> list[Path]:
    return sorted((folder / "cache/build").iterdir())


def again(folder: Path, source: str) -> Result:
    """Another run on the same board, after the first one's job folder is gone."""
    shutil.rmtree(folder / "runs")
    return compiled(folder, source)


@needs_gcc
def test_the_same_submission_is_compiled_once_and_shows_the_same_warnings(tmp_path: Path) -> None:
    source = kernel("int unused;" + BODY)
    first = compiled(tmp_path, source)
    second = again(tmp_path, source)
    assert (first.verdict, second.verdict) == (Verdict.PASS, Verdict.PASS)
    assert (first.provenance["compiles"], second.provenance["compiles"]) == (1, 0)
    assert "k.cpp:4:5: warning: unused variable" in first.build.text
    assert second.build == first.build
    assert second.provenance["library_sha256"] == first.provenance["library_sha256"]
    (entry,) = kept_builds(tmp_path)
    assert entry.stat().st_mode & 0o777 == 0o444
    assert again(tmp_path, source + "\n").provenance["compiles"] == 1


@needs_gcc
@pytest.mark.parametrize("harm", ["a changed byte", "another's entry", "others may write", "cut short"])
def test_a_kept_library_that_cannot_be_believed_is_compiled_anew(tmp_path: Path, harm: str) -> None:
    compiled(tmp_path, kernel())
    (entry,) = kept_builds(tmp_path)
    entry.chmod(0o600)
    data = entry.read_bytes()
    if harm == "a changed byte":
        entry.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif harm == "another's entry":
        assert compiled(tmp_path / "other", kernel("return 5;")).verdict is Verdict.EXCEPTION
        entry.write_bytes(kept_builds(tmp_path / "other")[0].read_bytes())
    elif harm == "cut short":
        entry.write_bytes(data[:100])
    entry.chmod(0o666 if harm == "others may write" else 0o444)
    result = again(tmp_path, kernel())
    assert (result.verdict, result.provenance["compiles"]) == (Verdict.PASS, 1)


@needs_gcc
def test_a_submission_cannot_write_where_libraries_are_kept(tmp_path: Path) -> None:
    compiled(tmp_path, kernel())
    (entry,) = kept_builds(tmp_path)
    before = entry.read_bytes()
    attack = f"""
    if (!chmod("{entry}", 0666) && open("{entry}", O_WRONLY | O_TRUNC) >= 0) return 1;
    if (!rename("{entry}", "{entry}.old") || !unlink("{entry}")) return 2;
    if (open("{entry.parent}/new.build", O_WRONLY | O_CREAT, 0444) >= 0) return 3;
    """
    includes = "#include <cstdio>\n#include <fcntl.h>\n#include <sys/stat.h>\n#include <unistd.h>"
    result = again(tmp_path, kernel(attack + BODY, includes))
    if not sandbox.reaches(result.provenance["isolation"], "S3"):
        pytest.skip("this kernel has no Landlock")
    assert result.verdict is Verdict.PASS, result.message
    assert entry.read_bytes() == before
    assert len(kept_builds(tmp_path)) == 2


def test_builds_that_were_not_used_for_longest_go_first(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path / "cache", bytes_max=3000)
    for age, key in enumerate(("old", "used", "new")):
        cache.put(key, b"x" * 800, Log("text"))
        os.utime(tmp_path / "cache" / f"{key}.build", (age, age))
    assert cache.get("old") == (b"x" * 800, Log("text"))
    cache.put("last", b"y" * 800, Log())
    assert cache.get("used") is None
    assert cache.get("old") is not None
    cache.put("huge", b"z" * 5000, Log())
    assert cache.get("huge") is None


def test_a_folder_that_others_may_write_keeps_nothing(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    BuildCache(tmp_path).put("key", b"x", Log())
    assert list(tmp_path.iterdir()) == []


@needs_nvcc
def test_a_cuda_kernel_is_compiled_without_a_gpu_and_ends_as_an_error_of_the_device(tmp_path: Path) -> None:
    arch = "sm_90a"
    result = compiled(tmp_path, CUDA, ending=".cu", arch=arch)
    assert result.verdict is Verdict.DEVICE_ERROR
    assert f"compiles for {arch}, but jobs for CPU run on a CPU here" in result.message
    assert f"Compiling entry function '_Z3addPKfPf' for '{arch}'" in result.build.text
    assert "registers" in result.build.text
    assert result.provenance["arch"] == arch
    assert "release" in result.provenance["compiler"]


@needs_nvcc
@pytest.mark.torch
def test_a_cuda_kernel_on_a_node_without_a_gpu_is_compiled_and_not_blamed(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    result = compiled(tmp_path, CUDA, ending=".cu", device=Device.CUDA, arch="sm_80")
    assert result.verdict is Verdict.DEVICE_ERROR
    assert "no cuda device can be used on this node" in result.message
    assert result.provenance["compiles"] == 1


def cublas_in(folder: Path) -> Path:
    """Return a folder with a library in place of cuBLAS, without a driver's."""
    folder.mkdir()
    (folder / "cublas.c").write_text("int cublasCreate_v2(void **handle) { *handle = 0; return 0; }\n")
    line = ["gcc", "-shared", "-fPIC", "-Wl,-soname,libcublas.so.13", "-o", "libcublas.so", "cublas.c"]
    subprocess.run(line, cwd=folder, check=True)
    (folder / "libcublas.so.13").symlink_to("libcublas.so")
    return folder


def dynamic_section(library: Path) -> str:
    return subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout


@needs_nvcc
@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf")
def test_a_cuda_submission_is_linked_with_the_libraries_that_it_uses_and_no_other(tmp_path: Path) -> None:
    folder = cublas_in(tmp_path / "libraries")
    tools = toolchain(Language.CU, "sm_90a", {**os.environ, "LIBRARY_PATH": str(folder)})
    assert "-lcublas" in tools.libraries
    (tmp_path / "hpc_board.h").write_text(header_text())
    needed = {}
    for name, body in (("uses", "void *h; return cublasCreate_v2(&h);"), ("spares", "return 0;")):
        (tmp_path / f"{name}.cu").write_text(kernel(body, 'extern "C" int cublasCreate_v2(void **);'))
        line = command(tools, (), f"{name}.cu", library=f"{name}.so")
        subprocess.run(line, cwd=tmp_path, check=True, env={**os.environ, "LIBRARY_PATH": str(folder)})
        needed[name] = dynamic_section(tmp_path / f"{name}.so")
    assert "[libcublas.so.13]" in needed["uses"]
    assert f"[{folder}]" in needed["uses"]
    assert "libcublas" not in needed["spares"]
    ctypes.CDLL(str(tmp_path / "uses.so"))


def test_the_driver_s_stub_is_linked_and_never_loaded(tmp_path: Path) -> None:
    for folder, name in (("lib/stubs", "cuda"), ("lib/stubs", "cublas"), ("lib", "cublas")):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / f"lib{name}.so").touch()
    said = f'#$ LIBRARIES=  "-L{tmp_path}/lib/stubs" "-L{tmp_path}/lib"'
    nvcc = f"test \"$1\" = --dryrun && echo '{said}' >&2 || echo release 13.0"
    environ = tools_in(tmp_path, nvcc=nvcc, gxx="echo 12.2")
    linked = " ".join(toolchain(Language.CU, "sm_90a", environ).libraries)
    assert linked == f"-Xlinker --as-needed -lcuda -lcublas -Xlinker -rpath={tmp_path}/lib"


@needs_hipcc
@pytest.mark.parametrize("name", ["vectoradd", "matmul", "reduction"])
def test_hipcc_compiles_for_amd_also_where_nvcc_is_installed(tmp_path: Path, name: str) -> None:
    source = (TASKS / name / "template.hip").read_text()
    result = compiled(tmp_path, source, ending=".hip", arch="gfx90a", environ={"HIP_PLATFORM": "nvidia"})
    assert result.verdict is Verdict.DEVICE_ERROR, result.build.text
    assert "compiles for gfx90a" in result.message


@needs_nvcc
def test_errors_of_nvcc_are_shown_and_those_of_the_settings_blame_no_kernel(tmp_path: Path) -> None:
    wrong = compiled(tmp_path / "a", CUDA.replace("return 0", "retrun 0"), ending=".cu", arch="sm_90a")
    assert wrong.verdict is Verdict.COMPILE_ERROR
    assert "k.cu(4): error:" in wrong.message
    unknown = compiled(tmp_path / "b", CUDA, ending=".cu", arch="sm_20")
    assert unknown.verdict is Verdict.INFRA_ERROR
    assert "Unsupported gpu architecture" in unknown.message
    native = compiled(tmp_path / "c", CUDA, ending=".cu", arch="native")
    assert native.verdict is Verdict.INFRA_ERROR
    assert "the settings have an invalid `arch` 'native'; an example is sm_90a" in native.message


@needs_nvcc
def test_a_source_cannot_lay_its_own_failure_on_the_node(tmp_path: Path) -> None:
    forged = '#line 1 "nvcc fatal   : Unsupported gpu architecture"\n'
    for number, fault in enumerate(("#error x\n", "int x = y;\n")):
        result = compiled(tmp_path / str(number), forged + fault + CUDA, ending=".cu", arch="sm_80")
        assert result.verdict is Verdict.COMPILE_ERROR


def test_a_library_is_kept_for_the_same_tools_source_and_environment_alone(tmp_path: Path) -> None:
    tools = toolchain(Language.CPP, "x86-64-v3", tools_in(tmp_path, gxx="echo 12.2"))
    line = command(tools, (), "k.cpp")
    keys = {
        cache_key(tools, line, b"x", {}),
        cache_key(tools, line, b"y", {}),
        cache_key(tools, [*line, "-O0"], b"x", {}),
        cache_key(tools, line, b"x", {"CPATH": "/opt/include"}),
        cache_key(tools, command(replace(tools, std="c++17"), (), "k.cpp"), b"x", {}),
        cache_key(tools, command(replace(tools, include=("/opt/cutlass",)), (), "k.cpp"), b"x", {}),
        cache_key(replace(tools, identity="13.1"), line, b"x", {}),
    }
    assert len(keys) == 7
    assert cache_key(tools, line, b"x", {}) in keys


def tools_in(folder: Path, **programs: str) -> dict[str, str]:
    """An environment whose PATH has these programs, by what they do."""
    for name, body in programs.items():
        (folder / name.replace("gxx", "g++")).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name.replace("gxx", "g++")).chmod(0o755)
    return {"PATH": str(folder)}


@pytest.mark.parametrize(
    ("language", "programs", "verdict", "message"),
    [
        (Language.CU, {}, Verdict.INFRA_ERROR, "no nvcc in PATH, nor in /opt/cuda/bin, so"),
        (Language.HIP, {}, Verdict.INFRA_ERROR, "no hipcc in PATH"),
        (Language.CPP, {}, Verdict.INFRA_ERROR, "no g++ in PATH"),
        (Language.CPP, {"gxx": "exit 1"}, Verdict.INFRA_ERROR, "prints no version"),
        (Language.CU, {"nvcc": "echo release 13.0"}, Verdict.DEVICE_ERROR, "nvidia-smi reports no GPU"),
        (Language.HIP, {"hipcc": "echo 6.4"}, Verdict.DEVICE_ERROR, "no GPU on this node, and the GPU has no `arch`"),
        (
            Language.CU,
            {"nvcc": "echo release 13.0", "nvidia-smi": "echo 9.0"},
            Verdict.INFRA_ERROR,
            "nvcc needs a host compiler",
        ),
    ],
)
def test_what_a_node_lacks_is_named(
    tmp_path: Path, language: Language, programs: dict[str, str], verdict: Verdict, message: str
) -> None:
    with pytest.raises(BuildFailed) as caught:
        toolchain(language, "", {**tools_in(tmp_path, **programs), "CUDA_HOME": "/opt/cuda"})
    assert caught.value.verdict is verdict
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("capability", "arch"), [("8.0", "sm_80"), ("9.0", "sm_90a"), ("10.0", "sm_100a"), ("8.9", "sm_89")]
)
def test_the_node_s_gpu_says_what_to_compile_for(tmp_path: Path, capability: str, arch: str) -> None:
    environ = tools_in(tmp_path, nvcc="echo release 13.0", gxx="echo 12.2", **{"nvidia-smi": f"echo {capability}"})
    tools = toolchain(Language.CU, "", environ)
    assert tools.arch == arch
    assert f"arch=compute_{arch[3:]},code=[{arch},compute_{arch[3:]}]" in command(tools, (), "k.cu")
    amd = tools_in(tmp_path, hipcc="echo HIP version 6.4", rocm_agent_enumerator="echo gfx000; echo gfx942")
    hip = toolchain(Language.HIP, "", amd)
    assert "--offload-arch=gfx942" in command(hip, (), "k.hip")


def test_a_compiler_in_a_container_is_not_looked_for_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    current, tools = tmp_path / "current", tmp_path / "rocm" / "bin"
    for folder in (current, tools):
        folder.mkdir(parents=True)
        tools_in(folder, hipcc="echo HIP version 6.4")
    monkeypatch.chdir(current)
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("env", "sh"):
        (programs / name).symlink_to(f"/bin/{name}")
    within = {"PATH": "", "ROCM_PATH": str(tools.parent)}
    inside = Inside(command=["env"], environment={"PATH": str(programs)}, environ=within)
    assert toolchain(Language.HIP, "gfx942", {}, inside).compiler == str(tools / "hipcc")


def test_a_cpu_board_that_emulates_a_gpu_compiles_c_plus_plus_for_its_cpu(tmp_path: Path) -> None:
    environ = tools_in(tmp_path, gxx="echo 12.2")
    assert "-march=native" in command(toolchain(Language.CPP, "sm_90a", environ), (), "k.cpp")
    assert "-march=x86-64-v3" in command(toolchain(Language.CPP, "x86-64-v3", environ), (), "k.cpp")


@needs_gcc
def test_exported_names_are_read_from_the_file(tmp_path: Path) -> None:
    source = 'extern "C" int shown() { return 1; } __attribute__((visibility("hidden"))) int hidden() { return 2; }'
    (tmp_path / "k.cpp").write_text(source)
    subprocess.run(["g++", "-shared", "-fPIC", "-o", "k.so", "k.cpp"], cwd=tmp_path, check=True)
    library = (tmp_path / "k.so").read_bytes()
    names = exported(library)
    assert "shown" in names
    assert not any("hidden" in name for name in names)
    for length in range(0, len(library), 97):
        exported(library[:length])
    assert exported(b"MZ" + library) == set()
