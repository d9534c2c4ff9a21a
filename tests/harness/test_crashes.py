"""The place of a crash by the real harness: frame and line of kernels in C++ and in Python."""

import os
import subprocess
from pathlib import Path

import pytest

from hpc_board.harness.build import toolchain
from hpc_board.harness.processes.crashes import FRAMES_MAX, Crash, native_frames, native_offsets, python_frames
from hpc_board.model.result import Result, Verdict
from hpc_board.model.task import Language
from tests.harness.compiling import BODY, compiled, kernel, needs_gcc
from tests.harness.evaluations import evaluate

GONE = "the submission's process is gone: it was killed by signal"
ROW = '__attribute__((noinline)) static void scale_row(float *y) {\n  y[42] = 1;\n  asm volatile("");\n}'
COPY = "#include <cstring>\nstatic float *volatile nowhere;"
RECURSION = "int f(int n) { volatile char a[1000]; a[0] = n; return f(n + 1) + a[0]; }"
PARALLEL = """
float *volatile nowhere = nullptr;
#pragma omp parallel for
for (int i = 0; i < 100; ++i)
    if (i == 77) nowhere[0] = i;
return 0;
"""
PYTHON = "import ctypes, os\n\ndef deep():\n    {line}\n\ndef custom_kernel(data):\n    deep()\n    return data\n"


def message_of(result: Result) -> str:
    assert result.verdict is Verdict.CRASH, result.message
    return result.cases[0].message


@needs_gcc
@pytest.mark.parametrize(
    ("body", "before", "expected"),
    [
        (
            "scale_row(nullptr);\nreturn 0;",
            ROW,
            "11 (SIGSEGV) at k.cpp:3 in scale_row\n  called from k.cpp:7 in custom",
        ),
        ("std::abort();", "#include <cstdlib>", "6 (SIGABRT) at k.cpp:4 in custom_kernel"),
        ("throw n_in;", "", "6 (SIGABRT) at k.cpp:4 in custom_kernel, uncaught exception: an object that is not a std"),
        (
            'throw std::runtime_error("");',
            "#include <stdexcept>",
            "6 (SIGABRT) at k.cpp:4 in custom_kernel, uncaught exception\n",
        ),
        (
            'throw std::runtime_error("odd\\x1b size");',
            "#include <stdexcept>",
            "6 (SIGABRT) at k.cpp:4 in custom_kernel, uncaught exception: odd",
        ),
        ("memcpy(nowhere, in, 80 + n_in);\nreturn 0;", COPY, "11 (SIGSEGV) at k.cpp:5 in custom_kernel"),
        ("return f(1);", RECURSION, "11 (SIGSEGV) at k.cpp:2 in f\n  called from k.cpp:2 in f"),
        (PARALLEL, "", "11 (SIGSEGV) at k.cpp:8 in custom_kernel"),
    ],
    ids=["function", "abort", "throw", "no words", "exception", "library", "stack", "thread"],
)
def test_a_crash_of_a_compiled_kernel_has_its_frame_and_line(
    tmp_path: Path, body: str, before: str, expected: str
) -> None:
    message = message_of(compiled(tmp_path, kernel(body, before)))
    assert f"{message}\n".startswith(f"{GONE} {expected}")
    assert message.count("\n") < FRAMES_MAX


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ctypes.string_at(0)", " 11 (SIGSEGV) at k.py:4 in deep\n  called from k.py:7 in custom_kernel"),
        ("os.abort()", " 6 (SIGABRT) at k.py:4 in deep\n  called from k.py:7 in custom_kernel"),
        ("os.closerange(3, 1000); ctypes.string_at(0)", " 11 (SIGSEGV)"),
    ],
)
def test_a_crash_of_a_python_kernel_has_its_frame_and_line(tmp_path: Path, line: str, expected: str) -> None:
    assert message_of(evaluate(tmp_path, PYTHON.format(line=line)).result) == GONE + expected


@needs_gcc
def test_a_node_without_addr2line_tells_the_signal_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in os.environ["PATH"].split(":"):
        for path in Path(folder).glob("*"):
            if path.name != "addr2line" and not (tools / path.name).is_symlink():
                (tools / path.name).symlink_to(path)
    monkeypatch.setenv("PATH", str(tools))
    assert message_of(compiled(tmp_path, kernel("__builtin_trap();"))) == f"{GONE} 4 (SIGILL)"


@needs_gcc
def test_debug_information_and_the_handler_change_no_instruction(tmp_path: Path) -> None:
    (tmp_path / "k.cpp").write_text(kernel(BODY))
    for name in (toolchain.HEADER, toolchain.CRASH):
        (tmp_path / name).write_text(toolchain.own_source(name))
    tools = toolchain.toolchain(Language.CPP, "", os.environ)
    line = [each for each in toolchain.command(tools, (), "k.cpp") if each not in (toolchain.CRASH, "-shared")]
    texts = []
    for number, words in enumerate((line, [each for each in line if each != "-g"])):
        output = f"{number}.o"
        words[words.index("-o") + 1] = output
        subprocess.run([*words, "-c"], cwd=tmp_path, check=True)
        subprocess.run(["objcopy", "-O", "binary", "-j", ".text", output, f"{number}.text"], cwd=tmp_path, check=True)
        texts.append((tmp_path / f"{number}.text").read_bytes())
    assert len(texts[0]) > 100
    assert texts[0] == texts[1]


# Hostile reports


def test_the_frames_of_a_hostile_report_are_bounded_and_plain() -> None:
    evil = "\x1b]0;title\x07" + "f" * 180
    report = f'  File "/s/code/k.py", line 9 in {evil}\n  File "/etc/passwd", line 1 in x\n' * 50
    found = python_frames(report, "/s/code", "k.py", "mine.py")
    assert (len(found), found[0][:11]) == (FRAMES_MAX, "mine.py:9 in"[:11])
    assert all(each.isprintable() and len(each) <= 120 for each in found)
    assert native_offsets("frame 00000000000000ff\nframe zz\nframe 1\n" * 50) == [255] * FRAMES_MAX
    places = "/tmp/x/submission.cpp:42 (discriminator 3)", "/usr/include/c++/12/bits/move.h:7", "??:0"
    text = "\n".join(line for place in places for line in ("scale(float*)", place))
    assert native_frames(text, "submission.cpp", "k.cpp") == ["k.cpp:42 in scale"]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("scale(float*, long)", "scale"),
        ("scale(float*) [clone .cold]", "scale"),
        ("custom_kernel._omp_fn.0", "custom_kernel"),
        ("custom_kernel.cold", "custom_kernel"),
        ("rows::{lambda(int)#1}::operator()(int) const", "rows::{lambda(int)#1}::operator()"),
    ],
)
def test_a_frame_has_the_function_s_own_name(function: str, expected: str) -> None:
    assert native_frames(f"{function}\nk.cpp:7\n", "k.cpp", "k.cpp") == [f"k.cpp:7 in {expected}"]


def test_the_name_of_a_function_may_have_any_length() -> None:
    # A search of the whole name takes minutes.
    (frame,) = native_frames(f"f{'.a' * 100_000}!\nk.cpp:7\n", "k.cpp", "k.cpp")
    assert frame.startswith("k.cpp:7 in f.a.a.a")


def test_the_memory_of_a_report_is_bounded() -> None:
    crash = Crash(lambda report: [str(len(report))])
    assert os.write(crash.descriptor, bytes(100_000)) == 16384
    for grow in (lambda: os.ftruncate(crash.descriptor, 2**33), lambda: os.write(crash.descriptor, b"more")):
        with pytest.raises(PermissionError):
            grow()
    assert crash.words() == " at 16384"
    crash.close()
