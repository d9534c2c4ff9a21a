"""The rules of play on a served board, where admin and participants are Unix accounts of their own."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import yaml

from tests.accounts import needs_accounts
from tests.conftest import short_folder
from tests.e2e.boards import HANGING, RIGHT, BoardFiles, board_files
from tests.e2e.test_served_board import ADA, BOB, OWNER, TEACHER, Player, served_by

pytestmark = needs_accounts


@dataclass(frozen=True)
class Players:
    """An admin, two participants and the files of their board."""

    files: BoardFiles
    admin: Player
    ada: Player
    bob: Player

    def new_version(self, **limits: float) -> None:
        file = self.files.folder / "tasks" / "double" / "task.yml"
        document = yaml.safe_load(file.read_text())
        document["benchmarks"] = [{"size": 200, "seed": 3}]
        document["hpc_board"]["limits"] |= limits
        file.write_text(yaml.safe_dump(document, sort_keys=False))


@pytest.fixture
def players() -> Iterator[Players]:
    """A served board on the embedded scheduler."""
    with short_folder() as folder:
        files = board_files(folder / "board", slurm=False)
        files.settings.write_text(files.settings.read_text() + f"roles: {{admins: [{TEACHER}]}}\n")
        with served_by(OWNER, files) as socket:
            admin, ada, bob = (Player(name, files.folder, socket) for name in (TEACHER, ADA, BOB))
            yield Players(files, admin, ada, bob)


def test_an_admin_sends_the_best_of_others_again_and_they_stay_theirs(players: Players) -> None:
    ada, bob, admin = players.ada, players.bob, players.admin
    for player in (ada, bob):
        (run,) = player.json("submit", player.file(RIGHT), "--gpu", "CPU", "--mode", "ranked", "--wait")["runs"]
        assert run["verdict"] == "pass", run
    players.new_version()
    assert bob.run("admin", "rerun", "double").returncode == 5
    sent = admin.json("admin", "rerun", "double")["runs"]
    assert {run["user"] for run in sent} == {ADA, BOB}
    for run in sent:
        assert admin.run("watch", str(run["id"])).returncode == 0
    rows = bob.json("show", "double", "--gpu", "CPU")["boards"][0]["rows"]
    assert {(row["user"], row["trust"]) for row in rows} == {(ADA, "verified"), (BOB, "verified")}
    newest = ada.json("runs")[0]
    assert (newest["account"], newest["rerun"]["by"], newest["trust"]) == (OWNER, TEACHER, "verified")
    assert f"rerun by {TEACHER}" in ada.run("runs").stdout


def test_the_author_ends_a_rerun_and_no_other_participant_does(players: Players) -> None:
    ada, bob, admin = players.ada, players.bob, players.admin
    # The kernel has to hang for longer than all of these commands take on a busy machine.
    players.new_version(call_seconds=110, first_call_seconds=110)
    hanging = ada.file(HANGING, "hanging.py")
    (own,) = ada.json("submit", hanging, "--gpu", "CPU", "--mode", "ranked")["runs"]
    assert ada.run("cancel", str(own["id"])).returncode == 0
    (run,) = admin.json("admin", "rerun", "double", "--submission", str(own["submission"]))["runs"]
    number = str(run["id"])
    deadline = time.monotonic() + 60
    while admin.json("run", number)["state"] != "running":
        assert time.monotonic() < deadline
    assert bob.run("cancel", number).returncode == 5
    assert ada.run("cancel", number).returncode == 0
    assert admin.run("watch", number).returncode == 3
    assert ada.json("run", number)["state"] == "cancelled"
