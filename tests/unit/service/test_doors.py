"""The same commands through each door of one service: their text, JSON and exit codes do not tell which it was."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hpc_board.cli.main import cli
from hpc_board.domain.run import RunState
from hpc_board.model.result import Verdict
from tests.commands import run_hpc_board
from tests.service import serving
from tests.slurm.sshd import USER, Sshd, skip_without_sshd
from tests.unit.recorded import REPOSITORY, Recorded, recorded, result_of, status_of, timed_case

pytestmark = pytest.mark.slow

DOORS = ("unix", "ssh")
PROGRAM = Path(sys.executable).parent / "hpc-board"


@dataclass(frozen=True)
class House:
    """A board behind a service, with the environment of a client at each of its doors."""

    board: Recorded
    environs: dict[str, dict[str, str]]

    def run(self, door: str, *words: str | Path) -> "subprocess.CompletedProcess[str]":
        return run_hpc_board(words, environ=self.environs[door], folder=self.board.folder)

    def json(self, door: str, *words: str | Path) -> Any:
        done = self.run(door, *words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    skip_without_sshd()
    with tempfile.TemporaryDirectory(prefix="hb-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "board").mkdir()
        board = recorded(folder / "board")
        place = folder / "board.sock"
        with Sshd(folder / "d", {"PYTHONPATH": str(REPOSITORY)}) as host:
            board.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-3)
            board.add(result=result_of(Verdict.WRONG_VALUE, message="wrong"))
            board.add(status_of(RunState.LOST, reason="gone"))
            addresses = {
                "unix": str(place),
                "ssh": f"ssh://{USER}@127.0.0.1:{host.port}{place}?command={PROGRAM}",
            }
            usual = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
            usual |= {"HOME": str(host.client_home(folder / "client")), "PYTHONPATH": str(REPOSITORY)}
            with serving(board.board.settings, place):
                yield House(board, {door: {**usual, "HPC_BOARD_SERVICE": at} for door, at in addresses.items()})


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("list", "--json"), 0),
        (("runs", "--json"), 0),
        (("run", "1", "--json"), 0),
        (("run", "99"), 2),
        (("task", "check", "narrow"), 2),
        (("watch", "1"), 0),
        (("submit", "kernel.py", "--dry-run"), 0),
        (("cancel", "1"), 0),
        (("admin", "export", "--format", "csv"), 0),
        (("admin", "restore", "x.db", "--yes"), 2),
    ],
)
def test_a_command_prints_the_same_through_each_door(house: House, words: tuple[str, ...], code: int) -> None:
    near = house.run("unix", *words)
    assert near.returncode == code, near.stderr
    for door in DOORS[1:]:
        far = house.run(door, *words)
        assert (far.returncode, far.stdout, far.stderr) == (near.returncode, near.stdout, near.stderr)


@pytest.mark.parametrize("door", DOORS)
def test_a_submission_is_made_watched_and_cancelled(house: House, door: str) -> None:
    slow = house.board.folder / "slow.py"
    slow.write_text(f"{house.board.kernel.read_text()}\nimport time\n\ntime.sleep(600)\n")
    (run,) = house.json(door, "submit", slow, "--note", f"by {door}")["runs"]
    number = str(run["id"])
    assert run["trust"] == "verified"
    assert house.run(door, "watch", number, "--timeout", "1").returncode == 4
    assert house.run(door, "cancel", number).returncode == 0
    assert house.run(door, "watch", number).returncode in (1, 3)
    assert house.json(door, "run", number)["state"] == "cancelled"


@pytest.mark.parametrize(
    "address", ["munge://hpc-board@login1:7411", "localhost:27411", "run/board.sock", "~/board.sock"]
)
def test_a_variable_that_is_no_address_is_named(address: str) -> None:
    done = CliRunner().invoke(cli, ["runs"], env={"HPC_BOARD_SERVICE": address})
    assert done.exit_code == 2
    assert "$HPC_BOARD_SERVICE: expected the full path of a socket, or ssh://" in done.stderr
    assert f'found "{address}"' in done.stderr
