"""The table of docs/design/timing.md: what a lie can gain under the rules as they are."""

import math
from pathlib import Path

import pytest

from hpc_board.harness.measure.consistency import HOT_SHARE, OVERHEAD_SHARE, WALL_SHARE
from hpc_board.harness.measure.row_benchmarks import FULL_SHARE
from hpc_board.harness.measure.window_benchmarks import SCATTER_NS_MAX, SLACK_NS, SLACK_SHARE
from hpc_board.model.limits import Limits
from hpc_board.model.measurement import least_of_row_ns

PAGE = Path(__file__).parents[3] / "docs" / "design" / "timing.md"
BESIDE_NS, BUSY_BESIDE_NS, LOOP_NS, PROCESSORS = 0.4e6, 0.8e6, 2e3, 2
LIMITS = Limits.of_task({}, "cpu")
GPU_LIMITS, GPU_ALONE_NS, GPU_IN_ROW_NS = Limits.of_task({}, "cuda"), 8e6, 3e6
HIDDEN_IN_WINDOW_NS = 3e3
TIMES_NS = {"20 us": 2e4, "50 us": 5e4, "100 us": 1e5, "300 us": 3e5, "1 ms": 1e6, "3 ms": 3e6, "10 ms": 1e7}
TIMES_NS["30 ms"] = 3e7


def calls(time_ns: float, call_bytes: int) -> int:
    most = min(LIMITS.row_calls, LIMITS.row_bytes // call_bytes)
    return max(1, min(most, math.ceil(LIMITS.row_seconds * 1e9 / time_ns)))


def gain_in_the_rest(time_ns: float, call_bytes: int, beside_ns: float = BESIDE_NS) -> float:
    count = calls(time_ns, call_bytes)
    fullness = min(1.0, count * time_ns / (FULL_SHARE * LIMITS.row_seconds * 1e9))
    hidden_ns = fullness * beside_ns / count + (LOOP_NS if count > 1 else 0.0)
    return time_ns / max(1.0, time_ns - hidden_ns)


def gain_by_overlap(time_ns: float) -> float:
    return time_ns / max(time_ns / PROCESSORS, least_of_row_ns(time_ns, time_ns))


def gain_by_claim(time_ns: float) -> float:
    """Return the factor by which a claim for a call on a GPU may be too small."""

    def least_ns(beside_ns: float, calls: int) -> float:
        wall_ns = time_ns + beside_ns
        slack_ns = GPU_LIMITS.slack_seconds * 1e9 / calls
        return wall_ns - (OVERHEAD_SHARE * beside_ns + WALL_SHARE * wall_ns + slack_ns)

    hot_ns = least_ns(GPU_IN_ROW_NS, GPU_LIMITS.burst_calls)
    cold_ns = max(least_ns(GPU_ALONE_NS, 1), HOT_SHARE * (hot_ns - GPU_LIMITS.launch_seconds * 1e9))
    return time_ns / max(GPU_LIMITS.floor_seconds * 1e9, cold_ns)


def gain_in_window(time_ns: float, slack_ns: float) -> float:
    """Return the factor by which a time may be too small, by the slack and by launches that are saved."""
    return time_ns / (time_ns - HIDDEN_IN_WINDOW_NS - slack_ns)


def rows() -> dict[str, list[str]]:
    lines = [line.strip("| \n").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return {name: cells for name, *cells in lines if len(cells) == len(TIMES_NS)}


@pytest.mark.parametrize(
    ("name", "gain"),
    [
        ("work in B, in and out 64 KiB", lambda time_ns: gain_in_the_rest(time_ns, 2**16)),
        (
            "work in B, in and out 64 KiB, busy machine",
            lambda time_ns: gain_in_the_rest(time_ns, 2**16, BUSY_BESIDE_NS),
        ),
        ("work in B, in and out 4 MiB", lambda time_ns: gain_in_the_rest(time_ns, 2**22)),
        ("overlapping calls, two processors", gain_by_overlap),
        (
            "a false claim, steady windows",
            lambda time_ns: gain_in_window(time_ns, max(SLACK_NS, SLACK_SHARE * time_ns)),
        ),
        (
            "a false claim, windows that differ as far as they may",
            lambda time_ns: gain_in_window(time_ns, max(SCATTER_NS_MAX, GPU_LIMITS.interval * time_ns)),
        ),
    ],
)
def test_the_table_holds_for_the_rules_as_they_are(name: str, gain: object) -> None:
    assert callable(gain)
    assert rows()["true time of a call"] == list(TIMES_NS)
    assert rows()[name] == [f"{gain(time_ns):.2f}" for time_ns in TIMES_NS.values()]


def test_work_in_the_rest_gains_at_most_a_tenth_from_50_us_on() -> None:
    assert all(gain_in_the_rest(time_ns, 2**16) < 1.1 for time_ns in TIMES_NS.values() if time_ns >= 5e4)


def test_the_table_of_gpus_holds_for_the_rules_as_they_are() -> None:
    lines = [line.strip("| \n").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    (found,) = (cells for name, *cells in lines if name == "factor by which a claim may lie")
    times_ns = [time_ns for name, time_ns in TIMES_NS.items() if name != "50 us"]
    gains = [gain_by_claim(time_ns) for time_ns in times_ns]
    assert found == [f"{gain:.0f}" if gain >= 10 else f"{gain:.1f}" for gain in gains]
