"""The GPU check as far as a machine without a GPU can tell: its bundle, its pages, and that it refuses."""

import ast
import hashlib
import importlib.util
import json
import re
import runpy
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hpc_board.harness.device.device import CudaDevice
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from tests.harness.evaluations import a_task, make_job_folder
from tests.harness.harness_file import harness_file
from tests.harness.test_device import Gpu

HERE = Path(__file__).parent
CHECK = HERE.parents[1] / "scripts" / "gpu_check"
RIGHT = "def custom_kernel(data):\n    return [2 * number for number in data]\n"
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
    """A script of the check, which finds the others beside it as it does in the bundle."""
    if str(CHECK) not in sys.path:
        sys.path.insert(0, str(CHECK))
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
    assert len(run(bundle, tmp_path, "--list", "--only", "triton").stdout.splitlines()) == 13
    ordered = run(bundle, tmp_path, "--list", "--only", "matmul triton", "--only", "patched", "--only", "matmul")
    names = [line.partition(":")[0] for line in ordered.stdout.splitlines()]
    assert names[:2] == ["kernel matmul triton", "cheat patched_events py"]
    assert len(names) == len(set(names)) > 4


def test_every_run_has_the_files_that_its_harness_looks_for(bundle: Path) -> None:
    with zipfile.ZipFile(bundle) as archive:
        entries = json.loads(archive.read("entries.json"))
        harness = hashlib.sha256(archive.read("harness.pyz")).hexdigest()
    languages = set()
    for entry in entries:
        if entry.get("left_out"):
            continue
        facts = json.loads(entry["files"]["job.json"])
        code = entry["files"][f"submission/{facts['task']['submission']}"]
        assert facts["sha256"]["submission"] == hashlib.sha256(code.encode()).hexdigest()
        assert facts["sha256"]["harness"] == harness
        assert {f"task/{name}" for name in facts["task"]["files"]} <= set(entry["files"])
        assert facts["device"] == "cuda"
        languages.add((entry["language"], facts["task"]["language"]))
    assert languages == {("py", "py"), ("triton", "py"), ("cu", "cu")}


def test_a_name_that_could_leave_the_folder_is_refused(bundle: Path, tmp_path: Path) -> None:
    done = run(bundle, tmp_path, "--name", "../x")
    assert done.returncode == 2
    assert "--name takes" in done.stderr


def test_the_check_runs_on_python_3_10() -> None:
    for path in CHECK.glob("*.py"):
        if path.name != "bundle.py":
            ast.parse(path.read_text(), feature_version=(3, 10))


def test_an_older_python_can_read_as_far_as_the_refusal() -> None:
    tree = ast.parse((CHECK / "check.py").read_text(), feature_version=(3, 7))
    lines = [ast.unparse(node).partition("\n")[0] for node in tree.body]
    assert lines.index("if sys.version_info < (3, 10):") < lines.index("import table")


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
    measured = {"median_ns": 12_340.0, "low_ns": 12_000.0, "high_ns": 13_000.0, "baseline_ns": 50_000.0}
    yield {**kernel, "verdict": "pass", **measured, "clock": "judge", "isolation": "S4"}
    yield {**kernel, "language": "triton", "verdict": "crash", "message": "bad | news\x1b[2J"}
    yield {"kind": "kernel", "name": "softmax", "language": "cu", "expected": ["pass"], "left_out": "there is no task"}
    yield {**kernel, "kind": "clock", "name": "copy", "verdict": "pass", "median_ns": 21_000.0}
    cheat = {"kind": "cheat", "name": "hog", "language": "py", "expected": ["out_of_memory"], "wall_s": 3.0}
    yield {**cheat, "verdict": "task_error", "message": "no inputs"}


def a_run(folder: Path, code: str, **entry: Any) -> dict[str, Any]:
    """A run of a bundle, on a CPU where the check's own are for a GPU."""
    job = make_job_folder(folder, code, a_task(), Mode.RANKED)
    files = {
        str(path.relative_to(job)): path.read_text() for path in job.rglob("*.*") if path.suffix in (".json", ".py")
    }
    return {"kind": "kernel", "name": "double", "language": "py", "expected": ["pass"], "files": files, **entry}


def test_every_run_is_made_and_its_page_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = loaded("check")
    pages: list[str] = []
    row_of = check.row_of

    def noted(*arguments: Any) -> Any:
        pages.append((tmp_path / "out" / "gpu-nvidia-x.md").read_text())
        return row_of(*arguments)

    monkeypatch.setattr(check, "row_of", noted)
    entries = [
        a_run(tmp_path / "right", RIGHT),
        a_run(
            tmp_path / "echo",
            "def custom_kernel(data):\n    return data\n",
            kind="cheat",
            name="echo",
            expected=["wrong_value"],
        ),
        a_run(tmp_path / "triton", RIGHT, language="triton"),
        a_run(tmp_path / "cu", RIGHT, language="cu"),
    ]
    with zipfile.ZipFile(tmp_path / "bundle.pyz", "w") as archive:
        archive.writestr("harness.pyz", harness_file())
        archive.write(CHECK / "compare.py", "compare.py")
    found = {"gpu": "NVIDIA X", "torch": "2.9", "triton": None, "runtime": "13.0", "nvcc": ""}
    with zipfile.ZipFile(tmp_path / "bundle.pyz") as bundle:
        status = check.checked(bundle, entries, found, tmp_path / "out", None)
    page = (tmp_path / "out" / "gpu-nvidia-x.md").read_text()
    assert status == 1, "the other clocks need a GPU"
    assert "runs 4." in page
    assert re.search(r"^\| double \| py \| pass \| [0-9. to|]+ \|  \| S\d \| \d+\.\d \|$", page, re.MULTILINE)
    assert "| echo | wrong_value | wrong_value | yes |" in page
    assert "| double | triton | left out: this Python has no Triton |" in page
    assert "| double | cu | left out: there is no nvcc in PATH, CUDA_HOME or /usr/local/cuda |" in page
    assert ["pass" in each for each in pages] == [False, True, True, True], "a check that is ended leaves what it had"
    assert "runs 3 of 4, then it was ended." in pages[-1]


def test_nvcc_is_found_where_the_harness_is_told_to_look(tmp_path: Path) -> None:
    check = loaded("check")
    for name in ("path", "home", "usual"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "nvcc").touch(0o755)
    usual, missing = tmp_path / "usual", tmp_path / "missing"
    path, home = {"PATH": str(tmp_path / "path" / "bin")}, {"CUDA_HOME": str(tmp_path / "home")}
    assert check.nvcc({**path, **home}, usual) == str(tmp_path / "path")
    assert check.nvcc(home, usual) == str(tmp_path / "home")
    assert check.nvcc({}, usual) == str(usual)
    assert check.nvcc({"CUDA_HOME": str(missing)}, missing) == ""


def test_a_program_that_says_nothing_or_does_not_end_is_told() -> None:
    check = loaded("check")
    assert check.said_by([sys.executable, "-c", "print('noise'); print('[1]')"], 60) == ([1], "")
    assert check.said_by([sys.executable, "-c", "1 / 0"], 60) == (None, "ZeroDivisionError: division by zero")
    assert check.said_by([sys.executable, "-c", "import time; time.sleep(60)"], 0.1)[0] is None


def test_the_premises_of_the_clock_are_measured() -> None:
    compare = loaded("compare")
    gpu = Gpu()
    device = CudaDevice(gpu, gpu.clock)
    lasting = iter(range(10**6))
    small = SimpleNamespace(zero_=lambda: gpu.launch(5_000 + 512 * (next(lasting) % 3), 0))
    found = compare.measured(device, small)
    assert found["smallest difference between two times"] == "512 ns"
    assert found["the buffer that empties the caches"] == "256 MiB"
    assert found["writing it once"] == "60.00 us"
    assert found["writings before a call with two inputs"] == "19"


@pytest.mark.torch
def test_the_kernels_of_the_clock_runs_are_right_on_a_cpu() -> None:
    torch = pytest.importorskip("torch")
    paths = sorted((HERE / "clocks").glob("[a-z]*.py"))
    assert len(paths) == 6
    for path in paths:
        kernel = runpy.run_path(str(path))
        first, second = (kernel["custom_kernel"](kernel["generate_input"](seed=seed)) for seed in (1, 2))
        assert not torch.equal(first, second)


def test_a_page_shows_what_ran_what_failed_and_what_was_left_out() -> None:
    table = loaded("table")
    clocks = [
        {"kernel": "copy", "clock": "do_bench", "median_ns": 20_000.0},
        {"kernel": "copy", "clock": "graph", "left_out": "RuntimeError"},
    ]
    page = table.page({"GPU": "NVIDIA X", "driver": "1"}, list(rows()), clocks, {"a tick": "32 ns"})
    assert "| softmax | py | pass | 12.34 | 12.00 to 13.00 | 50.00 | judge | S4 | 9.5 |" in page
    assert "| softmax | triton | **crash**: bad / news [2J |" in page
    assert "| softmax | cu | left out: there is no task |" in page
    assert "| hog | out_of_memory | task_error | **no**: no inputs |" in page
    assert "| copy | do_bench | 20.00 | 21.00 | 1.050 |" in page
    assert "| copy | graph | left out: RuntimeError |" in page
    assert "| a tick | 32 ns |" in page
    assert [row["verdict"] for row in table.unexpected(list(rows()))] == ["crash", "task_error"]
