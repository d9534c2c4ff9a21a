"""The table of all tasks of a checkout, in the form of GPU MODE's reference-kernels."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.e2e.boards import write_task
from tests.harness.own_evals import EVAL
from tests.unit.recorded import REPOSITORY


def table(checkout: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(REPOSITORY / "scripts/corpus.py"), str(checkout), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A competition, one of whose tasks has another one's file, a broken task, and one with functions of its own."""
    problems = tmp_path / "problems"
    for name in ("linalg/scan_v2", "pmpp/sort_v2", "alone/broken", "princeton/loss"):
        write_task(problems / name)
    own = problems / "princeton/loss"
    for name in ("reference.py", "eval.py"):
        (own / name).write_text("def forward(): ...\n")
    document = yaml.safe_load((own / "task.yml").read_text())
    document["files"].append({"name": "eval.py", "source": "eval.py"})
    (own / "task.yml").write_text(yaml.safe_dump(document))
    (problems / "pmpp/shared.py").write_bytes((problems / "linalg/scan_v2/reference.py").read_bytes())
    file = problems / "linalg/scan_v2/task.yml"
    file.write_text(file.read_text().replace("source: reference.py", "source: ../../pmpp/shared.py"))
    (problems / "alone/broken/task.yml").write_text("lang: py\n")
    entries = [{"directory": name, "name": name.rpartition("/")[2]} for name in ("linalg/scan_v2", "pmpp/sort_v2")]
    (problems / "linalg.yaml").write_text(yaml.safe_dump({"name": "Linalg", "problems": entries}))
    return tmp_path


def test_a_row_is_a_folder_with_its_competitions_and_its_faults(checkout: Path) -> None:
    done = table(checkout)
    broken, scan, sort, own = done.stdout.splitlines()[4:]
    assert done.stdout.startswith("Commit unknown: 4 task folders.\n")
    assert broken.startswith("| problems/alone/broken | - | no: ")
    why = "has generate_input and check_implementation"
    assert scan == f"| problems/linalg/scan_v2 | linalg | yes | isolated | {why} | py |"
    assert sort == f"| problems/pmpp/sort_v2 | linalg | yes | isolated | {why} | py |"
    why = "no generate_input and check_implementation"
    assert own == f"| problems/princeton/loss | - | yes | task | {why} | py |"
    assert done.returncode == 1


@pytest.mark.slow
def test_the_judge_tells_its_findings(checkout: Path) -> None:
    (checkout / "problems/alone/broken/task.yml").unlink()
    done = table(checkout, "--judge")
    assert (done.returncode, done.stderr) == (0, "")
    rows = done.stdout.splitlines()[4:]
    assert [row for row in rows if not re.search(r"\| (none|(warning|error): .*) \| - \| - \|$", row)] == []


SUMS = """
import torch


def generate_input(size, seed):
    return torch.rand(size, device="cuda", generator=torch.Generator(device="cuda").manual_seed(seed))


def ref_kernel(data):
    return data * 2


def check_implementation(data, output):
    return torch.equal(torch.as_tensor(output), ref_kernel(torch.as_tensor(data))), "they differ"
"""

SOLUTIONS = {
    "solutions/correct/sum.py": "def custom_kernel(data):\n    return data + data\n",
    "solutions/correct/same.py": "def custom_kernel(data):\n    return data\n",
    "solutions/wrong/sum.py": "def custom_kernel(data):\n    return data + data\n",
    "submission.py": "import triton\n",
}


@pytest.mark.slow
@pytest.mark.torch
def test_the_solutions_of_a_gpu_task_are_judged_on_the_processor_by_both_harnesses(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = tmp_path / "twice_py"
    write_task(folder)
    file = folder / "task.yml"
    document = yaml.safe_load(file.read_text())
    document["files"].append({"name": "eval.py", "source": "eval.py"})
    file.write_text(yaml.safe_dump({**document, "config": {"main": "eval.py"}, "gpus": ["H100"]}))
    # This eval waits for a GPU, as those for one do, and gives lists to kernels.
    waits = "import torch.cuda\n\ntorch.cuda.Event(enable_timing=True).record()\ntorch.cuda.synchronize()\n"
    (folder / "eval.py").write_text(waits + EVAL.replace("list(data)", "data"))
    (folder / "reference.py").write_text(SUMS)
    for name, text in SOLUTIONS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (row,) = table(tmp_path, "--judge").stdout.splitlines()[4:]
    *_, judge, own = row.removesuffix(" |").split(" | ")
    verdicts = (
        "correct/same.py: wrong_value !, correct/sum.py: pass, wrong/sum.py: pass !, submission.py: for a GPU alone"
    )
    assert (judge, own) == (verdicts, verdicts)
