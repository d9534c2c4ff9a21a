"""`make demo`: its board is not the user's own, and what it says to type next works as it stands there."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import skip_without
from tests.e2e.installation import install
from tests.unit.recorded import REPOSITORY


def checkout(folder: Path) -> Path:
    """A folder that is to the script what a checkout is after `make` has filled its `.venv`."""
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, words in (("hpc-board", "-m hpc_board"), ("python", "")):
        client = programs / name
        client.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        client.chmod(0o755)
    (programs / "activate").write_text(f'PATH="{programs}:$PATH"\n')
    (folder / "scripts").mkdir()
    (folder / "scripts" / "demo.sh").write_bytes((REPOSITORY / "scripts" / "demo.sh").read_bytes())
    (folder / "examples").symlink_to(REPOSITORY / "examples")
    return folder


def bash(script: str, folder: Path, environ: Mapping[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=folder,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def runs(folder: Path, environ: Mapping[str, str]) -> list[tuple[int, str, str]]:
    """Return number, file name and verdict of each run that `hpc-board` lists in `folder`."""
    listed: list[dict[str, Any]] = json.loads(bash(f"{sys.executable} -m hpc_board runs --json", folder, environ))
    return sorted((run["id"], run["file_name"], run["verdict"]) for run in listed)


def typed_next(printed: str) -> str:
    """The commands under "Next steps", each without its explanation."""
    _, _, closing = printed.partition("Next steps")
    return "\n".join(re.findall(r"^  (\S+(?: \S+)*)", closing, re.MULTILINE))


def without_programs(folder: Path) -> Path:
    """The checkout with an `hpc-board` that does nothing."""
    checkout(folder)
    (folder / ".venv" / "bin" / "hpc-board").write_text("#!/bin/sh\n")
    return folder


def demo(folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """The script with these variables and no others, called from the folder's root."""
    return subprocess.run(
        ["bash", "scripts/demo.sh"],
        cwd=folder,
        env={"PATH": f"{folder}/.venv/bin:{os.environ['PATH']}", **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_demo_stays_in_its_checkout_whatever_cdpath_and_home_say(tmp_path: Path) -> None:
    folder = without_programs(tmp_path / "checkout")
    stranger = tmp_path / "stranger" / "demo" / "hpc-board.yaml"
    stranger.parent.mkdir(parents=True)
    (tmp_path / "stranger" / "scripts").mkdir()
    stranger.write_text("board: theirs\n")
    done = demo(folder, CDPATH=str(tmp_path / "stranger"))
    assert done.returncode == 0, done.stderr
    assert (done.stderr, stranger.read_text()) == ("", "board: theirs\n")
    assert (folder / "demo" / "hpc-board.yaml").read_text().endswith("\nboard: board\n")
    assert demo(folder, HOME=str(tmp_path)).returncode == 0  # again, on the settings that it wrote itself


@pytest.mark.parametrize("kind", ["file", "link"])
def test_the_demo_leaves_settings_alone_that_it_did_not_write(tmp_path: Path, kind: str) -> None:
    folder = without_programs(tmp_path / "checkout")
    settings = folder / "demo" / "hpc-board.yaml"
    settings.parent.mkdir()
    if kind == "file":
        settings.write_text("board: mine\n")
    else:
        settings.symlink_to(tmp_path / "nowhere.yaml")
    done = demo(folder, HOME=str(tmp_path))
    assert done.returncode == 2
    assert "is not what this demo writes, and stays as it is." in done.stderr
    assert settings.is_symlink() or settings.read_text() == "board: mine\n"
    assert not (tmp_path / "nowhere.yaml").exists()


@pytest.mark.parametrize(("torch", "tasks"), [("1", ["vectoradd_py", "softmax_py"]), ("", ["heat", "spmv"])])
def test_the_demo_takes_tasks_whose_libraries_are_there(tmp_path: Path, torch: str, tasks: list[str]) -> None:
    folder = without_programs(tmp_path / "checkout")
    (folder / ".venv/bin/python").write_text(f'#!/bin/sh\ntest -n "{torch}"\n')
    printed = demo(folder, HOME=str(tmp_path)).stdout
    assert re.findall(r"^\$ hpc-board show (\w+)$", printed, re.MULTILINE) == tasks
    assert re.search(rf"hpc-board template {tasks[0 if tasks[0] == 'heat' else 1]} .*-o mine\.py +a starter", printed)
    assert all(f"../examples/{task}/faster.py" in printed for task in tasks)


@pytest.mark.timeout(600)
def test_the_demo_leaves_the_users_own_board_alone_and_its_next_commands_work(tmp_path: Path) -> None:
    skip_without("torch")
    folder = checkout(tmp_path / "checkout")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("HPC_BOARD_", "XDG_"))}
    environ |= {"HOME": str(tmp_path / "home"), "PYTHONPATH": str(install(tmp_path / "installation"))}
    own_board = tmp_path / "home/.local/share/hpc-board"
    with_settings = environ | {"HPC_BOARD_CONFIG": str(tmp_path / "the-users-own.yaml")}
    printed = bash(f"PATH={folder}/.venv/bin:$PATH bash scripts/demo.sh", folder, with_settings)
    assert f"{own_board}." in printed
    assert not own_board.exists()

    commands = typed_next(printed)
    assert commands.splitlines()[0] == "unset HPC_BOARD_CONFIG"
    assert "hpc-board template softmax_py -o mine.py" in commands
    assert {"cd demo", "hpc-board run 1", "cd ..", "hpc-board submit mine.py --gpu CPU --wait"} <= {
        *commands.splitlines()
    }
    bash(commands, folder, with_settings)
    ranked = [(1, "plain.py", "pass"), (2, "faster.py", "pass"), (3, "faster.py", "pass")]
    assert runs(folder / "demo", environ) == ranked
    assert runs(folder, environ) == [(1, "mine.py", "pass")]
    assert own_board.exists()
