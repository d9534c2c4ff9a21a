"""Results as they travel: whatever a node writes is either a well-formed result or refused."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc_board.domain.result_json import ResultError, decode_result
from hpc_board.model.kernels import Kernel
from hpc_board.model.result import TEXT_MAX, Case, Log, Result, Timing, Verdict
from hpc_board.model.sanitizer import SanitizerFinding
from tests.values import replace

RESULT = Result(
    run=3,
    nonce="n",
    mode="ranked",
    verdict=Verdict.PASS,
    message="",
    cases=(
        Case("test", 0, "size: 1", Verdict.PASS, "close"),
        Case("benchmark", 0, "size: 2", Verdict.PASS, "", Timing(2, 1.5, 1.5, 0.7, 0.5, 1.0, 2.0, (1.0, 2.0))),
    ),
    score_s=1.5e-9,
    stdout=Log("head", "tail", 10),
    provenance={"host": "n1", "cpus": 2, "emulated": False},
    findings=(SanitizerFinding("memcheck", "Invalid read", "scale", "k.cu:3", "thread (0,0,0)", "Address 0x0", 2),),
    kernels=(Kernel(0, "softmax", 2, 12.5, registers=64, stalls=(("barrier", 2.0),)), Kernel(1, "f", time_share=0.5)),
)
MISMATCH = {
    "shape": [4],
    "elements": 4,
    "wrong": 1,
    "pattern": "",
    "largest_absolute": None,
    "largest_relative": None,
    "places": [],
    "part": "",
}


def changed(path: str, value: Any) -> bytes:
    """RESULT's JSON with another value at a path such as "cases.0.verdict"."""
    whole = json.loads(RESULT.to_json())
    place: Any = whole
    *parents, last = path.split(".")
    for name in parents:
        place = place[int(name)] if isinstance(place, list) else place[name]
    place[int(last) if isinstance(place, list) else last] = value
    return json.dumps(whole).encode()


def test_a_result_survives_the_journey() -> None:
    assert decode_result(RESULT.to_json().encode()) == RESULT


OLDER_CASE = """{"phase": "benchmark", "index": 0, "spec": "size: 2", "verdict": "pass", "message": "", "timing":
{"runs": 2, "mean_ns": 1.5, "median_ns": 1.25, "std_ns": 0.7, "err_ns": 0.5, "best_ns": 1.0, "worst_ns": 2.0,
"samples_ns": [1.0, 2.0], "worker_runs": [1, 1], "baseline_ns": 4.0, "noisy": false, "low_ns": 1.0, "high_ns": 2.0,
"least_ns": 0.5, "claimed_ns": 1.4, "busy_processors": 0.25, "slack_ns": null}, "work": null, "mismatch": null,
"margin": 0.25}"""


def test_an_older_result_is_read_by_the_present_names() -> None:
    older = json.dumps({**json.loads(RESULT.to_json()), "cases": [json.loads(OLDER_CASE)]})
    (case,) = decode_result(older.encode()).cases
    assert case.of_tolerance == 0.25
    assert case.timing == Timing(
        2, 1.5, 1.25, 0.7, 0.5, 1.0, 2.0, (1.0, 2.0), (1, 1), 4.0,
        low_ns=1.0, high_ns=2.0, bound_ns=0.5, kernel_clock_ns=1.4, busy_processors=0.25,
    )  # fmt: skip


def test_a_time_of_nothing_has_no_speedup_and_no_width() -> None:
    nothing = Timing(1, 0, 0, 0, 0, 0, 0, (0.0,), reference_ns=5.0, low_ns=0.0, high_ns=0.0)
    assert (nothing.speedup, nothing.interval) == (None, 0.0)
    assert replace(nothing, time_ns=2.0, high_ns=3.0).interval == 1.5
    assert replace(nothing, time_ns=2.0).speedup == 2.5


def test_a_result_without_a_compiler_s_text_has_an_empty_one() -> None:
    whole = json.loads(RESULT.to_json())
    del whole["build"]
    assert decode_result(json.dumps(whole).encode()) == RESULT
    with pytest.raises(ResultError, match=r"build\.head"):
        decode_result(changed("build", {"head": 1, "tail": "", "omitted_bytes": 0}))


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("cases.1.work", {"memory_bytes": 1e31, "operations": 0}, "work.memory_bytes is not a number from 0 to 1e+30"),
        ("cases.1.work", {"memory_bytes": 0, "operations": 1e31}, "work.operations is not a number from 0 to 1e+30"),
        ("run", "3", "result.run"),
        ("kernels.0.case", -1, "result.kernels[0].case"),
        ("kernels.0.name", "x" * 201, "result.kernels[0].name"),
        ("kernels.0.registers", "64", "result.kernels[0].registers"),
        ("kernels.0.registers", -1, "result.kernels[0].registers"),
        ("kernels.0.stalls", [["barrier", 1]] * 4, "result.kernels[0].stalls"),
        ("kernels.0.stalls", [["barrier", "2"]], "result.kernels[0].stalls[0][1]"),
        ("kernels.0.stalls", [[1, 2]], "result.kernels[0].stalls[0][0]"),
        ("kernels", [{"case": 0, "name": "f"}] * 401, "result.kernels has more than 400 items"),
        ("findings.0.kind", "x" * 301, "result.findings[0].kind"),
        ("findings.0.count", -1, "result.findings[0].count"),
        ("findings.0.warning", 1, "result.findings[0].warning"),
        ("findings", [{"tool": "t", "kind": "k"}] * 201, "result.findings has more than 200 items"),
        ("run", True, "result.run"),
        ("run", -1, "result.run is not a whole number from 0 to 9007199254740991"),
        ("cases.0.mismatch", [], "result.cases[0].mismatch is not an object"),
        ("cases.0.mismatch", {"shape": []}, "result.cases[0].mismatch lacks elements"),
        ("cases.0.mismatch", MISMATCH | {"shape": [2, "x"]}, "result.cases[0].mismatch.shape[1] is not a whole number"),
        ("cases.0.mismatch", MISMATCH | {"places": [{}]}, "result.cases[0].mismatch.places[0] lacks index"),
        ("nonce", "x" * (TEXT_MAX + 1), "result.nonce has more than 262144 characters"),
        ("verdict", "excellent", "result.verdict"),
        ("score_s", -1.0, "result.score_s"),
        ("score_s", "fast", "result.score_s"),
        ("score_s", 10**400, "result.score_s"),
        ("provenance", {"clock": 10**400}, "result.provenance.clock"),
        ("cases", {}, "result.cases"),
        ("cases", [None] * 20_000, "result.cases"),
        ("cases.0", None, "result.cases[0]"),
        ("cases.0.phase", "party", "phase"),
        ("cases.1.timing.samples_ns", ["1"], "samples_ns[0]"),
        ("cases.1.timing.time_ns", None, "time_ns"),
        ("cases.1.timing.time_ns", 1e-4, "result.cases[1].timing has a time that is not 0 or from 0.001 to 1e+18 ns"),
        ("cases.1.timing.samples_ns", [1e19], "is not 0 or from 0.001 to 1e+18 ns"),
        ("cases.1.timing.reference_ns", 5e-324, "is not 0 or from 0.001 to 1e+18 ns"),
        ("cases.1.timing.worker_samples", [2, 0], "a worker without samples"),
        ("stdout", "text", "result.stdout"),
        ("provenance", {"host": ["n1"]}, "result.provenance.host"),
        ("provenance", {str(index): 1 for index in range(1000)}, "more than 500"),
    ],
)
def test_each_wrong_field_is_refused_and_named(path: str, value: Any, words: str) -> None:
    with pytest.raises(ResultError) as caught:
        decode_result(changed(path, value))
    assert words in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{", b"[" * 100_000, b'{"run": 3}', b"\xff\xfe"])
def test_what_is_no_result_is_refused(data: bytes) -> None:
    with pytest.raises(ResultError):
        decode_result(data)


def test_what_is_made_of_brackets_is_refused_before_it_takes_their_memory() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ResultError, match="opening brackets"):
            decode_result(b"[" + b"[]," * 2_000_000 + b"[]]")
        assert tracemalloc.get_traced_memory()[1] < 32 * 2**20
    finally:
        tracemalloc.stop()


def test_a_kernel_that_prints_brackets_alone_has_a_result() -> None:
    printed = Log("[" * TEXT_MAX, "{" * TEXT_MAX)
    loud = replace(RESULT, stdout=printed, stderr=printed)
    assert decode_result(loud.to_json().encode()) == loud


def test_a_number_that_is_none_is_refused() -> None:
    for word in (b"NaN", b"Infinity", b"1e999"):
        with pytest.raises(ResultError):
            decode_result(RESULT.to_json().encode().replace(b"1.5e-09", word))


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists))
def test_no_value_in_a_field_does_anything_but_be_taken_or_refused(value: Any) -> None:
    for path in ("run", "nonce", "cases", "provenance", "stdout", "score_s", "cases.1.timing"):
        try:
            decode_result(changed(path, value))
        except ResultError:
            continue
