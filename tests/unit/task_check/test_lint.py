"""`hpc-board task check`: where a task comes from, what is said of it before it runs, and how the command ends."""

import json
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from hpc_board.catalog.folders import read_task
from hpc_board.cli.main import cli
from hpc_board.domain.diagnostic import Severity
from hpc_board.domain.run import RunState
from hpc_board.model.lint import PROBES, CheckedCase, CheckedSubmission, Lint, Probed
from hpc_board.model.result import Verdict
from hpc_board.model.task import TaskFile
from hpc_board.report.checks import check_report
from hpc_board.report.plain import plain
from hpc_board.store.task_rows import task_definition, task_value
from hpc_board.task_check.lint import Bounds, check, findings, findings_of_submissions, hidden_seeds, sizes
from tests.harness.evaluations import REFERENCE, a_task
from tests.harness.own_evals import own_task
from tests.unit.recorded import Recorded, call, result_of, status_of
from tests.values import replace

DOCUMENT = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
lang: py
description: Double every number.
tests: [{size: 3, seed: 1}]
benchmarks: [{size: 53, seed: 2}]
"""
EVIL = "\x1b]0;owned\x07\x1b[31mred"


def folder(board: Recorded, reference: str = REFERENCE, document: str = DOCUMENT, name: str = "double") -> Path:
    """A task among those of the board."""
    path = board.folder / "tasks" / name
    path.mkdir(parents=True)
    (path / "task.yml").write_text(document)
    (path / "reference.py").write_text(reference)
    return path


# The command


def test_a_sound_task_is_checked_by_its_folder_and_by_its_name(board: Recorded) -> None:
    path = folder(board)
    for source in (path, "double"):
        done = call(board, "task", "check", source)
        assert done.exit_code == 0, done.output
        assert "No errors." in done.stdout
        assert "zeros" in done.stdout


def test_a_folder_is_read_without_any_settings(board: Recorded) -> None:
    def no_board() -> None:
        pytest.fail("the settings were read")

    done = CliRunner().invoke(cli, ["task", "check", str(folder(board))], obj=no_board)
    assert done.exit_code == 0, done.output


def test_a_terminal_shows_the_present_step(board: Recorded) -> None:
    reader, writer = pty.openpty()
    command = [sys.executable, "-m", "hpc_board", "task", "check", str(folder(board))]
    # Without stderr's reader, a full terminal would stop the command.
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=writer) as process:
        os.close(writer)
        shown = b""
        with suppress(OSError):
            while part := os.read(reader, 4096):
                shown += part
    os.close(reader)
    assert process.returncode == 0
    assert b"judge: " in shown


def test_a_task_that_lets_submissions_cheat_ends_with_status_1_and_says_how(board: Recorded) -> None:
    path = folder(board, REFERENCE.replace("< 1e-9", "< 100"))
    done = call(board, "task", "check", path)
    assert done.exit_code == 1
    assert "zeros: the check accepts it on test 1 (size: 3; seed: 1) and 1 more" in done.stdout
    assert "error    accepts_zeros" in done.stdout
    found = json.loads(call(board, "task", "check", path, "--json").stdout)
    assert (found["task"], found["passed"]) == ("double", False)
    zeros = next(probe for probe in found["cases"][0]["probes"] if probe["probe"] == "zeros")
    assert (zeros["expected"], zeros["verdict"], zeros["right_answer"]) == ("refused", "pass", False)
    assert {"accepts_zeros", "accepts_mean"} <= {finding["subject"] for finding in found["findings"]}
    assert all(finding["advice"] for finding in found["findings"])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("./nowhere", "nowhere does not exist"),
        ("nowhere.zip", "nowhere.zip does not exist"),
        ("./kernel.toml", "kernel.toml is not a task folder or task file"),
        ("empty", "empty contains no task: task.yml is missing"),
        ("vectoraddpy", 'Did you mean "vectoradd_py"?'),
    ],
)
def test_a_source_that_is_none_ends_with_status_2(
    board: Recorded, monkeypatch: pytest.MonkeyPatch, source: str, message: str
) -> None:
    monkeypatch.chdir(board.folder)
    (board.folder / "empty").mkdir()
    (board.folder / "kernel.toml").touch()
    done = call(board, "task", "check", source)
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_task_called_check_is_shown_by_the_long_form(board: Recorded) -> None:
    folder(board, name="check")
    assert "Task check" in call(board, "task", "show", "check").stdout


def test_a_task_is_shown_as_before_whatever_comes_first(board: Recorded) -> None:
    folder(board)
    shown = call(board, "task", "double").stdout
    assert "Double every number." in shown
    assert call(board, "task", "show", "double").stdout == shown
    assert call(board, "task", "--file", "reference.py", "double").stdout == REFERENCE
    assert json.loads(call(board, "task", "--json", "double").stdout)["name"] == "double"
    assert call(board, "task").exit_code == 2


def offered(*words: str) -> list[str]:
    """Return the completions of the last of these words in a shell."""
    completion = ShellComplete(cli, {}, "hpc-board", "X")
    return [item.value for item in completion.get_completions(list(words[:-1]), words[-1])]


def test_a_shell_is_offered_tasks_and_commands(board: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(board.folder)
    monkeypatch.delenv("HPC_BOARD_CONFIG", raising=False)

    assert offered("task", "che") == ["check"]
    assert offered("task", "softm") == ["softmax_py"]
    assert offered("task", "check", "softm") == offered("task", "show", "softm") == ["softmax_py"]
    assert offered("task", "vectoradd_py", "--fil") == ["--file"]
    assert offered("help", "ta") == ["task"]
    assert offered("help", "task", "ch") == ["check"]
    assert offered("help", "submit", "") == []


def test_a_shell_is_offered_modes_and_the_numbers_of_runs(board: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(board.folder)
    monkeypatch.delenv("HPC_BOARD_CONFIG", raising=False)

    assert offered("run", "") == []
    assert not (board.folder / "board").exists()
    board.add(result=result_of(Verdict.PASS))
    going = board.add(status_of(RunState.RUNNING))
    assert offered("submit", "k.py", "--mode", "") == ["test", "benchmark", "profile", "sanitize", "ranked"]
    assert offered("submit", "k.py", "--mode", "R") == ["ranked"]
    assert offered("run", "") == ["2", "1"]
    assert offered("watch", "") == offered("cancel", "") == offered("cancel", "1", "") == [str(going.id)]
    assert offered("code", "2") == [str(going.submission)]


def test_unknown_keys_are_told_when_tasks_are_listed_and_checked(board: Recorded) -> None:
    path = folder(board, document=DOCUMENT + "milestones: 3\ntest_timeuot: 4\n")
    listed = call(board, "list")
    assert listed.exit_code == 0
    assert "double: task.yml, line 8: unknown key milestones is ignored" in listed.stderr
    assert "1 more: hpc-board task check double" in listed.stderr
    done = call(board, "task", "check", path)
    assert done.exit_code == 0
    assert "line 8: unknown key milestones is ignored" in done.stdout
    assert 'line 9: unknown key test_timeuot is ignored. Did you mean "test_timeout"?' in done.stdout


# Findings before a run


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({"tests": (), "benchmarks": ()}, {"no_cases"}),
        ({"reference": "def generate_input(:\n"}, {"syntax"}),
        ({"multi_gpu": True}, {"not_run"}),
    ],
)
def test_a_task_that_cannot_be_judged_is_found_without_running_it(changes: dict[str, Any], codes: set[str]) -> None:
    found = check(a_task(**changes), Bounds(python="/nowhere/python"))
    assert {finding.subject for finding in found.findings} == codes
    assert not found.passed


@pytest.mark.parametrize(
    ("reference", "advice"),
    [
        (REFERENCE, "Set hpc_board.harness to isolated"),
        ("from utils import generate_input\n", "reference.py must define check_implementation."),
        (None, "write a reference.py that defines generate_input, check_implementation and ref_kernel."),
    ],
)
def test_a_task_with_its_own_eval_is_told_what_the_isolated_judge_would_need(
    reference: str | None, advice: str
) -> None:
    task = own_task()
    files = [file for file in task.files if file.name != "reference.py"]
    more = [] if reference is None else [TaskFile("reference.py", reference)]
    found = check(replace(task, files=(*files, *more)), Bounds(python="/nowhere/python"))
    assert found.passed
    (finding,) = found.findings
    assert finding.subject == "own_eval"
    assert advice in finding.hint


def test_what_is_missing_but_not_needed_is_a_warning() -> None:
    found = check(a_task(description=" ", benchmarks=()), Bounds())
    assert found.passed
    assert [finding.subject for finding in found.findings] == ["no_description", "no_benchmarks"]


def test_functions_are_found_however_they_are_defined() -> None:
    reference = "from task import ref_kernel\ntry:\n    import numpy\nexcept ImportError:\n    minimal_work = None\n"
    found = check(a_task(reference), Bounds())
    assert found.functions == ("ref_kernel", "minimal_work")


# Findings from the facts


def case(phase: str, index: int, **verdicts: str) -> CheckedCase:
    probed = tuple(Probed(name, verdict, "", same=False) for name, verdict in verdicts.items())
    return CheckedCase(phase, index, "size: 1", probed=probed)


def test_cases_that_fail_are_one_finding_with_the_first_failure() -> None:
    failed = [CheckedCase("test", index, f"size: {index}", failure=f"ValueError: {index}") for index in range(3)]
    (finding,) = findings(Lint(cases=(*failed, case("benchmark", 0))), ())
    assert finding.message == "test 1 (size: 0) and 2 more: ValueError: 0"


def codes(*cases: CheckedCase, accepts: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    found = findings(Lint(cases=cases), accepts)
    return [(str(finding.severity), finding.subject) for finding in found]


def test_an_answer_that_passes_is_an_error_where_somebody_gains_by_it() -> None:
    refused, passed = {"zeros": "wrong_value"}, {"zeros": "pass"}
    assert codes(case("test", 0, **passed), case("test", 1, **refused)) == [("warning", "accepts_zeros")]
    assert codes(case("test", 0, **passed), case("test", 1, **passed)) == [("error", "accepts_zeros")]
    assert codes(case("test", 0, **refused), case("benchmark", 0, **passed)) == [("error", "accepts_zeros")]
    assert codes(case("test", 0, **refused)) == []


def test_an_answer_that_cannot_be_made_or_is_the_right_one_counts_for_nothing() -> None:
    same = replace(case("test", 1), probed=(Probed("zeros", "pass", "", same=True),))
    unmade = case("test", 2, zeros="unmade")
    assert codes(same, unmade) == []
    assert codes(case("test", 0, zeros="pass"), same, unmade) == [("error", "accepts_zeros")]


def test_float16_stands_for_tf32_too() -> None:
    passed = case("benchmark", 0, inputs_tf32="pass", inputs_float16="pass")
    assert codes(passed, accepts=("float16",)) == []
    assert codes(passed, accepts=("tf32",)) == [("error", "accepts_inputs_float16")]
    assert [PROBES["input_1"].expected(each) for each in ((), ("float16", "input"))] == ["refused", "any"]


def test_a_reference_that_differs_the_second_time_is_a_warning() -> None:
    same = replace(case("test", 0), probed=(Probed("again", "pass", "", same=True),))
    assert codes(same, case("test", 1, again="pass")) == [("warning", "unsteady_reference")]
    assert codes(same) == []


def test_a_reference_that_raises_for_a_seed_of_a_template_is_a_fault_of_the_task() -> None:
    failed = replace(case("test", 0), failure="ValueError: no such size")
    (finding,) = findings_of_submissions([CheckedSubmission("template Python", Lint(cases=(failed,)))])
    assert (finding.severity, finding.subject) == (Severity.ERROR, "raises")
    assert finding.message == "template Python: test 1 (size: 1): ValueError: no such size"
    assert finding.hint.startswith("Correct the key of task.yml or the function that the message names")


@pytest.mark.parametrize(
    ("numbers", "lack"),
    [
        ((64, 256, 4096), "no odd one, and no tail (all are multiples of 64)"),
        ((1, 64, 98), "no odd one from 32 on"),
        ((9, 33, 4095), "no prime"),
        ((64, 127, 4096), ""),
        ((64,), ""),
        ((2, 8), ""),
        ((0, 64), ""),
    ],
)
def test_kinds_of_sizes_that_no_case_has_are_a_warning(numbers: tuple[int, ...], lack: str) -> None:
    cases = tuple({"size": number, "seed": 2 * index} for index, number in enumerate(numbers))
    found = [each.message for each in sizes(a_task(tests=cases[:1], benchmarks=cases[1:]))]
    assert found == ([f"no case has some kinds of sizes: size: {lack}"] if lack else [])


@pytest.mark.parametrize(
    ("tests", "benchmarks", "is_guessed"),
    [
        ([], [], False),
        ([{"size": 9, "seed": 2**40 - 1}], [{"size": 9, "seed": 7}], True),
        ([{"size": 9}], [], True),
        ([{"size": 9, "seed": 7}], [{"size": 9, "seed": 2**40}], False),
    ],
)
def test_hidden_cases_without_a_long_seed_are_an_error(
    tests: list[dict[str, int]], benchmarks: list[dict[str, int]], is_guessed: bool
) -> None:
    found = [*hidden_seeds(a_task(hidden_tests=tests, hidden_benchmarks=benchmarks))]
    assert [(each.severity, each.subject) for each in found] == [(Severity.ERROR, "hidden_seeds")] * is_guessed


# The report, and its copy on disk


def test_a_report_has_the_margins_of_a_task_and_of_its_submissions() -> None:
    def passed(*margins: int | None) -> Lint:
        probes = [Probed("inputs_ulp", "pass", "", same=each is None, margin=each, seeds=4) for each in margins]
        return Lint(cases=tuple(replace(case("test", index), probed=(each,)) for index, each in enumerate(probes)))

    tried = (
        CheckedSubmission("template Python", passed(1024, 1024)),
        CheckedSubmission("template C++", passed(None)),
        CheckedSubmission("m", Lint(), "no"),
    )
    shown = plain(check_report(a_task(), (), passed(8, None, 32), tried, ()))
    assert re.search(r"inputs 1 ulp off +passes +passes +8x +all", shown)
    assert re.search(r"template Python +passes +1,024x or more +4 +all", shown)
    assert re.search(r"template C\+\+ +passes +exact +4 +test 1", shown)
    assert re.search(r"Left out\nm +no", shown)


def test_a_report_shows_nothing_raw() -> None:
    task = a_task(description=EVIL)
    evil = replace(case("test", 0, reference=EVIL), spec=EVIL, failure=EVIL)
    lint = Lint(message=EVIL, cases=(evil,), printed=EVIL)
    shown = plain(check_report(task, (), lint, (), tuple(findings(lint, ()))))
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "red" in shown


def test_a_report_says_what_was_left_out() -> None:
    unfinished = replace(case("test", 0, zeros="wrong_value"), left_out="the time limit was reached")
    shown = plain(check_report(a_task(), (), Lint(cases=(unfinished,)), (), ()))
    assert "test 1  the time limit was reached" in shown
    assert "No errors in what was checked." in shown


def test_what_a_task_accepts_is_read_kept_and_no_part_of_its_version(board: Recorded) -> None:
    declared = DOCUMENT + "hpc_board: {accepts: [float16, one_element]}\n"
    task = read_task(folder(board, document=declared))
    assert task.accepts == ("float16", "one_element")
    assert task_value({"name": task.name, "definition": task_definition(task)}) == task
    assert task.version == replace(task, accepts=()).version
    done = call(board, "task", "check", folder(board, document=declared.replace("float16", "float15"), name="b"))
    assert done.exit_code == 2
    assert 'found "float15". Did you mean "float16"?' in done.stderr
