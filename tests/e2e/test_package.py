"""The wheel and the source archive: the product runs from the one, and the other has all that the tests need."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from hpc_board import __version__
from tests.unit.recorded import REPOSITORY

pytest.importorskip("hatchling")
pytestmark = pytest.mark.slow

NAME = f"hpc_board-{__version__}"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both packages, built from the files that git has."""
    folder = tmp_path_factory.mktemp("packages")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, timeout=120)
    return folder


def tracked() -> set[str]:
    """Return the files of the checkout that git does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no checkout of git")
    return {name for name in listed.stdout.split("\0") if name and (REPOSITORY / name).exists()}


def test_the_source_archive_has_every_file_of_the_checkout(packages: Path) -> None:
    with tarfile.open(packages / f"{NAME}.tar.gz") as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    assert tracked() - found == set()
    assert found - tracked() <= {"PKG-INFO"}


def test_the_wheel_has_the_product_alone(packages: Path) -> None:
    with zipfile.ZipFile(packages / f"{NAME}-py3-none-any.whl") as wheel:
        names = set(wheel.namelist())
    shared = {name.partition("/data/share/")[2] for name in names if "/data/share/" in name}
    assert shared == {str(path.relative_to(REPOSITORY / "share")) for path in files_below("share")}
    packaged = {name for name in names if not name.startswith(NAME)}
    own = {str(path.relative_to(REPOSITORY)) for path in files_below("hpc_board")}
    bundled = {
        f"hpc_board/bundled/{path.relative_to(REPOSITORY)}"
        for name in ("job_templates", "tasks", "task_starter")
        for path in files_below(name)
    }
    assert packaged == own | bundled


def files_below(name: str) -> list[Path]:
    return [REPOSITORY / path for path in tracked() if path.startswith(f"{name}/")]


def test_the_product_runs_from_the_wheel(packages: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(packages / f"{NAME}-py3-none-any.whl", tmp_path / "installed", "zip")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path / "installed")}

    def command(*argv: str) -> str:
        run = [sys.executable, "-P", "-m", "hpc_board", *argv]
        return subprocess.run(
            run, cwd=tmp_path, env=environ, check=True, capture_output=True, text=True, timeout=60
        ).stdout

    assert command("--version").split()[-1] == __version__
    tasks = {task["name"] for task in json.loads(command("list", "--json"))}
    assert tasks == {path.parent.name for path in (REPOSITORY / "tasks").glob("*/task.yml")}
    command("template", "vectoradd_py", "-o", "mine.py")
    command("admin", "init", str(tmp_path / "board"), "-o", str(tmp_path / "settings.yaml"))
    assert (tmp_path / "mine.py").exists()
