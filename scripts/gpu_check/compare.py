"""Time two kernels with the harness's clock and with others, in turns, and measure what the harness's clock rests on.

Prints one line of JSON with `rows` and `device`. Its argument is the harness file. Needs a GPU.
"""

# ruff: noqa: SLF001 - the numbers are the device's own

import json
import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

CALLS = 60
ROUNDS = 3
FLUSH_BYTES = 256 * 2**20
SAMPLES = 200
RAMP_CALLS = 20
REST_SECONDS = 3
PAUSE_SECONDS = 0.005


def main() -> int:
    """Print one row for each kernel and clock."""
    sys.path.insert(0, sys.argv[1])
    import torch

    from hpc_board.harness.device.device import open_device

    device: Any = open_device("cuda")
    source, target = torch.rand(2**26 // 4), torch.empty(2**26 // 4)
    a, b, product = torch.rand(2048, 2048), torch.rand(2048, 2048), torch.empty(2048, 2048)
    kernels: dict[str, Callable[[], Any]] = {
        "copy of 64 MiB": lambda: target.copy_(source),
        "product of 2048 x 2048 float32": lambda: torch.mm(a, b, out=product),
    }
    rows: list[dict[str, Any]] = []
    for name, kernel in kernels.items():
        clocks: dict[str, Callable[[Callable[[], Any]], float]] = {
            "harness, cold": lambda call: ours(device, call, cold=True),
            "harness, hot": lambda call: ours(device, call, cold=False),
            "triton.testing.do_bench": do_bench,
            "CUDA graph, flush subtracted": lambda call: graph(torch, call, flushed=True),
            "CUDA graph, hot": lambda call: graph(torch, call, flushed=False),
        }
        found: dict[str, list[float]] = {clock: [] for clock in clocks}
        errors: dict[str, str] = {}
        for _ in range(ROUNDS):
            for clock, measure in clocks.items():
                try:
                    found[clock].append(measure(kernel))
                except (ImportError, RuntimeError) as error:
                    errors[clock] = f"{type(error).__name__}: {error}"[:200]
        reference = {cold: statistics.median(found[f"harness, {cold}"]) for cold in ("cold", "hot")}
        for clock, times_ns in found.items():
            row: dict[str, Any] = {"kernel": name, "clock": clock}
            if clock in errors:
                rows.append({**row, "left_out": errors[clock]})
            else:
                ours_ns = reference["hot" if clock.endswith("hot") else "cold"]
                rows.append({**row, "median_ns": statistics.median(times_ns), "ours_ns": ours_ns})
    rests = measured(device, kernels["product of 2048 x 2048 float32"], torch.empty(2**12))
    print(json.dumps({"rows": rows, "device": rests}))
    return 0


def measured(device: Any, product: Callable[[], Any], small: Any) -> dict[str, str]:
    """Return the premises of the harness's clock, by name; filling the tensor `small` takes almost no time."""
    device.prepare()
    rests_ns = sorted(device._synchronization_ns() for _ in range(SAMPLES))
    late_rests_ns = sorted(rest_after_pause_ns(device, small) for _ in range(SAMPLES))
    empty_ns = timed_ns(device, lambda: None, SAMPLES)
    ticks_ns = [
        later - earlier for earlier, later in pairwise(sorted({*empty_ns, *timed_ns(device, small.zero_, SAMPLES)}))
    ]
    time.sleep(REST_SECONDS)
    cool_ns = timed_ns(device, product, RAMP_CALLS)
    time.sleep(REST_SECONDS)
    device.prepare()
    warm_ns = timed_ns(device, product, RAMP_CALLS)
    return {
        "smallest difference between two times": f"{min(ticks_ns):.0f} ns" if ticks_ns else "none seen",
        "two events with nothing between them, median": microseconds(statistics.median(empty_ns)),
        "a rest of the idle device, median": microseconds(statistics.median(rests_ns)),
        "a rest of the idle device, 95 % take less": microseconds(rests_ns[SAMPLES * 95 // 100]),
        f"a rest after a pause of {PAUSE_SECONDS * 1e3:g} ms and a short kernel, median": microseconds(
            statistics.median(late_rests_ns)
        ),
        "the same, 95 % take less": microseconds(late_rests_ns[SAMPLES * 95 // 100]),
        "the buffer that empties the caches": f"{device._flush_bytes / 2**20:.0f} MiB",
        "writing it once": microseconds(device._fill_ns),
        "writings before a call with two inputs": str(device._fills(2)),
        f"the product in {RAMP_CALLS} calls after {REST_SECONDS} s without work, median": microseconds(
            statistics.median(cool_ns)
        ),
        "the same after the work that precedes timed calls": microseconds(statistics.median(warm_ns)),
    }


def rest_after_pause_ns(device: Any, small: Any) -> int:
    """Return the time until an idle device is known to be idle, on a host that waits for it the first time."""
    time.sleep(PAUSE_SECONDS)
    (done,) = device._events(1)
    small.zero_()
    device._kept.record(done, device._stream)
    device._kept.wait(done)
    return int(device._synchronization_ns())


def timed_ns(device: Any, call: Callable[[], Any], count: int) -> list[float]:
    """Return the time of consecutive calls with warm caches."""
    return [device.timed(lambda: call() is None, [], cold=False)[1] for _ in range(count)]


def microseconds(nanoseconds: float) -> str:
    """A time with its unit."""
    return f"{nanoseconds / 1e3:.2f} us"


def ours(device: Any, call: Callable[[], Any], *, cold: bool) -> float:
    """The median of calls as a worker makes them, without the value, which need not be kept here."""
    times_ns: list[float] = []
    for _ in range(CALLS):
        device.prepare()
        times_ns.append(device.timed(lambda: call() is None, [], cold=cold)[1])
    return statistics.median(times_ns)


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
