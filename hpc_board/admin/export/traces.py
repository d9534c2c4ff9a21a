"""Results of imported definitions as traces of FlashInfer Trace: an object for each case that says about the kernel."""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from hpc_board.admin.export.columns import Row, Value, run_cells
from hpc_board.domain.imported import DEFINITION_FILE, Definition
from hpc_board.model.result import Case, Verdict
from hpc_board.model.task import CaseValue, Task
from hpc_board.model.text import one_line

_STATUSES = {
    Verdict.PASS: "PASSED",
    Verdict.WRONG_SHAPE: "INCORRECT_SHAPE",
    Verdict.WRONG_DTYPE: "INCORRECT_DTYPE",
    Verdict.WRONG_VALUE: "INCORRECT_NUMERICAL",
    Verdict.WRONG_NONFINITE: "INCORRECT_NUMERICAL",
    Verdict.TIMEOUT: "TIMEOUT",
}
_OTHER = "RUNTIME_ERROR"
_LIBRARIES = ("torch", "triton", "cuda", "driver")
_UUID_SPACE = uuid.UUID("6f1ff5a1-7a7c-5a8e-9c4b-8a2b3f0f4b7d")


def definition_of(task: Task) -> Definition | None:
    """Return the definition of an imported task; None of any other task."""
    try:
        return msgspec.json.decode((task.text(DEFINITION_FILE) or "").encode(), type=Definition)
    except (msgspec.DecodeError, RecursionError):
        return None


def traces(task: Task, definition: Definition, row: Row, cases: Iterable[Case]) -> Iterator[dict[str, Any]]:
    """Yield a trace for each case of a run that failed by the kernel, or that was timed beside the reference."""
    cells = run_cells(row)
    known = {"test": task.tests, "benchmark": task.benchmarks}
    for case in cases:
        arguments = known.get(case.phase, ())
        status = _STATUSES.get(case.verdict, _OTHER)
        untimed = status == "PASSED" and (case.timing is None or case.timing.reference_ns is None)
        if case.is_hidden or untimed or case.index >= len(arguments) or not _blames_kernel(case.verdict):
            continue
        yield {
            "definition": one_line(definition.name),
            "workload": _workload(task, definition, arguments[case.index]),
            "solution": f"submission-{cells['submission']}",
            "evaluation": _evaluation(case, status, cells),
        }


def _blames_kernel(verdict: Verdict) -> bool:
    return verdict is Verdict.PASS or verdict.blames_kernel


def _workload(task: Task, definition: Definition, case: Mapping[str, CaseValue]) -> dict[str, Any]:
    axes = {name: case[name] for name, axis in definition.axes.items() if axis.type == "var" and name in case}
    random = "custom" if definition.custom_inputs_entrypoint else "random"
    inputs: dict[str, Any] = {}
    for name in definition.inputs:
        value = case.get(name)
        if isinstance(value, str):
            inputs[name] = {"type": "safetensors", "path": value, "tensor_key": name}
        else:
            inputs[name] = {"type": random} if value is None else {"type": "scalar", "value": value}
    key = json.dumps([task.version, dict(case)], sort_keys=True)
    return {"uuid": str(uuid.uuid5(_UUID_SPACE, key)), "axes": axes, "inputs": inputs}


def _evaluation(case: Case, status: str, cells: Mapping[str, Value]) -> dict[str, Any]:
    provenance = json.loads(str(cells.get("provenance") or "{}"))
    found: dict[str, Any] = {
        "status": status,
        "log": case.message,
        "environment": {
            "hardware": cells["gpu"],
            "libs": {name: str(provenance[name]) for name in _LIBRARIES if name in provenance},
        },
        "timestamp": ended.isoformat() if isinstance(ended := cells["ended_at"], datetime) else "",
        "correctness": None,
        "performance": None,
    }
    if status in ("PASSED", "INCORRECT_NUMERICAL"):
        # The table of cases has no errors, and a reader takes those that are left out for 0.
        found["correctness"] = {"extra": {"errors": "not recorded"}}
    if status == "PASSED" and case.timing is not None and case.timing.reference_ns is not None:
        found["performance"] = {
            "latency_ms": case.timing.time_ns / 1e6,
            "reference_latency_ms": case.timing.reference_ns / 1e6,
            "speedup_factor": case.timing.speedup,
        }
    return found
