"""A board in a group's folder, used by two Unix accounts through the command line, whatever their umasks are."""

import json
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.accounts import become, needs_accounts
from tests.commands import UnixAccount, run_hpc_board
from tests.conftest import short_folder
from tests.e2e.boards import HANGING, BoardFiles, board_files
from tests.unit.recorded import REPOSITORY

pytestmark = needs_accounts

GROUP = 61000
ADA, BOB, STRANGER = 61001, 61002, 61003
UMASKS = pytest.mark.parametrize("umask", [0o002, 0o022, 0o077])


@dataclass(frozen=True)
class Account:
    """Somebody who has no right of root's, in the group or not, and the umask that their shell gives them."""

    uid: int
    files: BoardFiles
    umask: int = 0o022
    groups: tuple[int, ...] = (GROUP,)

    def run(self, *words: str | Path) -> "subprocess.CompletedProcess[str]":
        home = self.files.folder / str(self.uid)
        return run_hpc_board(
            self.files.words(*words),
            environ={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(REPOSITORY)},
            umask=self.umask,
            account=UnixAccount(self.uid, self.groups),
        )

    def json(self, *words: str | Path) -> Any:
        done = self.run(*words, "--json")
        assert done.returncode in (0, 1), done.stderr
        return json.loads(done.stdout)

    def can(self, action: Callable[[], object]) -> bool:
        """Whether this account may do something with a file; asked in a process of its own."""
        child = os.fork()
        if child == 0:
            try:
                become(self.uid, self.groups)
                action()
            except PermissionError:
                os._exit(1)
            except BaseException:  # noqa: BLE001 - the parent is told, and nothing of pytest goes on in here
                os._exit(2)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, 1)
        return status == 0


@pytest.fixture
def files() -> Iterator[BoardFiles]:
    """A board of the group on the embedded scheduler."""
    with short_folder() as folder:
        found = board_files(folder / "shared", slurm=False)
        for uid in (ADA, BOB, STRANGER):
            (found.folder / str(uid)).mkdir(mode=0o700)
            os.chown(found.folder / str(uid), uid, uid)
        board = found.folder / "board"
        board.mkdir()
        os.chown(board, 0, GROUP)
        board.chmod(0o2770)
        found.kernel()
        (found.folder / "hanging.py").write_text(HANGING)
        yield found


@UMASKS
def test_two_accounts_have_one_ranking_and_neither_locks_the_other_out(files: BoardFiles, umask: int) -> None:
    ada, bob, kernel = Account(ADA, files, umask), Account(BOB, files, umask), files.folder / "kernel.py"
    for account in (ada, bob, ada):
        (run,) = account.json("submit", kernel, "--gpu", "CPU", "--mode", "ranked", "--wait")["runs"]
        assert (run["state"], run["verdict"]) == ("finished", "pass"), run
    for account in (ada, bob):
        rows = account.json("show", "double", "--gpu", "CPU")["boards"][0]["rows"]
        assert {row["user"] for row in rows} == {str(ADA), str(BOB)}
        assert len(account.json("runs", "--all")) == 3
    database = (files.folder / "board" / "board.db").stat()
    assert (stat.S_IMODE(database.st_mode), database.st_gid) == (0o660, GROUP)


def test_the_runs_of_another_account_are_seen_and_left_alone(files: BoardFiles) -> None:
    ada, bob = Account(ADA, files, 0o002), Account(BOB, files)
    (run,) = ada.json("submit", files.folder / "hanging.py", "--gpu", "CPU", "--mode", "test")["runs"]
    number = str(run["id"])
    try:
        assert bob.run("poll").returncode == 0
        seen = bob.json("run", number)
        assert (seen["user"], seen["state"] in ("queued", "running")) == (str(ADA), True)
        assert bob.run("cancel", number).returncode == 5
        assert bob.run("code", str(run["submission"])).returncode == 5
        folder = files.folder / "board" / "users" / str(ADA)
        script = folder / "runs" / number / "job.sh"
        (harness,) = (folder / "harness").iterdir()
        assert ada.can(script.read_bytes)
        assert ada.can(harness.read_bytes)
        for action in (
            script.read_bytes,
            lambda: script.write_text("#!/bin/sh"),
            script.unlink,
            lambda: harness.write_bytes(b"another judge"),
            harness.unlink,
            lambda: list(folder.iterdir()),
            lambda: folder.rename(folder.with_name("gone")),
            lambda: (folder / "advance.lock").open("a"),
        ):
            assert not bob.can(action)
    finally:
        assert ada.run("cancel", number).returncode == 0
    assert ada.run("watch", number).returncode == 3
    assert bob.json("run", number)["state"] == "cancelled"


def test_a_stranger_is_told_that_the_board_is_a_group_s(files: BoardFiles) -> None:
    stranger = Account(STRANGER, files, groups=())
    done = stranger.run("runs")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "Permission denied" in done.stderr
    listed = stranger.run("list")
    assert listed.returncode == 0
    assert f"Warning: {files.folder / 'board'} is closed to you: it is for the group {GROUP}." in listed.stderr
    assert listed.stderr.count("is closed to you") == 1
    assert "is closed to you" not in Account(BOB, files).run("list").stderr
    examined = stranger.run("admin", "doctor")
    assert (examined.returncode, "Traceback" in examined.stderr) == (3, False)
    assert "you are not in it" in " ".join(examined.stdout.split())


def test_the_doctor_finds_a_shared_board_healthy_and_a_database_that_keeps_the_group_out(files: BoardFiles) -> None:
    ada = Account(ADA, files)
    ada.json("runs")
    told = {(line["level"], line["subject"]): line["message"] for line in ada.json("admin", "doctor")}
    assert {level for level, _ in told} <= {"ok", "warning"}
    (files.folder / "board" / "board.db").chmod(0o600)
    done = ada.run("admin", "doctor")
    assert done.returncode == 3
    assert "chmod g+rw" in done.stdout


def test_the_place_of_an_account_that_somebody_else_took_is_not_used(files: BoardFiles) -> None:
    place = files.folder / "board" / "users" / str(BOB)
    assert Account(ADA, files).run("runs").returncode == 0
    assert Account(ADA, files).can(place.mkdir)
    done = Account(BOB, files).run("submit", files.folder / "kernel.py", "--gpu", "CPU")
    assert done.returncode == 2
    assert f"user {ADA} has put something there" in " ".join(done.stderr.split())


def test_whoever_looks_first_makes_room_for_the_others(files: BoardFiles) -> None:
    for uid in (ADA, BOB):
        Account(uid, files, umask=0o077).json("gpus")
    accounts = files.folder / "board" / "users"
    assert stat.S_IMODE(accounts.stat().st_mode) == 0o3770
    assert {path.name: stat.S_IMODE(path.stat().st_mode) & 0o777 for path in accounts.iterdir()} == {
        str(ADA): 0o700,
        str(BOB): 0o700,
    }
