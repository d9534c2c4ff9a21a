"""A node whose Python has NumPy and no PyTorch: the tasks on NumPy arrays are judged, the others say how to get it."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
import yaml

from tests.commands import printed_json
from tests.e2e.installation import install
from tests.unit.recorded import REPOSITORY

EXAMPLES = REPOSITORY / "examples"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a virtual environment with only NumPy."""
    numpy = pytest.importorskip("numpy")
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for source in Path(numpy.__file__).parents[1].glob("numpy*"):
        shutil.copytree(source, packages / source.name)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, python: Path) -> Path:
    """A folder with settings whose CPU has that Python."""
    folder = tmp_path_factory.mktemp("home")
    gpus = {"CPU": {"cluster": "here", "python": str(python)}}
    settings = {"board": "board", "clusters": {"here": {"scheduler": "local"}}, "gpus": gpus}
    (folder / "hpc-board.yaml").write_text(yaml.safe_dump(settings))
    (folder / "installed").mkdir()
    install(folder / "installed")
    return folder


def hpc_board(home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(home / "installed")}
    return subprocess.run(
        [sys.executable, "-m", "hpc_board", *words],
        cwd=home,
        env=environ,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_that_python_has_numpy_alone(python: Path) -> None:
    assert subprocess.run([python, "-c", "import numpy"], check=False).returncode == 0
    done = subprocess.run([python, "-c", "import torch"], capture_output=True, text=True, check=False)
    assert "No module named 'torch'" in done.stderr


@pytest.mark.parametrize("file", ["heat/faster.py", "spmv/faster.cpp"])
def test_a_kernel_for_numpy_arrays_gets_a_rank(home: Path, file: str) -> None:
    if file.endswith(".cpp") and shutil.which("g++") is None:
        pytest.skip("no g++")
    done = hpc_board(home, "submit", str(EXAMPLES / file), "--mode", "ranked", "--wait", "--json")
    (run,) = printed_json(done)["runs"]
    assert (run["verdict"], run["gpu"]) == ("pass", "CPU"), run
    (board,) = printed_json(hpc_board(home, "show", run["task"], "--json"))["boards"]
    (row,) = board["rows"]
    assert (row["rank"], 0 < row["score_s"] <= run["score_s"]) == (1, True)


def test_a_wrong_kernel_for_numpy_arrays_is_refused(home: Path) -> None:
    (run,) = printed_json(hpc_board(home, "submit", str(EXAMPLES / "heat/wrong.py"), "--wait", "--json"))["runs"]
    assert run["verdict"] == "wrong_value", run


def test_a_task_that_needs_pytorch_says_how_to_get_it(home: Path, python: Path) -> None:
    done = hpc_board(home, "submit", str(EXAMPLES / "vectoradd_py/plain.py"), "--gpu", "CPU", "--wait")
    told = " ".join(done.stdout.split())
    assert f"the Python {python} has no PyTorch" in told
    assert f"`{python} -m pip install torch`" in told
    assert "tasks heat and spmv need only NumPy" in told
