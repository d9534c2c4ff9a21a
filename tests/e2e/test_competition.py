"""A competition from its first day to its last, played by three Unix accounts on a served board."""

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from tests.accounts import needs_accounts
from tests.conftest import short_folder
from tests.e2e.boards import RIGHT, BoardFiles, board_files
from tests.e2e.test_served_board import ADA, BOB, OWNER, Player, served_by

pytestmark = needs_accounts

EVE = "sys"
COMPETITION = """\
name: Practice
problems:
  - {directory: double, name: double_v2, gpus: [CPU]}
"""
SLOWER = RIGHT.replace("    return", "    sum(range(20_000))\n    return")


@dataclass(frozen=True)
class Players:
    """An admin, two participants, the files of their board, and the competition that the admin brings."""

    files: BoardFiles
    ada: Player
    bob: Player
    eve: Player
    competition: Path

    def ranked(self, player: Player, board: str, text: str = RIGHT) -> int:
        """The number of a ranked run of the player that passed."""
        kernel = player.file(text.replace("leaderboard double", f"leaderboard {board}"))
        (run,) = player.json("submit", kernel, "--mode", "ranked", "--wait")["runs"]
        assert (run["state"], run["verdict"]) == ("finished", "pass"), run
        return int(run["id"])

    def standings(self, player: Player, board: str) -> list[str]:
        """The users on the board, best first, as the player sees it."""
        return [row["user"] for row in player.json("show", board)["boards"][0]["rows"]]


@pytest.fixture
def players() -> Iterator[Players]:
    with short_folder() as folder:
        files = board_files(folder / "shared", slurm=False)
        settings = yaml.safe_load(files.settings.read_text())
        settings["roles"] = {"admins": [ADA], "participants": [BOB, EVE]}
        files.settings.write_text(yaml.safe_dump(settings, sort_keys=False))
        competition = files.folder / "competition"
        shutil.copytree(files.folder / "tasks" / "double", competition / "problems" / "double")
        (competition / "problems" / "practice.yaml").write_text(COMPETITION)
        with served_by(OWNER, files) as socket:
            ada, bob, eve = (Player(name, files.folder, socket) for name in (ADA, BOB, EVE))
            yield Players(files, ada, bob, eve, competition)


def test_a_competition_is_played_to_its_end(players: Players) -> None:
    ada, bob, eve = players.ada, players.bob, players.eve

    # It begins: the admin alone may bring it.
    assert bob.run("admin", "sync", players.competition).returncode == 5
    brought = ada.json("admin", "sync", players.competition, "--problem-set", "practice")
    assert [(each["name"], each["result"]) for each in brought] == [("double_v2", "created")]
    start = bob.run("template", "double_v2")
    assert start.returncode == 2  # the task has none, and says so
    assert "has no template" in start.stderr

    # It is played.
    first = players.ranked(eve, "double_v2", SLOWER)
    players.ranked(bob, "double_v2")
    assert set(players.standings(ada, "double_v2")) == {BOB, EVE}

    # Its cases change: with users on the board only by force, and only by the admin.
    task = players.competition / "problems" / "double" / "task.yml"
    document = yaml.safe_load(task.read_text())
    document["benchmarks"] = [{"size": 200, "seed": 3}]
    task.write_text(yaml.safe_dump(document, sort_keys=False))
    assert bob.run("update", "double_v2", task.parent, "--force").returncode == 5
    skipped = ada.run("admin", "sync", players.competition)
    assert (skipped.returncode, "CPU: 2" in skipped.stdout) == (5, True), skipped.stdout
    assert len(players.standings(eve, "double_v2")) == 2
    forced = ada.run("update", "double_v2", task.parent, "--force", "--reason", "larger cases")
    assert forced.returncode == 0, forced.stderr
    assert players.standings(eve, "double_v2") == []
    assert eve.json("run", str(first))["verdict"] == "pass"
    for player in (bob, eve):
        players.ranked(player, "double_v2")

    # It ends.
    over = datetime.now(UTC) + timedelta(seconds=5)
    assert ada.run("update", "double_v2", "--deadline", over.isoformat()).returncode == 0
    while datetime.now(UTC) <= over:
        time.sleep(0.1)
    text = RIGHT.replace("leaderboard double", "leaderboard double_v2")
    kernel = eve.file(text, "late.py")
    late = eve.run("submit", kernel, "--mode", "ranked")
    assert late.returncode == 5
    assert "The deadline to submit to double_v2 has passed." in late.stderr
    admitted = ada.run("submit", ada.file(text), "--mode", "test", "--dry-run")
    assert admitted.returncode == 0, admitted.stderr
    assert "the deadline of double_v2 has passed; you may submit as an admin" in admitted.stderr
    final = players.standings(eve, "double_v2")
    assert set(final) == {BOB, EVE}
    assert players.standings(bob, "double_v2") == final

    # Every user may read the changes and their authors.
    history = eve.json("update", "double_v2", "--history")
    assert [(each["action"], each["by"]) for each in history] == [("create", ADA)] + [("update", ADA)] * 2
    assert history[1]["reason"] == "larger cases"
