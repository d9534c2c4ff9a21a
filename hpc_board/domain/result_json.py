"""Results as they come from nodes: JSON of any origin, of which each value is bounded."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from hpc_board.model.kernels import (
    KERNELS_MAX,
    MEANS_CHARACTERS_MAX,
    MEANS_MAX,
    NAME_CHARACTERS_MAX,
    STALLS_MAX,
    Kernel,
    Used,
)
from hpc_board.model.loops import LOOPS_MAX, REMARKS_MAX, Loop, Remark
from hpc_board.model.loops import TEXT_CHARACTERS_MAX as LOOP_CHARACTERS_MAX
from hpc_board.model.mismatch import Mismatch
from hpc_board.model.peaks import WORK_MAX, Work
from hpc_board.model.result import RESULT_BYTES_MAX, TEXT_MAX, TIME_NS_MAX, TIME_NS_MIN, Case, Result, Timing
from hpc_board.model.sanitizer import CUDA_TOOLS, FINDINGS_MAX, TEXT_CHARACTERS_MAX, SanitizerFinding
from hpc_board.model.value import Value

_ITEMS_MAX = 10_000
"""The most cases of a result, and samples of a case."""

_BRACKETS_MAX = 4 * TEXT_MAX + 4 * _ITEMS_MAX
"""More opening brackets than in any honest result: three for each case, a few with details, and printed output."""

_FACTS_MAX = 500
_KEY_CHARACTERS_MAX = 200
_INTEGER_MAX = 2**53
_NUMBER_MAX = 1e300
_TIMES = (
    "mean_ns",
    "time_ns",
    "best_ns",
    "worst_ns",
    "reference_ns",
    "low_ns",
    "high_ns",
    "bound_ns",
    "alone_ns",
    "kernel_clock_ns",
    "reference_low_ns",
    "reference_high_ns",
)
_FORMER_NAMES = {
    "runs": "samples",
    "median_ns": "time_ns",
    "baseline_ns": "reference_ns",
    "least_ns": "bound_ns",
    "claimed_ns": "kernel_clock_ns",
    "worker_runs": "worker_samples",
    "noisy": "throttled",
}
"""The former names of a case's times: boards have results with these, and jobs in flight during an upgrade, too."""

_COUNTED = ("mean_ns", "best_ns", "worst_ns")
_LISTS = {
    "kernels": KERNELS_MAX,
    "findings": len(CUDA_TOOLS) * FINDINGS_MAX,
    "stalls": STALLS_MAX,
    "loops": LOOPS_MAX,
    "remarks": REMARKS_MAX,
    "means": MEANS_MAX,
}
_TEXTS: Mapping[type[Value], int] = {
    Kernel: NAME_CHARACTERS_MAX,
    SanitizerFinding: TEXT_CHARACTERS_MAX,
    Loop: LOOP_CHARACTERS_MAX,
    Remark: LOOP_CHARACTERS_MAX,
    Used: MEANS_CHARACTERS_MAX,
}


class ResultError(ValueError):
    """A malformed result: wrong shape, type, size or number. The message names the place."""


def decode_result(data: bytes) -> Result:
    """Return the result in `data` of any origin; every value has its type and is within its bounds.

    Raises:
        ResultError: the data is not a well-formed result.
    """
    if len(data) > RESULT_BYTES_MAX:
        raise ResultError(f"result.json has more than {RESULT_BYTES_MAX} bytes")
    # Empty lists take thirty times as much memory as their text, so text made of little else is not parsed.
    if data.count(b"[") + data.count(b"{") > _BRACKETS_MAX:
        raise ResultError(f"result.json has more than {_BRACKETS_MAX} opening brackets")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ResultError(f"result.json is not JSON: {error}") from error
    try:
        if isinstance(value, dict) and isinstance(value.get("cases"), list):
            _make_plain(value["cases"])
        result = msgspec.convert(value, Result)
    except (ValueError, ArithmeticError) as error:
        raise ResultError(str(error).replace("`$", "`result")) from error
    _check(result, "result")
    return result


def times_of(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the times of a case, as a result, a database or a progress line has them, by their present names."""
    found = {_FORMER_NAMES.get(name, name): each for name, each in value.items()}
    bound_ns = found.get("bound_ns")
    if "noisy" in value and isinstance(bound_ns, int | float):
        # Formerly these were of the samples alone, also where the bound was the time that counts.
        found |= {name: max(bound_ns, found[name]) for name in _COUNTED if isinstance(found.get(name), int | float)}
    return found


def _make_plain(cases: Iterable[Any]) -> None:
    """Give numbers their present names, and replace the details of wrong values by plain ones of bounded size.

    Raises:
        ValueError: they are malformed.
    """
    for index, case in enumerate(cases):
        if isinstance(case, dict) and "margin" in case:
            case["of_tolerance"] = case.pop("margin")
        if isinstance(case, dict) and isinstance(case.get("timing"), dict):
            case["timing"] = times_of(case["timing"])
        if isinstance(case, dict) and case.get("mismatch") is not None:
            plain = Mismatch.of(case["mismatch"], f"result.cases[{index}].mismatch")
            case["mismatch"] = msgspec.to_builtins(plain)


def _check(value: Any, place: str, *, text_max: int = TEXT_MAX, most: float = _NUMBER_MAX) -> None:
    """Require that all texts, numbers and lists in `value` are within their bounds.

    Raises:
        ResultError: one is not; the message has its place.
    """
    match value:
        case str():
            if len(value) > text_max:
                raise ResultError(f"{place} has more than {text_max} characters")
        case int():
            if not 0 <= value < _INTEGER_MAX:
                raise ResultError(f"{place} is not a whole number from 0 to {_INTEGER_MAX - 1}")
        case float():
            if not 0 <= value < most:
                raise ResultError(f"{place} is not a number from 0 to {most:g}")
        case tuple():
            for index, item in enumerate(value):
                _check(item, f"{place}[{index}]", text_max=text_max, most=most)
        case Mapping():
            _check_facts(value, place)
        case Value() if not isinstance(value, Mismatch):
            _check_fields(value, place)


def _check_fields(value: Value, place: str) -> None:
    text_max, most = _TEXTS.get(type(value), TEXT_MAX), WORK_MAX if isinstance(value, Work) else _NUMBER_MAX
    for name in value.__match_args__:
        field, items_max = getattr(value, name), _LISTS.get(name, _ITEMS_MAX)
        if isinstance(field, tuple) and len(field) > items_max:
            raise ResultError(f"{place}.{name} has more than {items_max} items")
        _check(field, f"{place}.{name}", text_max=text_max, most=most)
    if isinstance(value, Case) and value.phase not in ("test", "benchmark"):
        raise ResultError(f"{place}.phase is neither test nor benchmark")
    if isinstance(value, Timing):
        if value.samples_ns and not all(value.worker_samples_ns):
            raise ResultError(f"{place} has a worker without samples")
        for time_ns in (*value.samples_ns, value.slack_ns, *(getattr(value, name) for name in _TIMES)):
            if time_ns and not TIME_NS_MIN <= time_ns <= TIME_NS_MAX:
                raise ResultError(f"{place} has a time that is not 0 or from {TIME_NS_MIN:g} to {TIME_NS_MAX:g} ns")


def _check_facts(facts: Mapping[str, Any], place: str) -> None:
    """Require that facts are short texts, numbers and booleans.

    Raises:
        ResultError: one is not, or they are too many.
    """
    if len(facts) > _FACTS_MAX:
        raise ResultError(f"{place} has more than {_FACTS_MAX} entries")
    for key, value in facts.items():
        number = isinstance(value, int | float) and abs(value) < _NUMBER_MAX
        scalar = value is None or isinstance(value, str) or number
        if not scalar or len(key) > _KEY_CHARACTERS_MAX or len(str(value)) > TEXT_MAX:
            raise ResultError(f"{place}.{key[:_KEY_CHARACTERS_MAX]} is not a short text, number or boolean")
