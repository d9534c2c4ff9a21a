"""The node probe: takes the supervisor's place in a probe job and reports the properties of the node.

The same batch script starts it, so it finds the same modules, environment, Python and GPU as a run. Its report is the
job's `result.json`.
"""

import ast
import hashlib
import json
import os
import pkgutil
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hpc_board.harness.build.toolchain import BuildFailed, toolchain
from hpc_board.harness.confine.container import ContainerUnavailable, container
from hpc_board.harness.confine.sandbox import level_here, readable_folders
from hpc_board.harness.confine.scratch import SCRATCH, remove
from hpc_board.harness.files import write_files
from hpc_board.harness.node import node_facts, nvidia_smi
from hpc_board.harness.processes.output import ended, output_of
from hpc_board.harness.result_file import RESULT
from hpc_board.model.files import whole_file
from hpc_board.model.gpu import Sandbox, SandboxRuntime
from hpc_board.model.job_environment import JobEnvironment
from hpc_board.model.measurement import spread
from hpc_board.model.node_probe import (
    ANSWER,
    GREETING,
    Greeting,
    NodeProbe,
    SeenGpu,
    Speed,
    Torch,
    Trial,
    TriedLanguage,
)
from hpc_board.model.peaks import measured_peak
from hpc_board.model.result import Verdict
from hpc_board.model.task import COMPILED, Language, Mode

_ANSWER_LOOK_SECONDS = 0.02
_TORCH_SECONDS = 180
_GPU_SECONDS = 20
_TEXT_MAX = 300
_GPUS_MAX = 64
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
_GPU_FIELDS = (
    "name",
    "uuid",
    "driver_version",
    "mig.mode.current",
    "memory.total",
    "clocks.sm",
    "clocks.max.sm",
    "clocks.mem",
    "compute_mode",
)
# Imported as the judge imports it: a package that links to a folder which jobs do not see is missing only in a run.
# The release of ROCm or CUDA is reported beside the driver's name for the device.
_TORCH_QUESTION = """
import json, sys
harness, scratch, measured, *readable = sys.argv[1:]
sys.path.insert(0, harness)
from hpc_board.harness.confine.sandbox import confine_task
from hpc_board.harness.device.faults import unreadable
from hpc_board.harness.node_probe import gpu_speeds
sys.path.remove(harness)
confine_task(readable, scratch, 2**30)
try:
    import torch
except OSError as error:
    print(json.dumps({"unreadable": unreadable(error)}))
    raise
releases = {"ROCm": torch.version.hip, "CUDA": torch.version.cuda}
runtime = next((f"{name} {release}" for name, release in releases.items() if release), "")
count = torch.cuda.device_count() if torch.cuda.is_available() else 0
names = [torch.cuda.get_device_name(number) for number in range(count)]
found = {"version": torch.__version__, "runtime": runtime, "devices": names}
if measured and count:
    try:
        found["speeds"] = [vars(speed) for speed in gpu_speeds(torch)]
    except RuntimeError:
        pass  # out of memory, or no half precision
print(json.dumps(found))
"""
_LANGUAGES = {"g++": Language.CPP, "nvcc": Language.CU, "hipcc": Language.HIP}
_SOME_ARCH = {"g++": "x86-64", "nvcc": "sm_80", "hipcc": "gfx90a"}


_SAMPLES = 7
_HASHED_BYTES = 16 * 2**20
_COPIED_BYTES = 64 * 2**20
_GPU_COPIED_BYTES = 256 * 2**20
_MATRIX = 4096


_PEAK_SOURCE = "cpu_peak.cpp"
_PEAK_SECONDS = 60
_PEAK_BYTES, _PEAK_BYTES_MAX = 96 * 2**20, 2**30
_CACHES = 4
"""The memory to go through, as a multiple of the caches."""

_TRIAL_SECONDS = 180
_END_SECONDS = 10
_STARTER_SECONDS, _STARTERS_SECONDS = 90, 300
_MESSAGE_MAX = 1000
_OF_TRIAL = (
    *("format", "gpu", "device", "emulated", "arch", "std", "include", "environment", "allow_root", "whole_node"),
    *("container", "sandbox"),
)
_TRIAL_CASE = {"size": 2**20, "seed": 1}
_TRIAL_LIMITS = {"warmup_calls": 1, "timed_calls_min": 5, "timed_calls_max": 20, "case_seconds": 2}
_TASK = {
    "task.py": "input_t = output_t = tuple\n",
    "reference.py": """
import torch


def generate_input(size, seed):
    generator = torch.Generator(device=torch.get_default_device()).manual_seed(seed)
    return torch.rand(size, generator=generator), torch.rand(size, generator=generator)


def ref_kernel(data):
    return data[0] + data[1]


def check_implementation(data, output):
    return torch.equal(output, ref_kernel(data)), "its answer is wrong"
""",
}
_SUBMISSION = """
def custom_kernel(data):
    return data[0] + data[1]
"""


class _NoResult(Exception):
    """A judgement left no result; the message says within which time."""


def _judged(
    job: Mapping[str, Any],
    harness: Path,
    folder: Path,
    source: str = _SUBMISSION,
    language: Language = Language.PY,
    mode: Mode = Mode.BENCHMARK,
    seconds: float = _TRIAL_SECONDS,
) -> dict[str, Any]:
    """Judge a kernel that adds two vectors, in this new folder.

    It has the device, the confinement and the container of a run, so a benchmark tries all that one needs: two
    processes with contexts of the GPU, memory that they share, and queues that wait for a flag in it.

    Raises:
        _NoResult: it left none in time.
    """
    submission = f"submission{language.extensions[0]}"
    texts = {f"submission/{submission}": source, **{f"task/{name}": text for name, text in _TASK.items()}}
    write_files(folder, {name: text.encode() for name, text in texts.items()})
    facts = {
        **{key: job[key] for key in _OF_TRIAL},
        "run": 0,
        "nonce": "",
        "mode": mode,
        "task": {
            "submission": submission,
            "language": language,
            "files": list(_TASK),
            "tests": [_TRIAL_CASE],
            "benchmarks": [_TRIAL_CASE],
            "ranking_by": "last",
            "timeouts": dict.fromkeys(("test", "benchmark", "ranked"), _TRIAL_SECONDS),
            "limits": _TRIAL_LIMITS,
            "const_inputs": False,
            "fresh_output": False,
        },
        "sha256": {
            "harness": hashlib.sha256(harness.read_bytes()).hexdigest(),
            "task": "",
            "submission": hashlib.sha256(source.encode()).hexdigest(),
        },
    }
    (folder / "job.json").write_text(json.dumps(facts), encoding="utf-8")
    command = [sys.executable, "-I", "-B", str(harness.resolve()), "supervise", str(folder / "job.json")]
    environ, none = {**os.environ, "TMPDIR": str(folder.parent)}, subprocess.DEVNULL
    try:
        with subprocess.Popen(command, stdin=none, stdout=none, stderr=none, env=environ) as process:
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                # The supervisor ends its own processes first.
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_END_SECONDS)
                process.kill()
                raise
        result: dict[str, Any] = json.loads((folder / RESULT).read_bytes())
    except (OSError, ValueError, subprocess.TimeoutExpired):
        raise _NoResult(f"it left no result within {seconds:.0f} s") from None
    return result


def trial(job: Mapping[str, Any], harness: Path, folder: Path) -> Trial:
    """Return the end of a trial kernel, and the clock that the GPU's times will have."""
    try:
        result = _judged(job, harness, folder)
    except _NoResult as error:
        return Trial("infra_error", str(error))
    clock, reason = (str(result["provenance"].get(name, "")) for name in ("clock", "clock_reason"))
    return Trial(result["verdict"], result["message"][:_MESSAGE_MAX], clock, reason[:_MESSAGE_MAX])


def _languages(job: Mapping[str, Any], harness: Path, folder: Path) -> Iterator[TriedLanguage]:
    """Yield the outcome of each starter, kernels by language that add two vectors, one after the other."""
    deadline = time.monotonic() + _STARTERS_SECONDS
    for number, (name, source) in enumerate(job["inspect"].get("starters", {}).items()):
        language = COMPILED.get(name, Language.PY)
        modules = [] if language.compiled else _imported(source)
        missing = next((each for each in modules if find_spec(each) is None), "")
        began = time.monotonic()
        seconds = min(_STARTER_SECONDS, deadline - began)
        if missing or seconds <= 0:
            error = "" if missing else f"not tried: those before it took {_STARTERS_SECONDS} s"
            yield TriedLanguage(name, missing, error)
            continue
        try:
            result = _judged(job, harness, folder / f"language{number}", source, language, Mode.TEST, seconds)
        except _NoResult as error:
            yield TriedLanguage(name, error=_cut(str(error)))
            continue
        verdict, facts = result["verdict"], result["provenance"]
        took_seconds, message = round(time.monotonic() - began, 1), _cut(result["message"])
        if verdict == Verdict.PASS or (language.compiled and "library_sha256" in facts):
            yield TriedLanguage(name, seconds=took_seconds)
        elif verdict == Verdict.INFRA_ERROR and "compiler" not in facts:
            yield TriedLanguage(name, missing=message)
        else:
            yield TriedLanguage(name, error=message)


def _imported(source: str) -> list[str]:
    """Return the packages that a starter imports from the Python's installation."""
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            found += [each.name.partition(".")[0] for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module.partition(".")[0])
    return [name for name in found if name != "task"]


def cpu_speeds() -> tuple[Speed, ...]:
    """Return the rates of one core at SHA-256, and of copies in memory."""
    hashed, copied = bytes(_HASHED_BYTES), bytearray(_COPIED_BYTES)
    return (
        _speed("sha256", "MB/s", _HASHED_BYTES / 1e6, _timed(lambda: hashlib.sha256(hashed))),
        _speed("copy", "GB/s", 2 * _COPIED_BYTES / 1e9, _timed(lambda: bytes(copied))),
    )


def _cpu_peak(folder: Path) -> tuple[float, float] | None:
    """Return the bytes of memory and the float32 operations that this job's processors handle per second, measured.

    None without a C++ compiler, or if the program fails.
    """
    source, program = folder / _PEAK_SOURCE, folder / "cpu_peak"
    source.write_bytes(pkgutil.get_data("hpc_board.harness.build", _PEAK_SOURCE) or b"")
    options = ["-std=c++20", "-O3", "-march=native", "-fopenmp", "-ffp-contract=fast"]
    try:
        compiler = toolchain(Language.CPP, "", os.environ).compiler
    except BuildFailed:
        return None
    built = ended([compiler, *options, "-o", str(program), str(source)], _PEAK_SECONDS)
    if built is None or built.returncode != 0:
        return None
    size = min(max(_PEAK_BYTES, _CACHES * _last_cache_bytes()), _PEAK_BYTES_MAX)
    numbers = output_of([str(program), str(size)], _PEAK_SECONDS).split()
    found = measured_peak(*map(float, numbers)) if len(numbers) == 2 else None
    return None if found is None else (found.memory_bytes, found.operations)


def _last_cache_bytes(root: Path = Path("/sys/devices/system/cpu")) -> int:
    """Return the size of all last-level caches of the node; 0 if the kernel does not tell."""
    found: dict[str, int] = {}
    for cache in root.glob("cpu[0-9]*/cache/index3"):
        with suppress(OSError, ValueError):
            found[(cache / "shared_cpu_list").read_text()] = (
                int((cache / "size").read_text().strip().rstrip("K")) * 1024
            )
    return sum(found.values())


def gpu_speeds(torch: Any) -> tuple[Speed, ...]:
    """Return the rates of the first GPU at products of half-precision matrices, and of copies in its memory."""
    left, right = (torch.randn(_MATRIX, _MATRIX, device="cuda", dtype=torch.float16) for _ in range(2))
    copied = torch.empty(_GPU_COPIED_BYTES, device="cuda", dtype=torch.uint8)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def timed(call: Callable[[], object], calls: int) -> list[float]:
        samples = []
        for _ in range(_SAMPLES + 1):
            begin.record()
            for _ in range(calls):
                call()
            end.record()
            end.synchronize()
            samples.append(begin.elapsed_time(end) / 1e3 / calls)
        return samples[1:]  # the first one loads the kernel

    return (
        _speed("matmul", "TFLOP/s", 2 * _MATRIX**3 / 1e12, timed(lambda: left @ right, 20)),
        _speed("copy", "GB/s", 2 * _GPU_COPIED_BYTES / 1e9, timed(copied.clone, 10)),
    )


def _timed(call: Callable[[], object]) -> list[float]:
    samples = []
    for _ in range(_SAMPLES + 1):
        began = time.perf_counter()
        call()
        samples.append(time.perf_counter() - began)
    return samples[1:]


def _speed(name: str, unit: str, amount: float, samples_s: Sequence[float]) -> Speed:
    """Return the median rate of samples that handled `amount` each, and their spread without the worst one."""
    return Speed(name, unit, amount / statistics.median(samples_s), spread(samples_s, leaving_out=1))


def inspect(path: Path, harness: Path) -> int:
    """Inspect this node and write the report beside the job file at `path`; return the exit status."""
    job: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    folder = path.resolve().parent
    environment = JobEnvironment.of(job.get("job_environment", {}))
    node = node_facts(environment)
    os.umask(0o077)
    # Landlock confines only a process with one thread, so this precedes the waiting thread.
    level = level_here()
    greeted_at = _written(folder, GREETING, lambda: asdict(Greeting(time.time())))["at"]
    answer = _Answer(folder / ANSWER, float(job["inspect"]["answer_seconds"]))
    scratch = Path(tempfile.mkdtemp(prefix=SCRATCH))
    readable = readable_folders(os.environ, (), (str(folder), str(Path.home())))
    try:
        measured = bool(job["inspect"].get("benchmark"))
        torch, gpu_speeds = _torch(harness, scratch, readable, measured=measured)
        languages = tuple(_languages(job, harness, scratch))
        described, error = _contained(job.get("sandbox"), harness, scratch)
        free = shutil.disk_usage(scratch).free
        peak = _cpu_peak(scratch) if job["device"] == "cpu" and not job["emulated"] else None
        tried = trial(job, harness, scratch / "trial") if job["device"] != "cpu" and torch.devices else None
    finally:
        remove(scratch)
    found = NodeProbe(
        nonce=job["inspect"]["nonce"],
        job_id=environment.own_id(os.environ),
        node=_cut(node["node"] or node["host"]),
        python=platform.python_version(),
        executable=_cut(sys.executable),
        isolation=level,
        gpus=tuple(_gpus()),
        cpu=_cut(node["cpu"]),
        cpus=node["cpus"],
        cpu_peak=peak,
        visible=_cut(next((os.environ[name] for name in _VISIBLE if name in os.environ), "")),
        torch=torch,
        compilers=_compilers(os.environ),
        languages=languages,
        speeds=(gpu_speeds or cpu_speeds()) if measured else (),
        modules=_cut(os.environ.get("HPC_BOARD_MODULES", "")),
        sandbox=described,
        sandbox_error=error,
        trial=tried,
        scratch=str(scratch.parent),
        scratch_free_bytes=free,
        greeted_at=greeted_at,
        answered_at=answer.seen_at(),
    )
    _written(folder, RESULT, lambda: asdict(found))
    return 0


class _Answer:
    """The login side's answer, awaited in the background for at most `seconds` from now."""

    def __init__(self, path: Path, seconds: float) -> None:
        self._path = path
        self._deadline = time.monotonic() + seconds
        self._seen_at = 0.0
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def seen_at(self) -> float:
        """Return the time of its first appearance by this node's clock; 0 if it did not appear."""
        self._thread.join()
        return self._seen_at

    def _look(self) -> None:
        while time.monotonic() < self._deadline:
            # Listing the folder makes a network file system ask its server anew.
            if self._path.name in os.listdir(self._path.parent):  # noqa: PTH208 - only names
                self._seen_at = time.time()
                return
            time.sleep(_ANSWER_LOOK_SECONDS)


def _written(folder: Path, name: str, content: Any) -> dict[str, Any]:
    """Write a file whole; compute its content as late as possible, since it may contain the time."""
    with whole_file(folder / name, mode=0o640) as file:
        value: dict[str, Any] = content()
        file.write(json.dumps(value, allow_nan=False).encode())
    return value


def _contained(wanted: Mapping[str, str] | None, harness: Path, scratch: Path) -> tuple[str, str]:
    """Return the description of the requested container, or the error that prevents it."""
    if wanted is None:
        return "", ""
    asked = Sandbox(SandboxRuntime(wanted["runtime"]), wanted["image"], wanted["setting"])
    try:
        return _cut(container(asked, harness, os.environ, scratch).description), ""
    except ContainerUnavailable as error:
        return "", str(error)[:2000]


def _gpus() -> list[SeenGpu]:
    """Return the GPUs that nvidia-smi lists; none without a GPU or nvidia-smi."""
    return [SeenGpu(*map(_cut, row)) for row in nvidia_smi(_GPU_FIELDS, seconds=_GPU_SECONDS)[:_GPUS_MAX]]


def _torch(harness: Path, scratch: Path, readable: Sequence[str], *, measured: bool) -> tuple[Torch, tuple[Speed, ...]]:
    """Return facts about PyTorch under this very Python, and a GPU's rates, from a process of its own: it may crash.

    The process is confined as the judge is: it reads the folders `readable` besides the system's own, and writes
    only `scratch`.
    """
    question = [sys.executable, "-I", "-B", "-c", _TORCH_QUESTION, str(harness.resolve()), str(scratch)]
    done = ended([*question, "measured" if measured else "", *readable], _TORCH_SECONDS)
    if done is None:
        return Torch(error=f"it did not answer within {_TORCH_SECONDS} s"), ()
    error = _cut(done.stderr.strip().rpartition("\n")[2])
    try:
        value = json.loads(done.stdout.strip().rpartition("\n")[2])
        if "unreadable" in value:
            return Torch(error=error, unreadable=_cut(str(value["unreadable"]))), ()
        torch = Torch(
            _cut(str(value["version"])),
            _cut(str(value["runtime"])),
            tuple(_cut(str(name)) for name in value["devices"][:_GPUS_MAX]),
        )
        return torch, tuple(Speed(**speed) for speed in value.get("speeds", ()))
    except (ValueError, KeyError, TypeError):
        return Torch(error=error or "it did not answer"), ()


def _compilers(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the version of each compiler available for submissions."""
    found = {}
    for name, language in _LANGUAGES.items():
        try:
            found[name] = _cut(toolchain(language, _SOME_ARCH[name], environ).version)
        except BuildFailed:
            continue
    return found


def _cut(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f]", " ", text)[:_TEXT_MAX]
