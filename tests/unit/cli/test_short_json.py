"""The short forms of JSON: their sizes, the choice of keys, and lines of runs that end."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import UNSET

from hpc_board.cli import status
from hpc_board.domain.origin import Origin
from hpc_board.domain.run import RunState
from hpc_board.domain.score_interval import Interval
from hpc_board.model.kernels import Kernel
from hpc_board.model.loops import Loop
from hpc_board.model.mismatch import Cause, Mismatch
from hpc_board.model.result import Case, Verdict
from hpc_board.model.task import Mode
from hpc_board.report.views.brief import BriefRunView
from hpc_board.report.views.runs import RunView
from tests.unit.recorded import AT, Recorded, call, result_of, row_case, status_of
from tests.values import replace

TESTS = tuple(Case("test", index, f"size: {2**index}; seed: {index}", Verdict.PASS, "") for index in range(16))
MISMATCH = Mismatch(
    (1 << 20,),
    1 << 20,
    524_288,
    "every 2nd element, from the first\u2026" * 9,
    3.5,
    1.0,
    of_tolerance=1234567.89,
    cause=Cause.UNINITIALIZED_READ,
    caused=524_288,
)


def brief(board: Recorded, *words: str) -> tuple[Any, int]:
    """Return the brief JSON of a command, and its size in bytes."""
    done = call(board, *words, "--json=brief")
    return json.loads(done.stdout), len(done.stdout.encode())


def test_a_brief_test_that_passed_has_at_most_120_bytes(board: Recorded) -> None:
    with_margins = [replace(case, of_tolerance=0.012345 * case.index) for case in TESTS]
    board.add(result=result_of(Verdict.PASS, *with_margins), mode=Mode.TEST)
    found, size = brief(board, "run", "1")
    expected = {"id": 1, "gpu": "CPU", "file_name": "kernel.py", "mode": "test", "verdict": "pass", "cases": 16}
    assert found == {**expected, "of_tolerance": 0.19}
    assert size <= 120


@pytest.mark.parametrize(
    ("gpu", "file_name"), [("CPU", "k" * 99), ("gpu-" * 16, "kernel.py"), ("gpu-" * 16, "\u00e9" * 99)]
)
def test_a_brief_run_with_long_names_keeps_its_size(board: Recorded, gpu: str, file_name: str) -> None:
    board.add(result=result_of(Verdict.PASS, *TESTS), mode=Mode.TEST, gpu=gpu, file_name=file_name)
    tests = [replace(case, of_tolerance=0.98765) for case in TESTS]
    board.add(result=result_of(Verdict.PASS, *tests), mode=Mode.TEST, gpu=gpu, file_name=file_name, code=b"another")
    with_margin, its_size = brief(board, "run", "2")
    assert (with_margin["of_tolerance"], its_size <= 114) == (0.99, True)
    found, size = brief(board, "run", "1")
    assert (gpu.startswith(found["gpu"]), len(found["gpu"]) >= min(20, len(gpu))) == (True, True)
    assert file_name.startswith(found["file_name"])
    # The number of a run may have six digits more.
    assert size <= 114


@pytest.mark.parametrize("words", ["expected 1, got 2 ", "\u221e \u2260 \u00b5", "\x1b[31m\n"])
def test_a_brief_wrong_result_has_at_most_500_bytes(board: Recorded, words: str) -> None:
    message = words * 500
    wrong = replace(TESTS[0], verdict=Verdict.WRONG_VALUE, message=message, spec="size: 1; " * 100, mismatch=MISMATCH)
    result = result_of(Verdict.WRONG_VALUE, *TESTS, wrong, wrong, message=message)
    board.add(result=result, mode=Mode.TEST, file_name="\u00e9" * 60 + ".py")
    found, size = brief(board, "run", "1")
    assert (found["verdict"], found["cases"], found["failed"], found["wrong"]) == ("wrong_value", 18, 2, 524_288)
    assert found["pattern"].startswith("every 2nd element")
    assert (found["cause"], found["of_tolerance"]) == ("uninitialized_read", 1_235_000.0)
    assert size <= 500


def test_a_brief_traceback_has_its_error_once(board: Recorded) -> None:
    error = "ModuleNotFoundError: No module named 'tritonx'"
    traceback = f'Traceback (most recent call last):\n  File "kernel.py", line 3\n{error}'
    board.add(result=result_of(Verdict.LOAD_ERROR, message=f"{error}\n{traceback}"), mode=Mode.TEST)
    told, _ = brief(board, "run", "1")
    assert told["message"].count(error) == 1


def test_a_brief_result_with_a_huge_error_keeps_its_message(board: Recorded) -> None:
    mismatch = replace(MISMATCH, of_tolerance=1.25e306)
    case = replace(TESTS[0], verdict=Verdict.WRONG_VALUE, message="far off", mismatch=mismatch)
    board.add(result=result_of(Verdict.WRONG_VALUE, case, message="far off"), mode=Mode.TEST)
    found, size = brief(board, "run", "1")
    assert (found["of_tolerance"], found["message"], size < 400) == (1.25e306, "far off", True)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("rows: 3; columns: 3; steps: 1; seed: 42", "rows: 3; columns: 3; steps: 1; seed: 42"),
        ("rows: 3; columns: 3; steps: 1; seed: 4244", "rows: 3; columns: 3; steps: 1; …"),
        ("rows: 3; columns: 3; steps: 1; seed: 4", "rows: 3; columns: 3; steps: 1; seed: 4"),
        ("name: " + "n" * 40, "name: " + "n" * 28 + "…"),
    ],
)
def test_a_brief_case_is_cut_at_a_whole_argument(board: Recorded, spec: str, expected: str) -> None:
    wrong = replace(TESTS[0], verdict=Verdict.WRONG_VALUE, spec=spec)
    board.add(result=result_of(Verdict.WRONG_VALUE, wrong), mode=Mode.TEST)
    assert brief(board, "run", "1")[0]["spec"] == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a rectangle: rows 16 to 31, columns 16 to 31", "a rectangle: rows 16 to 31, columns 16 to 31"),
        ("a rectangle: rows 1000000 to 2000000, columns 1000000 to 2000000, of each matrix", None),
        ("every 2nd element, " * 9, f"{'every 2nd element, ' * 3}every 2nd …"),
    ],
)
def test_a_brief_text_is_whole_or_ends_with_an_ellipsis(board: Recorded, pattern: str, expected: str | None) -> None:
    message = " ".join(f"word{index}" for index in range(99))
    wrong = replace(TESTS[0], verdict=Verdict.WRONG_VALUE, mismatch=replace(MISMATCH, pattern=pattern))
    board.add(result=result_of(Verdict.WRONG_VALUE, wrong, message=message), mode=Mode.TEST)
    found, size = brief(board, "run", "1")
    assert found["pattern"] == (expected or pattern)
    assert message.startswith(found["message"].removesuffix("…"))
    assert (found["message"][-2:], 480 <= size <= 500) == (" …", True)


def test_a_brief_ranked_run_has_at_most_450_bytes(board: Recorded) -> None:
    cases = [row_case(index, low_ns=1.98765e6, time_ns=2.12345e6, high_ns=2.43219e6) for index in range(12)]
    result = result_of(Verdict.PASS, *TESTS, *cases)
    board.add(result=result, score_s=3.12345e-3, file_name="other.py")
    board.add(result=result, score_s=2.123456e-3, interval=Interval(1.987654e-3, 2.432109e-3))
    found, size = brief(board, "run", "2")
    assert (found["score_s"], found["score_low_s"], found["rank"]) == (0.002123, 0.001988, 1)
    assert found["times_ns"] == [2_123_000.0] * 8
    assert found["advice"] == ["wide_interval"]
    assert found["verdict_line"].startswith("Rank 1 of 1 on CPU: 2.12 ms")
    assert size <= 450


def test_a_brief_profile_has_its_longest_kernels_and_the_loop_with_the_most_scalar_operations(board: Recorded) -> None:
    gpu = {
        "dram_share": 0.91,
        "sm_share": 0.12,
        "tensor_share": 0.0,
        "occupancy": 0.5,
        "registers": 32.0,
        "spills": 0.0,
    }
    kernels = [
        Kernel(case, "add_" * 40, 3, 1e6 * case, share, **gpu, stalls=(("long_scoreboard", 12.3),))
        for case, share in ((0, 0.4), (1, 0.8), (2, 0.6))
    ]
    board.add(result=replace(result_of(Verdict.PASS, *TESTS), kernels=kernels), mode=Mode.PROFILE)
    found, size = brief(board, "run", "1")
    assert [each[: each.index(": ")] for each in found["kernels"]] == [
        f"case {n}, {('add_' * 40)[:39]}…" for n in (2, 3)
    ]
    assert "3 x 1.00 ms, 80 % of the time, 91 % of DRAM" in found["kernels"][0]
    assert ("message" in found, "verdict_line" in found, size <= 450) == (False, False, True)
    functions = [Kernel(case, "add_" * 40, time_share=0.4) for case in range(3)]
    loops = [Loop(line, "add_" * 40, 99, 9, line, 23, 11, 512) for line in (7, 41, 12)]
    result = replace(result_of(Verdict.PASS, *TESTS), kernels=functions, loops=loops)
    board.add(result=result, mode=Mode.PROFILE, code=b"#")
    found, size = brief(board, "run", "2")
    vectors, scalars = "9 vector operations of 512 bits", "41 scalar operations"
    told = f"line 41: loop in {('add_' * 40)[:59]}…, 99 instructions: {vectors}, {scalars}, 23 loads, 11 stores"
    assert (found["loop"], "message" in found, "verdict_line" in found, size <= 450) == (told, False, False, True)
    board.add(result=result, mode=Mode.PROFILE, code=b"#", file_name="k" * 99, origin=Origin("agent-" * 5))
    found, size = brief(board, "run", "3")
    assert (told.startswith(found["loop"][:-1]), found["loop"][-2:], size <= 450) == (True, " …", True)


def test_a_brief_run_has_the_number_of_its_submission_where_that_is_another_one(board: Recorded) -> None:
    run = replace(board.add(result=result_of(Verdict.PASS, row_case())), submission=7)
    found = [
        BriefRunView.of(RunView.of(each, None, [])).submission
        for each in (run, replace(run, submission=run.id), replace(run, mode=Mode.TEST))
    ]
    assert found == [7, UNSET, UNSET]


def test_a_brief_status_of_60_runs_has_at_most_300_bytes(board: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "_FIRST_LOOK", datetime.now(UTC) - AT + timedelta(days=1))
    result = result_of(Verdict.PASS, *TESTS)
    verdicts = (Verdict.PASS, Verdict.WRONG_VALUE, Verdict.CRASH, Verdict.COMPILE_ERROR, Verdict.TIMEOUT)
    for verdict in verdicts * 6:
        board.add(result=replace(result, verdict=verdict), mode=Mode.TEST)
    for state in (RunState.QUEUED, RunState.RUNNING, RunState.COLLECTING) * 10:
        board.add(status_of(state), mode=Mode.TEST)
    found, size = brief(board, "status")
    assert sum(found["in_flight"].values()) + sum(found["ended"].values()) == 60
    assert (found["ended"]["pass"], len(found["failed"])) == (6, 8)
    assert size <= 300


def test_a_run_without_a_verdict_has_its_state(board: Recorded) -> None:
    board.add(status_of(RunState.NODE_FAIL, reason="the node is down"))
    ((found,), _) = brief(board, "runs")
    assert (found["state"], found["message"], "verdict" in found) == ("node_fail", "the node is down", False)


def test_an_object_without_a_brief_form_loses_empty_keys(board: Recorded) -> None:
    full = json.loads(call(board, "gpus", "--json").stdout)[0]
    (found, *_), _ = brief(board, "gpus")
    assert {**full, **found} == full
    assert [key for key, value in found.items() if value is False or value in (None, "", [], {})] == []


def test_json_is_on_one_line_where_no_terminal_reads_it(board: Recorded) -> None:
    done = call(board, "gpus", "--json")
    assert done.stdout == json.dumps(json.loads(done.stdout), separators=(",", ":")) + "\n"


# The choice of keys


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("verdict,id", {"verdict": "pass", "id": 1}),
        ("cases.spec,job.node", {"cases": [{"spec": "size: 1; seed: 0"}], "job": {"node": "n1"}}),
        ("provenance.cpu,id", {"provenance": {"cpu": "EPYC"}, "id": 1}),
        ("cases.mean_ns", {"cases": [{}]}),
    ],
)
def test_fields_are_the_only_keys_in_their_order(board: Recorded, fields: str, expected: Any) -> None:
    board.add(result=result_of(Verdict.PASS, TESTS[0]))
    for form in ((), ("--json",), ("--json=brief",)):
        done = call(board, "run", "1", "--fields", fields, *form)
        assert (done.exit_code, done.stdout) == (0, f"{json.dumps(expected, separators=(',', ':'))}\n"), done.output


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("run", "1", "--fields", "verdikt"), 'unknown key "verdikt". Did you mean "verdict"?'),
        (("submit", "kernel.py", "--fields", "id,cases.spek"), 'Did you mean "cases.spec"?'),
        (("admin", "stats", "--fields", "\x1b[31m"), 'unknown key ""'),
        (("runs", "--fields", ""), 'unknown key ""'),
        (("runs", "--fields", "id.name"), 'unknown key "id.name"'),
        (("runs", "--json=bref"), "'bref' is not one of 'full', 'brief', 'lines'"),
    ],
)
def test_an_unknown_field_is_refused_before_the_command_does_anything(
    board: Recorded, words: tuple[str, ...], hint: str
) -> None:
    done = call(board, *words)
    assert (done.exit_code, hint in " ".join(done.stderr.split())) == (2, True), done.output
    assert json.loads(done.stdout)["error"]["kind"] == "usage"
    assert not board.board.exists


def test_the_form_takes_no_argument_of_the_command(board: Recorded) -> None:
    board.add(result=result_of(Verdict.PASS, TESTS[0]))
    assert json.loads(call(board, "run", "--json", "1").stdout)["id"] == 1
    done = call(board, "code", "--json", "--", "1")
    assert json.loads(done.stdout)["file_name"] == "kernel.py"


def test_an_option_without_its_value_leaves_json_to_the_command(board: Recorded) -> None:
    board.add(result=result_of(Verdict.PASS, TESTS[0]))
    assert "error" in json.loads(call(board, "run", "1", "--files", "--json").stdout)


# Lines


def test_each_run_that_has_ended_is_a_line(board: Recorded) -> None:
    for verdict in (Verdict.PASS, Verdict.CRASH):
        board.add(result=result_of(verdict, *TESTS), mode=Mode.TEST)
    board.add(status_of(RunState.CANCELLED), mode=Mode.TEST)
    for words, code in ((("watch", "1", "2", "3", "2"), 3), (("runs", "--sort", "run", "--reverse"), 0)):
        done = call(board, *words, "--json=lines")
        found = [json.loads(line) for line in done.stdout.splitlines()]
        assert (done.exit_code, [run["id"] for run in found]) == (code, [1, 2, 3]), done.output
        assert [run.get("verdict") for run in found] == ["pass", "crash", None]
    done = call(board, "watch", "1", "2", "--json=lines", "--fields", "id,verdict")
    assert done.stdout == '{"id":1,"verdict":"pass"}\n{"id":2,"verdict":"crash"}\n'
    assert [run["id"] for run in json.loads(call(board, "watch", "1", "2", "--json").stdout)] == [1, 2]


def test_runs_that_have_not_ended_in_time_are_lines_as_they_are(board: Recorded) -> None:
    board.add(result=result_of(Verdict.PASS, *TESTS), mode=Mode.TEST)
    board.add(status_of(RunState.QUEUED), mode=Mode.TEST)
    done = call(board, "watch", "2", "1", "--json=lines", "--timeout", "0")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.exit_code, [(run["id"], run.get("state")) for run in found]) == (4, [(1, None), (2, "collecting")])
