"""Time kernels with other clocks than the judge's, and measure the premises of its clock.

Prints a line of JSON for each kernel and clock at once, and one for each premise. Its arguments are the file with the
kernels, the file with their cases, the harness file, and the command of ncu (`-` without one). Needs a GPU.
"""

import csv
import json
import runpy
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

FLUSH_BYTES = 256 * 2**20
SAMPLES = 200
DO_BENCH, GRAPH, HOT, NCU = "triton.testing.do_bench", "CUDA graph, flush subtracted", "CUDA graph, hot", "ncu"
_REPLAYS_MIN, _REPLAYS_MAX, _REPLAY_SECONDS = 3, 10, 0.3
_NCU_SECONDS = 25
_NCU_OPTIONS = ("--clock-control", "none", "--metrics", "gpu__time_duration.sum", "--csv", "--print-units", "base")
_DELIMITER = "spin_kernel"
"""The kernel of `torch.cuda._sleep`, by which the kernels of one case end in ncu's list."""


def main() -> int:
    """Print one row for each kernel and clock."""
    kernels, cases, harness, ncu = sys.argv[1:5]
    named = json.loads(Path(cases).read_text(encoding="utf-8"))
    import torch

    torch.set_default_device("cuda")
    kernel = runpy.run_path(kernels)
    if ncu == "inside":
        launched(torch, kernel, named)
        return 0
    for name, case in named.items():
        for row in compared(torch, kernel, case):
            say({"name": name, **row})
    sys.path.insert(0, harness)
    from hpc_board.harness.device.device import open_device

    for premise, value in measured(open_device("cuda"), torch.empty(2**12)).items():
        say({"premise": premise, "value": value})
    if ncu != "-":
        inside = [sys.executable, "-I", __file__, kernels, cases, harness, "inside"]
        for row in by_ncu([ncu, *_NCU_OPTIONS, *inside], named):
            say(row)
    return 0


def say(row: Mapping[str, Any]) -> None:
    """Print a row as one line."""
    print(json.dumps(row), flush=True)


def compared(torch: Any, kernel: Mapping[str, Any], case: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a kernel's time by each clock that runs in this process."""
    data = kernel["generate_input"](**case)

    def call() -> Any:
        return kernel["custom_kernel"](data)

    clocks: dict[str, Callable[[], float]] = {
        DO_BENCH: lambda: do_bench(call),
        GRAPH: lambda: graph(torch, call, flushed=True),
        HOT: lambda: graph(torch, call, flushed=False),
    }
    for clock, measure in clocks.items():
        try:
            yield {"clock": clock, "time_ns": measure()}
        except (ImportError, RuntimeError) as error:
            yield {"clock": clock, "left_out": f"{type(error).__name__}: {error}"[:200]}


def launched(torch: Any, kernel: Mapping[str, Any], named: Mapping[str, Any]) -> None:
    """Launch each kernel thrice, the first time to load it, for ncu; a delimiter is behind each launch."""
    for case in named.values():
        data = kernel["generate_input"](**case)
        torch.cuda._sleep(1)  # noqa: SLF001 - a kernel with a known name
        for _ in range(3):
            kernel["custom_kernel"](data)
            torch.cuda._sleep(1)  # noqa: SLF001


def by_ncu(command: Sequence[str], named: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each kernel's time by ncu: the sum of its kernels' times, with caches that ncu has emptied."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_NCU_SECONDS, stdin=subprocess.DEVNULL
        )
        times_ns = times_of(done.stdout, len(named))
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        times_ns = []
        why = f"{type(error).__name__}: {error}"[:200]
    else:
        why = (done.stderr.strip() or done.stdout.strip() or "it printed nothing")[-200:]
    for index, name in enumerate(named):
        found = times_ns[index] if times_ns else None
        yield {"name": name, "clock": NCU, **({"left_out": why} if found is None else {"time_ns": found})}


def times_of(printed: str, count: int) -> list[float | None]:
    """Return each case's time in nanoseconds from ncu's list of kernels: the least of its second and third launch."""
    lines = printed.splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    found: list[float] = []
    parts: list[list[float]] = []
    for row in csv.DictReader(lines[start:]):
        if not row["ID"].isdigit():
            continue
        if _DELIMITER in row["Kernel Name"]:
            parts.append(found)
            found = []
        else:
            found.append(float(row["Metric Value"].replace(",", "")))
    # Four delimiters for each case: the first one ends the making of its inputs.
    cases = [parts[4 * index + 2 : 4 * index + 4] for index in range(len(parts) // 4)][:count]
    times: list[float | None] = [min(map(sum, case), default=0.0) or None for case in cases]
    return times if len(times) == count else []


def measured(device: Any, small: Any) -> dict[str, str]:
    """Return the premises of the harness's clock, by name; filling the tensor `small` takes almost no time."""
    device.prepare()
    empty_ns = timed_ns(device, lambda: None, SAMPLES)
    ticks_ns = [
        later - earlier for earlier, later in pairwise(sorted({*empty_ns, *timed_ns(device, small.zero_, SAMPLES)}))
    ]
    return {
        "smallest difference between two times": f"{min(ticks_ns):.0f} ns" if ticks_ns else "none seen",
        "two events with nothing between them, median": microseconds(statistics.median(empty_ns)),
        "the buffer that empties the caches": f"{device._flush_bytes / 2**20:.0f} MiB",  # noqa: SLF001 - its own number
        "writing it once": microseconds(device._fill_ns),  # noqa: SLF001 - its own number
        "writings before a call with two inputs": str(device.fills(2)),
    }


def timed_ns(device: Any, call: Callable[[], Any], count: int) -> list[float]:
    """Return the time of consecutive calls with warm caches."""
    return [device.timed(lambda: call() is None, [], cold=False)[1] for _ in range(count)]


def microseconds(nanoseconds: float) -> str:
    """A time with its unit."""
    return f"{nanoseconds / 1e3:.2f} us"


def do_bench(call: Callable[[], Any]) -> float:
    """The median that Triton's own benchmark gives; its caches are cold too."""
    from triton.testing import do_bench as bench

    return float(bench(call, return_mode="median")) * 1e6


def graph(torch: Any, call: Callable[[], Any], *, flushed: bool) -> float:
    """The time of a call in a CUDA graph of many; with `flushed`, a graph of as many flushes is subtracted."""
    memory = torch.empty(FLUSH_BYTES, dtype=torch.uint8)

    def flush() -> None:
        memory.fill_(1)

    if not flushed:
        return replayed(torch, [call])
    return replayed(torch, [flush, call]) - replayed(torch, [flush])


def replayed(torch: Any, calls: list[Callable[[], Any]], count: int = 20) -> float:
    """Nanoseconds for one round of `calls`, the median of several replays of a graph with `count` rounds."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for call in calls:
            call()
    torch.cuda.current_stream().wait_stream(stream)
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        for _ in range(count):
            for call in calls:
                call()
    times_ms: list[float] = []
    begun = time.monotonic()
    while len(times_ms) < _REPLAYS_MIN or (len(times_ms) < _REPLAYS_MAX and time.monotonic() - begun < _REPLAY_SECONDS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        start.record()
        recorded.replay()
        end.record()
        end.synchronize()
        times_ms.append(start.elapsed_time(end))
    return statistics.median(times_ms) * 1e6 / count


if __name__ == "__main__":
    sys.exit(main())
