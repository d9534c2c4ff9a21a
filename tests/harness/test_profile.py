"""Mode `profile` by the real harness: torch.profiler and perf as they are here, and GPU profilers played by scripts.

The scripts check their arguments and do what the real commands do with them; none of them ever saw a GPU.
"""

import dataclasses
import errno
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hpc_board.domain.job_options import NO_OPTIONS, JobOptions
from hpc_board.harness.files import head_of, keep
from hpc_board.harness.processes import spawn
from hpc_board.harness.processes.output import Printed
from hpc_board.harness.processes.spawn import NotForked, started
from hpc_board.harness.profile.kernels import of_perf
from hpc_board.harness.profile.profilers import squeezed
from hpc_board.model.gpu import Cluster, Device, Gpu, Sandbox
from hpc_board.model.kernels import Kernel
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.runs import job_folder
from tests.conftest import skip_without
from tests.harness.compiling import REFERENCE, compiled, kernel, needs_gcc
from tests.harness.evaluations import RIGHT, Evaluation, a_task, evaluate
from tests.harness.harness_file import Edit, edited
from tests.values import replace

BUSY = "def custom_kernel(data):\n    sum(i * i for i in range(200_000))\n    return [2 * x for x in data]\n"
TORCH = "import torch\ndef custom_kernel(data):\n    return (2 * torch.tensor(data, dtype=torch.float64)).tolist()\n"


def profiled(
    where: Path,
    source: str,
    sandbox: Sandbox | None = None,
    harness: bytes = b"",
    options: JobOptions = NO_OPTIONS,
    **environ: str,
) -> Evaluation:
    found = evaluate(
        where, source, mode=Mode.PROFILE, environ=environ, harness=harness, sandbox=sandbox, options=options
    )
    assert found.result.verdict is Verdict.PASS, found.result.message
    assert found.result.score_s is None
    assert [(case.phase, case.index) for case in found.result.cases] == [("benchmark", 0), ("benchmark", 1)]
    return found


def test_without_a_profiler_the_harness_tells_its_own_times(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "chmod", "rm"):
        (folder / name).symlink_to(shutil.which(name) or "")
    found = profiled(tmp_path / "job", RIGHT, PATH=str(folder))
    text = found.result.profile.text
    assert "case 1: size: 100; seed: 4" in text
    assert "case 2: size: 1000; seed: 5" in text
    for step in ("the call ", "generate the inputs ", "hand over inputs and output ", "check the output "):
        assert text.count(step) == 2
    kernel, steps = text.split("A call and the judge's steps around it")
    assert "inputs" not in kernel, "the judge's own steps are at the end"
    assert len(steps.splitlines()) == 3, "with one line for each case"
    assert "not on this node's PATH: perf" in text
    assert "no profiler is available" in text
    assert found.result.provenance["profiler"] == "the harness's own clock"
    assert "isolation" in found.result.provenance
    assert not (found.folder / "profile").exists()


def test_a_wrong_kernel_is_not_profiled(tmp_path: Path) -> None:
    found = evaluate(tmp_path, RIGHT.replace("2 *", "3 *"), mode=Mode.PROFILE)
    assert found.result.verdict is Verdict.WRONG_VALUE
    assert found.result.profile.text == ""


@pytest.mark.torch
def test_torch_s_profiler_names_the_operators_and_leaves_a_trace(tmp_path: Path) -> None:
    found = profiled(tmp_path, TORCH)
    text = found.result.profile.text
    assert text.count("by torch.profiler; without it, the call took ") == 2
    assert found.result.stderr.text == "", "Kineto's own lines are not the kernel's"
    assert "aten::mul" in text
    assert found.result.provenance["profiler"] == "torch.profiler"
    (mul,) = [each for each in found.result.kernels if (each.case, each.name) == (0, "aten::mul")]
    assert mul.launches == 1
    assert mul.duration_ns is not None
    assert mul.duration_ns > 0
    for number in (1, 2):
        path = found.folder / "profile" / f"case-{number}.trace.json"
        assert f"kept: {path} (" in text
        assert json.loads(path.read_text())["traceEvents"]


@pytest.mark.torch
@needs_gcc
def test_torch_s_profiler_is_not_tried_on_what_it_cannot_see(tmp_path: Path) -> None:
    result = compiled(tmp_path, kernel(), reference=f"import torch\n{REFERENCE}", mode=Mode.PROFILE)
    assert result.verdict is Verdict.PASS, result.message
    assert "case 1" in result.profile.text
    assert "torch.profiler" not in result.profile.text


DOT = """
    const float* x = static_cast<const float*>(in[0].data);
    float* y = static_cast<float*>(out[0].data);
    const int n = static_cast<int>(in[0].shape[0]);
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (int i = 0; i < n; i++)
        y[i] = x[i] * 1.5f + (sum < 0 ? 4.0f : 3.0f);
    return 0;
"""


@needs_gcc
def test_a_profile_of_cpp_has_the_compilers_remarks_and_the_instructions_of_its_loops(tmp_path: Path) -> None:
    if shutil.which("objdump") is None:
        pytest.skip("needs objdump")
    source = kernel(DOT)
    result = compiled(tmp_path, source, mode=Mode.PROFILE)
    assert result.verdict is Verdict.PASS, result.message
    first, second = (number for number, line in enumerate(source.splitlines(), 1) if "for (int" in line)
    assert [remark.line for remark in result.remarks if remark.is_vectorized][-1] == second
    widest = {loop.line: loop for loop in sorted(result.loops, key=lambda loop: loop.vector_bits)}
    assert widest[second].vector_arithmetic > widest[second].scalar_arithmetic
    assert widest[second].stores > 0
    # Without -ffast-math the additions keep their order.
    assert widest[first].scalar_arithmetic > 0


def perf_works() -> bool:
    if shutil.which("perf") is None:
        return False
    command = ["perf", "stat", "-p", str(os.getpid()), "-e", "task-clock", "sleep", "0.01"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_perf_counts_a_worker_that_keeps_its_sandbox(tmp_path: Path) -> None:
    if not perf_works():
        pytest.skip("perf may not count here")
    found = profiled(tmp_path, BUSY)
    text = found.result.profile.text
    assert "by perf" in text
    assert re.search(r"^  \d+K? samples$", text, re.MULTILINE)
    assert "task-clock" in text
    assert (found.folder / "profile" / "case-1.perf.data").stat().st_size > 0
    assert "profiler_isolation" not in found.result.provenance
    shares = [each.time_share for each in found.result.kernels if each.case == 0]
    assert shares
    assert all(share is not None and 0 < share <= 1 for share in shares)


SPINS = """
__attribute__((noinline)) static void scale_row(const float *x, float *y, int64_t n, float a, float b) {
    for (int repeat = 0; repeat < 300000; ++repeat) {
        for (int64_t i = 0; i < n; ++i) y[i] = x[i] * a + b;
        asm volatile("" ::: "memory");
    }
}
"""
SPINNING = """
const auto *x = static_cast<const float *>(in[0].data);
scale_row(x, static_cast<float *>(out[0].data), in[0].shape[0], (float)ctx->reals[0], (float)params[0]);
return 0;
"""


@needs_gcc
def test_the_functions_of_a_compiled_kernel_come_first(tmp_path: Path) -> None:
    if not perf_works():
        pytest.skip("perf may not count here")
    found = compiled(tmp_path, kernel(SPINNING, SPINS), mode=Mode.PROFILE)
    assert found.verdict is Verdict.PASS, found.message
    first = next(each for each in found.kernels if each.case == 0)
    assert (first.name, (first.time_share or 0) > 0.1) == ("scale_row", True)
    own, _, rest = found.profile.text.partition("the rest of the worker's process")
    assert "the submission's own functions" in own
    assert "scale_row" in own
    assert "scale_row" not in rest.partition("task-clock")[0]
    assert "task-clock" in rest
    assert "\n#" not in found.profile.text
    assert "not supported" not in found.profile.text


def test_the_submission_s_own_functions_replace_longer_ones() -> None:
    report = (
        "    60.00%  python   libpython3.11.so.1.0  [.] _PyEval_EvalFrameDefault\n"
        "    30.00%  python   [kernel.kallsyms]     [k] finish_task_switch\n"
        "     9.00%  python   kernel.so             [.] scale_row\n"
    )
    found = of_perf(report)
    assert [(each.name, each.time_share) for each in found] == [("scale_row", 0.09)]
    without = of_perf(report.replace("kernel.so", "other.so"))
    assert [each.name for each in without] == ["_PyEval_EvalFrameDefault", "finish_task_switch", "scale_row"]


def script(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport os, sys, subprocess\nargs = sys.argv[1:]\n{text}")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            "Access to performance monitoring and observability operations is limited.",
            "perf may not count here (kernel.perf_event_paranoid is ",
        ),
        ("perf not found for kernel 6.1", "perf could not start: Error"),
    ],
)
def test_a_perf_that_does_not_count_is_left_out_with_the_cause(tmp_path: Path, words: str, told: str) -> None:
    script(tmp_path / "bin", "perf", f"print('Error:', file=sys.stderr)\nsys.exit({words!r})\n")
    found = profiled(tmp_path / "job", RIGHT, PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    text = found.result.profile.text
    assert text.count(f"perf was not used: {told}") == 1
    assert "no profiler is available" in text


RAW = """\
==PROF== Loaded report
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",\
"dram__throughput.avg.pct_of_peak_sustained_elapsed","gpu__time_duration.sum","launch__registers_per_thread",\
"launch__shared_mem_per_block_dynamic","launch__shared_mem_per_block_static","sass__inst_executed_register_spilling",\
"sm__throughput.avg.pct_of_peak_sustained_elapsed","sm__warps_active.avg.pct_of_peak_sustained_active",\
"smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",\
"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",\
"smsp__average_warps_issue_stalled_selected_per_issue_active.ratio"
"","","","","","","","","","","","%","ns","register/thread","byte/block","byte/block","inst","%","%","inst","inst","inst"
"0","42","python3.11","gpu-1","softmax_kernel","1","7","(256, 1, 1)","(64, 1, 1)","0","9.0",\
"70","12,000","64","0","16,384","0","30.5","38.2","1.5","9.25","1"
"1","42","python3.11","gpu-1","softmax_kernel","1","7","(256, 1, 1)","(64, 1, 1)","0","9.0",\
"72","12,600","64","0","16,384","0","30.5","38.2","2.5","9.25","1"
"2","42","python3.11","gpu-1","copy_kernel","1","7","(256, 1, 1)","(64, 1, 1)","0","9.0",\
"5","1,500","n/a","0","0","7","30.5","38.2","-1","1e999","nan"
"3","42","python3.11","gpu-1","torn
"""
"""The page `raw` of two kernels as ncu writes it, with some of its columns."""

NCU = (
    f"RAW = {RAW!r}\n"
    """
if "--import" in args:
    assert os.path.exists(args[1])
    if args[2:] == ["--page", "raw", "--csv", "--print-units", "base", "--print-kernel-base", "function"]:
        print(RAW)
    else:
        assert args[2:] == ["--page", "details"], args
        print("GPU Speed Of Light Throughput of the kernel")
    sys.exit()
report = args[args.index("--export") + 1]
fixed = ["--nvtx", "--nvtx-include", "custom_kernel/", "--clock-control", "none"]
fixed += ["--launch-count", "10", "--force-overwrite"]
assert args[:8] == fixed, args
with open(sys.argv[0] + ".chosen", "a") as file:
    print(*args[8 : args.index("--export")], file=file)
status = subprocess.run(args[args.index(report) + 1 :], close_fds=True).returncode
open(report, "w").write("a report")
print("==PROF== Disconnected")
sys.exit(status)
"""
)
NCU_FORBIDDEN = """
at = next(index for index, word in enumerate(args) if word.endswith("python") or "python3" in word)
print("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on "
      "the target device 0. For instructions ... see https://developer.nvidia.com/ERR_NVGPUCTRPERM")
sys.exit(subprocess.run(args[at:]).returncode)
"""
NSYS = """
if args[0] == "stats":
    assert args[-1].endswith("nsys.nsys-rep") and os.path.exists(args[-1])
    if args[2:4] == ["--format=csv", "--report=cuda_gpu_kern_sum"]:
        print("Processing [nsys.sqlite] with [cuda_gpu_kern_sum.py]...\\n")
        print("Time (%),Total Time (ns),Instances,Avg (ns),Name")
        print('75.0,3000,2,1500.0,"void scale<float, 4>(float*)"')
        print("25.0,1000,1,1000.0,copy_kernel")
        sys.exit()
    print("CUDA GPU Kernel Summary of the trace")
    sys.exit()
assert args[:2] == ["profile", "--trace=cuda,nvtx"], args
(report,) = [word.partition("=")[2] for word in args if word.startswith("--output=")]
status = subprocess.run(args[args.index(f"--output={report}") + 1 :]).returncode
open(report, "w").write("a trace")
sys.exit(status)
"""
ROCPROF = """
folder = args[args.index("--output-directory") + 1]
assert args[args.index("--output-format") + 1 :][:2] == ["csv", "pftrace"], args
status = subprocess.run(args[args.index("--") + 1 :]).returncode
open(f"{folder}/rocprof_kernel_stats.csv", "w").write('"Name","Calls","AverageNs"\\n"double_it",1,250.5\\n')
open(f"{folder}/rocprof_results.pftrace", "w").write("a trace")
sys.exit(status)
"""


def as_gpu(
    device: str,
    where: Path,
    source: str = RIGHT,
    sandbox: Sandbox | None = None,
    minimum_isolation: str = "",
    options: JobOptions = NO_OPTIONS,
    **environ: str,
) -> Evaluation:
    """A profile run on the CPU, in which the harness chooses the profilers of another kind of device."""
    changed = edited(
        (
            Edit("supervisor.py", "available(job.device,", f"available({device!r},"),
            Edit("supervisor.py", "absent(job.device,", f"absent({device!r},"),
            Edit("job_spec.py", 'value.get("minimum_isolation", "")', repr(minimum_isolation)),
        )
    )
    path = f"{where / 'bin'}:{os.environ['PATH']}"
    return profiled(where / "job", source, sandbox, changed, options, PATH=path, **environ)


def test_ncu_starts_the_worker_and_its_report_is_shown_and_kept(tmp_path: Path) -> None:
    script(tmp_path / "bin", "ncu", NCU)
    found = as_gpu("cuda", tmp_path)
    text = found.result.profile.text
    assert text.count("GPU Speed Of Light Throughput of the kernel") == 2
    assert "not on this node's PATH: nsys" in text
    assert found.result.provenance["profiler"] == "ncu"
    assert found.result.provenance["profiler_isolation"] == "S1"
    assert found.result.provenance["isolation"] >= "S1"
    for number in (1, 2):
        assert (found.folder / "profile" / f"case-{number}.ncu-rep").read_text() == "a report"
    softmax = Kernel(
        0, "softmax_kernel", 2, 12_300, 24_600 / 26_100, 0.71, 0.305, None, 0.382, 64, 16_384, 0, 0,
        (("long_scoreboard", 9.25), ("barrier", 2.0)),
    )  # fmt: skip
    assert (tmp_path / "bin" / "ncu.chosen").read_text() == 2 * "--set full --import-source yes\n"
    copy = Kernel(0, "copy_kernel", 1, 1500, 1500 / 26_100, 0.05, 0.305, None, 0.382, None, 0, 0, 7)
    assert [approximate(kernel) for kernel in found.result.kernels] == [
        approximate(replace(each, case=case)) for case in (0, 1) for each in (softmax, copy)
    ]


def test_a_profile_has_the_chosen_case_kernels_and_set(tmp_path: Path) -> None:
    script(tmp_path / "bin", "ncu", NCU)
    found = as_gpu("cuda", tmp_path, options=JobOptions(kernel="^soft|max (x)$", case="2", set="basic"))
    assert (
        tmp_path / "bin" / "ncu.chosen"
    ).read_text() == "--set basic --kernel-name regex:^soft|max (x)$ --import-source yes\n"
    text = found.result.profile.text
    assert "case 1" not in text
    assert text.count("case 2: size: 1000; seed: 5") == 2
    assert {kernel.case for kernel in found.result.kernels} == {1}
    assert [path.name for path in (found.folder / "profile").iterdir()] == ["case-2.ncu-rep"]


def approximate(kernel: Kernel) -> dict[str, object]:
    return {
        key: round(value, 9) if isinstance(value, float) else value for key, value in dataclasses.asdict(kernel).items()
    }


def test_a_profiler_that_starts_the_worker_is_left_out_where_a_board_requires_the_whole_confinement(
    tmp_path: Path,
) -> None:
    script(tmp_path / "bin", "ncu", NCU)
    found = as_gpu("cuda", tmp_path, minimum_isolation="S3")
    assert "ncu was not used: it needs a process without the system-call filter" in found.result.profile.text
    assert "profiler_isolation" not in found.result.provenance


def test_the_report_of_ncu_holds_no_files_of_another_account_than_the_authors(tmp_path: Path) -> None:
    script(tmp_path / "bin", "ncu", NCU)
    as_gpu("cuda", tmp_path, minimum_isolation="S1")
    assert (tmp_path / "bin" / "ncu.chosen").read_text() == 2 * "--set full\n"


THREADS = f"""
import numpy
from pathlib import Path
for path in Path("/proc/self/task").glob("*/status"):
    assert "NoNewPrivs:\\t1\\n" in path.read_text(), "a thread is older than what the worker gave up"
{RIGHT}"""


def test_no_thread_of_a_worker_that_a_profiler_starts_is_older_than_its_confinement(tmp_path: Path) -> None:
    skip_without("numpy")
    script(tmp_path / "bin", "ncu", NCU)
    found = as_gpu("cuda", tmp_path, THREADS)
    assert found.result.profile.text.count("GPU Speed Of Light Throughput of the kernel") == 2
    assert "a thread is older" not in found.result.profile.text


def test_where_counters_are_forbidden_a_trace_is_made_instead(tmp_path: Path) -> None:
    script(tmp_path / "bin", "ncu", NCU_FORBIDDEN)
    script(tmp_path / "bin", "nsys", NSYS)
    found = as_gpu("cuda", tmp_path)
    text = found.result.profile.text
    assert text.count("ncu was not used: this site does not let users read the GPU's performance counters") == 1
    assert "NVreg_RestrictProfilingToAdminUsers=0" in text
    assert text.count("CUDA GPU Kernel Summary of the trace") == 2
    assert (found.folder / "profile" / "case-2.nsys-rep").read_text() == "a trace"
    assert found.result.provenance["profiler"] == "nsys"
    assert found.result.kernels[:2] == (
        Kernel(0, "void scale<float, 4>(float*)", 2, 1500, 0.75),
        Kernel(0, "copy_kernel", 1, 1000, 0.25),
    )


def test_rocprofv3_writes_where_the_worker_may(tmp_path: Path) -> None:
    script(tmp_path / "bin", "rocprofv3", ROCPROF)
    found = as_gpu("hip", tmp_path)
    assert '"double_it",1' in found.result.profile.text
    assert found.result.kernels == tuple(Kernel(case, "double_it", 1, 250.5, 1) for case in (0, 1))
    assert (found.folder / "profile" / "case-1.pftrace").read_text() == "a trace"


def test_a_profiler_that_starts_nothing_is_left_out_with_its_words(tmp_path: Path) -> None:
    script(tmp_path / "bin", "ncu", "sys.exit('ncu: cannot open libcuda.so.1')\n")
    found = as_gpu("cuda", tmp_path)
    assert (
        "ncu was not used: the call failed under it, but not without it: "
        "ncu started no worker: ncu: cannot open libcuda.so.1"
    ) in found.result.profile.text


@pytest.mark.parametrize(("name", "device"), [("ncu", "cuda"), ("nsys", "cuda"), ("rocprofv3", "hip")])
def test_a_profiler_that_leaves_no_report_is_left_out(tmp_path: Path, name: str, device: str) -> None:
    at = "next(index for index, word in enumerate(args) if 'python' in word)"
    script(
        tmp_path / "bin", name, f"print('no licence', flush=True)\nsys.exit(subprocess.run(args[{at}:]).returncode)\n"
    )
    assert f"{name} was not used: it wrote no report: no licence" in as_gpu(device, tmp_path).result.profile.text


def test_only_regular_files_of_a_bounded_size_are_kept(tmp_path: Path) -> None:
    regular, link, pipe, target = (tmp_path / name for name in ("regular", "link", "pipe", "target"))
    regular.write_text("text \x1b[31m")
    link.symlink_to(regular)
    os.mkfifo(pipe)
    assert [keep(path, target, 100) for path in (link, pipe, tmp_path, tmp_path / "none")] == [0, 0, 0, 0]
    assert keep(regular, target, 9) == 0
    assert not target.exists()
    assert keep(regular, target, 10) == 10
    assert keep(regular, target, 10) == 0
    assert target.read_bytes() == regular.read_bytes()
    assert head_of(regular, 100) == "text "
    assert head_of(link, 100) == head_of(pipe, 100) == ""


def test_a_profiler_starts_the_worker_in_a_folder_whose_path_is_too_long_for_a_socket(tmp_path: Path) -> None:
    script(tmp_path / "bin", "ncu", NCU)
    long = tmp_path / ("x" * 120)
    long.mkdir()
    found = as_gpu("cuda", tmp_path, TMPDIR=str(long))
    assert found.result.profile.text.count("GPU Speed Of Light Throughput of the kernel") == 2


def begun(code: str, cwd: Path, seconds: float = 30) -> None:
    """Wait for a command, the Python program `code`, to start a worker that never comes."""
    deadline = time.monotonic() + seconds
    prefix = [sys.executable, "-c", f"import os, sys, time\n{code}"]
    started(prefix, cwd, environment={}, cwd=cwd, printed=[Printed()], printed_bytes_max=1000, deadline=deadline)


def test_a_command_whose_worker_cannot_be_reached_does_not_live_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids: list[int] = []

    def fails(_: socket.socket, pid: int, __: float) -> None:
        pids.append(pid)
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(spawn, "_connected", fails)
    with pytest.raises(NotForked, match=r"was ended, since its worker cannot be reached: .*too many open files"):
        begun("time.sleep(60)", tmp_path)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


@pytest.mark.parametrize(("code", "said"), [("time.sleep(60)", "it printed nothing"), ("sys.exit('none')", "none")])
def test_a_command_that_starts_nothing_in_time_is_ended(tmp_path: Path, code: str, said: str) -> None:
    with pytest.raises(NotForked, match=f"started no worker: {said}"):
        begun(f"open('pid', 'w').write(str(os.getpid())); {code}", tmp_path, 2)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_profile_has_time_for_both_of_its_parts() -> None:
    gpu, task = Gpu("CPU", Cluster("here", "local"), Device.CPU), a_task()
    assert job_folder.time_limit_seconds(task, gpu, Mode.PROFILE) > job_folder.time_limit_seconds(
        task, gpu, Mode.BENCHMARK
    )


def test_the_tables_of_a_profiler_have_no_runs_of_blanks() -> None:
    table = (
        "-----------------  --------------  ----------\n"
        "             Name      Self CPU %  # of Calls\n"
        "-----------------  --------------  ----------\n"
        "        aten::mul          12.50%           1\n"
        "    aten::softmax           7.50%          10\n"
        "-----------------  --------------  ----------\n"
        "Self CPU time total: 2.100ms\n"
        "\n"
        "\n"
        "one line, and no table\n"
    )
    assert squeezed(table).splitlines() == [
        "-------------  ----------  ----------",
        "         Name  Self CPU %  # of Calls",
        "-------------  ----------  ----------",
        "    aten::mul      12.50%           1",
        "aten::softmax       7.50%          10",
        "-------------  ----------  ----------",
        "Self CPU time total: 2.100ms",
        "",
        "one line, and no table",
    ]
