"""The rules of tasks for a call beside a right output, and of boards for a node."""

import json
import os
import platform
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_board.harness.confine import sandbox
from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.runs import job_folder
from tests.accounts import command_as, needs_accounts
from tests.conftest import skip_without
from tests.harness.evaluations import (
    ARRAYS,
    QUICK,
    REFERENCE,
    RIGHT,
    a_task,
    evaluate,
    judged_in,
    make_job_folder,
    said_confined,
)
from tests.harness.harness_file import Edit, edited

ROOT = Path(__file__).resolve().parents[2]
TENSORS = """
import torch

def generate_input(size, seed):
    return torch.rand(size, generator=torch.Generator().manual_seed(seed)) + 1

def ref_kernel(data):
    return 2 * data

def check_implementation(data, output):
    return bool((output == 2 * data).all()), "wrong"
"""


def test_no_call_takes_less_than_the_floor(tmp_path: Path) -> None:
    task = a_task(limits={**QUICK, "floor_seconds": 1})
    result = evaluate(tmp_path, RIGHT, task, Mode.BENCHMARK).result
    assert result.verdict is Verdict.PASS, result.message
    assert result.score_s == pytest.approx(1)


CLAIMS_LITTLE = """
from hpc_board.harness.device.device import CpuDevice

honest = CpuDevice.timed


def timed(self, call, shown, *, cold):
    value, elapsed_ns = honest(self, call, shown, cold=cold)
    return value, 1000 + elapsed_ns % 97


CpuDevice.timed = timed


def custom_kernel(data):
    import time
    time.sleep(0.02)
    return [2 * x for x in data]
"""


@pytest.fixture
def others() -> Iterator[None]:
    """Put other work on every processor, below no process of this test."""
    spin = f"for _ in $(seq {os.cpu_count()}); do (echo $BASHPID; exec >&-; while :; do :; done) & done"
    spinning = subprocess.run(["bash", "-c", spin], stdout=subprocess.PIPE, check=True, text=True)
    yield
    for pid in map(int, spinning.stdout.split()):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.quiet
@pytest.mark.usefixtures("others")
def test_a_false_claim_gains_nothing_on_a_busy_machine_which_the_result_tells_of(tmp_path: Path) -> None:
    found = evaluate(tmp_path, CLAIMS_LITTLE, mode=Mode.BENCHMARK).result.cases[-1].timing
    assert found is not None
    assert found.time_ns > 0.95 * 0.02e9
    assert found.is_busy


DIFFERING = """
import os, pathlib, time
notes = pathlib.Path(os.environ["XDG_CACHE_HOME"])
notes.mkdir(parents=True, exist_ok=True)
number = len(list(notes.iterdir()))
(notes / str(number)).write_text("")
seconds = 0.02 * {steps}[number % {count}]
def custom_kernel(data):
    time.sleep(seconds)
    return [2 * x for x in data]
"""
"""The first process of a ranked run makes the tests; each leaves a note in the folder that they have in common."""


@pytest.mark.quiet
@pytest.mark.parametrize(
    ("steps", "measure_seconds", "workers", "wide"),
    [([1], 60, 3, False), ([1, 1, 3, 3], 0, 3, True), ([1, 1, 3, 3], 60, 4, False)],
    ids=["all agree", "no time to measure again", "measured again"],
)
def test_a_ranked_run_measures_in_several_processes_and_again_where_they_differ(
    tmp_path: Path, steps: list[int], measure_seconds: float, workers: int, wide: bool
) -> None:
    source = DIFFERING.format(steps=steps, count=len(steps))
    limits = {**QUICK, "rows": 2, "interval": 0.5, "measure_seconds": measure_seconds}
    task = a_task(limits=limits, benchmarks=({"size": 100, "seed": 4},))
    result = evaluate(tmp_path, source, task, Mode.RANKED).result
    assert result.verdict is Verdict.PASS, result.message
    found = result.cases[-1].timing
    assert found is not None
    assert (len(found.worker_samples), found.interval > 0.5) == (workers, wide), found.samples_ns
    assert wide or found.time_ns == pytest.approx(0.02e9, rel=0.3)
    assert found.reference_ns


def test_a_reference_that_does_not_pass_its_own_check_is_a_task_error(tmp_path: Path) -> None:
    reference = REFERENCE.replace("return [2 * x for x in data]", "return [2 * x + len(data) // 100 for x in data]")
    reference = reference.replace("ref_kernel(data)))", "[2 * x for x in data]))")
    result = evaluate(tmp_path, RIGHT, a_task(reference), Mode.BENCHMARK).result
    assert result.verdict is Verdict.TASK_ERROR
    assert "the reference itself does not pass: wrong_value" in result.message


WITHOUT_LANDLOCK = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
NUMBER, LANDLOCK, ERRNO, ALLOW = 0, 444, 0x00050000 | 38, 0x7FFF0000
steps = [(0x20, 0, 0, NUMBER), (0x15, 0, 1, LANDLOCK), (0x06, 0, 0, ERRNO), (0x06, 0, 0, ALLOW)]
program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
libc.prctl(38, 1, 0, 0, 0)
assert libc.prctl(22, 2, struct.pack("=HxxxxxxQ", len(steps), ctypes.addressof(program)), 0, 0) == 0
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Runs a command as on a kernel without Landlock."""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers of system calls are those of x86-64")
@pytest.mark.parametrize(("wanted", "verdict"), [("S3", Verdict.INFRA_ERROR), ("S2", Verdict.PASS)])
def test_a_board_can_ask_for_more_isolation_than_a_node_has(tmp_path: Path, wanted: str, verdict: Verdict) -> None:
    leave = f"open({str(tmp_path)!r} + '/imported-' + __name__, 'w').close()\n"
    folder = make_job_folder(tmp_path, leave + RIGHT, a_task(leave + REFERENCE), Mode.TEST)
    facts = json.loads((folder / job_folder.FACTS).read_text())
    (folder / job_folder.FACTS).write_text(json.dumps({**facts, "minimum_isolation": wanted}))
    result = judged_in(folder, sys.executable, "-c", WITHOUT_LANDLOCK)
    assert result.provenance["isolation"] == "S2"
    assert result.verdict is verdict
    # Below the level neither the submission nor the task is imported for a moment.
    assert bool(list(tmp_path.glob("imported-*"))) == (verdict is Verdict.PASS)
    if verdict is Verdict.INFRA_ERROR:
        assert "the board requires isolation S3 or above, but this node reaches S2" in result.message
        assert "it lacks Landlock for files" in result.message


THREADED = """
import threading, time
if sys.argv[1] == "2":
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print(sandbox.confine([ROOT], []) > 0)
"""


def test_a_process_of_several_threads_is_not_called_confined() -> None:
    assert [said_confined(THREADED, count) for count in "12"] == ["True\n", "False\n"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is root")
@pytest.mark.parametrize("allow_root", [None, True])
def test_a_job_that_runs_as_root_judges_where_its_cluster_says_so_alone(
    tmp_path: Path, allow_root: bool | None
) -> None:
    gpu = Gpu("L4", Cluster("main", "slurm", allow_root=allow_root), Device.CPU, python=sys.executable)
    source = f"open({str(tmp_path / 'ran')!r}, 'w')\n{RIGHT}" if not allow_root else RIGHT
    folder = make_job_folder(tmp_path / "job", source, a_task(), Mode.TEST, gpu=gpu)
    result = judged_in(folder)
    assert result.provenance["root"] is True
    if allow_root:
        assert result.verdict is Verdict.PASS, result.message
    else:
        assert result.verdict is Verdict.INFRA_ERROR
        assert "allow_root: true for the cluster of gpus.L4" in result.message
        assert not (tmp_path / "ran").exists()


@needs_accounts
def test_the_root_of_a_user_namespace_is_no_root() -> None:
    said = "import os; from hpc_board.harness.node import is_root; print(os.geteuid(), is_root())"
    command = ["unshare", "--user", "--map-root-user", sys.executable, "-c", said]
    done = subprocess.run(
        command_as(61001, 0o077, [], command),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"no user namespace here: {done.stderr.strip()}")
    assert done.stdout == "0 False\n"


READS = """
sandbox.confine(sandbox.readable_folders(os.environ, [ROOT], []), [])

import pwd, ssl, subprocess
from pathlib import Path
ssl.create_default_context()
print(pwd.getpwuid(0).pw_name, subprocess.run(["sh", "-c", "echo shell"], capture_output=True, text=True).stdout)
for name in sys.argv[1:]:
    try:
        with open(name):
            print("read", name)
    except PermissionError:
        print("refused", name)
"""


def test_of_the_node_s_configuration_a_worker_reads_what_programs_need_alone() -> None:
    wanted = ["/etc/passwd", "/etc/ld.so.cache"]
    others = [str(path) for path in map(Path, ("/etc/shadow", "/etc/hostname", "/etc/fstab")) if path.exists()]
    expected = ["root shell", "", *(f"read {each}" for each in wanted), *(f"refused {each}" for each in others)]
    assert said_confined(READS, *wanted, *others).splitlines() == expected


NAMES_THREADS = """
import threading
sandbox.gpu_devices = lambda: sys.argv[1:]
sandbox.confine([ROOT], [])

def written(path):
    try:
        with open(path, "w") as file:
            file.write("named")
    except PermissionError:
        return "refused"
    return open(path).read().strip()

done = threading.Event()
thread = threading.Thread(target=done.wait)
thread.start()
paths = f"/proc/self/task/{thread.native_id}/comm", "/proc/self/comm", f"/proc/{os.getppid()}/comm"
print(*map(written, paths))
done.set()
"""


@pytest.mark.parametrize(
    ("devices", "outcome"), [(["/dev/null"], "named refused refused\n"), ([], "refused refused refused\n")]
)
def test_a_worker_on_a_node_with_a_gpu_names_its_own_threads_which_cuda_must_do_to_start(
    devices: list[str], outcome: str
) -> None:
    assert said_confined(NAMES_THREADS, *devices) == outcome


MOVES = """
sandbox.landlock_abi = lambda: int(sys.argv[2])
scratch = sys.argv[1]
os.mkdir(f"{scratch}/inner")
sandbox.confine([ROOT], [scratch])
with open(f"{scratch}/inner/made", "w") as file:
    file.write("text")
os.replace(f"{scratch}/inner/made", f"{scratch}/kept")
print(sorted(os.listdir(scratch)), os.listdir(f"{scratch}/inner"), open(f"{scratch}/kept").read())
try:
    os.rename(f"{scratch}/inner", f"{scratch}/gone/inner")
except OSError as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize("abi", [1, 2])
def test_a_file_moves_to_another_folder_as_in_triton_s_cache_whatever_the_version_of_landlock(
    tmp_path: Path, abi: int
) -> None:
    if sandbox.landlock_abi() < abi:
        pytest.skip(f"this kernel has no Landlock of version {abi}")
    assert said_confined(MOVES, tmp_path, abi) == "['inner', 'kept'] [] text\nFileNotFoundError\n"


DIALS = """
import errno, socket
def outcome(of):
    with socket.socket() as mine:
        try:
            of(mine)
        except OSError as error:
            return errno.errorcode[error.errno]
    return "done"
def dialled(port):
    return outcome(lambda mine: mine.connect(("127.0.0.1", port))), outcome(lambda mine: mine.bind(("127.0.0.1", 0)))
"""
needs_landlock_for_tcp = pytest.mark.skipif(sandbox.landlock_abi() < 4, reason="this kernel has no Landlock for TCP")


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@needs_landlock_for_tcp
@pytest.mark.parametrize(
    ("confine", "outcome"),
    [
        ("sandbox.confine([], [])", "EACCES"),
        ("sandbox.confine_compiler([], ROOT)", "EACCES"),
        ("sandbox.confine([], [], scoped=False)", "done"),
    ],
)
def test_landlock_alone_closes_tcp_but_to_what_a_profiler_starts(confine: str, outcome: str, port: int) -> None:
    assert said_confined(f"{DIALS}{confine}\nprint(*dialled({port}))").split() == [outcome, outcome]


@needs_landlock_for_tcp
def test_a_worker_has_no_tcp_without_the_filter_either(tmp_path: Path, port: int) -> None:
    unfiltered = edited(
        (
            Edit(
                "worker/worker.py",
                'filtered=not traced and deny_outside_effects(others=frame["others"])',
                "filtered=True",
            ),
        )
    )
    result = evaluate(tmp_path, f"{DIALS}print(*dialled({port}))\n{RIGHT}", harness=unfiltered).result
    assert result.verdict is Verdict.PASS, result.message
    assert result.stdout.text.split() == ["EACCES", "EACCES"]


@pytest.mark.parametrize(("stops", "known"), [("True", True), ("False", False)])
def test_a_worker_whose_device_cannot_be_stopped_gets_the_memory_of_inputs_with_its_call(
    tmp_path: Path, stops: str, known: bool
) -> None:
    knows = 'print("knows", "memfd:inputs" in open("/proc/self/maps").read())'
    changed = edited(
        (
            Edit("measure/worker_handle.py", 'self._stops = device == "cpu"', f"self._stops = {stops}"),
            # Between its answer to "map" and its call.
            Edit("worker/worker.py", 'return {"type": "mapped"}', f'{knows}; return {{"type": "mapped"}}'),
        )
    )
    result = evaluate(tmp_path, RIGHT, a_task(const_inputs=True), Mode.RANKED, harness=changed).result
    assert result.verdict is Verdict.PASS, result.message
    assert set(result.stdout.text.splitlines()) == {f"knows {known}"}


def test_levels_are_what_they_are_made_of() -> None:
    assert sandbox.level_of(0, filtered=False) == "S1"
    assert sandbox.level_of(7, filtered=False) == "S1"
    assert sandbox.level_of(0, filtered=True) == "S2"
    assert sandbox.level_of(5, filtered=True) == "S3"
    assert sandbox.level_of(6, filtered=True) == "S4"
    assert sandbox.reaches("S3", "")
    assert sandbox.reaches("S3", "S3")
    assert not sandbox.reaches("S2", "S3")
    assert not sandbox.reaches("", "S1")


COMPILING = """
import ctypes, os, subprocess, pathlib
cache = pathlib.Path(os.environ["XDG_CACHE_HOME"], "own")
library = cache / "double.so"
if not library.exists():
    cache.mkdir(parents=True)
    source = cache / "double.c"
    source.write_text("double twice(double x) { return 2 * x; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    print("compiled", flush=True)
    os.mkfifo(cache / "a pipe")
    os.symlink("/etc/passwd", cache / "a link")
    pathlib.Path(os.environ["HOME"], "a note").write_text("for the next one")
print("found", sorted(os.listdir(cache)), sorted(os.listdir(os.environ["HOME"])), flush=True)
twice = ctypes.CDLL(str(library)).twice
twice.restype, twice.argtypes = ctypes.c_double, [ctypes.c_double]

def custom_kernel(data):
    return [twice(x) for x in data]
"""


def test_what_a_submission_compiles_is_compiled_once_and_nothing_else_is_left_to_the_next_process(
    tmp_path: Path,
) -> None:
    result = evaluate(tmp_path, COMPILING, a_task(), Mode.RANKED).result
    assert result.verdict is Verdict.PASS, result.message
    lines = result.stdout.text.splitlines()
    assert lines.count("compiled") == 1
    later = "found ['double.c', 'double.so'] ['cache', 'code']"
    assert lines[2:] == [later] * (len(lines) - 2)
    assert len(lines) >= 5


ONE_TENSOR = """
import torch
buffer = torch.empty(10_000)

def custom_kernel(data):
    return torch.mul(data, 2, out=buffer[:len(data)])
"""
ONE_BUFFER = """
import numpy as np
buffer = np.empty(10_000)

def custom_kernel(data):
    return np.multiply(data, 2, out=buffer[:len(data)])
"""
TWO_BUFFERS = """
import itertools, numpy as np
buffers = itertools.cycle([np.empty(10_000), np.empty(10_000)])

def custom_kernel(data):
    return np.multiply(data, 2, out=next(buffers)[:len(data)])
"""


NEVER_TWICE = """
import numpy as np
buffer, seen = np.empty(10_000), set()

def custom_kernel(data):
    if tuple(data.tolist()) in seen:
        raise ValueError("these inputs were there before")
    seen.add(tuple(data.tolist()))
    return np.multiply(data, 2, out=buffer[:len(data)])
"""


@pytest.mark.parametrize(
    ("reference", "source"),
    [
        pytest.param(TENSORS, ONE_TENSOR, marks=pytest.mark.torch),
        (ARRAYS, TWO_BUFFERS),
        (ARRAYS, NEVER_TWICE),
    ],
)
def test_a_kernel_may_write_its_outputs_into_buffers_that_it_keeps(tmp_path: Path, reference: str, source: str) -> None:
    skip_without("numpy")
    result = evaluate(tmp_path, source, a_task(reference), Mode.RANKED).result
    assert result.verdict is Verdict.PASS, result.message


def test_a_large_output_in_a_buffer_that_is_kept_costs_no_more_in_a_row_than_alone(tmp_path: Path) -> None:
    skip_without("numpy")
    size = 2**21
    task = a_task(ARRAYS, benchmarks=({"size": size, "seed": 4},), limits={**QUICK, "row_calls": 16})
    result = evaluate(tmp_path, ONE_BUFFER.replace("10_000", str(size)), task, Mode.RANKED).result
    assert result.verdict is Verdict.PASS, result.message


@pytest.mark.parametrize(
    "spoil",
    [
        "for _ in range(1500): os.mkdir('d'); os.chdir('d')",
        "os.chmod(cache, 0)",
        "os.rmdir(cache); os.mkfifo(cache)",
    ],
    ids=["deep", "closed", "no folder"],
)
def test_a_cache_that_cannot_be_kept_costs_no_more_than_itself(tmp_path: Path, spoil: str) -> None:
    lines = (
        "import os",
        "cache, here = os.path.dirname(os.environ['XDG_CACHE_HOME']), os.getcwd()",
        "if not os.path.exists(cache):",
        "    os.mkdir(cache); os.chdir(cache)",
        f"    {spoil}",
        "    os.chdir(here)",
        RIGHT,
    )
    result = evaluate(tmp_path, "\n".join(lines), a_task(), Mode.RANKED).result
    assert result.verdict is Verdict.PASS, result.message


BOMB = f"""
import json, os, resource, sys, threading, time
sys.path.insert(0, {str(ROOT)!r})
from hpc_board.harness.confine.sandbox import limit_resources
resource.setrlimit(resource.RLIMIT_NPROC, (60, 60))
spared, nobody, says = *map(int, sys.argv[1:]), os.pipe()
os.setresuid(nobody, nobody, nobody)
bomb = os.fork()
if bomb == 0:
    os.setpgid(0, 0)
    limit_resources(2**20, spared)
    count = 0
    try:
        while count < 100:
            if os.fork() == 0:
                time.sleep(100)
                os._exit(0)
            count += 1
    except BlockingIOError:
        pass
    os.write(says[1], bytes([count]))
    time.sleep(100)
count = os.read(says[0], 1)[0]
begun = 0
try:
    for _ in range(10):
        threading.Thread(target=time.sleep, args=(0.1,)).start()
        begun += 1
except RuntimeError:
    pass
os.killpg(bomb, 9)
print(json.dumps([count, begun]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root, who alone may become a user without processes")
@pytest.mark.parametrize(("spared", "forked", "begun"), [(20, 38, 10), (50, 28, 10), (0, 58, 0)])
def test_a_bomb_leaves_others_the_processes_that_it_is_told_to_spare(spared: int, forked: int, begun: int) -> None:
    # A user for each: the processes of the one before may take a while to go.
    command = [sys.executable, "-c", BOMB, str(spared), str(4_242_000 + spared)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == [forked, begun]


def test_whoever_is_limited_is_the_first_to_be_killed_where_memory_runs_out() -> None:
    code = (
        f"import os, sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from hpc_board.harness.confine.sandbox import limit_resources\n"
        "print(open('/proc/self/oom_score_adj').read().strip(), flush=True)\n"
        "limit_resources(2**20)\n"
        "if os.fork() == 0:\n"
        "    print(open('/proc/self/oom_score_adj').read().strip(), flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    before, after = map(int, done.stdout.split())
    assert before < 1000
    assert after == 1000
