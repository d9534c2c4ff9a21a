"""The harness beside the job folders: one for all runs of a version, kept for those that wait, removed when old."""

import errno
import json
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hpc_board.domain.run import RunState, Status
from hpc_board.errors import StorageError
from hpc_board.model.task import Mode
from hpc_board.runs import job_folder
from hpc_board.runs.reconciler import Reconciler
from hpc_board.store.submissions import NewRun, NewSubmission
from hpc_board.transport import Entry
from hpc_board.transport.local_files import LocalFiles
from tests.harness.evaluations import a_task
from tests.unit.runs.world import CODE, HARNESS, World, script_of, sha256_of
from tests.values import replace


def test_a_turn_tells_that_the_harness_cannot_be_written(world: World) -> None:
    run = world.run()
    (world.folder / "harness").write_text("in the way")
    with pytest.raises(StorageError, match="the harness cannot be written") as error:
        world.advance()
    assert error.value.message.startswith(f"{world.folder}/harness/{sha256_of(HARNESS)}.pyz: ")
    assert (world.state(run), world.scheduler.sent) == (RunState.CREATED, [])
    (world.folder / "harness").unlink()
    assert world.advance()
    assert world.state(run) is RunState.QUEUED


def harnesses(world: World) -> set[str]:
    return {path.name for path in (world.folder / "harness").iterdir()}


def updated(world: World) -> Reconciler:
    """Return the state machine of a newer version of hpc-board on the same board."""
    return replace(world.advance, harness=lambda: b"a newer harness")


def test_runs_share_one_harness_that_lies_there_under_its_hash(world: World) -> None:
    world.advance.launch([world.run() for _ in range(3)])
    assert harnesses(world) == {f"{sha256_of(HARNESS)}.pyz"}
    assert (world.folder / "harness" / f"{sha256_of(HARNESS)}.pyz").read_bytes() == HARNESS
    folders = list((world.folder / "runs").iterdir())
    assert len(folders) == 3
    assert not any((folder / "harness.pyz").exists() for folder in folders)


def test_a_run_that_waited_through_an_update_is_sent_with_its_own_harness_where_that_is_there(world: World) -> None:
    sent, waiting = world.run(), world.run()
    world.advance.launch([sent])
    assert updated(world).launch([waiting]) == []
    assert world.state(waiting) is RunState.QUEUED
    facts = json.loads((job_folder.folder(world.folder, waiting.id) / job_folder.FACTS).read_text())
    assert facts["sha256"]["harness"] == sha256_of(HARNESS)
    assert harnesses(world) == {f"{sha256_of(HARNESS)}.pyz"}


@pytest.mark.parametrize("folder", [True, False])
def test_a_run_whose_harness_is_gone_with_an_update_ends(world: World, folder: bool) -> None:
    run = world.run()
    if folder:
        (world.folder / "harness").mkdir()
    (error,) = updated(world).launch([run])
    assert error.message == "hpc-board was updated before the run was sent; rerun it"
    assert world.state(run) is RunState.ERROR
    assert world.scheduler.sent == []


def test_a_run_whose_harness_cannot_be_looked_for_waits(world: World) -> None:
    run = world.run()

    class Hanging(LocalFiles):
        def entries(self, folder: Path, *, most: int | None = None) -> Sequence[Entry]:  # noqa: ARG002
            raise OSError(errno.EIO, "Input/output error", str(folder))

    advance = replace(updated(world), folders={"main": job_folder.Folders(world.folder, Hanging())})
    (error,) = advance.launch([run])
    assert "the harness cannot be checked: Input/output error" in error.message
    assert world.state(run) is RunState.CREATED


def test_harnesses_that_no_run_needs_go_when_they_are_old(world: World) -> None:
    needed, over = world.run(), world.run()
    world.advance.launch([needed])
    folder = world.folder / "harness"
    ours = {name: f"{sha256_of(name.encode())}.pyz" for name in ("old", "young")}
    for name in (*ours.values(), f".{sha256_of(b'x')}.pyz.0123456789abcdef", "notes.txt", "my.pyz"):
        (folder / name).touch()
    for path in folder.iterdir():
        if path.name != ours["young"]:
            os.utime(path, (1, 1))
    before = harnesses(world)
    assert job_folder.Folders(world.folder).remove_unused_harnesses({sha256_of(HARNESS)}, dry_run=True) == [0, 0]
    assert harnesses(world) == before
    newer = sha256_of(b"a newer harness")
    world.store.runs.record(over.id, Status(RunState.CANCELLED, datetime.now(UTC)))
    _, (run,) = world.store.submissions.add(
        NewSubmission(
            task=a_task(),
            user="ada",
            file_name="k.py",
            code=CODE,
            mode=Mode.TEST,
            note="",
            at=datetime.now(UTC),
            runs=[
                NewRun(
                    *("H100", "main", "gpu", "hb-newer", "n", "self-run", False, newer),
                    script=script_of(a_task(), Mode.TEST),
                )
            ],
        ),
        sender=None,
    )
    assert updated(world).launch([run]) == []
    assert harnesses(world) == {f"{newer}.pyz", f"{sha256_of(HARNESS)}.pyz", ours["young"], "notes.txt", "my.pyz"}


def test_harnesses_are_looked_through_once_a_day(world: World) -> None:
    world.advance.launch([world.run()])
    old = world.folder / "harness" / f"{sha256_of(b'old')}.pyz"
    old.touch()
    os.utime(old, (1, 1))
    world.advance.launch([world.run()])
    assert old.exists()
    a_day_ago = time.time() - 90_000
    os.utime(world.folder / "harness" / f"{sha256_of(HARNESS)}.pyz", (a_day_ago, a_day_ago))
    world.advance.launch([world.run()])
    assert not old.exists()
