"""`hpc-board task new` and `task test`: a task that is sound as it is, and submissions judged for it right here."""

import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from hpc_board.catalog import new_task
from hpc_board.catalog.folders import read_task
from hpc_board.cli.main import cli
from hpc_board.harness.build.toolchain import HEADER, STD, compiler_variables, header_text
from hpc_board.model.task import Language
from tests.conftest import skip_without
from tests.harness.evaluations import REFERENCE
from tests.unit.recorded import REPOSITORY

DOCUMENT = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
lang: py
description: Double every number.
tests: [{size: 3, seed: 1}]
benchmarks: [{size: 50, seed: 2}]
gpus: [H100]
hpc_board:
  deadline: 2001-01-01
  languages: [py, cpp, cu]
  limits: {timed_calls_min: 3, timed_calls_max: 5, warmup_calls: 1, burst_calls: 5, slack_seconds: 0.1, workers: 1}
"""
RIGHT = """\
#!POPCORN leaderboard something_else
#!POPCORN gpus B200


def custom_kernel(data):
    return [2 * x for x in data]
"""
EVIL = "\x1b]0;owned\x07"


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files; it has to be empty at the end of a test."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def no_board() -> None:
    pytest.fail("the settings were read")


def call(*argv: str | Path) -> Result:
    return CliRunner().invoke(cli, ["task", *map(str, argv)], obj=no_board)


@pytest.fixture
def double(tmp_path: Path) -> Path:
    folder = tmp_path / "double"
    folder.mkdir()
    (folder / "task.yml").write_text(DOCUMENT)
    (folder / "reference.py").write_text(REFERENCE)
    return folder


def kernel(folder: Path, text: str = RIGHT, name: str = "kernel.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


# New

LANGUAGES = [("py",), ("cpp",), ("cu",), ("hip",), ("py", "cpp", "cu", "hip"), ("hip", "py", "hip")]


def new(folder: Path, languages: Sequence[str] = ()) -> Path:
    done = call("new", folder, *(word for each in languages for word in ("--language", each)))
    assert done.exit_code == 0, done.output
    assert done.stdout == ""
    return folder


@pytest.mark.parametrize("languages", LANGUAGES, ids="+".join)
def test_a_new_task_has_a_template_for_each_of_its_languages(tmp_path: Path, languages: tuple[str, ...]) -> None:
    task = read_task(new(tmp_path / "mine", languages))
    assert (task.name, task.harness, task.warnings) == ("mine", "isolated", ())
    assert task.accepted == tuple(dict.fromkeys(map(Language, languages)))
    assert len(task.templates) == len(task.accepted)
    assert ("Compiled:" in task.description) == (set(languages) != {"py"})


@pytest.mark.torch
@pytest.mark.parametrize(("languages", "cases"), [((), 6), (("cu",), 2)], ids=["py", "cu"])
@pytest.mark.slow
def test_a_new_task_is_sound_as_it_is(tmp_path: Path, languages: tuple[str, ...], cases: int) -> None:
    skip_without("torch")
    done = call("check", new(tmp_path / "mine", languages), "--cases", str(cases), "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["findings"] == []
    assert all(case["complete"] for case in told["cases"])
    assert len(told["cases"]) == cases


def test_a_new_task_has_the_same_judge_and_cases_in_every_language(tmp_path: Path) -> None:
    folders = [new(tmp_path / "_".join(languages), languages) for languages in LANGUAGES]
    assert len({(folder / "reference.py").read_text() for folder in folders}) == 1
    tasks = [read_task(folder) for folder in folders]
    assert len({(str(task.tests), str(task.benchmarks)) for task in tasks}) == 1
    assert len(tasks[0].tests) + len(tasks[0].benchmarks) == 6


@pytest.mark.torch
@pytest.mark.parametrize("language", ["py", "cpp"])
@pytest.mark.slow
def test_the_template_of_a_new_task_passes_it(tmp_path: Path, scratch: Path, language: str) -> None:
    skip_without("torch")
    if language == "cpp" and shutil.which("g++") is None:
        pytest.skip("there is no g++")
    folder = new(tmp_path / "mine", [language])
    done = call("test", folder, "--submission", folder / f"template.{language}")
    assert done.exit_code == 0, done.output
    assert "Passed: 4 tests." in done.stdout
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("language", "compiler", "options"),
    [("cpp", "g++", ()), ("cu", "nvcc", ()), ("hip", "hipcc", ("--offload-arch=gfx90a",))],
)
@pytest.mark.slow
def test_the_template_of_a_new_task_compiles(
    tmp_path: Path, language: str, compiler: str, options: tuple[str, ...]
) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    folder = new(tmp_path / "mine", [language])
    (tmp_path / HEADER).write_text(header_text())
    source, out = folder / f"template.{language}", tmp_path / "out.o"
    subprocess.run(
        [compiler, f"-std={STD}", *options, "-c", "-I", tmp_path, source, "-o", out],
        env={**os.environ, **compiler_variables(Language(language))},
        check=True,
        timeout=200,
    )


def test_a_new_task_never_touches_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("file", "folder", "link"):
        done = call("new", tmp_path / name)
        assert done.exit_code == 2
        assert "already exists" in done.stderr
    assert (tmp_path / "file").read_text() == "mine"
    assert list((tmp_path / "folder").iterdir()) == []
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("name", ["my task", "-x", "_x", "x" * 65, EVIL])
def test_a_new_task_has_a_name_that_a_task_can_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    done = call("new", "--", name)
    assert done.exit_code == 2
    assert "is not a valid task name" in done.stderr
    assert "\x1b" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_new_task_that_cannot_be_written_whole_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_task, "files", lambda _: {"a": "1", "no/such/folder": "2"})
    done = call("new", tmp_path / "mine")
    assert done.exit_code == 2
    assert "cannot be written" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_every_file_of_a_new_task_but_the_notes_belongs_to_it(tmp_path: Path) -> None:
    folder = new(tmp_path / "mine", ["py", "cpp"])
    task = yaml.safe_load((folder / "task.yml").read_text())
    named = {file["source"] for file in task["files"]} - {"@SUBMISSION@"} | set(task["templates"].values())
    assert {path.name for path in folder.iterdir()} == named | {"task.yml", new_task.NOTES}
    assert "$" not in (folder / "task.yml").read_text() + (folder / new_task.NOTES).read_text()


@pytest.fixture(scope="module")
def helpers() -> dict[str, Any]:
    skip_without("torch")
    return runpy.run_path(str(REPOSITORY / "task_starter/utils.py"))


@pytest.mark.torch
@pytest.mark.parametrize(
    ("received", "expected", "close", "equal"),
    [
        ([1.0, 2.0], [1.0, 2.0], True, True),
        ([1.0, 2.00001], [1.0, 2.0], True, False),
        ([1.0, 2.1], [1.0, 2.0], False, False),
        ([1.0, float("nan")], [1.0, 2.0], False, False),
        ([1.0, 2.0], [1.0, float("nan")], False, False),
        ([1.0, float("nan")], [1.0, float("nan")], True, False),
        ([1.0, float("inf")], [1.0, float("inf")], True, True),
        ([1.0, float("-inf")], [1.0, float("inf")], False, False),
        ([1.0, 1e30], [1.0, float("inf")], False, False),
        ([1.0, float("inf")], [1.0, 1e30], False, False),
        ([True, False], [True, False], True, True),
        ([1, 2, 3], [1, 2], False, False),
        ([[1.0, 2.0]], [1.0, 2.0], False, False),
        ([], [], True, True),
    ],
)
def test_the_helpers_of_a_new_task_compare_as_they_say(
    helpers: dict[str, Any], received: list[Any], expected: list[Any], close: bool, equal: bool
) -> None:
    import torch

    pair = torch.tensor(received), torch.tensor(expected)
    for name, wanted in (("verbose_allclose", close), ("verbose_allequal", equal)):
        right, faults = helpers[name](*pair)
        assert (right, bool(faults)) == (wanted, not wanted), name
    right, message = helpers["match_reference"](pair[1], pair[0], lambda data: data)
    assert (right, bool(message)) == (close, not close)
    assert helpers["make_match_reference"](lambda data: data)(pair[1], pair[0]) == (right, message)


@pytest.mark.torch
def test_the_helpers_say_how_many_elements_are_wrong_and_which_come_first(helpers: dict[str, Any]) -> None:
    import torch

    expected = torch.zeros(3, 4)
    received = expected.clone()
    received[1:] = 1
    assert helpers["verbose_allclose"](received, expected, max_print=2) == (
        False,
        ["8 of 12 elements are wrong", "at [1, 0]: expected 0, got 1", "at [1, 1]: expected 0, got 1"],
    )
    assert helpers["verbose_allclose"]([0.0], expected) == (False, ["expected a torch.Tensor, got list"])


@pytest.mark.torch
def test_each_element_has_its_own_tolerance_and_the_type_of_the_answer(helpers: dict[str, Any]) -> None:
    import torch

    expected = torch.tensor([1.0, 100.0], dtype=torch.float64)
    tolerance = torch.tensor([0.01, 1.0], dtype=torch.float64)
    assert helpers["close"](torch.tensor([1.005, 100.9]), expected, tolerance) == (True, "")
    for wrong in (torch.tensor([1.05, 100.0]), torch.tensor([1.0, float("nan")]), torch.tensor([1.0])):
        assert not helpers["close"](wrong, expected, tolerance)[0]
    assert "float64" in helpers["close"](expected, expected, tolerance)[1]
    assert helpers["close"](expected, expected, tolerance, torch.float64) == (True, "")


# Test


def test_a_submission_is_judged_for_a_folder_that_is_on_no_board(double: Path, scratch: Path) -> None:
    done = call("test", double, "--submission", kernel(double))
    assert done.exit_code == 0, done.output
    assert "Judging kernel.py for double in mode test, on this machine's CPU." in done.stderr
    assert "kernel.py for double, mode test, on this machine's CPU" in done.stdout
    assert "Passed: 1 test." in done.stdout
    assert "hpc-board run" not in done.stdout
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "verdict", "words"),
    [
        (RIGHT.replace("2 * x", "3 * x"), "wrong_value", "Failed: wrong value"),
        (
            RIGHT.replace("return", "print('\\x1b]0;owned\\x07')\n    return") + "1 / 0\n",
            "load_error",
            "ZeroDivisionError",
        ),
        ("import os\ndef custom_kernel(data):\n    os._exit(1)\n", "crash", "Failed: crashed;"),
    ],
)
@pytest.mark.slow
def test_a_submission_that_does_not_pass_ends_with_status_1(
    double: Path, scratch: Path, text: str, verdict: str, words: str
) -> None:
    file = kernel(double, text)
    done = call("test", double, "--submission", file)
    assert done.exit_code == 1
    assert words in done.stdout
    assert "\x1b" not in done.stdout
    told = json.loads(call("test", double, "--submission", file, "--json").stdout)
    assert (told["task"], told["mode"], told["verdict"]) == ("double", "test", verdict)
    assert list(scratch.iterdir()) == []


def test_a_task_that_fails_by_itself_ends_with_status_1(double: Path) -> None:
    (double / "reference.py").write_text(REFERENCE.replace("rng.uniform(1, 2)", "1 / 0"))
    done = call("test", double, "--submission", kernel(double))
    assert done.exit_code == 1
    assert "Not evaluated: task error;" in done.stdout
    assert "ZeroDivisionError" in done.stdout


def test_what_does_not_fit_together_is_refused_before_anything_runs(double: Path, scratch: Path) -> None:
    file = kernel(double)
    refused = {
        "no such file": (double, double / "nothing.py"),
        "accepts only the languages py, cpp, cu": (double, kernel(double, name="kernel.hip")),
        "which does not run on CPU": (double, kernel(double, name="kernel.cu")),
        "nowhere does not exist": (double / "nowhere", file),
    }
    for message, (source, submission) in refused.items():
        done = call("test", source, "--submission", submission)
        assert done.exit_code == 2, (message, done.output)
        assert message in done.stderr
        assert done.stdout == ""
    done = call("test", double, "--submission", file, "--mode", "rankd")
    assert done.exit_code == 2
    assert 'Did you mean "ranked"?' in done.stderr
    assert list(scratch.iterdir()) == []


def test_a_python_that_is_none_ends_with_status_3(double: Path, scratch: Path) -> None:
    done = call("test", double, "--submission", kernel(double), "--python", "/nowhere/python")
    assert done.exit_code == 3
    assert "/nowhere/python cannot be started" in done.stderr
    assert list(scratch.iterdir()) == []


def test_a_python_that_is_no_python_ends_with_status_3(double: Path, scratch: Path) -> None:
    done = call("test", double, "--submission", kernel(double), "--python", "/bin/true")
    assert done.exit_code == 3
    assert "the harness left no result (exit status 0)" in done.stderr
    assert list(scratch.iterdir()) == []


def test_an_interrupted_trial_leaves_neither_files_nor_processes(double: Path, scratch: Path) -> None:
    endless = "import time\n\n\ndef custom_kernel(data):\n    while True:\n        time.sleep(1)\n"
    process = subprocess.Popen(
        [sys.executable, "-m", "hpc_board", "task", "test", str(double), "--submission", str(kernel(double, endless))],
        env={**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list(scratch.rglob("progress.jsonl")):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert list(scratch.iterdir()) == []
