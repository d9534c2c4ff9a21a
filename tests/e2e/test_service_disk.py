"""A served board on a disk that fills up."""

from pathlib import Path

import pytest

from tests.accounts import needs_accounts
from tests.conftest import short_folder
from tests.e2e.boards import HANGING, RIGHT, board_files, fill
from tests.e2e.test_served_board import ADA, Player, environment, service
from tests.waiting import awaited


@pytest.mark.root
@needs_accounts
def test_a_full_disk_is_told_and_loses_no_run(small_disk: Path) -> None:
    with short_folder() as folder:
        files = board_files(folder / "site", slurm=False)
        board = small_disk / "board"
        files.settings.write_text(files.settings.read_text().replace(str(files.folder / "board"), str(board)))
        socket = folder / "board.sock"
        ada = Player(ADA, folder, socket)
        with service(files, socket, 0, environment(HOME=str(folder))):
            words = ("--task", "double", "--mode", "ranked")
            assert ada.run("submit", ada.file(RIGHT), *words, "--wait").returncode == 0
            (hanging,) = ada.json("submit", ada.file(HANGING, "slow.py"), "--task", "double")["runs"]
            awaited(lambda: ada.json("run", str(hanging["id"]))["state"] == "running")
            ballast = small_disk / "ballast"
            fill(ballast)
            refused = ada.run("submit", ada.file(RIGHT + "#" * 200_000, "large.py"), *words)
            assert refused.returncode == 2
            assert "The board cannot be written" in refused.stderr
            assert "Free some space in this file system" in refused.stderr
            assert len(ada.json("runs")) == 2
            ballast.unlink()
            assert ada.run("submit", ada.home / "large.py", *words).returncode == 0
            assert ada.run("cancel", str(hanging["id"])).returncode == 0
            for number in ("2", "3"):
                ada.run("watch", number)
            assert [run["state"] for run in ada.json("runs")] == ["finished", "cancelled", "finished"]
