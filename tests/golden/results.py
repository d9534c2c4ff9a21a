"""Invented results in the form of result.json, with chosen times."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

_LOG = {"head": "", "tail": "", "omitted_bytes": 0}

_ON_H100 = {
    "harness_sha256": "ab" * 32,
    "harness": "isolated",
    "host": "h100-1",
    "node": "h100-1",
    "cpu": "EPYC 9654",
    "torch": "2.6.0",
    "gpu_name": "NVIDIA H100 80GB HBM3",
    "gpu_driver": "550.54",
    "emulated": False,
    "isolation": "S4",
    "memory_peak_bytes": 1_300_000_000,
    "memory_asked_bytes": 16 * 2**30,
    "cpu_seconds": 14.2,
    "cpus_asked": 8,
    "elapsed_seconds": 9.0,
}

ON_CPU: Mapping[str, Any] = {
    "harness_sha256": "ab" * 32,
    "harness": "isolated",
    "host": "login-1",
    "cpu": "EPYC 9654",
    "cpus": 8,
    "emulated": False,
    "isolation": "S3",
    "root": True,
}

OWN_EVAL: Mapping[str, Any] = {**_ON_H100, "harness": "task", "unseen_score_s": 2.1e-05}


def log(text: str, omitted_bytes: int = 0, tail: str = "") -> dict[str, Any]:
    """Return the output of a process."""
    return {"head": text, "tail": tail, "omitted_bytes": omitted_bytes}


def case(phase: str, index: int, spec: str, verdict: str = "pass", message: str = "", **more: Any) -> dict[str, Any]:
    """Return a case without times."""
    return {
        "phase": phase,
        "index": index,
        "spec": spec,
        "verdict": verdict,
        "message": message,
        "timing": None,
        "work": None,
        **more,
    }


def mismatch(*places: tuple[str, str]) -> dict[str, Any]:
    """Return the details of wrong values in the last elements; without values if no places are given."""
    return {
        "shape": [100],
        "elements": 100,
        "wrong": 37,
        "pattern": "the last 37 elements",
        "largest_absolute": 1.0 if places else None,
        "largest_relative": 0.667 if places else None,
        "places": [
            {"index": [63 + number], "got": got, "expected": expected} for number, (got, expected) in enumerate(places)
        ],
        "part": "",
    }


def timed(index: int, spec: str, time_ns: float, *, reference_ns: float | None = None, **more: Any) -> dict[str, Any]:
    """Return a benchmark case of a GPU: two processes with three calls each, whose medians differ a little."""
    samples = [time_ns + away for away in (-100.0, -40.0, 250.0, -60.0, 40.0, 90.0)]
    times = {
        "samples": 6,
        "mean_ns": sum(samples) / 6,
        "time_ns": time_ns,
        "std_ns": 120.0,
        "err_ns": 49.0,
        "best_ns": min(samples),
        "worst_ns": max(samples),
        "samples_ns": samples,
        "worker_samples": [3, 3],
        "reference_ns": reference_ns,
        "throttled": False,
    }
    work = {"memory_bytes": time_ns * 2000, "operations": time_ns * 100}
    return case("benchmark", index, spec, timing={**times, **more}, work=work)


def in_rows(index: int, spec: str, bounds_ns: tuple[float, float, float], **more: Any) -> dict[str, Any]:
    """Return a benchmark case of a CPU: three processes with a row of calls each; `bounds_ns` surround the time."""
    low_ns, time_ns, high_ns = bounds_ns
    times = {
        "samples": 3,
        "mean_ns": sum(bounds_ns) / 3,
        "time_ns": time_ns,
        "std_ns": 7e4,
        "err_ns": 4e4,
        "best_ns": low_ns,
        "worst_ns": high_ns,
        "samples_ns": list(bounds_ns),
        "worker_samples": [1, 1, 1],
        "reference_ns": 4 * 2.0e6,
        "throttled": False,
        "low_ns": low_ns,
        "high_ns": high_ns,
        "bound_ns": 5e5,
        "kernel_clock_ns": time_ns - 1,
        "busy_processors": 0.0,
    }
    return case("benchmark", index, spec, timing={**times, **more})


def reported(index: int, spec: str, mean_ns: float) -> dict[str, Any]:
    """Return a benchmark case as a task's own eval reports it."""
    times = {
        "samples": 10,
        "mean_ns": mean_ns,
        "time_ns": mean_ns,
        "std_ns": 40.0,
        "err_ns": 12.0,
        "best_ns": mean_ns - 70,
        "worst_ns": mean_ns + 90,
        "samples_ns": [],
        "worker_samples": [],
        "reference_ns": None,
        "throttled": False,
    }
    return case("benchmark", index, spec, timing=times)


def result(mode: str, verdict: str, cases: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """Return a result of a job on an H100; `more` replaces its values."""
    return {
        "nonce": "nonce",
        "mode": mode,
        "verdict": verdict,
        "message": "",
        "cases": list(cases),
        "score_s": None,
        "job_id": "104",
        "restart_count": 0,
        "started_at": "2024-03-01T12:01:10+00:00",
        "ended_at": "2024-03-01T12:02:05+00:00",
        "stdout": _LOG,
        "stderr": _LOG,
        "build": _LOG,
        "profile": _LOG,
        "provenance": _ON_H100,
        **more,
    }


def geometric_mean_s(times_ns: Sequence[float]) -> float:
    """Return the score of a task with `ranking_by: geom`, rounded to be the same on every machine."""
    return round(math.exp(math.fsum(map(math.log, times_ns)) / len(times_ns)) / 1e9, 12)
