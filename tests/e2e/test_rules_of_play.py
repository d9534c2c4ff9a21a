"""The rules of play on a group's board, where admin and participants are Unix accounts of their own."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.accounts import needs_accounts
from tests.conftest import short_folder
from tests.e2e.boards import HANGING, RIGHT, BoardFiles, board_files
from tests.e2e.test_two_accounts import ADA, BOB, GROUP, Account

pytestmark = needs_accounts

ADMIN = 61004


@pytest.fixture
def files() -> Iterator[BoardFiles]:
    """A board of the group on the embedded scheduler, whose folder is root's and whose admin is one of the group."""
    with short_folder() as folder:
        found = board_files(folder / "shared", slurm=False)
        found.settings.write_text(found.settings.read_text() + f'roles: {{admins: ["{ADMIN}"]}}\n')
        for uid in (ADA, BOB, ADMIN):
            (found.folder / str(uid)).mkdir(mode=0o700)
            os.chown(found.folder / str(uid), uid, uid)
        board = found.folder / "board"
        board.mkdir()
        os.chown(board, 0, GROUP)
        board.chmod(0o2770)
        yield found


def new_version(files: BoardFiles, **limits: float) -> None:
    file = files.folder / "tasks" / "double" / "task.yml"
    document = yaml.safe_load(file.read_text())
    document["benchmarks"] = [{"size": 200, "seed": 3}]
    document["hpc_board"]["limits"] |= limits
    file.write_text(yaml.safe_dump(document, sort_keys=False))


def job_folder(files: BoardFiles, uid: int, run: int) -> Path:
    return files.folder / "board" / "users" / str(uid) / "runs" / str(run)


def test_an_admin_sends_the_best_of_others_again_and_they_stay_theirs(files: BoardFiles) -> None:
    ada, bob, admin = (Account(uid, files) for uid in (ADA, BOB, ADMIN))
    kernel = files.kernel()
    for account in (ada, bob):
        (run,) = account.json("submit", kernel, "--gpu", "CPU", "--mode", "ranked", "--wait")["runs"]
        assert run["verdict"] == "pass", run
    new_version(files)
    assert bob.run("admin", "rerun", "double").returncode == 5
    sent = admin.json("admin", "rerun", "double")["runs"]
    assert {run["user"] for run in sent} == {str(ADA), str(BOB)}
    for run in sent:
        # Whoever is not the account can neither send the job nor look into its folder, and leaves it alone.
        assert ada.run("poll").returncode == 0
        assert admin.run("watch", str(run["id"])).returncode == 0
        assert job_folder(files, ADMIN, run["id"]).is_dir()
        assert not job_folder(files, int(run["user"]), run["id"]).exists()
    rows = bob.json("show", "double", "--gpu", "CPU")["boards"][0]["rows"]
    assert {(row["user"], row["trust"]) for row in rows} == {(str(ADA), "verified"), (str(BOB), "verified")}
    newest = ada.json("runs")[0]
    assert (newest["account"], newest["rerun"]["by"], newest["trust"]) == (str(ADMIN), str(ADMIN), "verified")
    assert f"rerun by {ADMIN}" in ada.run("runs").stdout


@pytest.mark.parametrize("waits", [True, False], ids=["running", "at once"])
def test_the_author_ends_a_rerun_through_the_account_whose_job_it_is(files: BoardFiles, waits: bool) -> None:
    ada, bob, admin = (Account(uid, files) for uid in (ADA, BOB, ADMIN))
    # The kernel has to hang for longer than all of these commands take on a busy machine.
    new_version(files, call_seconds=110, first_call_seconds=110)
    (own,) = ada.json("submit", files.kernel(HANGING, "hanging.py"), "--gpu", "CPU", "--mode", "ranked")["runs"]
    assert ada.run("cancel", str(own["id"])).returncode == 0
    (run,) = admin.json("admin", "rerun", "double", "--submission", str(own["submission"]))["runs"]
    number = str(run["id"])
    deadline = time.monotonic() + 60
    while waits and admin.run("poll").returncode == 0 and admin.json("run", number)["state"] != "running":
        assert time.monotonic() < deadline
    assert bob.run("cancel", number).returncode == 5
    asked = ada.run("cancel", number)
    assert (asked.returncode, f"the next client of {ADMIN} cancels their job" in asked.stdout) == (0, True), asked
    assert ada.json("run", number)["state"] != "cancelled"
    assert admin.run("watch", number).returncode == 3
    assert ada.json("run", number)["state"] == "cancelled"


def test_rules_hold_for_participants_and_only_admins_make_them(files: BoardFiles) -> None:
    ada, bob, admin = (Account(uid, files) for uid in (ADA, BOB, ADMIN))
    kernel = files.kernel(RIGHT)
    assert bob.run("admin", "limit", "double", "--other", "1").returncode == 5
    assert admin.run("admin", "limit", "double", "--other", "1").returncode == 0
    assert ada.run("submit", kernel, "--mode", "test", "--wait").returncode == 0
    refused = ada.run("submit", kernel, "--mode", "test")
    assert (refused.returncode, "Rate limit exceeded" in refused.stderr) == (5, True)
    assert bob.run("submit", kernel, "--mode", "test", "--wait").returncode == 0
    assert admin.run("admin", "ban", str(BOB), "--reason", "two accounts").returncode == 0
    refused = bob.run("submit", kernel, "--mode", "ranked")
    assert (refused.returncode, "Reason: two accounts" in refused.stderr) == (5, True)
    assert admin.run("admin", "stop").returncode == 0
    assert ada.run("submit", kernel, "--mode", "ranked").returncode == 5
    accepted = admin.run("submit", kernel, "--mode", "ranked", "--wait")
    assert (accepted.returncode, "you are an admin" in accepted.stderr) == (0, True)
    assert admin.run("code", "1").stdout == RIGHT
    assert bob.run("code", "1").returncode == 5
    actions = [row["action"] for row in admin.json("admin", "log")]
    assert actions == ["stop", "ban", "limit"]
    assert ada.run("admin", "log").returncode == 5
