"""Cheap commands stay cheap: what a process of its own imports for each."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.recorded import Recorded, recorded

HEAVY = frozenset({"textual", "torch", "paramiko", "numpy", "rich"})
FAR = "  far: {scheduler: slurm, ssh: {host: login2}, board_folder: /scratch/board}\n"


@pytest.fixture
def board(tmp_path: Path) -> Recorded:
    return recorded(tmp_path)


def modules(board: Recorded, *argv: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "hpc_board", *argv],
        cwd=board.folder,
        env=board.environ(),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    told = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    # Of a package that `importlib.import_module` loads, only what is in it is told.
    return told | {name.partition(".")[0] for name in told}


def test_help_loads_click_and_the_standard_library_alone(board: Recorded) -> None:
    loaded = modules(board, "--help")
    assert "click" in loaded
    unneeded = {"jinja2", "yaml", "msgspec", "sqlite3", "sqlite_utils", "hpc_board.board", "hpc_board.report"}
    assert loaded & (HEAVY | unneeded) == set()


@pytest.mark.parametrize("command", ["submit", "runs", "show"])
def test_the_help_of_a_command_loads_no_more_than_the_help_of_all(board: Recorded, command: str) -> None:
    assert modules(board, command, "--help") & (HEAVY | {"jinja2", "yaml", "sqlite3", "hpc_board.board"}) == set()


@pytest.mark.parametrize("argv", [("list",), ("gpus",), ("task", "vectoradd_py"), ("template", "vectoradd_py")])
def test_commands_that_only_read_tasks_and_gpus_open_no_database(board: Recorded, argv: tuple[str, ...]) -> None:
    loaded = modules(board, *argv)
    assert "hpc_board.board" in loaded
    assert loaded & (HEAVY | {"jinja2", "sqlite_utils"}) == set()


def test_a_dry_run_loads_the_template_engine_and_no_database(board: Recorded) -> None:
    loaded = modules(board, "submit", "kernel.py", "--dry-run")
    assert "jinja2" in loaded
    assert loaded & (HEAVY | {"sqlite_utils"}) == set()


def test_the_settings_load_no_client_of_a_scheduler(board: Recorded) -> None:
    settings = board.folder / "hpc-board.yaml"
    text = settings.read_text().replace("clusters:\n", "clusters:\n  main: {scheduler: slurm}\n")
    settings.write_text(text.replace("gpus:\n", "gpus:\n  A100: {cluster: main, partition: p}\n"))
    loaded = modules(board, "list")
    assert "hpc_board.schedulers.sections" in loaded
    packages = ("hpc_board.schedulers.slurm.", "hpc_board.schedulers.local.")
    assert [name for name in loaded if name.startswith(packages)] == []
    assert not {"hpc_board.transport.this_host", "hpc_board.transport.ssh", "paramiko", "pyslurm"} & loaded


def test_the_runs_are_listed_without_what_only_submitting_needs(board: Recorded) -> None:
    loaded = modules(board, "runs")
    assert "sqlite_utils" in loaded
    assert loaded & (HEAVY | {"jinja2"}) == set()


@pytest.mark.parametrize("far", [False, True])
def test_ssh_is_loaded_for_clusters_that_have_it_and_its_library_when_one_is_reached(
    board: Recorded, far: bool
) -> None:
    settings = board.folder / "hpc-board.yaml"
    if far:
        text = settings.read_text().replace("gpus:\n", f"{FAR}gpus:\n  FAR: {{cluster: far, partition: p}}\n")
        settings.write_text(text)
    for argv in (("submit", "kernel.py", "--dry-run"), ("runs",)):
        loaded = modules(board, *argv)
        assert ("hpc_board.transport.ssh" in loaded) is far
        assert not {"paramiko", "cryptography"} & loaded
