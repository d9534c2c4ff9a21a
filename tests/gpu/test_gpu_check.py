"""The GPU check as far as a machine without a GPU can tell: its bundle, its pages, and that it refuses."""

import ast
import hashlib
import importlib.util
import json
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hpc_board.harness.device.device import CudaDevice
from hpc_board.harness.job_spec import facts as job_facts
from hpc_board.model.result import Verdict
from tests.conftest import skip_without
from tests.gpu.doubles import CHECK
from tests.harness.test_device import Gpu

HERE = Path(__file__).parent
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


def order() -> Any:
    """The table of the runs, of which the bundle is made."""
    return loaded("order")


def test_without_a_gpu_it_says_so_and_writes_nothing(bundle: Path, tmp_path: Path) -> None:
    done = run(bundle, tmp_path)
    assert done.returncode == 3
    assert done.stderr.startswith("gpu-check: no GPU here, so nothing was checked or written: ")
    assert list(tmp_path.iterdir()) == []


def test_it_lists_the_essential_runs_first_and_the_destructive_ones_last(bundle: Path, tmp_path: Path) -> None:
    lines = run(bundle, tmp_path, "--list").stdout.splitlines()
    stages = [line.partition(": ")[2].partition(",")[0] for line in lines]
    assert list(dict.fromkeys(stages)) == [
        *(
            "probe",
            "clock",
            "hidden",
            "repeat",
            "wrong",
            "languages",
            "sandbox",
            "profile",
            "ranked",
            "tasks",
            "destructive",
        )
    ]
    names = [line.partition(":")[0] for line in lines]
    assert {"kernel vectoradd_py py", "kernel softmax_py triton", "kernel matmul cu"} <= set(names)
    cheats = [name.split()[1] for name in names if name.startswith("cheat ")]
    assert sorted(cheats) == [path.stem for path in CHEATS]
    assert cheats[-3:] == ["sticky_error", "memory_hog", "spinning_kernel"]


def test_only_selects_runs_in_the_order_of_its_words(bundle: Path, tmp_path: Path) -> None:
    ordered = run(bundle, tmp_path, "--list", "--only", "matmul triton", "--only", "patched", "--only", "matmul")
    names = [line.partition(":")[0] for line in ordered.stdout.splitlines()]
    assert names[:2] == ["kernel matmul triton", "cheat patched_events py"]
    assert len(names) == len(set(names)) > 4


def test_the_essential_runs_are_planned_for_three_minutes_and_ten_seconds(bundle: Path) -> None:
    with zipfile.ZipFile(bundle) as archive:
        entries = json.loads(archive.read("entries.json"))
    assert sum(each["seconds"] for each in entries if each["stage"] in loaded("table").ESSENTIAL) <= 190
    assert all(each["seconds"] < each["limit"] for each in entries)


def test_every_run_has_the_files_that_its_harness_looks_for(bundle: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(bundle) as archive:
        entries = json.loads(archive.read("entries.json"))
        harness = hashlib.sha256(archive.read("harness.pyz")).hexdigest()
    for entry in (each for each in entries if "files" in each):
        facts = json.loads(entry["files"]["job.json"])
        code = entry["files"][f"submission/{facts['task']['submission']}"]
        assert facts["sha256"]["submission"] == hashlib.sha256(code.encode()).hexdigest()
        assert facts["sha256"]["harness"] == harness
        assert {f"task/{name}" for name in facts["task"]["files"]} <= set(entry["files"])
        assert facts["device"] == "cuda"
        assert facts["task"]["timeouts"]["ranked"] < entry["limit"], "the run is not killed before it can say why"
        path = tmp_path / "job.json"
        path.write_text(entry["files"]["job.json"])
        assert job_facts(path).benchmarks


def test_a_name_that_could_leave_the_folder_is_refused(bundle: Path, tmp_path: Path) -> None:
    done = run(bundle, tmp_path, "--name", "../x")
    assert done.returncode == 2
    assert "--name takes" in done.stderr


def test_the_check_runs_on_python_3_10() -> None:
    for path in CHECK.glob("*.py"):
        if path.name not in ("bundle.py", "order.py"):
            ast.parse(path.read_text(), feature_version=(3, 10))


def test_an_older_python_can_read_as_far_as_the_refusal() -> None:
    tree = ast.parse((CHECK / "check.py").read_text(), feature_version=(3, 7))
    lines = [ast.unparse(node).partition("\n")[0] for node in tree.body]
    assert lines.index("if sys.version_info < (3, 10):") < lines.index("import children")


@pytest.mark.parametrize("path", CHEATS, ids=lambda path: path.stem)
def test_a_cheat_names_verdicts_that_there_are(path: Path) -> None:
    code = path.read_text()
    line = next(line for line in code.splitlines() if line.startswith("# Expected: "))
    for word in line.removeprefix("# Expected: ").split(", "):
        Verdict(word)


@pytest.mark.torch
def test_the_cheats_define_their_kernel_where_there_is_no_gpu() -> None:
    skip_without("torch")
    code = "import runpy, sys; [runpy.run_path(path)['custom_kernel'] for path in sys.argv[1:]]"
    subprocess.run([sys.executable, "-c", code, *CHEATS], check=True, env={"CUDA_VISIBLE_DEVICES": ""})


def test_programs_are_found_where_the_harness_is_told_to_look(tmp_path: Path) -> None:
    check = loaded("check")
    for name in ("path", "home", "usual"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "nvcc").touch(0o755)
    (tmp_path / "cutlass" / "include" / "cutlass" / "gemm").mkdir(parents=True)
    usual, missing = tmp_path / "usual", tmp_path / "missing"
    path, home = {"PATH": str(tmp_path / "path" / "bin")}, {"CUDA_HOME": str(tmp_path / "home")}
    assert check.programs({**path, **home}, usual)["nvcc"] == str(tmp_path / "path" / "bin" / "nvcc")
    assert check.programs(home, usual)["nvcc"] == str(tmp_path / "home" / "bin" / "nvcc")
    assert check.programs({}, usual)["nvcc"] == str(usual / "bin" / "nvcc")
    assert "nvcc" not in check.programs({"CUDA_HOME": str(missing)}, missing)
    cutlass = tmp_path / "cutlass"
    found = check.programs({"CUTLASS_PATH": str(cutlass)}, missing)
    assert found["cutlass headers"] == str(cutlass / "include")


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
def test_the_kernels_of_the_clock_are_right_on_a_cpu_and_depend_on_their_inputs() -> None:
    torch = pytest.importorskip("torch")
    kernel = runpy.run_path(str(HERE / "clocks" / "kernels.py"))
    for case in order().CLOCK_CASES.values():
        size = {"product_fp32": 32, "product_bf16": 32, "fma": 10}.get(case["kernel"], 4096)
        first, second = (kernel["generate_input"](case["kernel"], size, seed) for seed in (1, 2))
        assert kernel["check_implementation"](first, kernel["custom_kernel"](first))
        assert not torch.equal(kernel["custom_kernel"](first), kernel["custom_kernel"](second))


def test_ncu_times_are_summed_for_each_case_without_its_inputs() -> None:
    compare = loaded("compare")
    spin, lines = (
        "at::cuda::spin_kernel(long)",
        ["==PROF== Connected", '"ID","Kernel Name","Metric Unit","Metric Value"'],
    )
    launches = ["rand", spin, *(["add", spin] * 3), "rand", "rand", spin, *(["mul", "mul", spin] * 3)]
    lines += [f'"{at}","{name}","ns","1,{at:03}"' for at, name in enumerate(launches)]
    assert compare.times_of("\n".join(lines), 2) == [1004.0, 1014.0 + 1015.0]
    assert compare.times_of("\n".join(lines[:9]), 2) == []
    assert compare.times_of("==ERROR== ERR_NVGPUCTRPERM", 2) == []


def test_a_time_is_right_between_the_other_clocks_or_beside_them_by_a_hundredth_or_a_microsecond() -> None:
    table = loaded("table")
    assert table.near(2_000.0, 1_100.0, 3_700.0)
    assert table.near(150.0, 1_100.0, 3_700.0)
    assert not table.near(4_800.0, 1_100.0, 3_700.0)
    assert table.near(343_000.0, 339_700.0, 340_000.0)
    assert not table.near(344_000.0, 339_700.0, 340_000.0)
    assert not table.near(None, 1.0, 2.0)


def test_a_page_shows_what_ran_what_failed_and_what_was_left_out() -> None:
    table = loaded("table")
    kernel: dict[str, Any] = {
        "stage": "tasks",
        "kind": "kernel",
        "name": "softmax",
        "language": "py",
        "expected": ["pass"],
    }
    kernel |= {"message": "", "wall_s": 9.5, "isolation": "S4", "reference_ns": 50_000.0}
    times = {"time_ns": 12_340.0, "low_ns": 12_000.0, "high_ns": 13_000.0, "clock_drift_ns": -40.0}
    times |= {"kernel_clock_ns": 12_340.0, "bound_ns": 11_900.0, "slack_ns": 600.0}
    cheat = {**kernel, "stage": "hidden", "kind": "cheat", "name": "gain", "verdict": "pass", "honest_ns": 20_000.0}
    clock = {**kernel, "stage": "clock", "kind": "clock", "name": "kernels", "verdict": "pass"}
    clock["cases"] = [
        {"name": "copy", "time_ns": 21_000.0, "kernel_clock_ns": 20_990.0, "bound_ns": 21_000.0},
        {"name": "fma", "time_ns": 9e6},
    ]
    other = {**kernel, "stage": "clock", "kind": "compare", "clock": "triton.testing.do_bench"}
    rows: list[dict[str, Any]] = [
        {"kind": "probe", "step": "windows", "answer": "12.7 us", "took_s": 1.0, "stage": "probe"},
        clock,
        {**other, "name": "copy", "time_ns": 20_000.0},
        {**other, "name": "fma", "time_ns": 10e6},
        {**kernel, **times, "verdict": "pass", "clock": "judge"},
        {**kernel, **times, "name": "claimed", "verdict": "pass", "clock": "worker", "clock_reason": "no handle"},
        {**kernel, "language": "triton", "verdict": "crash", "message": "bad | news\x1b[2J"},
        {**kernel, "language": "cu", "left_out": "no time, it takes 25 s"},
        {**cheat, "time_ns": 17_000.0},
        {**cheat, "name": "none", "time_ns": 19_000.0},
        {**cheat, "name": "later", "left_out": "no time, it takes 9 s"},
    ]
    page = table.page({"GPU": "NVIDIA X", "driver": "1"}, rows)
    assert "- Clock: 1 of 2 kernels within 1 % or 1 us of the other clocks." in page
    assert "- Not as expected: cheat gain (py): 17.00 us, and the honest kernel 20.00 us" in page
    assert "- No time was left for 2 runs: kernel softmax (cu), cheat later (py)." in page
    assert "- 1 of these are essential" in page
    assert "| copy | 21.00 | 20.99 | 21.00 |  | 20.00 |  |  |  | yes |" in page
    assert "| fma | 9000.00 |  |  |  | 10000.00 |  |  |  | **no** |" in page
    assert (
        "| softmax | tasks | py | pass | 12.34 | 12.00 to 13.00 | 12.34 | 11.90 | 0.60 | 50.00 | judge | -0.04 |"
        in page
    )
    assert "| claimed | tasks | py | **no**: timed only by the worker's clock: no handle | 12.34" in page
    assert "| worker: no handle | -0.04 | S4 |" in page
    assert "| softmax | tasks | triton | **no**: crash: bad / news [2J |" in page
    assert "| none | pass | pass | yes | 19.00 | 20.00 | 9.5 |" in page
    assert "| windows | 12.7 us | 1.0 |" in page
    assert [row["name"] for row in table.unexpected(rows)] == ["claimed", "softmax", "gain"]
    assert not table.good(rows)
