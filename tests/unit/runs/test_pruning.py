"""Pruning removes the job folders of runs that ended long ago, and no other folder."""

import os
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hpc_board.domain.pruned import ClusterPruned
from hpc_board.domain.run import Retry, Run, RunState, Status
from hpc_board.model.task import Mode
from hpc_board.runs import job_folder
from hpc_board.runs.job_folder import Folders
from hpc_board.runs.pruning import PASS_FOLDERS_MAX
from hpc_board.store.runs import RunGateway
from hpc_board.store.submissions import NewRun, NewSubmission
from tests.harness.evaluations import a_task
from tests.unit.runs.world import CODE, World
from tests.values import replace

LOG = "slurm-17.out"


def runs_of(world: World, tokens: Sequence[str]) -> Sequence[Run]:
    new = [NewRun("H100", "main", "gpu", token, "n", "self-run", False, "0" * 64) for token in tokens]
    at = datetime.now(UTC)
    _, runs = world.store.submissions.add(
        NewSubmission(a_task(), "ada", "k.py", CODE, Mode.TEST, "", at, new), sender=None
    )
    return runs


def ended(world: World, token: str = "", *, days: float = 40, folders: Folders | None = None) -> Run:
    """A run that ended so many days ago, with its job folder."""
    (run,) = runs_of(world, [token or f"hb-{os.urandom(8).hex()}"])
    status = Status(RunState.CANCELLED, datetime.now(UTC) - timedelta(days=days), job_id="17")
    world.store.runs.record(run.id, status)
    folder = (folders or Folders(world.folder)).of(run)
    (folder / "task").mkdir(parents=True)
    (folder / "task" / "reference.py").write_bytes(b"x" * 1000)
    (folder / LOG).write_text("slurmstepd: the last words\n")
    return world.store.runs.get(run.id)


def prune(world: World, *, dry_run: bool = False) -> tuple[int, int, str]:
    done = world.advance.prune(datetime.now(UTC) - timedelta(days=30), dry_run=dry_run).clusters["main"]
    return done.folders, done.bytes, done.problem


def left(world: World) -> set[str]:
    return {path.name for path in (world.folder / "runs").iterdir()}


def test_old_folders_go_and_the_end_of_the_output_is_kept(world: World) -> None:
    old, young = ended(world), ended(world, days=3)
    assert prune(world, dry_run=True) == (1, 1027, "")
    assert left(world) == {str(old.id), str(young.id)}
    assert world.store.runs.pruned(old.id) is None
    assert prune(world) == (1, 1027, "")
    assert left(world) == {str(young.id)}
    kept = world.store.runs.pruned(old.id)
    assert kept is not None
    assert kept.log == "slurmstepd: the last words\n"
    assert prune(world) == (0, 0, "")


def test_all_old_folders_go_after_one_reading_of_the_runs_and_a_transaction_for_each_lot(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2 * PASS_FOLDERS_MAX + 1):
        ended(world)
    calls: list[str] = []
    originals: dict[str, Any] = {}
    for name in ("numbered", "tokens", "prune"):

        def counted(self: RunGateway, *arguments: Any, _name: str = name, **keys: Any) -> Any:
            calls.append(_name)
            return originals[_name](self, *arguments, **keys)

        originals[name] = getattr(RunGateway, name)
        monkeypatch.setattr(RunGateway, name, counted)
    assert prune(world)[0] == 2 * PASS_FOLDERS_MAX + 1
    assert left(world) == set()
    assert calls == ["numbered", "tokens", "prune", "prune", "prune"]


def test_a_folder_that_another_client_has_removed_is_no_problem(world: World) -> None:
    gone, other = ended(world), ended(world)
    pruning = world.advance._pruning("main", datetime.now(UTC) - timedelta(days=30))
    found = pruning.find()
    subprocess.run(["rm", "-rf", job_folder.folder(world.folder, gone.id)], check=True)
    assert pruning.remove(found) == ClusterPruned(1, 1027)
    assert not job_folder.folder(world.folder, other.id).exists()


def test_a_run_in_flight_keeps_its_folder_however_old(world: World) -> None:
    run = world.run()
    world.advance.launch([run])
    world.store.runs.record(run.id, replace(world.store.runs.get(run.id).status, at=datetime(2020, 1, 1, tzinfo=UTC)))
    assert prune(world) == (0, 0, "")
    assert left(world) == {str(run.id)}
    with pytest.raises(ValueError, match="in flight"):
        world.store.runs.prune({run.id: ""})


def test_no_link_is_followed_and_no_strange_folder_touched(world: World, tmp_path: Path) -> None:
    linked, strange = ended(world), ended(world)
    precious = tmp_path / "precious"
    folder = job_folder.folder(world.folder, linked.id)
    folder.rename(precious)
    folder.symlink_to(precious)
    inner = job_folder.folder(world.folder, strange.id)
    (inner / "out").symlink_to(precious)
    for name in ("notes", "999", "hb-0123456789abcdef", f"{strange.id}-hb-0123456789abcdef", ".7.0123"):
        (world.folder / "runs" / name).mkdir()
    assert prune(world)[0] == 1
    assert (precious / LOG).exists()
    assert left(world) == {
        str(linked.id),
        "notes",
        "999",
        "hb-0123456789abcdef",
        f"{strange.id}-hb-0123456789abcdef",
        ".7.0123",
    }


def test_the_place_of_all_folders_is_no_link_either(world: World, tmp_path: Path) -> None:
    run = ended(world)
    (world.folder / "runs").rename(tmp_path / "elsewhere")
    (world.folder / "runs").symlink_to(tmp_path / "elsewhere")
    assert prune(world) == (0, 0, "Not a directory")
    assert (tmp_path / "elsewhere" / str(run.id)).exists()


def test_the_folders_of_an_array_go_and_its_script_with_the_last_run(world: World) -> None:
    array = "hb-0123456789abcdef"
    first, second = runs_of(world, [f"{array}.0", f"{array}.1"])
    for run in (first, second):
        Folders(world.folder).of(run).mkdir(parents=True)
    job_folder.folder(world.folder, array).mkdir()
    then = datetime.now(UTC) - timedelta(days=40)
    world.store.runs.record(first.id, Status(RunState.CANCELLED, then))
    assert prune(world) == (1, 0, "")
    assert left(world) == {array, f"{array}.1"}
    world.store.runs.record(second.id, Status(RunState.CANCELLED, then))
    assert prune(world) == (2, 0, "")
    assert left(world) == set()


def test_a_run_that_was_sent_again_loses_the_folders_of_all_its_jobs(world: World) -> None:
    array = "hb-0123456789abcdef"
    alone, task = runs_of(world, ["hb-00000000000000aa", f"{array}.0"])
    then = datetime.now(UTC) - timedelta(days=40)
    jobs = [Folders(world.folder).of(run) for run in (alone, task)]
    for run, token in ((alone, "hb-00000000000000bb"), (task, "hb-00000000000000cc.2")):
        created = Status(RunState.CREATED, then)
        world.store.runs.retry_each({run.id: Retry(token, "n", created)})
        jobs.append(Folders(world.folder).of(world.store.runs.get(run.id)))
        world.store.runs.record(run.id, Status(RunState.CANCELLED, then))
    for folder in (*jobs, job_folder.folder(world.folder, "hb-00000000000000cc")):
        folder.mkdir(parents=True)
    assert len(left(world)) == 5
    assert prune(world) == (5, 0, "")
    assert left(world) == set()


def test_the_folder_of_a_run_whose_cluster_has_left_the_settings_goes(world: World) -> None:
    run = ended(world)
    advance = replace(world.advance, clusters={})
    assert advance.prune(datetime.now(UTC) - timedelta(days=30)).clusters["main"].folders == 1
    kept = world.store.runs.pruned(run.id)
    assert (left(world), kept and kept.log) == (set(), "slurmstepd: the last words\n")


def test_a_place_that_boards_share_loses_the_folders_of_this_board_alone(world: World) -> None:
    shared = Folders(world.folder / "far", setting="clusters.main.board_folder")
    far = replace(world, advance=replace(world.advance, folders={"main": shared}))
    run = ended(world, "hb-00000000000000aa", folders=shared)
    of_another = world.folder / "far" / "runs" / f"{run.id}-hb-00000000000000bb"
    of_another.mkdir()
    assert prune(far) == (1, 1027, "")
    assert [path.name for path in of_another.parent.iterdir()] == [of_another.name]


def test_a_folder_that_cannot_be_removed_is_told_and_hinders_no_other(world: World) -> None:
    deep, other = ended(world), ended(world)
    below = os.open(job_folder.folder(world.folder, deep.id), os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=below)
        inner = os.open("d", os.O_RDONLY, dir_fd=below)
        os.close(below)
        below = inner
    os.close(below)
    try:
        folders, _, problem = prune(world)
        assert (folders, problem.partition(":")[0]) == (1, str(deep.id))
        assert left(world) == {str(deep.id)}
        assert not job_folder.folder(world.folder, other.id).exists()
    finally:
        # pytest cannot remove it either.
        subprocess.run(["rm", "-rf", world.folder / "runs"], check=True)


def test_a_pass_removes_some_old_folders_where_the_settings_say_so(world: World) -> None:
    for _ in range(PASS_FOLDERS_MAX + 2):
        ended(world)
    young = ended(world, days=20)
    world.advance()
    assert len(left(world)) == PASS_FOLDERS_MAX + 3
    pruning = replace(world.advance, prune_after=timedelta(days=30))
    pruning()
    assert len(left(world)) == 3
    pruning()
    assert len(left(world)) == 3, "the next time is due in a minute"
    (world.folder / "pruned-main").unlink()
    pruning()
    assert left(world) == {str(young.id)}


def test_a_busy_cluster_is_told(world: World) -> None:
    ended(world)
    with world.advance.locks.all():
        assert prune(world) == (0, 0, "another client is busy with the cluster")
    assert prune(world)[0] == 1
