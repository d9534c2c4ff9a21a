"""Cheap commands stay cheap: what a process of its own imports for each."""

import importlib.util
import subprocess
import sys

import pytest

from hpc_board.model.result import Verdict
from tests.unit.recorded import Recorded, result_of, timed_case

HEAVY = frozenset({"textual", "torch", "paramiko", "numpy", "rich", "sqlite_utils"})
FAR = "  far: {scheduler: slurm, ssh: {host: login2}, board_folder: /scratch/board}\n"


PROGRAM = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from hpc_board.__main__ import main
main()
"""


def modules(board: Recorded, *argv: str, **environ: str) -> set[str]:
    """Return the modules that a process has loaded at its end."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *argv],
        cwd=board.folder,
        env=board.environ(**environ),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return set(done.stderr.splitlines()[-1].split())


FROZEN = """
import atexit, gc
atexit.register(lambda: print(gc.get_freeze_count() > len(gc.get_objects())))
from hpc_board.__main__ import main
main()
"""


@pytest.mark.parametrize(("argv", "code"), [(("list",), 0), (("show", "no_such_task"), 2)])
def test_the_objects_of_a_command_are_left_out_of_the_last_search_for_garbage(
    board: Recorded, argv: tuple[str, ...], code: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FROZEN, *argv],
        cwd=board.folder,
        env=board.environ(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (code, "True")


OWN_FOR_HELP = {
    "hpc_board.__main__",
    "hpc_board.cli",
    "hpc_board.cli.exits",
    "hpc_board.cli.global_options",
    "hpc_board.cli.main",
    "hpc_board.cli.options",
    "hpc_board.cli.streams",
    "hpc_board.errors",
}
LIBRARIES = HEAVY | {"click", "jinja2", "msgspec", "sqlite3", "yaml"}


def own(loaded: set[str]) -> set[str]:
    return {name for name in loaded if name.startswith("hpc_board.")}


@pytest.mark.parametrize("argv", [("--help",), ("help",), ()])
def test_help_loads_click_and_the_standard_library_alone(board: Recorded, argv: tuple[str, ...]) -> None:
    loaded = modules(board, *argv)
    assert own(loaded) <= OWN_FOR_HELP
    assert loaded & LIBRARIES == {"click"}


def test_the_script_for_completion_loads_click_alone(board: Recorded) -> None:
    loaded = modules(board, "completion", "bash")
    assert own(loaded) <= OWN_FOR_HELP
    assert loaded & LIBRARIES == {"click"}


def test_the_completion_of_a_command_loads_click_alone(board: Recorded) -> None:
    words = {"_HPC_BOARD_COMPLETE": "bash_complete", "COMP_WORDS": "hpc-board sh", "COMP_CWORD": "1"}
    loaded = modules(board, **words)
    assert own(loaded) <= OWN_FOR_HELP
    assert loaded & LIBRARIES == {"click"}


@pytest.mark.parametrize("argv", [("list",), ("gpus",), ("task", "vectoradd_py"), ("template", "vectoradd_py")])
def test_commands_that_only_read_tasks_and_gpus_open_no_database(board: Recorded, argv: tuple[str, ...]) -> None:
    loaded = modules(board, *argv)
    assert "hpc_board.board" in loaded
    assert loaded & (HEAVY | {"jinja2"}) == set()


def test_a_dry_run_loads_the_template_engine_and_no_database(board: Recorded) -> None:
    loaded = modules(board, "submit", "kernel.py", "--dry-run")
    assert "jinja2" in loaded
    assert loaded & (HEAVY) == set()


@pytest.mark.parametrize("argv", [("list",), ("runs",), ("show", "vectoradd_py")])
def test_a_board_with_a_slurm_cluster_is_read_without_a_client_of_a_scheduler(
    board: Recorded, argv: tuple[str, ...]
) -> None:
    board.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-3)
    settings = board.folder / "hpc-board.yaml"
    text = settings.read_text().replace("clusters:\n", "clusters:\n  main: {scheduler: slurm}\n")
    settings.write_text(text.replace("gpus:\n", "gpus:\n  A100: {cluster: main, partition: p}\n"))
    loaded = modules(board, *argv)
    assert "hpc_board.schedulers.sections" in loaded
    packages = ("hpc_board.schedulers.slurm.", "hpc_board.schedulers.local.")
    assert {name.rpartition(".")[2] for name in loaded if name.startswith(packages)} == {"kind"}
    assert not {"hpc_board.transport.this_host", "hpc_board.transport.ssh", "paramiko", "pyslurm"} & loaded


@pytest.mark.skipif(importlib.util.find_spec("numpy") is None, reason="NumPy is not installed")
def test_rows_are_written_without_the_numbers_of_other_libraries(board: Recorded) -> None:
    loaded = modules(board, "admin", "stop", "--reason", "x")
    assert loaded & {"sqlite_utils", "numpy", "pandas"} == {"sqlite_utils"}


def test_the_runs_are_listed_without_what_only_submitting_needs(board: Recorded) -> None:
    assert modules(board, "runs") & (HEAVY | {"jinja2"}) == set()


def test_the_runs_of_a_database_are_listed_without_what_writes_it_or_advances_a_run(board: Recorded) -> None:
    board.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-3)
    unneeded = {"hpc_board.runs.reconciler", "hpc_board.runs.job_folder", "hpc_board.boards.editor"}
    assert modules(board, "runs") & (HEAVY | unneeded) == set()


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


NOT_FOR_LISTS = {"hpc_board.harness", "hpc_board.schedulers.slurm", "hpc_board.report.comparisons"}


def test_the_list_of_tasks_loads_neither_the_gateways_of_runs_nor_reports_that_it_does_not_print(
    board: Recorded,
) -> None:
    loaded = modules(board, "list")
    assert {each for each in own(loaded) if each.startswith("hpc_board.report.")} == {
        "hpc_board.report.blocks",
        "hpc_board.report.plain",
        "hpc_board.report.tasks",
    }
    gateways = {f"hpc_board.store.{name}" for name in ("runs", "submissions", "standings", "moderation", "feed")}
    of_runs = {"hpc_board.domain.run", "hpc_board.model.result", "hpc_board.runs.drafts", "hpc_board.runs.reconciler"}
    assert loaded & (gateways | NOT_FOR_LISTS | of_runs | {"dataclasses"}) == set()


def test_the_runs_are_listed_without_reports_of_other_things(board: Recorded) -> None:
    unneeded = {f"hpc_board.report.{name}" for name in ("boards", "checks", "comparisons", "feeds", "tasks")}
    assert modules(board, "runs") & unneeded == set()


def test_the_standings_are_shown_without_the_feed_and_what_changes_them(board: Recorded) -> None:
    board.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-3)
    unneeded = {"hpc_board.store.feed", "hpc_board.domain.feed", "hpc_board.report.moderation", "hpc_board.runs.drafts"}
    assert modules(board, "show", "vectoradd_py") & (HEAVY | unneeded | {"dataclasses"}) == set()


@pytest.mark.parametrize("words", ["history {}", "feed", "show {} --rank 1", "show {} --versions"])
def test_the_text_of_standings_is_printed_without_the_views_of_json(board: Recorded, words: str) -> None:
    board.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-3)
    loaded = modules(board, *words.format("vectoradd_py").split())
    assert {each for each in loaded if each.startswith("hpc_board.report.views")} == set()
