"""Time kernels with other clocks than the judge's, and measure the premises of its clock.

Prints one line of JSON with `rows` and `device`. Its arguments are the harness file and the folder of the kernels: each
`NAME/kernel.py` has `generate_input` and `custom_kernel`. Needs a GPU.
"""

import json
import runpy
import statistics
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

FLUSH_BYTES = 256 * 2**20
SAMPLES = 200


def main() -> int:
    """Print one row for each kernel and clock."""
    sys.path.insert(0, sys.argv[1])
    import torch

    from hpc_board.harness.device.device import open_device

    device: Any = open_device("cuda")
    rows: list[dict[str, Any]] = []
    for path in sorted(Path(sys.argv[2]).glob("*/kernel.py")):
        rows += compared(torch, path.parent.name, runpy.run_path(str(path)))
    print(json.dumps({"rows": rows, "device": measured(device, torch.empty(2**12))}))
    return 0


def compared(torch: Any, name: str, kernel: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a kernel's time by each clock."""
    data = kernel["generate_input"](seed=1)

    def call() -> Any:
        return kernel["custom_kernel"](data)

    clocks: dict[str, Callable[[], float]] = {
        "triton.testing.do_bench": lambda: do_bench(call),
        "CUDA graph, flush subtracted": lambda: graph(torch, call, flushed=True),
        "CUDA graph, hot": lambda: graph(torch, call, flushed=False),
    }
    rows: list[dict[str, Any]] = []
    for clock, measure in clocks.items():
        row: dict[str, Any] = {"kernel": name, "clock": clock}
        try:
            rows.append({**row, "median_ns": measure()})
        except (ImportError, RuntimeError) as error:
            rows.append({**row, "left_out": f"{type(error).__name__}: {error}"[:200]})
    return rows


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
    memory = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")

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
    for _ in range(10):
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
