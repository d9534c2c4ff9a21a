"""The numbers of kernels in the output of profilers, which a submission can influence: parsed strictly, and bounded."""

import csv
import json
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hpc_board.model.kernels import KERNELS_OF_CASE_MAX, LIBRARY, NAME_CHARACTERS_MAX, PERF_ROW, STALLS_MAX, Kernel
from hpc_board.model.text import one_line

CSV_BYTES_MAX = 8 * 2**20
"""Size limit of a table that is read. The page `raw` of a full set of ncu has thousands of columns."""

_ROWS_MAX = 1000
_FIELD_CHARACTERS_MAX = 4096
_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,18}(?:\.\d+)?(?:[eE][+-]?\d{1,2})?")
_STALL = re.compile(r"smsp__average_warps_issue_stalled_([a-z_]{1,40}?)_per_issue_active\.ratio")

_NUMBER_MAX = 1e15
"""Bound of every number: a submission may write into the output of a profiler."""

_PERCENT = 0.01
_PEAK = "pct_of_peak_sustained"

NCU_COLUMNS: Mapping[str, tuple[float, tuple[str, ...]]] = {
    "duration_ns": (1, ("gpu__time_duration.sum",)),
    "dram_share": (
        _PERCENT,
        (f"gpu__dram_throughput.avg.{_PEAK}_elapsed", f"dram__throughput.avg.{_PEAK}_elapsed"),
    ),
    "sm_share": (_PERCENT, (f"sm__throughput.avg.{_PEAK}_elapsed",)),
    "tensor_share": (
        _PERCENT,
        (
            f"sm__pipe_tensor_cycles_active.avg.{_PEAK}_active",
            f"sm__inst_executed_pipe_tensor.avg.{_PEAK}_active",
        ),
    ),
    "occupancy": (_PERCENT, (f"sm__warps_active.avg.{_PEAK}_active",)),
    "registers": (1, ("launch__registers_per_thread",)),
    "static_shared_bytes": (1, ("launch__shared_mem_per_block_static",)),
    "dynamic_shared_bytes": (1, ("launch__shared_mem_per_block_dynamic",)),
    "spills": (1, ("sass__inst_executed_register_spilling", "derived__local_spilling_requests")),
}
"""The numbers of a kernel by the columns of ncu's page `raw` in base units, the first present one of several."""

NSYS_COLUMNS: Mapping[str, tuple[float, tuple[str, ...]]] = {
    "launches": (1, ("Instances",)),
    "duration_ns": (1, ("Avg (ns)",)),
}
ROCPROF_COLUMNS: Mapping[str, tuple[float, tuple[str, ...]]] = {
    "launches": (1, ("Calls",)),
    "duration_ns": (1, ("AverageNs",)),
}

_Columns = Mapping[str, tuple[float, tuple[str, ...]]]


def of_ncu(text: str) -> tuple[Kernel, ...]:
    """Return the kernels in ncu's page `raw`, which has a row for each launch."""
    launches: dict[str, list[dict[str, str]]] = {}
    for row in _rows(text, "Kernel Name"):
        launches.setdefault(_name(row["Kernel Name"]), []).append(row)
    kernels = []
    for name, rows in launches.items():
        numbers = [_numbers(row, NCU_COLUMNS) for row in rows]
        means = {key: _mean([each[key] for each in numbers if key in each]) for key in NCU_COLUMNS}
        kernels.append(Kernel(0, name, len(rows), stalls=_stalls(rows), **means))
    return _longest(kernels)


def of_table(text: str, columns: _Columns) -> tuple[Kernel, ...]:
    """Return the kernels in a table of nsys or rocprofv3, which has a row for each kernel."""
    kernels = []
    for row in _rows(text, "Name"):
        numbers: dict[str, Any] = _numbers(row, columns)
        launches = int(numbers.pop("launches", 0)) or None
        kernels.append(Kernel(0, _name(row["Name"]), launches, **numbers))
    return _longest(kernels)


def of_torch(text: str) -> tuple[Kernel, ...]:
    """Return the kernels or operators that a worker under torch.profiler has written: names, counts, nanoseconds."""
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    kernels = []
    for row in rows[:_ROWS_MAX] if isinstance(rows, list) else ():
        if not isinstance(row, list) or len(row) != 3 or not isinstance(row[0], str):
            continue
        count, total = (each if type(each) in (int, float) and 0 < each < _NUMBER_MAX else None for each in row[1:])
        if count and total:
            kernels.append(Kernel(0, _name(row[0]), int(count) or 1, total / (int(count) or 1)))
    return _longest(kernels)


def of_perf(text: str) -> tuple[Kernel, ...]:
    """Return the functions of the submission in the report of perf, with their shares of the samples.

    Without one of these, as in Python, they are those of the whole process.
    """
    found = PERF_ROW.findall(text)
    own = [row for row in found if row[1] == LIBRARY] or found
    kernels = [Kernel(0, _name(name), time_share=float(percent) / 100) for percent, _, name in own]
    return tuple(kernels[:KERNELS_OF_CASE_MAX])


def _rows(text: str, column: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV text that have a value in `column`; lines before its header are left out."""
    lines = text.splitlines()
    begin = next((index for index, line in enumerate(lines) if re.search(rf'(^|,)"?{column}"?(,|$)', line)), None)
    if begin is None:
        return
    reader = csv.reader(lines[begin:], strict=True)
    try:
        header = next(reader)
        for _, row in zip(range(_ROWS_MAX), reader, strict=False):
            if len(row) == len(header):
                found = dict(zip(header, row, strict=True))
                if found[column].strip():
                    yield found
    except csv.Error:
        return


def _numbers(row: Mapping[str, str], columns: _Columns) -> dict[str, float]:
    found = {}
    for key, (scale, names) in columns.items():
        value = next((_number(row[name]) for name in names if name in row), None)
        if value is not None:
            found[key] = value * scale
    return found


def _number(text: str) -> float | None:
    """Return a number from 0 as profilers write it, with or without commas; None for any other text."""
    text = text.strip()
    found = float(text.replace(",", "")) if _NUMBER.fullmatch(text) else _NUMBER_MAX
    return found if found < _NUMBER_MAX else None


def _stalls(rows: Sequence[Mapping[str, str]]) -> tuple[tuple[str, float], ...]:
    """Return the reasons for which warps waited the most cycles; `selected` is the issue itself."""
    found = {}
    for column in rows[0]:
        match = _STALL.fullmatch(column)
        numbers = [] if match is None else [number for row in rows if (number := _number(row[column])) is not None]
        if match and numbers and match[1] != "selected":
            found[match[1]] = statistics.fmean(numbers)
    most = sorted(found.items(), key=lambda each: -each[1])[:STALLS_MAX]
    return tuple((reason, cycles) for reason, cycles in most if cycles > 0)


def _mean(numbers: Sequence[float]) -> float | None:
    return statistics.fmean(numbers) if numbers else None


def _total(kernel: Kernel) -> float:
    return (kernel.duration_ns or 0) * (kernel.launches or 1)


def _name(text: str) -> str:
    return one_line(text[:_FIELD_CHARACTERS_MAX], NAME_CHARACTERS_MAX) or "?"


def _longest(kernels: Sequence[Kernel]) -> tuple[Kernel, ...]:
    """Return the kernels that took the most time, each with its share of the time of all."""
    whole = sum(map(_total, kernels))
    shared = [replace(each, time_share=_total(each) / whole) for each in kernels] if whole else kernels
    return tuple(sorted(shared, key=lambda each: -(each.time_share or 0))[:KERNELS_OF_CASE_MAX])
