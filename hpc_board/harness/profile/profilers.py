"""The profilers of mode `profile`: their commands, and their messages when a site denies performance counters.

Each profiles one case in a worker of its own and raises `Unusable` if it cannot, so that the next one is tried.
"""

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from hpc_board.harness.device.device import Device
from hpc_board.harness.files import head_of
from hpc_board.harness.measure.worker_handle import Worker
from hpc_board.harness.processes.output import Printed
from hpc_board.harness.profile.kernels import (
    CSV_BYTES_MAX,
    NSYS_COLUMNS,
    ROCPROF_COLUMNS,
    of_ncu,
    of_perf,
    of_table,
    of_torch,
)
from hpc_board.model.kernels import LIBRARY, Kernel
from hpc_board.model.task import ENTRY
from hpc_board.model.text import one_line

LAUNCHES_MAX = 10
"""Largest number of kernel launches of a case profiled with every counter; each is replayed dozens of times."""

NVTX_RANGE = ENTRY
"""The range around a profiled call, by which a profiler separates its kernels from those of the harness."""

_TEXT_BYTES_MAX = 128 * 1024
_PERF_CALLS_MAX = 1000
_PERF_SECONDS = 1.0
_PERF_ACK_SECONDS = 10.0
_PERF_EVENTS = (
    "task-clock,context-switches,cpu-migrations,page-faults,cycles,instructions,branches,branch-misses,"
    "cache-references,cache-misses"
)
_NO_COUNTERS = (
    "this site does not let users read the GPU's performance counters (ERR_NVGPUCTRPERM). Its administrator can allow "
    "them with the NVIDIA driver's option NVreg_RestrictProfilingToAdminUsers=0; a trace without counters is tried "
    "instead"
)


_ROWS = 25
_SAMPLES = re.compile(r"^# Samples: (\d{1,6}[KMG]?) ", re.MULTILINE)
_NAME_CHARACTERS = 1000


class ProfiledDevice:
    """A device whose calls are marked for a profiler outside ("nvtx"), or profiled by PyTorch ("torch").

    Under AddressSanitizer ("asan") they are only prepared, as under any profiler.

    The first call is neither marked nor profiled: it may compile.
    """

    def __init__(self, device: Device, how: str, folder: Path) -> None:
        self.name = device.name
        self.place = device.place
        self.empty_caches = device.empty_caches
        self._device = device
        self._how = how
        self._folder = folder
        self._calls = 0

    def prepare(self, *, warm: bool = False) -> None:
        """Prepare the device, without the work that raises its clocks: a trace would show little else."""
        self._device.prepare(warm=warm)

    def timed(self, call: Callable[[], Any], shown: Any, *, cold: bool) -> tuple[Any, float]:
        """Return the value of `call`, and its nanoseconds including the profiler's own."""
        self._calls += 1
        if self._calls == 1:
            return self._device.timed(call, shown, cold=cold)
        return self._device.timed(lambda: self._profiled(call), shown, cold=cold)

    def _profiled(self, call: Callable[[], Any]) -> Any:
        torch = sys.modules.get("torch")
        if torch is None:
            return call()
        if self._how == "torch":
            return self._by_torch(torch, call)
        if self.name != "cuda":
            return call()
        torch.cuda.nvtx.range_push(NVTX_RANGE)
        try:
            value = call()
            torch.cuda.synchronize()
            return value
        finally:
            torch.cuda.nvtx.range_pop()

    def _by_torch(self, torch: Any, call: Callable[[], Any]) -> Any:
        # Kineto's own lines, up to its highest level 5, are not part of the kernel's output.
        os.environ["KINETO_LOG_LEVEL"] = "6"
        kinds = torch.profiler.ProfilerActivity
        gpu = self.name == "cuda"
        activities = [kinds.CPU, kinds.CUDA] if gpu else [kinds.CPU]
        with torch.profiler.profile(activities=activities, record_shapes=True) as profile:
            value = call()
            if gpu:
                torch.cuda.synchronize()
        order = "self_cuda_time_total" if gpu else "self_cpu_time_total"
        rows = profile.key_averages()
        (self._folder / "profile.txt").write_text(rows.table(sort_by=order, row_limit=_ROWS), encoding="utf-8")
        (self._folder / "kernels.json").write_text(json.dumps(_kernels(rows, gpu=gpu)), encoding="utf-8")
        profile.export_chrome_trace(str(self._folder / "trace.json"))
        return value


def _kernels(rows: Any, *, gpu: bool) -> list[list[Any]]:
    """Return names, counts and nanoseconds of the longest kernels of a GPU, or of the operators on a CPU."""
    name = "self_device_time_total" if gpu else "self_cpu_time_total"
    # On a GPU, the row of an operator has the time of its kernels too.
    kernels = [row for row in rows if not gpu or str(row.device_type).endswith("CUDA")]
    longest = sorted(kernels, key=lambda row: -getattr(row, name))[:_ROWS]
    return [[row.key[:_NAME_CHARACTERS], row.count, getattr(row, name) * 1000] for row in longest]


class Unusable(Exception):
    """A profiler cannot profile here; the message gives the reason and a remedy."""


@dataclass(frozen=True)
class Session:
    """The inputs of a profiler for one case.

    `call` has the kernel called once on cold caches and its output checked; `warm_call` leaves the caches alone.
    `forked` returns a worker in its sandbox with a profiler of its own process ("torch") or none (""); `started`
    returns one run by a command, whose output goes to `Printed`. `folder` is writable for the profiler, `home` for the
    worker; `deadline` is the end of all profiling by the monotonic clock. `choices` are the user's. With `sources` a
    report may hold any file of the job's account that the submission names as its source.
    """

    call: Callable[[Worker], None]
    warm_call: Callable[[Worker], None]
    forked: Callable[[str], Worker]
    started: Callable[[Sequence[str], Printed], Worker]
    choices: Mapping[str, str]
    environment: Mapping[str, str]
    folder: Path
    home: Path
    deadline: float
    sources: bool

    def text_of(self, command: Sequence[str], limit: int = _TEXT_BYTES_MAX) -> str:
        """Return the output of a command of the profiler, its first `limit` bytes.

        Raises:
            Unusable: the command failed, or took too long.
        """
        path = self.folder / "printed"
        try:
            with path.open("wb") as file:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    env=dict(self.environment),
                    cwd=self.folder,
                    timeout=max(0.1, self.deadline - time.monotonic()),
                    check=False,
                )
        except (OSError, subprocess.SubprocessError) as error:
            raise Unusable(f"{command[0]} failed: {one_line(str(error))}") from error
        text = head_of(path, limit)
        if done.returncode != 0:
            raise Unusable(f"{command[0]} exited with status {done.returncode}: {_last_line(text)}")
        return text


@dataclass(frozen=True)
class Profiled:
    """The report of a profiler on one case, and the numbers in it."""

    text: str
    kernels: tuple[Kernel, ...] = ()


@dataclass(frozen=True)
class Profiler:
    """A way to profile a case.

    `name` is that of its command, or of its library. `files` are the names of those to keep, and their endings in the
    job folder. `profile` returns the report on one case, or raises Unusable; CallFailed: a call under it failed.
    """

    name: str
    files: Mapping[str, str]
    profile: Callable[[Session], Profiled]


def _by_ncu(session: Session) -> Profiled:
    """Return the details page of the kernels of one call by Nsight Compute, with their counters."""
    report = session.folder / "ncu.ncu-rep"
    chosen = ["--set", session.choices.get("set", "full")]
    if "kernel" in session.choices:
        chosen += ["--kernel-name", f"regex:{session.choices['kernel']}"]
    if session.sources:
        # The node's folders are gone when the report is read.
        chosen += ["--import-source", "yes"]
    said = _run_under(session, [*_NCU, *chosen, "--export", str(report)])
    if "ERR_NVGPUCTRPERM" in said:
        raise Unusable(_NO_COUNTERS)
    if not report.is_file():
        raise Unusable(f"it wrote no report: {_last_line(said)}")
    pages = ["ncu", "--import", str(report), "--page"]
    raw = session.text_of([*pages, "raw", *_NCU_RAW], CSV_BYTES_MAX)
    return Profiled(session.text_of([*pages, "details"]), of_ncu(raw))


_NCU = ["ncu", "--nvtx", "--nvtx-include", f"{NVTX_RANGE}/"]
# The clocks stay as in a timed call.
_NCU += ["--clock-control", "none"]
_NCU += ["--launch-count", str(LAUNCHES_MAX), "--force-overwrite"]
_NCU_RAW = ["--csv", "--print-units", "base", "--print-kernel-base", "function"]


def _by_nsys(session: Session) -> Profiled:
    """Return the times of kernels, copies and API calls by Nsight Systems, without counters."""
    report = session.folder / "nsys.nsys-rep"
    command = ["nsys", "profile", "--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none", "--force-overwrite=true"]
    said = _run_under(session, [*command, f"--output={report}"])
    if not report.is_file():
        raise Unusable(f"it wrote no report: {_last_line(said)}")
    stats = ["nsys", "stats", "--force-export=true"]
    kernels = session.text_of([*stats, "--format=csv", "--report=cuda_gpu_kern_sum", str(report)], CSV_BYTES_MAX)
    kinds = "cuda_gpu_kern_sum,cuda_gpu_mem_time_sum,cuda_api_sum"
    text = session.text_of([*stats, "--format=table", f"--report={kinds}", str(report)])
    return Profiled(text, of_table(kernels, NSYS_COLUMNS))


def _by_rocprof(session: Session) -> Profiled:
    """Return the times of kernels by AMD's rocprofv3, whose library writes from within the worker's process."""
    command = ["rocprofv3", "--kernel-trace", "--memory-copy-trace", "--stats"]
    command += ["--output-format", "csv", "pftrace", "--output-directory", str(session.home)]
    said = _run_under(session, [*command, "--output-file", "rocprof", "--"])
    text = head_of(session.home / "rocprof_kernel_stats.csv", _TEXT_BYTES_MAX)
    if not text:
        raise Unusable(f"it wrote no report: {_last_line(said)}")
    return Profiled(text, of_table(text, ROCPROF_COLUMNS))


def _by_torch(session: Session) -> Profiled:
    """Return the operators and kernels of one call by PyTorch's own profiler, in the worker and within its sandbox.

    The files of a later call replace those of an earlier one.
    """
    worker = session.forked("torch")
    # The first call may compile, and the second has the start of the profiler in its times.
    for _ in range(3):
        session.call(worker)
    text = head_of(session.home / "profile.txt", _TEXT_BYTES_MAX)
    if not text:
        raise Unusable("it wrote no report")
    return Profiled(squeezed(text), kernels_in(session.home))


def kernels_in(home: Path) -> tuple[Kernel, ...]:
    """Return the kernels of the last call under PyTorch's profiler, which the worker has written into its home."""
    return of_torch(head_of(home / "kernels.json", _TEXT_BYTES_MAX))


def _by_perf(session: Session) -> Profiled:
    """Return the counters of many calls, and the functions that took their time, by Linux's perf.

    It is attached from outside: the worker keeps its whole sandbox.
    """
    worker = session.forked("")
    session.call(worker)
    counted, sampled = session.folder / "stat.txt", session.folder / "perf.data"
    pid = str(worker.child.worker_pid)
    with ExitStack() as attached:
        stat = ["perf", "stat", "-e", _PERF_EVENTS, "-p", pid, "-o", str(counted)]
        attached.enter_context(_attached(session, stat))
        record = ["perf", "record", "-F", "999", "-g", "-p", pid, "-o", str(sampled)]
        attached.enter_context(_attached(session, record))
        begin = time.monotonic()
        for _ in range(_PERF_CALLS_MAX):
            session.warm_call(worker)
            if time.monotonic() > min(begin + _PERF_SECONDS, session.deadline):
                break
    command = ["perf", "report", "-i", str(sampled), "--stdio", "--no-children", "-g", "none"]
    functions = session.text_of([*command, "--percent-limit", "0.5"])
    lines = _without_headers(functions)
    # A virtual machine has no counters of its processor.
    counters = [line for line in _without_headers(head_of(counted, _TEXT_BYTES_MAX)) if "<not supported>" not in line]
    own = [line for line in lines if f" {LIBRARY} " in line]
    others = [line for line in lines if line not in own]
    texts = [
        *(f"  {count} samples" for count in _SAMPLES.findall(functions)[:1]),
        *(["  the submission's own functions", squeezed("\n".join(own))] if own else []),
        f"  {'the rest of ' if own else ''}the worker's process, including reading of inputs and writing of outputs",
        squeezed("\n".join(others)),
        squeezed("\n".join(counters)),
    ]
    return Profiled("\n".join(texts), of_perf(functions))


def _without_headers(text: str) -> list[str]:
    """Return the lines of perf's output that are neither empty nor comments on the recording."""
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


_TORCH = Profiler("torch.profiler", {"trace.json": "trace.json"}, _by_torch)
_ROCPROF_FILES = {"rocprof_kernel_stats.csv": "kernel-stats.csv", "rocprof_results.pftrace": "pftrace"}
_COMMANDS = {
    "cuda": (
        Profiler("ncu", {"ncu.ncu-rep": "ncu-rep"}, _by_ncu),
        Profiler("nsys", {"nsys.nsys-rep": "nsys-rep"}, _by_nsys),
    ),
    "hip": (Profiler("rocprofv3", _ROCPROF_FILES, _by_rocprof),),
    "cpu": (Profiler("perf", {"perf.data": "perf.data"}, _by_perf),),
}
"""The profilers with a command, by the kind of device, best first."""


def squeezed(text: str) -> str:
    """Return a profiler's tables with at most two blanks between their columns; other lines stay as they are."""
    found: list[str] = []
    for is_blank, block in groupby(text.splitlines(), lambda line: not line.strip()):
        lines = list(block)
        rows = [line for line in lines if "  " in line.strip() and line.strip(" -")]
        widest = max(map(len, rows), default=0)
        blank = [all(line[column : column + 1] in ("", " ") for line in rows) for column in range(widest)]
        kept = [column for column in range(widest) if not all(blank[max(0, column - 2) : column + 1])]
        cut = {*rows, *(line for line in lines if not line.strip(" -"))} if rows else set[str]()
        found += [""] if is_blank else [_columns(line, kept) if line in cut else line for line in lines]
    return "\n".join(found)


def _columns(line: str, kept: Sequence[int]) -> str:
    return "".join(line[column : column + 1] for column in kept).rstrip()


def available(device: str, path: str, *, torch: bool) -> list[Profiler]:
    """Return the profilers for a kind of device found on the search path `path`, best first."""
    found = [each for each in _COMMANDS[device] if shutil.which(each.name, path=path)]
    if not torch:
        return found
    return [_TORCH, *found] if device == "cpu" else [*found, _TORCH]


def absent(device: str, path: str) -> str:
    """Return text that lists the profilers for a kind of device missing on the search path; "" if none is."""
    missing = [each.name for each in _COMMANDS[device] if not shutil.which(each.name, path=path)]
    return f"not on this node's PATH: {', '.join(missing)}" if missing else ""


def _run_under(session: Session, command: Sequence[str]) -> str:
    """Make one warm-up call and one profiled call in a worker under `command`, and return the command's output."""
    printed = Printed()
    worker = session.started(command, printed)
    session.call(worker)
    session.call(worker)
    status = worker.child.finish(session.deadline)
    said = printed.log().text
    if status is None:
        raise Unusable(f"{command[0]} did not end in time: {_last_line(said)}")
    return said


@contextmanager
def _attached(session: Session, command: Sequence[str]) -> Iterator[None]:
    """Run perf within this context: start it, wait until it counts or samples, and end it.

    Raises:
        Unusable: perf did not begin, or failed.
    """
    log = session.folder / f"{command[1]}.log"
    orders, order = os.pipe()
    answer, answers = os.pipe()
    with ExitStack() as held:
        for descriptor in (order, answer):
            held.callback(os.close, descriptor)
        try:
            with log.open("wb") as file:
                process = subprocess.Popen(
                    [*command, "-D", "-1", "--control", f"fd:{orders},{answers}"],
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    env=dict(session.environment),
                    cwd=session.folder,
                    pass_fds=(orders, answers),
                )
        except OSError as error:
            raise Unusable(f"perf cannot be started: {error}") from error
        finally:
            os.close(orders)
            os.close(answers)
        try:
            with suppress(BrokenPipeError):
                os.write(order, b"enable\n")
            if not _answered(answer):
                raise Unusable(_perf_problem(log))
            yield
            process.send_signal(signal.SIGINT)
            process.wait(max(0.1, session.deadline - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise Unusable("perf did not end in time") from error
        finally:
            process.kill()
            process.wait()


def _answered(descriptor: int) -> bool:
    """Return whether perf confirms its begin within some seconds; its end of the pipe closes if it fails."""
    ready, _, _ = select.select([descriptor], [], [], _PERF_ACK_SECONDS)
    return bool(ready) and os.read(descriptor, 100).startswith(b"ack")


def _perf_problem(log: Path) -> str:
    said = head_of(log, 4000)
    with suppress(OSError):
        level = Path("/proc/sys/kernel/perf_event_paranoid").read_text().strip()
        if re.search(r"permi|limited|not allowed|EACCES", said, re.IGNORECASE):
            return (
                f"perf may not count here (kernel.perf_event_paranoid is {level}; a user's own processes need 2 or "
                f"less, which the administrator can set): {_first_line(said)}"
            )
    return f"perf could not start: {_first_line(said)}"


def _first_line(text: str) -> str:
    return one_line(next((line for line in text.splitlines() if line.strip(" :")), "it printed nothing"))


def _last_line(text: str) -> str:
    return one_line(next((line for line in reversed(text.splitlines()) if line.strip()), "it printed nothing"))
