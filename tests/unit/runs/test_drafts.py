"""Intake: a file, its header and the options become a checked draft, or an error that says what to do."""

import os
import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc_board.domain.catalog import Catalog
from hpc_board.domain.draft import Draft, Source, SubmissionRequest
from hpc_board.domain.job_options import NO_OPTIONS, JobOptions
from hpc_board.domain.submission import Submission
from hpc_board.errors import BoardError, InputError, Refused
from hpc_board.model.gpu import Cluster, Device, Gpu, Sandbox, SandboxRuntime
from hpc_board.model.task import Language, MeansRule, Mode, Task, TaskFile
from hpc_board.runs.drafts import check_owner, draft, read_source
from tests.values import replace

MAIN = Cluster("main", "slurm")
H100 = Gpu("H100", MAIN, Device.CUDA)
A100 = Gpu("A100", MAIN, Device.CUDA)
CPU = Gpu("CPU", MAIN, Device.CPU)
MI300 = Gpu("MI300", MAIN, Device.HIP)
GPUS = (H100, A100, CPU, MI300)
NOW = datetime(2030, 1, 2, 12, tzinfo=UTC)
FILES = (TaskFile("submission.py", None), TaskFile("reference.py", ""))
ADD = Task("add_py", Language.PY, "Add.", FILES, tests=({"size": 1},), benchmarks=({"size": 9},))
SORT = replace(ADD, name="sort_py", gpus=("h100", "A100"))
ANY = replace(ADD, name="any", languages=(Language.PY, Language.CPP, Language.CU, Language.HIP))
SCAN = replace(ADD, name="scan", language=Language.CU)
CATALOG = Catalog((ADD, SORT, ANY, SCAN))
EMULATED = Gpu("B200", MAIN, Device.CPU)


def drafted(
    text: str = "pass\n",
    *,
    task: str | None = None,
    gpus: Sequence[str] = (),
    mode: str | None = None,
    note: str = "",
    catalog: Catalog = CATALOG,
    board: Sequence[Gpu] = GPUS,
    file_name: str = "kernel.py",
    options: JobOptions = NO_OPTIONS,
    served: bool = False,
) -> Draft:
    return draft(
        SubmissionRequest(Source(file_name, text), task, tuple(gpus), mode, note, options),
        find_task=catalog.task,
        gpus=board,
        now=NOW,
        served=served,
    )


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    data = "\ufeff#!POPCORN leaderboard add_py\r\nprint('é')\n".encode()
    (tmp_path / "kernel.py").write_bytes(data)
    source = read_source(tmp_path / "kernel.py")
    assert source.file_name == "kernel.py"
    assert source.data == data


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.py", b"", "is empty"),
        ("a.py", b" \n\n", "is empty"),
        ("a.py", b"#" * 1_000_001, "is too large (limit 1,000,000 bytes)"),
        ("a.py", b"ab\0", "NUL byte at offset 2"),
        ("a.py", b"abc\xff", "is it UTF-8? The byte at offset 3 is not"),
        ("a.py", b"#include <cstdint>\nint x;\n", "a.py begins with #include and is not Python"),
        ("a.py", b'#pragma once\n/* mine */ // */\n# include "hpc_board.h"\nint x;', "is not Python"),
        ("a.py", b"#include <x>\n" + b"(" * 900_000, "is not Python"),
        ("a.py", b"/**/" * 200_000 + b"#include <x>", "is not Python"),
        ("a.txt", b"x", "Submit a Python (.py), C++ (.cpp), CUDA (.cu / .cuh) or HIP (.hip) file"),
        ("a", b"x", "Submit a Python (.py)"),
        ("a\x1b[31m.py", b"x", "invalid file name a.py"),
        ("a\nb.py", b"x", "invalid file name"),
        ("é" * 101 + ".py", b"x", "invalid file name"),
    ],
)
def test_a_file_that_cannot_be_a_submission_is_refused(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError) as caught:
        read_source(tmp_path / name)
    assert message in caught.value.message
    assert caught.value.message.isprintable()
    assert caught.value.hint
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "code",
    [
        b"# include <torch/extension.h> is not needed\nimport torch\n",
        b"\xef\xbb\xbf#!POPCORN leaderboard heat\n#include <cstdint>\nx = 1\n",
        b"SOURCE = '''\n#include <cstdint>\n'''\nx =\n",
        b"# include the header\nx =\n",
        b"#" + b" " * 900_000,
        b"/*" * 400_000,
    ],
)
def test_a_python_file_may_begin_with_any_comment(tmp_path: Path, code: bytes) -> None:
    (tmp_path / "a.py").write_bytes(code)
    assert read_source(tmp_path / "a.py").data == code


def test_a_file_of_the_largest_size_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_bytes(b"/" * 1_000_000)
    assert len(read_source(tmp_path / "a.cu").data) == 1_000_000


def test_what_is_no_ordinary_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()
    for name, message in (("pipe", "not a regular file"), ("folder", "is a folder"), ("missing", "no such file")):
        with pytest.raises(InputError, match=message):
            read_source(tmp_path / f"{name}.py")


def test_a_header_alone_says_everything() -> None:
    found = drafted("#!POPCORN leaderboard sort_py\n#!POPCORN gpus H100 a100\npass\n")
    assert found == Draft(Source("kernel.py", found.source.text), SORT, (H100, A100), Mode.TEST, "")


def test_a_header_after_a_byte_order_mark_counts() -> None:
    assert drafted("\ufeff#!POPCORN leaderboard add_py\n#!HPCBOARD gpu CPU\n").gpus == (CPU,)


def test_options_alone_say_everything() -> None:
    found = drafted(task="add_py", gpus=["cpu", "H100,A100", "h100"], mode="ranked", note="First try 🙂")
    assert (found.task, found.gpus, found.mode, found.note) == (
        ADD,
        (CPU, H100, A100),
        Mode.RANKED,
        "First try 🙂",
    )


@pytest.mark.parametrize(
    ("text", "options", "message", "hint"),
    [
        ("pass", {}, "missing task name.", "--task TASK"),
        (
            "#!POPCORN leaderboard sort_py",
            {"task": "add_py"},
            'the file\'s header names the task "sort_py", not "add_py".',
            "omit --task",
        ),
        ("#!POPCORN leaderboard sort_p", {}, 'unknown task "sort_p". Did you mean "sort_py"?', "hpc-board list"),
        ("#!POPCORN", {}, "kernel.py: !POPCORN directive missing its keyword", "#!POPCORN leaderboard TASK"),
        ("#!POPCORN leaderboard a\x1b]0;x\x07b", {}, 'unknown task "ab".', "Tasks"),
        ("#!POPCORN \x1b[31mred", {}, "kernel.py: invalid !POPCORN directive: red", "#!POPCORN"),
        ("pass", {"task": "add_py", "gpus": ["H10"]}, 'unknown GPU "H10". Did you mean "H100"?', "H100, A100"),
        (
            "#!POPCORN gpus H10",
            {"task": "add_py", "gpus": ["CPU"]},
            'in the file\'s header: unknown GPU "H10". Did you mean "H100"?',
            "Correct or remove the GPUs in the header.",
        ),
        ("pass", {"task": "add_py", "gpus": ["A100,"]}, "empty GPU name.", "--gpu A,B"),
        ("pass", {"task": "sort_py", "gpus": ["CPU"]}, "GPU CPU not available for sort_py.", "one of: H100, A100."),
        ("pass", {"task": "sort_py"}, "sort_py has 2 GPUs: H100, A100.", "--gpu NAME or --gpu all"),
        (
            "#!POPCORN gpus H100",
            {"task": "sort_py", "gpus": ["H100", "A100"]},
            "the file's header names H100, not A100.",
            "omit --gpu",
        ),
        ("pass", {"task": "sort_py", "board": [CPU]}, "sort_py has no GPU here", "This board has: CPU."),
        (
            "pass",
            {"task": "add_py", "mode": "rankt"},
            'unknown mode "rankt". Did you mean "ranked"?',
            "Modes: test, benchmark",
        ),
        (
            "pass",
            {"task": "add_py", "gpus": ["CPU"], "note": "x" * 501},
            "The note is too long: 501 characters",
            "Shorten",
        ),
        ("pass", {"task": "add_py", "gpus": ["CPU"], "note": "a\x1b[m"}, "a control character", "on one line"),
        ("pass", {"task": "add_py", "gpus": ["CPU"], "note": "a\nb"}, "a line break", "on one line"),
        ("pass", {"task": "add_py", "file_name": "a.cu"}, "add_py accepts only the language py", "ends in .py"),
        (
            "//",
            {"task": "scan", "file_name": "a.cu", "gpus": ["MI300"]},
            "GPU MI300 not available for scan: it does not run cu.",
            "Choose one of: H100, A100.",
        ),
        (
            "//",
            {"task": "scan", "file_name": "a.cu", "board": [MI300]},
            "scan is a task in cu; none of its GPUs here (MI300) runs that.",
            "They run py, hip.",
        ),
        (
            "pass",
            {"task": "any", "file_name": "a.txt"},
            "any accepts only the languages py, cpp, cu, hip.",
            "ends in .py or .cpp or .cu or .cuh or .hip",
        ),
        (
            "//",
            {"task": "any", "file_name": "a.cpp", "gpus": ["H100"]},
            "a.cpp is C++, which does not run on H100 (device cuda).",
            "H100 supports Python, CUDA.",
        ),
        (
            "//",
            {"task": "any", "file_name": "a.cu", "gpus": ["A100", "CPU"]},
            "a.cu is CUDA, which does not run on CPU (device cpu).",
            "CPU supports Python, C++.",
        ),
        (
            "//",
            {"task": "any", "file_name": "a.cu", "gpus": ["MI300"]},
            "a.cu is CUDA, which does not run on MI300 (device hip).",
            "MI300 supports Python, HIP.",
        ),
    ],
)
def test_what_cannot_be_submitted_is_said_with_a_way_out(
    text: str, options: dict[str, object], message: str, hint: str
) -> None:
    with pytest.raises(InputError) as caught:
        drafted(text, **options)  # type: ignore[arg-type]
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.exit_code == 2
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("file_name", "gpu"),
    [("a.py", each) for each in GPUS]
    + [("a.cpp", CPU), ("a.cu", H100), ("a.cuh", A100), ("a.hip", MI300)]
    + [(f"a.{ending}", EMULATED) for ending in ("py", "cpp", "cu", "hip")],
)
def test_each_language_runs_on_its_devices_and_all_of_them_are_taken_where_a_gpu_is_emulated(
    file_name: str, gpu: Gpu
) -> None:
    board = (*GPUS, EMULATED)
    chosen = drafted("//!POPCORN leaderboard any\n", file_name=file_name, gpus=[gpu.name], board=board)
    assert chosen.gpus == (gpu,)
    assert chosen.task.name_on_node(file_name) == f"submission{file_name[1:]}"


def test_ranks_are_refused_where_no_request_can_ask_for_their_gpus() -> None:
    several = replace(ADD, harness="task", multi_gpu=True, tests=({"world_size": 4},))
    with pytest.raises(InputError, match="the task needs 4 GPUs"):
        drafted(task="add_py", gpus=["H100"], catalog=Catalog((several,)))


@pytest.mark.parametrize(
    ("options", "mode", "told"),
    [
        (JobOptions(case="9"), "test", "--case 9: expected 1 to 1, the test cases of any."),
        (JobOptions(case="9"), "benchmark", "--case 9: expected 1 to 1, the benchmark cases of any."),
        (JobOptions(case="1"), "ranked", "--case is an option of mode test, benchmark, profile, not of mode ranked."),
        (JobOptions(effort="quick"), "ranked", "--effort is an option of mode benchmark, not of mode ranked."),
    ],
)
def test_a_part_of_an_evaluation_is_of_its_modes_and_cases(options: JobOptions, mode: str, told: str) -> None:
    with pytest.raises(InputError, match=re.escape(told)):
        drafted(task="any", gpus=["H100"], mode=mode, options=options)


@pytest.mark.parametrize(
    ("options", "mode", "told"),
    [
        (JobOptions(case="1"), "profile", "--case is not supported: add_py uses its own eval."),
        (NO_OPTIONS, "sanitize", "mode sanitize is not supported: add_py uses its own eval."),
    ],
)
def test_a_task_with_its_own_eval_takes_no_choices_and_no_mode_sanitize(
    options: JobOptions, mode: str, told: str
) -> None:
    catalog = Catalog((replace(ADD, harness="task"),))
    with pytest.raises(InputError, match=re.escape(told)):
        drafted(task="add_py", gpus=["H100"], mode=mode, options=options, catalog=catalog)


SANDBOX = Sandbox(SandboxRuntime.BUBBLEWRAP, setting="defaults.sandbox")


@pytest.mark.parametrize(
    ("gpu", "served", "told"),
    [
        (H100, True, ""),
        (replace(H100, minimum_isolation="S3"), False, ""),
        (replace(H100, minimum_isolation="S1"), True, ""),
        (replace(H100, minimum_isolation="S3"), True, "H100: mode sanitize does not reach the isolation S3"),
        (replace(H100, minimum_isolation="S3", sandbox=SANDBOX), True, ""),
        (replace(CPU, minimum_isolation="S3"), True, ""),
        (replace(CPU, sandbox=SANDBOX), False, "CPU: mode sanitize does not work on a CPU in a submission container"),
    ],
)
def test_mode_sanitize_is_refused_where_no_job_could_run_its_tools(gpu: Gpu, served: bool, told: str) -> None:
    file_name = "kernel.cpp" if gpu.device is Device.CPU else "kernel.cu"
    given: dict[str, Any] = {"mode": "sanitize", "board": [gpu], "file_name": file_name, "served": served}
    if not told:
        assert drafted("//\n", task="any", **given).mode is Mode.SANITIZE
        return
    with pytest.raises(InputError, match=told):
        drafted("//\n", task="any", **given)


def test_tools_may_have_spaces_between_and_are_those_of_the_gpu() -> None:
    given: dict[str, Any] = {"task": "any", "mode": "sanitize"}
    assert drafted(gpus=["H100"], options=JobOptions(tool="racecheck, memcheck"), **given).gpus == (H100,)
    with pytest.raises(InputError, match='unknown tool ""'):
        drafted(gpus=["H100"], options=JobOptions(tool="racecheck,"), **given)
    with pytest.raises(InputError, match="--tool memcheck: the only tool on CPU is asan"):
        drafted("//\n", gpus=["CPU"], file_name="k.cpp", options=JobOptions(tool="asan, memcheck"), **given)
    with pytest.raises(InputError, match="--tool asan: H100 has the tools memcheck, racecheck, initcheck, synccheck"):
        drafted(gpus=["H100"], options=JobOptions(tool="asan"), **given)


@pytest.mark.parametrize(
    ("text", "gpus", "told"),
    [
        (f"#!POPCORN gpus {'H100 ' * 101}\n", (), "101 (limit 100)"),
        ("", ("H100,A100," * 51,), "103 (limit 100)"),
        ("#\n" * 10_001, (), "too many comment lines before the code (limit 10,000)"),
    ],
)
def test_a_file_and_its_options_name_few_gpus_and_have_a_short_header(
    text: str, gpus: Sequence[str], told: str
) -> None:
    with pytest.raises(InputError, match=re.escape(told)):
        drafted(f"{text}pass\n", task="add_py", gpus=gpus)
    assert drafted("#\n" * 10_000 + "pass\n", task="add_py", gpus=("H100,A100," * 10 + "CPU",)).gpus == (
        H100,
        A100,
        CPU,
    )


def test_the_only_gpu_is_taken_without_asking() -> None:
    assert drafted(task="add_py", board=[A100]).gpus == (A100,)


def test_all_means_every_gpu_of_the_task() -> None:
    assert drafted(task="sort_py", gpus=["all"]).gpus == (H100, A100)
    assert drafted("#!POPCORN gpus ALL\n", task="sort_py").gpus == (H100, A100)


def test_the_command_may_choose_from_the_gpus_of_the_header() -> None:
    assert drafted("#!POPCORN gpus A100 H100\n", task="sort_py", gpus=["h100"]).gpus == (H100,)


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        (None, Mode.TEST),
        ("Benchmark", Mode.BENCHMARK),
        ("ranked", Mode.RANKED),
        ("leaderboard", Mode.RANKED),
        ("ranked ", Mode.RANKED),
    ],
)
def test_a_mode_has_its_names(name: str | None, mode: Mode) -> None:
    assert drafted(task="add_py", gpus=["CPU"], mode=name).mode is mode


def test_a_task_for_several_gpus_under_the_own_judge_is_refused() -> None:
    with pytest.raises(InputError, match="add_py: this version of hpc-board does not run tasks for several GPUs"):
        drafted(task="add_py", catalog=Catalog((replace(ADD, multi_gpu=True),)))


@pytest.mark.parametrize(
    ("mode", "task", "key"),
    [
        ("test", replace(ADD, tests=()), "tests"),
        ("benchmark", replace(ADD, benchmarks=()), "benchmarks"),
        ("ranked", replace(ADD, benchmarks=()), "benchmarks"),
    ],
)
def test_a_mode_in_which_a_task_has_nothing_to_run_is_refused(mode: str, task: Task, key: str) -> None:
    with pytest.raises(InputError) as caught:
        drafted(task="add_py", gpus=["CPU"], mode=mode, catalog=Catalog((task,)))
    assert caught.value.message == f"add_py cannot be run in mode {mode}: the task has no {key}."
    assert "--mode" in caught.value.hint


def test_a_mistyped_key_for_the_cases_is_told_where_they_are_missing() -> None:
    warning = 'line 7: unknown key test is ignored. Did you mean "tests"?'
    with pytest.raises(InputError) as caught:
        drafted(task="add_py", gpus=["CPU"], catalog=Catalog((replace(ADD, tests=(), warnings=("other", warning)),)))
    assert caught.value.hint.endswith(f"`tests` in its task.yml. There, {warning}")


def test_a_mode_needs_no_cases_but_its_own() -> None:
    for mode, task in (("test", replace(ADD, benchmarks=())), ("benchmark", replace(ADD, tests=()))):
        assert drafted(task="add_py", gpus=["CPU"], mode=mode, catalog=Catalog((task,))).mode == mode


def test_after_the_deadline_nothing_is_accepted() -> None:
    zone = timezone(timedelta(hours=1))
    late = replace(ADD, deadline=datetime(2030, 1, 2, 12, 59, 59, tzinfo=zone))
    with pytest.raises(Refused) as caught:
        drafted(task="add_py", gpus=["CPU"], catalog=Catalog((late,)))
    assert caught.value.exit_code == 5
    assert caught.value.message == (
        "The deadline to submit to add_py has passed.\n"
        "It was 2030-01-02 11:59:59 UTC; the submission came at 2030-01-02 12:00:00 UTC."
    )
    just = replace(ADD, deadline=NOW - timedelta(milliseconds=80))
    with pytest.raises(Refused, match=r"It was 2030-01-02 11:59:59\.920 UTC; .* came at 2030-01-02 12:00:00 UTC"):
        drafted(task="add_py", gpus=["CPU"], catalog=Catalog((just,)))
    open_ = replace(ADD, deadline=NOW)
    assert drafted(task="add_py", gpus=["CPU"], catalog=Catalog((open_,))).task is open_


def test_what_belongs_to_somebody_else_is_refused() -> None:
    owned = Submission(1, "add_py", "", "ada", "a.py", "", Mode.TEST, NOW)
    check_owner(owned, "ada")
    with pytest.raises(Refused, match="the owner is ada, not bob"):
        check_owner(owned, "bob")


@given(
    text=st.text(alphabet="#!POPCRNleadrbogpusHA10_y \n\t,\x1b/", max_size=80),
    task=st.none() | st.text(max_size=10),
    gpus=st.lists(st.text(alphabet="HA10,al ", max_size=6), max_size=3),
    mode=st.none() | st.text(max_size=10),
    note=st.text(max_size=20),
)
def test_any_input_is_a_draft_or_an_error_that_is_safe_to_print(
    text: str, task: str | None, gpus: list[str], mode: str | None, note: str
) -> None:
    try:
        found = drafted(text, task=task, gpus=gpus, mode=mode, note=note)
    except BoardError as error:
        assert "\x1b" not in error.message + error.hint  # noqa: PT017
        assert error.hint  # noqa: PT017
    else:
        assert found.gpus


VERSION = platform.python_version()
TRITON = "import triton\n\n@triton.autotune([])\n@triton.jit\ndef k():\n    pass\n"


@pytest.mark.parametrize(
    ("file_name", "text", "message"),
    [
        ("k.py", TRITON, ""),
        (
            "k.py",
            "import triton\ndef k(:",
            f"k.py, line 2: not Python {VERSION}, so the rule on means of add_py cannot be checked: invalid syntax.",
        ),
        pytest.param(
            "k.py",
            TRITON + "#" * 100_000,
            "k.py has 100,066 characters, more than the 100,000 in which the rule on means of add_py can be checked.",
            id="too long",
        ),
        ("k.py", TRITON + "x = __import__('cupy.cuda')\n", "k.py, line 7 imports cupy, but add_py forbids cupy."),
        (
            "k.py",
            TRITON + "x = importlib.import_module(name='cupy')\n",
            "k.py, line 7 imports cupy, but add_py forbids cupy.",
        ),
        (
            "k.py",
            TRITON + "k = load_inline(cuda_sources=['__global__ void k() {}'])\n",
            "k.py, line 7 has code with __global__, but add_py forbids cuda.",
        ),
        ("k.py", TRITON + '"No __global__ here."\n', ""),
        ("k.py", "pass\n", "k.py does not import triton, which add_py requires."),
        ("k.cu", "void k() {}\n", "k.cu: add_py requires triton, which needs Python."),
        ("k.py", "import triton\n", "k.py has no function with the decorator @triton.jit, but add_py requires triton."),
        ("k.py", TRITON + "from cupy.cuda import x\n", "k.py, line 7 imports cupy, but add_py forbids cupy."),
        (
            "k.py",
            TRITON + "load_inline(extra_ldflags=['-lcublas'])\n",
            'k.py, line 7 names "-lcublas", but add_py forbids cublas.',
        ),
        (
            "k.py",
            TRITON + "ctypes.CDLL('/opt/lib/libcublas.so.12')\n",
            'k.py, line 7 names "/opt/lib/libcublas.so.12", but add_py forbids cublas.',
        ),
        ("k.py", TRITON + "find_library('cublas')\n", 'k.py, line 7 loads "cublas", but add_py forbids cublas.'),
        ("k.py", TRITON + "'''Faster than libcublas here.'''\n", ""),
    ],
)
def test_a_file_that_breaks_the_rule_on_means_by_its_text_is_refused(file_name: str, text: str, message: str) -> None:
    rule = MeansRule(require=("triton",), forbid=("cublas", "cuda", "cupy"))
    task = replace(ADD, languages=(Language.PY, Language.CU), means=rule)

    def sent() -> Draft:
        return drafted(text, task="add_py", gpus=("H100",), catalog=Catalog((task,)), file_name=file_name)

    if not message:
        assert sent().task.means == rule
        return
    with pytest.raises(InputError) as caught:
        sent()
    assert caught.value.message == message
    assert caught.value.hint.endswith("`hpc-board task add_py` shows the rule on means.")
