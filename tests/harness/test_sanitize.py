"""Mode `sanitize` by the real harness: AddressSanitizer as it is here, and compute-sanitizer played by a script.

The script checks its arguments and starts the worker as the real command does; it never saw a GPU.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hpc_board.domain.job_options import NO_OPTIONS, JobOptions
from hpc_board.harness.profile.sanitizers import LOG_BYTES_MAX, cuda_tool, findings, logged
from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.model.limits import Limits
from hpc_board.model.result import Result, Verdict
from hpc_board.model.sanitizer import CUDA_TOOLS, FINDINGS_MAX, SanitizerFinding
from hpc_board.model.task import Mode, Task, Timeouts
from hpc_board.runs import job_folder
from tests.harness.compiling import ALL, BODY, REFERENCE, kernel
from tests.harness.evaluations import QUICK, RIGHT, Evaluation, a_task, evaluate, progress
from tests.harness.harness_file import Edit, edited
from tests.harness.test_profile import script
from tests.values import replace

LOG = """
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at scale(float *, int)+0x380 in submission.py:61
=========     by thread (65,0,0) in block (0,0,0)
=========     Access to 0x7bd889c03041 is misaligned
=========     and is inside the nearest allocation at 0x7bd889c03000 of size 1,024 bytes
=========
========= Invalid __global__ write of size 4 bytes
=========     at scale(float *, int)+0x380 in submission.py:61
=========     by thread (66,0,0) in block (0,0,0)
=========     Access to 0x7bd889c03045 is misaligned
========= Uninitialized __global__ memory read of size 4 bytes
=========     at 0x250 in k.cuh:41:vector_add(float*)
========= Error: Race reported between Write access at sum(int *)+0x90 in k.cuh:41
=========     and Read access at sum(int *)+0x100 in k.cuh:51 [508 hazards]
=========
========= Warning: Race reported between Write access at sum(int *)+0x90 in k.cuh:42
=========     and Read access at sum(int *)+0x100 in k.cuh:52 [1 hazard]
========= Error: No attachable process found. compute-sanitizer timed-out.
========= ERROR SUMMARY: 5 errors
"""
"""The output of several tools at once, in the forms of several versions."""

FOUND = (
    SanitizerFinding(
        "memcheck",
        "Invalid __global__ write of size 4 bytes",
        "scale(float *, int)",
        "submission.py:61",
        "thread (65,0,0) in block (0,0,0)",
        "Access to 0x7bd889c03041 is misaligned and is inside the nearest allocation at 0x7bd889c03000 of size 1,024 "
        "bytes",
        count=2,
    ),
    SanitizerFinding(
        "memcheck", "Uninitialized __global__ memory read of size 4 bytes", "vector_add(float*)", "k.cuh:41"
    ),
    SanitizerFinding(
        "memcheck",
        "Race reported between Write access",
        "sum(int *)",
        "k.cuh:41",
        detail="and Read access at sum(int *)+0x100 in k.cuh:51 [508 hazards]",
    ),
    SanitizerFinding(
        "memcheck",
        "Race reported between Write access",
        "sum(int *)",
        "k.cuh:42",
        detail="and Read access at sum(int *)+0x100 in k.cuh:52 [1 hazard]",
        warning=True,
    ),
)

RACE = "========= {level}: Race reported between Write access at sum(int *)+0x90\n"
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"

SANITIZER = """
tool = args[1]
assert args[0] == "--tool" and args[2:6] == ["--print-limit", "100", "--show-backtrace", "no"], args
assert args[6:8] == ["--report-api-errors", "no"] or tool != "memcheck"
assert os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] == "1"
log = open(args[args.index("--log-file") + 1], "x")
with open(sys.argv[0] + ".tools", "a") as file:
    print(tool, file=file)
at = next(index for index, word in enumerate(args) if "python" in word)
status = subprocess.run(args[at:], close_fds=True).returncode
print(OUTPUT.get(tool, OUTPUT["*"]), file=log, flush=True)
sys.exit(status)
"""


@pytest.fixture
def on_path(tmp_path: Path) -> Path:
    """An empty folder for programs, in front of those of this machine."""
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def sanitized(
    where: Path,
    source: str = RIGHT,
    options: JobOptions = NO_OPTIONS,
    minimum_isolation: str = "",
    path: str | None = None,
    task: Task | None = None,
    seconds: str = 'job.phase_seconds["sanitize"]',
    edits: tuple[Edit, ...] = (),
) -> Evaluation:
    """A run on the CPU, in which the harness chooses the tools of a GPU."""
    changed = edited(
        (
            Edit("supervisor.py", 'cpu_tool if job.device == "cpu" else cuda_tool', "cuda_tool"),
            Edit("supervisor.py", '(CPU_TOOL,) if self._job.device == "cpu" else CUDA_TOOLS', "CUDA_TOOLS"),
            Edit("supervisor.py", 'job.phase_seconds["sanitize"]', seconds),
            Edit("job_spec.py", 'value.get("minimum_isolation", "")', repr(minimum_isolation)),
            *edits,
        )
    )
    environ = {"PATH": f"{where / 'bin'}:{os.environ['PATH'] if path is None else path}"}
    return evaluate(where / "job", source, task, mode=Mode.SANITIZE, environ=environ, harness=changed, options=options)


def plays(folder: Path, **output: str) -> None:
    """Let a script play compute-sanitizer, whose tools print these texts; all others print that they found nothing."""
    script(folder, "compute-sanitizer", f"OUTPUT = { ({'*': CLEAN, **output})!r}\n{SANITIZER}")


def test_each_tool_runs_the_tests_and_a_clean_run_passes(tmp_path: Path, on_path: Path) -> None:
    plays(on_path)
    found = sanitized(tmp_path)
    result = found.result
    assert (result.verdict, result.message) == (Verdict.PASS, "")
    assert [(case.phase, case.index) for case in result.cases] == [("test", 0), ("test", 1), ("test", 2)]
    assert (on_path / "compute-sanitizer.tools").read_text().split() == list(CUDA_TOOLS)
    assert result.profile.text.count("no faults") == 4
    assert result.provenance["sanitizer"] == "memcheck, racecheck, initcheck, synccheck"
    assert result.provenance["isolation"] == "S1"
    phases = [(line["phase"], line["case"], line["message"]) for line in progress(found.folder)]
    assert ("sanitize", 4, "synccheck") in phases


def test_a_fault_fails_the_run_and_names_the_place_in_the_participant_s_file(tmp_path: Path, on_path: Path) -> None:
    plays(on_path, memcheck=LOG)
    result = sanitized(tmp_path).result
    assert result.verdict is Verdict.CRASH
    assert result.message == (
        "memcheck found: Invalid __global__ write of size 4 bytes in scale(float *, int), k.py:61; 2 more"
    )
    assert [case.verdict for case in result.cases] == [Verdict.PASS] * 3
    assert [(each.tool, each.place, each.count) for each in result.findings] == [
        ("memcheck", "k.py:61", 2),
        ("memcheck", "k.cuh:41", 1),
        ("memcheck", "k.cuh:41", 1),
        ("memcheck", "k.cuh:42", 1),
    ]


def test_a_warning_alone_fails_no_run(tmp_path: Path, on_path: Path) -> None:
    warning = LOG[LOG.index("========= Warning") : LOG.index("========= Error: No")]
    plays(on_path, racecheck=f"{warning}========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)\n")
    result = sanitized(tmp_path, options=JobOptions(tool="racecheck,synccheck")).result
    assert result.verdict is Verdict.PASS
    assert [(each.tool, each.warning) for each in result.findings] == [("racecheck", True)]
    assert (on_path / "compute-sanitizer.tools").read_text().split() == ["racecheck", "synccheck"]


def test_a_wrong_output_under_a_tool_keeps_its_verdict(tmp_path: Path, on_path: Path) -> None:
    plays(on_path)
    result = sanitized(tmp_path, RIGHT.replace("2 *", "3 *")).result
    assert result.verdict is Verdict.WRONG_VALUE
    assert result.message.startswith("under memcheck, test case 1: at 0: ")
    assert not result.findings


def test_without_compute_sanitizer_the_node_is_to_blame(tmp_path: Path, on_path: Path) -> None:
    for name in ("bash", "chmod", "rm", "env"):
        (on_path / name).symlink_to(shutil.which(name) or "")
    result = sanitized(tmp_path, path="/nowhere").result
    assert result.verdict is Verdict.INFRA_ERROR
    assert "this node has no compute-sanitizer, which mode sanitize needs" in result.message


INFRA = Verdict.INFRA_ERROR


@pytest.mark.parametrize(
    ("text", "verdict", "words"),
    [
        ("sys.exit('no permission')", INFRA, "memcheck was not used: env started no worker: no permission"),
        (f"OUTPUT = {{'*': '== an error'}}\n{SANITIZER}", INFRA, "memcheck ended without a summary: == an error"),
        (f"OUTPUT = {{'*': ''}}\n{SANITIZER}", INFRA, "memcheck ended without a summary: it printed nothing"),
        (
            f"OUTPUT = {{'*': '=' * 3_000_000}}\n{SANITIZER}",
            Verdict.OUTPUT_LIMIT,
            "the log of memcheck is incomplete: too long, in too many files, or not a regular file",
        ),
    ],
)
def test_a_tool_that_does_not_work_here_is_told_and_blames_nobody_s_kernel(
    tmp_path: Path, on_path: Path, text: str, verdict: Verdict, words: str
) -> None:
    script(on_path, "compute-sanitizer", f"{text}\n")
    result = sanitized(tmp_path, options=JobOptions(tool="memcheck")).result
    assert (result.verdict, words in result.message) == (verdict, True), result.message


def test_a_tool_under_which_no_worker_can_use_the_gpu_blames_nobody_s_kernel(tmp_path: Path, on_path: Path) -> None:
    plays(on_path)
    device = '        device = open_device(frame["device"])\n'
    fails = f"{device}        if frame['traced']:\n            raise RuntimeError('CUDA error: initialization error')\n"
    result = sanitized(tmp_path, edits=(Edit("worker/worker.py", device, fails),)).result
    assert result.verdict is Verdict.INFRA_ERROR
    assert result.message.startswith("under memcheck, the GPU is not usable: RuntimeError: CUDA error")


def test_a_submission_that_cannot_be_loaded_is_told_under_each_tool(tmp_path: Path, on_path: Path) -> None:
    plays(on_path, racecheck=LOG)
    result = sanitized(tmp_path, "import nothing\n").result
    assert result.verdict is Verdict.CRASH
    assert result.provenance["sanitizer"] == ", ".join(CUDA_TOOLS)
    plays(on_path)
    result = sanitized(tmp_path / "clean", "import nothing\n", path=f"{on_path}:{os.environ['PATH']}").result
    assert (result.verdict, result.cases) == (Verdict.LOAD_ERROR, ())
    assert result.message.startswith("under memcheck, ModuleNotFoundError: No module named 'nothing'")


def test_a_board_that_requires_the_whole_confinement_runs_no_tool_that_starts_the_worker(
    tmp_path: Path, on_path: Path
) -> None:
    plays(on_path)
    result = sanitized(tmp_path, minimum_isolation="S3").result
    assert result.verdict is Verdict.INFRA_ERROR
    assert "needs a process without the system-call filter, but the board requires isolation S3" in result.message


def test_the_faults_of_compute_sanitizer_are_read_in_the_forms_of_its_versions(on_path: Path) -> None:
    plays(on_path)
    tool = cuda_tool("memcheck", {"PATH": str(on_path)})
    assert findings(tool, LOG) == FOUND
    assert findings(tool, CLEAN) == ()
    assert findings(tool, "========= Leaked\n========= ERROR SUMMARY: 3 errors\n") == (
        SanitizerFinding("memcheck", "ERROR SUMMARY: 3 errors"),
    )
    assert findings(tool, RACE.format(level="Warning") + RACE.format(level="Error")) == (
        SanitizerFinding("memcheck", "Race reported between Write access", "sum(int *)"),
        SanitizerFinding("memcheck", "Race reported between Write access", "sum(int *)", warning=True),
    )
    counted = "========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)\n"
    assert [each.kind for each in findings(tool, RACE.format(level="Warning") + counted)] == [
        "Race reported between Write access",
        "RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)",
    ][::-1]
    many = "".join(f"========= Invalid read of size {number}\n=========     at k+0x1\n" for number in range(200))
    assert len(findings(tool, many)) == FINDINGS_MAX
    assert all(len(each.kernel) <= 300 for each in findings(tool, f"========= x\n=========     at {'k' * 5000}+0x1\n"))


def asan_works() -> bool:
    if shutil.which("g++") is None:
        return False
    done = subprocess.run(["g++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=False)
    return done.stdout.startswith("/")


needs_asan = pytest.mark.skipif(not asan_works(), reason="needs g++ with libasan")


def by_asan(folder: Path, source: str) -> Result:
    task = a_task(REFERENCE, languages=ALL, limits=QUICK)
    return evaluate(folder, source, task, Mode.SANITIZE, Device.CPU, file_name="mine.cpp").result


def test_without_libasan_the_node_is_to_blame(tmp_path: Path, on_path: Path) -> None:
    script(on_path, "g++", "print('libasan.so')\n")
    environ = {"PATH": f"{on_path}:{os.environ['PATH']}"}
    result = evaluate(tmp_path / "job", RIGHT, mode=Mode.SANITIZE, environ=environ).result
    assert result.verdict is Verdict.INFRA_ERROR
    assert "this node has no libasan.so of g++, which mode sanitize needs" in result.message


@needs_asan
def test_a_right_kernel_has_no_faults_under_asan_and_keeps_its_isolation(tmp_path: Path) -> None:
    result = by_asan(tmp_path, kernel())
    assert (result.verdict, result.message) == (Verdict.PASS, ""), result.stderr.text
    assert len(result.cases) == 3
    assert result.findings == ()
    assert result.provenance["sanitizer"] == "asan"
    assert result.provenance["isolation"] >= "S2"


OUTSIDE = "y[in[0].shape[0]] = 1;"
OVERFLOWS = "volatile int big = 2147483647; big = big + n_in;"
PRINTS = 'for (int line = 0; line < 5000; ++line) fprintf(stderr, "0123456789\\n");'
FAULT = "static int fault() { volatile int* p = new int[4]; p[4] = 1; return *(volatile int*)8; }\nint x = fault();"


def ending(end: str) -> str:
    """A correct kernel with these statements at its end."""
    return kernel(BODY.replace("return 0;", f"{end} return 0;"), "#include <cstdio>")


@needs_asan
@pytest.mark.parametrize(
    ("source", "kind", "where"),
    [
        (kernel(BODY.replace("i < in", "i <= in")), "heap-buffer-overflow, READ of size 4", "custom_kernel"),
        (ending(OUTSIDE), "heap-buffer-overflow, WRITE of size 4", "custom_kernel"),
        (ending("volatile int* p = new int[4]; delete[] p; p[1] = 1;"), "heap-use-after-free", "custom_kernel"),
        (ending("*(volatile int*)8 = 1;"), "SEGV", "custom_kernel"),
        (ending(OVERFLOWS), "signed integer overflow: 2147483647 + 1", ""),
        # Between long output of the submission.
        (ending(f"{PRINTS} {OUTSIDE} {PRINTS}"), "heap-buffer-overflow, WRITE of size 4", "custom_kernel"),
        (ending(f"{PRINTS} {OVERFLOWS} {PRINTS}"), "signed integer overflow: 2147483647 + 1", ""),
        # While the submission is loaded.
        (kernel(before=FAULT), "heap-buffer-overflow, WRITE of size 4", "fault"),
    ],
)
def test_asan_finds_faults(tmp_path: Path, source: str, kind: str, where: str) -> None:
    result = by_asan(tmp_path, source)
    first = result.findings[0]
    assert (result.verdict, first.tool, first.kernel) == (Verdict.CRASH, "asan", where), result.findings
    assert first.kind.startswith(kind)
    assert first.place.startswith("mine.cpp:")
    assert result.message.startswith(f"asan found: {kind}")
    assert ("asan: 1 fault\n" in f"{result.profile.text}\n") == (len(result.findings) == 1)
    assert ("located" in first.detail) == kind.startswith("heap")
    assert ("AddressSanitizer" in result.profile.text) == bool(where)


def test_a_log_that_a_submission_made_large_or_strange_is_no_clean_run(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert logged(log) == ("", False)
    (tmp_path / "log.2").write_text("two\n\x1b[31m")
    assert logged(log) == ("two\n", False)
    (tmp_path / "log.1").write_bytes(bytes(LOG_BYTES_MAX))
    assert logged(log)[1]
    (tmp_path / "log.1").unlink()
    (tmp_path / "log.3").symlink_to("/etc/passwd")
    assert logged(log) == ("", True)
    (tmp_path / "log.3").unlink()
    for number in range(30):
        (tmp_path / f"log.{number}").touch()
    assert logged(log)[1]


SLOW = "import time\ndef custom_kernel(data):\n    time.sleep(SECONDS)\n    return [2 * x for x in data]\n"
BRIEF = {**QUICK, "first_call_seconds": 1, "call_seconds": 0.25}


def test_a_call_may_take_four_times_as_long_under_a_tool_and_no_longer(tmp_path: Path, on_path: Path) -> None:
    plays(on_path)
    task, options = a_task(limits=BRIEF), JobOptions(tool="memcheck, racecheck")
    result = sanitized(tmp_path, SLOW.replace("SECONDS", "0.6"), options, task=task).result
    assert (result.verdict, result.message) == (Verdict.PASS, "")
    (tmp_path / "hangs" / "bin").mkdir(parents=True)
    plays(tmp_path / "hangs" / "bin")
    hung = SLOW.replace("SECONDS", "600 if len(data) == 10 else 0")
    result = sanitized(tmp_path / "hangs", hung, options, task=task).result
    assert [(case.index, case.verdict) for case in result.cases] == [(0, Verdict.PASS), (1, Verdict.TIMEOUT)]
    assert result.verdict is Verdict.TIMEOUT
    assert result.message == "under memcheck, test case 2: the call did not return within 1 s"
    assert result.provenance["sanitizer"] == "memcheck, racecheck"


@pytest.mark.parametrize(
    "source",
    [
        "def custom_kernel(data):\n    return [0.0 for x in data]\n",
        "import os\ndef custom_kernel(data):\n    os._exit(3)\n",
        "import time\ndef custom_kernel(data):\n    time.sleep(600)\n",
        "import os\nos._exit(3)\n",
        "import nothing\n",
    ],
)
def test_a_failure_takes_no_fault_from_the_log(tmp_path: Path, on_path: Path, source: str) -> None:
    plays(on_path, racecheck=LOG)
    result = sanitized(tmp_path, source, JobOptions(tool="racecheck"), task=a_task(limits=BRIEF)).result
    assert result.message.startswith("racecheck found: Invalid __global__ write"), result.message
    assert len(result.findings) == len(FOUND)


def test_a_tool_that_does_not_end_and_those_that_were_not_run_are_named(tmp_path: Path, on_path: Path) -> None:
    hangs = SANITIZER.replace("print(OUTPUT", "import time\ntime.sleep(600)\nprint(OUTPUT")
    script(on_path, "compute-sanitizer", f"OUTPUT = {{'*': ''}}\n{hangs}")
    cut = sanitized(tmp_path, seconds="5").result
    assert cut.verdict is Verdict.TIMEOUT
    assert "under memcheck, the process did not finish within " in cut.message
    assert cut.message.endswith("; the time limit for all tools was reached; not run: racecheck, initcheck, synccheck")
    assert cut.provenance["sanitizer"] == "memcheck"


def test_the_tools_have_the_time_that_the_limit_of_their_job_leaves() -> None:
    gpu = Gpu("H100", Cluster("here", "slurm"), Device.CUDA)
    task = a_task(timeouts=Timeouts(600, 60, 60), limits={})
    limit, seconds = job_folder.time_limit_seconds(task, gpu, Mode.SANITIZE), job_folder._sanitize_seconds(task, gpu)
    assert seconds + Limits().build_seconds + Limits().load_seconds < limit < 4 * 600
    short = replace(gpu, time_limit_seconds=120)
    assert 0 < job_folder._sanitize_seconds(task, short) < 120


def test_a_job_takes_no_longer_than_a_ranked_one() -> None:
    gpu, task = Gpu("H100", Cluster("here", "slurm"), Device.CUDA), a_task()
    sanitize, tests, ranked = (
        job_folder.time_limit_seconds(task, gpu, mode) for mode in (Mode.SANITIZE, Mode.TEST, Mode.RANKED)
    )
    assert tests < sanitize <= ranked
