"""The progress of a running run by the lines of its harness."""

import re
from datetime import timedelta

import pytest

from hpc_board.board.runs import _progress
from hpc_board.domain.job_options import JobOptions
from hpc_board.domain.run import Progress, RunState, TimeSoFar
from hpc_board.model.task import OWN, Language, Mode, Task, TaskFile
from hpc_board.report.plain import plain
from hpc_board.report.run_progress import (
    RunProgress,
    begun_cases,
    case_counts,
    run_progress,
    time_left,
    time_so_far,
    tools_of,
)
from hpc_board.report.run_words import place_text
from hpc_board.report.runs import run_report, step_text
from tests.unit.report.test_report import run_of
from tests.values import replace

_COUNTS = {"test": 4, "benchmark": 3, "profile": 3, "sanitize": 4}
_TASK = Task(
    "add",
    Language.PY,
    "Add.",
    (TaskFile("submission.py", None),),
    tests=({"size": 1},) * 4,
    benchmarks=({"size": 1},) * 3,
)


def _steps(*steps: tuple[str, int | None, int | None]) -> list[Progress]:
    return [Progress("2030-05-17T12:00:00Z", phase, case, of, "") for phase, case, of in steps]


@pytest.mark.parametrize(
    ("mode", "steps", "expected"),
    [
        (Mode.RANKED, [("load", None, None)], RunProgress(0, 7, "load")),
        (Mode.RANKED, [("test", 1, 4)], RunProgress(0, 7, "test 1 of 4")),
        (Mode.RANKED, [("test", 4, 4), ("benchmark", 2, 3)], RunProgress(5, 7, "benchmark 2 of 3")),
        (Mode.TEST, [("test", 3, 4)], RunProgress(2, 4, "test 3 of 4")),
        (Mode.BENCHMARK, [("benchmark", 3, 3)], RunProgress(2, 3, "benchmark 3 of 3")),
        (Mode.PROFILE, [("profile", 2, 3)], RunProgress(1, 3, "profile 2 of 3")),
        (Mode.SANITIZE, [("sanitize", 2, 4)], RunProgress(1, 4, "sanitize 2 of 4")),
    ],
)
def test_cases_of_all_phases_of_a_mode_count(
    mode: Mode, steps: list[tuple[str, int | None, int | None]], expected: RunProgress
) -> None:
    assert run_progress(mode, _steps(*steps), _COUNTS) == expected


def test_a_run_without_a_line_has_no_progress() -> None:
    assert run_progress(Mode.RANKED, (), _COUNTS) is None


def test_the_harness_knows_the_cases_better_than_the_task_of_today() -> None:
    assert run_progress(Mode.RANKED, _steps(("test", 2, 6), ("benchmark", 1, 2)), _COUNTS) == RunProgress(
        6, 8, "benchmark 1 of 2"
    )


def test_the_bar_stays_where_benchmarks_begin_again() -> None:
    steps = _steps(("test", 4, 4), ("benchmark", 3, 3), ("benchmark", 1, 3))
    assert run_progress(Mode.RANKED, steps, _COUNTS) == RunProgress(6, 7, "benchmark 1 of 3")


def _round(number: int, of: int, case: int) -> Progress:
    return Progress("2030-05-17T12:00:00Z", "benchmark", case, 3, f"size: 1; seed: 2 (process {number} of {of})")


def _again(number: int, case: int) -> Progress:
    return Progress(
        "2030-05-17T12:00:00Z", "benchmark", case, 3, f"size: 1; seed: 2, measuring again: busy machine, {number} of 5"
    )


def test_the_bar_counts_the_benchmarks_of_each_process_and_never_goes_back() -> None:
    steps = [
        *_steps(("load", None, None), ("test", 1, 4), ("test", 4, 4)),
        *(_round(number, 3, case) for number in (1, 2, 3) for case in (1, 2, 3)),
        *(_round(number, number, case) for number in (4, 5) for case in (1, 2, 3)),
        *(_again(number, case) for number in (1, 2) for case in (2, 3)),
    ]
    counts = case_counts(_TASK, Mode.RANKED)
    found = [run_progress(Mode.RANKED, steps[:end], counts) for end in range(1, len(steps) + 1)]
    done = [each.done for each in found if each]
    assert {each.total for each in found if each} == {13}
    # The last case is done only at the end, as it may be measured again.
    assert done == [0, 0, 3, *range(4, 13), *[12] * 10]
    words = [each.step for each in found if each]
    assert (words[6], words[-1]) == ("round 2 of 3, benchmark 1 of 3", "repeat 2 of 5, benchmark 3 of 3")


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        ("pass", RunProgress(4, 4, "verdict: pass; the result follows")),
        ("wrong_nonfinite", RunProgress(3, 4, "verdict: wrong (NaN or inf); the result follows")),
        ("no \x1b[31mverdict", RunProgress(3, 4, "verdict: no verdict; the result follows")),
    ],
)
def test_the_bar_is_full_once_the_run_has_passed(verdict: str, expected: RunProgress) -> None:
    steps = [*_steps(("test", 4, 4)), Progress("2030-05-17T12:00:00Z", "end", None, None, verdict)]
    assert run_progress(Mode.TEST, steps, _COUNTS) == expected
    assert step_text(steps[-1]) == expected.step
    assert place_text(steps[-1], short=True) == expected.step.partition(";")[0]


def test_the_cases_that_have_begun_are_known_with_their_texts() -> None:
    def step(phase: str, case: int | None, of: int | None, message: str) -> Progress:
        return Progress("2030-05-17T12:00:00Z", phase, case, of, message)

    steps = [
        step("load", None, None, "importing"),
        step("test", 1, 2, "size: 1; seed: 7"),
        step("test", 2, 2, "size: 2; seed: 7 (mode test, secret seed)"),
        step("benchmark", 1, 2, "size: 3; seed: 7 (process 1 of 2)"),
        step("benchmark", 2, 2, "size: 4; seed: 7 (process 1 of 2)"),
        step("benchmark", 1, 2, "size: 3; seed: 7, measuring again: busy machine, 1 of 5"),
        step("end", None, None, "pass"),
    ]
    specs = ["size: 1; seed: 7", "size: 2; seed: 7", "size: 3; seed: 7", "size: 4; seed: 7"]

    def states(count: int) -> list[str]:
        cases = list(begun_cases(steps[:count]))
        assert [case.spec for case in cases] == specs[: len(cases)]
        return [case.state for case in cases]

    assert [states(count) for count in range(8)] == [
        [],
        [],
        ["running"],
        ["done", "running"],
        ["pass", "pass", "running"],
        ["pass", "pass", "done", "running"],
        ["pass", "pass", "running", "done"],
        ["pass", "pass", "done", "done"],
    ]


def _timed(number: int, case: int, timed: int, time_ns: float) -> Progress:
    return replace(_round(number, 5, case), timed=TimeSoFar(timed, time_ns, 2 * time_ns))


def test_begun_benchmarks_have_their_times_so_far_with_the_round() -> None:
    steps = [_round(1, 5, 1), _timed(1, 2, 1, 9.2e5), _timed(2, 1, 2, 3e6), _timed(2, 2, 1, 9.01e5)]

    def told(count: int) -> list[str]:
        return [case.so_far for case in begun_cases(steps[:count])]

    assert told(1) == [""]
    assert told(2) == ["920 µs so far, round 1 of 5", ""]
    speedups = [[case.timed and case.timed.speedup for case in begun_cases(steps[:count])] for count in (2, 3)]
    assert speedups == [[None, None], [2, 2]], "the first round has no speedup yet"
    assert told(4) == ["901 µs so far, round 2 of 5", "3.00 ms so far, round 2 of 5"]
    assert time_so_far(steps[:1]) == ""
    assert time_so_far(steps) == "benchmark 1: 901 µs so far"
    assert time_so_far([replace(steps[1], of=1)]) == "920 µs so far"


def test_a_report_of_a_running_run_has_the_times_so_far_as_a_table_and_from_100_columns_on_as_bars() -> None:
    steps = [_timed(2, 2, 1, 9.01e5)]
    run = run_of(RunState.RUNNING)
    narrow, wide = (plain(run_report(run, None, progress=[_round(1, 5, 1), *steps]), width) for width in (99, 100))
    assert re.search(r"# +SO FAR  REFERENCE  SPEEDUP  CASE\n1 +901 µs +1.80 ms +2.00x  1", narrow)
    assert "█" not in narrow
    own, reference = (line for line in wide.splitlines() if "█" in line)
    assert own.startswith("1  this run    901 µs  ██")
    assert reference.startswith("   reference  1.80 ms  ██")
    assert len(reference) == 100
    assert abs(2 * own.count("█") - reference.count("█")) <= 1


def test_a_list_has_the_round_before_the_case_and_the_message_has_it_only_there() -> None:
    assert place_text(_round(2, 3, 1), short=True) == "round 2/3, benchmark 1/3"
    assert place_text(_again(1, 2), short=True) == "repeat 1/5, benchmark 2/3"
    assert step_text(Progress("", "test", 1, 2, "seed: -4; seeds: 3")) == "test 1 of 2: seeds: 3"
    assert step_text(_round(2, 3, 1)) == "round 2 of 3, benchmark 1 of 3: size: 1"
    assert step_text(_again(1, 2)) == "repeat 1 of 5, benchmark 2 of 3: size: 1, measuring again: busy machine"


def test_a_task_with_its_own_eval_measures_once() -> None:
    assert case_counts(_TASK, Mode.BENCHMARK)["benchmark"] == 3
    assert case_counts(replace(_TASK, limits={"workers": 2}), Mode.RANKED)["benchmark"] == 6
    assert case_counts(replace(_TASK, harness=OWN), Mode.RANKED)["benchmark"] == 3


@pytest.mark.parametrize(
    ("file_name", "tool", "expected"),
    [("k.cu", "", 4), ("k.py", "", 4), ("k.cpp", "", 1), ("k.cu", "racecheck", 1), ("k.cu", "racecheck, memcheck", 2)],
)
def test_a_sanitized_run_has_a_step_for_each_of_its_tools(file_name: str, tool: str, expected: int) -> None:
    run = run_of(RunState.RUNNING, file_name=file_name, mode=Mode.SANITIZE, options=JobOptions(tool=tool))
    assert case_counts(_TASK, Mode.SANITIZE, tools_of(run))["sanitize"] == expected


@pytest.mark.parametrize(("number", "of"), [(0, 0), (9, 3), (999, 0)])
def test_impossible_rounds_of_a_node_stay_on_the_bar(number: int, of: int) -> None:
    found = run_progress(Mode.RANKED, [_round(number, of, 2)], _COUNTS)
    assert found is not None
    assert 0 <= found.done < found.total


@pytest.mark.parametrize("case", [-5, 0, 10**9])
def test_impossible_numbers_of_a_node_stay_on_the_bar(case: int) -> None:
    found = run_progress(Mode.RANKED, _steps(("benchmark", case, 3)), _COUNTS)
    assert found is not None
    assert 0 <= found.done < found.total


def test_the_time_left_is_the_rest_of_the_usual_time() -> None:
    second = timedelta(seconds=1)
    assert time_left(56 * second, 80 * second) == 24 * second
    assert time_left(80 * second, 80 * second) is None
    assert time_left(None, 80 * second) is None
    assert time_left(56 * second, None) is None


_LINE = '{"at": "x", "phase": "benchmark", "case": 1, "of": 2, "message": "", "timed": %s}'
_TIMED = '{"case": 2, "time_ns": %s, "reference_ns": %s}'


@pytest.mark.parametrize(
    "timed",
    [
        "null",
        "[]",
        '"901"',
        '{"case": 2}',
        '{"case": 0, "time_ns": 1, "reference_ns": null}',
        '{"case": true, "time_ns": 1, "reference_ns": null}',
        '{"case": 1000001, "time_ns": 1, "reference_ns": null}',
        *(_TIMED % (time, "null") for time in ("0", "-1", "NaN", "Infinity", "1e19", '"1"', "null", "true", "9" * 400)),
        *(_TIMED % ("1", time) for time in ("0", "NaN", '"1"', "[]", "true")),
    ],
)
def test_a_time_so_far_that_no_case_has_is_no_progress(timed: str) -> None:
    assert _progress((_LINE % timed).encode()) is None


def test_a_time_so_far_is_read_and_older_lines_have_none() -> None:
    found = _progress((_LINE % (_TIMED % ("901000", "null"))).encode())
    assert found == Progress("x", "benchmark", 1, 2, "", TimeSoFar(2, 901_000.0))
    both = _progress((_LINE % (_TIMED % ("1.5", "3"))).encode())
    assert both is not None
    assert both.timed is not None
    assert both.timed.speedup == 2
    former = '{"case": 2, "median_ns": 1.5, "baseline_ns": 3}'
    assert _progress((_LINE % former).encode()) == both
    old = _progress((_LINE.replace(', "timed": %s', "")).encode())
    assert old == Progress("x", "benchmark", 1, 2, "")


@pytest.mark.parametrize("number", ["true", "-1", "1000001", "9" * 4300, "1.5"])
def test_a_number_of_cases_that_no_job_has_is_no_progress(number: str) -> None:
    line = f'{{"at": "x", "phase": "test", "case": 1, "of": {number}, "message": ""}}'
    assert _progress(line.encode()) is None
    assert _progress(line.replace(number, "3").encode()) == Progress("x", "test", 1, 3, "")


def test_no_more_begun_cases_are_listed_than_a_screen_can_draw() -> None:
    steps = [Progress("x", "test", case, 10**6, "size: 1") for case in range(1, 5_000)]
    assert len(list(begun_cases(steps))) == 1000
