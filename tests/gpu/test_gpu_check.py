"""The GPU check as far as a machine without a GPU can tell: its bundle, its pages, and that it refuses."""

import ast
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hpc_board.model.result import Verdict

HERE = Path(__file__).parent
CHECK = HERE.parents[1] / "scripts" / "gpu_check"
CHEATS = sorted((HERE / "cheats").glob("*.py"))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "gpu-check.pyz"
    subprocess.run([sys.executable, CHECK / "bundle.py", path], check=True, capture_output=True)
    return path


def run(bundle: Path, folder: Path, *arguments: str, gpus: str = "") -> "subprocess.CompletedProcess[str]":
    """The check as a node runs it: without this environment's other packages and without a GPU."""
    environ = {"PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": gpus}
    command = [sys.executable, "-I", str(bundle), *arguments]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"gpu_check_{name}", CHECK / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_without_a_gpu_it_says_so_and_writes_nothing(bundle: Path, tmp_path: Path) -> None:
    done = run(bundle, tmp_path)
    assert done.returncode == 3
    assert done.stderr.startswith("gpu-check: no GPU here, so nothing was checked or written: ")
    assert list(tmp_path.iterdir()) == []


def test_it_lists_each_task_in_each_language_and_each_cheat(bundle: Path, tmp_path: Path) -> None:
    lines = run(bundle, tmp_path, "--list").stdout.splitlines()
    assert {"kernel vectoradd_py py: pass", "kernel softmax_py triton: pass", "kernel matmul cu: pass"} <= set(lines)
    assert [line.split()[1] for line in lines if line.startswith("cheat ")] == [path.stem for path in CHEATS]
    assert len(run(bundle, tmp_path, "--list", "--only", "triton").stdout.splitlines()) == 7


def test_a_name_that_could_leave_the_folder_is_refused(bundle: Path, tmp_path: Path) -> None:
    done = run(bundle, tmp_path, "--name", "../x")
    assert done.returncode == 2
    assert "--name takes" in done.stderr


def test_the_check_runs_on_python_3_10() -> None:
    for path in CHECK.glob("*.py"):
        if path.name != "bundle.py":
            ast.parse(path.read_text(), feature_version=(3, 10))


@pytest.mark.parametrize("path", [*CHEATS, *sorted((HERE / "submissions").glob("*.py"))], ids=lambda path: path.stem)
def test_a_submission_is_python_that_defines_the_kernel(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert "custom_kernel" in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize("path", CHEATS, ids=lambda path: path.stem)
def test_a_cheat_names_verdicts_that_there_are(path: Path) -> None:
    code = path.read_text()
    line = next(line for line in code.splitlines() if line.startswith("# Expected: "))
    for word in line.removeprefix("# Expected: ").split(", "):
        Verdict(word)


@pytest.mark.torch
def test_the_cheats_can_be_imported_where_there_is_no_gpu() -> None:
    pytest.importorskip("torch")
    code = "import runpy, sys; [runpy.run_path(path) for path in sys.argv[1:]]"
    subprocess.run([sys.executable, "-c", code, *CHEATS], check=True, env={"CUDA_VISIBLE_DEVICES": ""})


def rows() -> Iterator[dict[str, Any]]:
    kernel = {"kind": "kernel", "name": "softmax", "language": "py", "expected": ["pass"], "message": "", "wall_s": 9.5}
    yield {**kernel, "verdict": "pass", "median_ns": 12_340.0, "baseline_ns": 50_000.0, "isolation": "S4"}
    yield {**kernel, "language": "triton", "verdict": "crash", "message": "bad | news\x1b[2J"}
    yield {"kind": "kernel", "name": "softmax", "language": "cu", "expected": ["pass"], "left_out": "there is no task"}
    cheat = {"kind": "cheat", "name": "hog", "language": "py", "expected": ["out_of_memory"], "wall_s": 3.0}
    yield {**cheat, "verdict": "task_error", "message": "no inputs"}


def test_a_page_shows_what_ran_what_failed_and_what_was_left_out() -> None:
    table = loaded("table")
    clocks = [
        {"kernel": "copy", "clock": "do_bench", "median_ns": 20_000.0, "ours_ns": 21_000.0},
        {"kernel": "copy", "clock": "graph", "left_out": "RuntimeError"},
    ]
    page = table.page({"GPU": "NVIDIA X", "driver": "1"}, list(rows()), clocks)
    assert "| softmax | py | pass | 12.34 | 50.00 | S4 | 9.5 |" in page
    assert "| softmax | triton | **crash**: bad / news [2J |" in page
    assert "| softmax | cu | left out: there is no task |" in page
    assert "| hog | out_of_memory | task_error | **no**: no inputs |" in page
    assert "| copy | do_bench | 20.00 | 1.050 |" in page
    assert "| copy | graph | left out: RuntimeError |" in page
    assert [row["verdict"] for row in table.unexpected(list(rows()))] == ["crash", "task_error"]
