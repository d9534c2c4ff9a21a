"""`run --inputs`: the inputs of a public test by the task's own generator, in the harness; secret ones are refused."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from hpc_board import Board
from hpc_board.model.result import PUBLIC_PASSED, Case, Verdict
from hpc_board.model.task import Mode
from tests.unit.recorded import Recorded, call, result_of

pytestmark = pytest.mark.slow
of_files = pytest.mark.files_alone("a service does not send the files of tasks")

TASK = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
lang: py
description: A task with several kinds of inputs.
gpus: [CPU]
tests:
  - {size: 3, seed: 7}
  - {size: 5, seed: 8}
benchmarks:
  - {size: 9, seed: 9}
"""
REFERENCE = """
import os
import numpy as np

def generate_input(size, seed):
    rng = np.random.default_rng(seed)
    return rng.random((size, 2), dtype=np.float32), {"scale": 1.5, "n": [size, rng.integers(0, 9, size)]}, "x"

def ref_kernel(data):
    return data[0] * data[1]["scale"]

def check_implementation(data, output):
    return True, ""
"""
CASES = (Case("test", 0, "size: 3; seed: 7", Verdict.WRONG_VALUE, "at 0"),)


@pytest.fixture
def board(board: Recorded) -> Recorded:
    folder = board.folder / "tasks" / "kinds"
    folder.mkdir(parents=True)
    (folder / "task.yml").write_text(TASK)
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "task.py").write_text("X = 1\n")
    return board


def inputs(board: Recorded, case: int, path: Path) -> Any:
    return call(board, "run", "1", "--case", str(case), "--inputs", str(path))


def read(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The header of a file in the format safetensors, and the bytes of its tensors."""
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    head, rest = json.loads(data[8:end]), data[end:]
    spans = {name: each["data_offsets"] for name, each in head.items() if name != "__metadata__"}
    return head, {name: rest[begin:finish] for name, (begin, finish) in spans.items()}


@of_files
def test_the_inputs_of_a_public_test_are_a_file(board: Recorded, tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    board.add(result=result_of(Verdict.WRONG_VALUE, *CASES), mode=Mode.TEST, task="kinds")
    path = tmp_path / "case.safetensors"
    done = inputs(board, 1, path)
    assert (done.exit_code, done.stdout) == (0, ""), done.output
    head, tensors = read(path)
    rng = numpy.random.default_rng(7)
    assert tensors["data[0]"] == rng.random((3, 2), dtype=numpy.float32).tobytes()
    assert tensors["data[1]['n'][1]"] == rng.integers(0, 9, 3).tobytes()
    assert head["data[0]"] == {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]}
    assert json.loads(head["__metadata__"]["data"]) == [
        {"$tensor": "data[0]"},
        {"scale": 1.5, "n": [3, {"$tensor": "data[1]['n'][1]"}]},
        "x",
    ]
    assert head["__metadata__"]["case"] == "size: 3; seed: 7"
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    for existing in (path, link):
        again = inputs(board, 1, existing)
        assert (again.exit_code, "already exists" in again.stderr) == (2, True)


@of_files
def test_python_writes_the_inputs(board: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numpy")
    monkeypatch.setenv("XDG_STATE_HOME", str(board.folder / "state"))
    run = board.add(result=result_of(Verdict.WRONG_VALUE, *CASES), mode=Mode.TEST, task="kinds")
    scripted = Board(board.settings)
    path = scripted.inputs(scripted.run(run.id), 2, tmp_path / "two")
    assert read(path)[0]["data[0]"]["shape"] == [5, 2]


@of_files
def test_secret_inputs_and_those_of_another_task_are_refused(board: Recorded, tmp_path: Path) -> None:
    secret = Case("test", 0, "size: 3; seed: 7", Verdict.WRONG_VALUE, f"{PUBLIC_PASSED}: at 0")
    board.add(result=result_of(Verdict.WRONG_VALUE, secret), task="kinds")
    words = {
        1: (5, "test 1 failed with a secret seed, and its inputs stay secret"),
        3: (2, "there is no test 3: task kinds has 2"),
    }
    for case, (code, message) in words.items():
        done = inputs(board, case, tmp_path / "file")
        assert (done.exit_code, message in " ".join(done.stderr.split())) == (code, True), done.output
    reference = board.folder / "tasks" / "kinds" / "reference.py"
    reference.write_text(REFERENCE + "# changed\n")
    done = inputs(board, 2, tmp_path / "file")
    assert (done.exit_code, "task kinds has changed since run 1" in done.stderr) == (2, True), done.output
    assert not (tmp_path / "file").exists()


@of_files
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch_that_is_missing\n" + REFERENCE, "No module named 'torch_that_is_missing'"),
        (REFERENCE.replace("return rng", "raise KeyError(size)\n    return rng"), "generate_input fails: KeyError: 3"),
        (REFERENCE.replace("dtype=np.float32", "dtype=np.float32) * (1 + 0j"), "complex64, which safetensors files"),
    ],
    ids=["library", "exception", "type"],
)
def test_a_generator_that_does_not_run_here_is_told(
    board: Recorded, tmp_path: Path, source: str, expected: str
) -> None:
    pytest.importorskip("numpy")
    (board.folder / "tasks" / "kinds" / "reference.py").write_text(source)
    board.add(result=result_of(Verdict.WRONG_VALUE, *CASES), mode=Mode.TEST, task="kinds")
    done = inputs(board, 1, tmp_path / "file")
    assert (done.exit_code, expected in " ".join(done.stderr.split())) == (3, True), done.output
    assert not (tmp_path / "file").exists()


def test_a_service_sends_no_files_of_a_task(board: Recorded, tmp_path: Path) -> None:
    board.add(result=result_of(Verdict.WRONG_VALUE, *CASES), mode=Mode.TEST, task="kinds")
    done = inputs(board, 1, tmp_path / "file")
    refused = "the service does not send the files of task kinds" in done.stderr
    assert (refused, (tmp_path / "file").exists()) == (board.services is not None, board.services is None)


@pytest.mark.parametrize(
    "words",
    [("--case", "1"), ("--inputs", "f"), ("--python", sys.executable), ("--case", "1", "--inputs", "f", "--json")],
)
def test_options_of_inputs_belong_together(board: Recorded, words: tuple[str, ...]) -> None:
    assert call(board, "run", "1", *words).exit_code == 2
