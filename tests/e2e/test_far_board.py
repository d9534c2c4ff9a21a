"""A competition on a served board whose players sit at another machine: another network, reached by munge alone."""

import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.accounts import command_as, needs_accounts
from tests.commands import printed_json
from tests.conftest import short_folder
from tests.e2e.boards import RIGHT, BoardFiles, board_files
from tests.e2e.test_served_board import ADA, BOB, FASTER, OWNER, TEACHER, environment, socket_place
from tests.munge import munged, new_key, skip_without_munge
from tests.networks import SERVER_ADDRESS, Networks, linked_networks
from tests.waiting import awaited

PORT = 7411


class Player:
    """An account at the other machine, which reaches the service by `address`."""

    def __init__(self, name: str, place: Path, networks: Networks, address: str) -> None:
        self.uid = pwd.getpwnam(name).pw_uid
        self.home = place / name
        self.home.mkdir(mode=0o700)
        os.chown(self.home, self.uid, -1)
        self.network = networks.client
        self.environ = environment(HOME=str(self.home), HPC_BOARD_SERVICE=address)

    def run(self, *words: str | Path) -> "subprocess.CompletedProcess[str]":
        own = command_as(self.uid, 0o022, [], [sys.executable, "-m", "hpc_board", *map(str, words)])
        return subprocess.run(
            [*self.network, *own],
            cwd=self.home,
            env=self.environ,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
            check=False,
        )

    def json(self, *words: str | Path) -> Any:
        return printed_json(self.run(*words, "--json"))

    def file(self, text: str, name: str = "kernel.py") -> Path:
        path = self.home / name
        path.write_text(text)
        os.chown(path, self.uid, -1)
        return path


@contextmanager
def service(files: BoardFiles, networks: Networks, uid: int) -> Iterator[Path]:
    """Run the service under the account `uid` on its side of the cable; yield its log."""
    command = command_as(uid, 0o022, [], files.command("serve"))
    log = files.folder / "serve.log"
    with log.open("w") as sink:
        process = subprocess.Popen(
            [*networks.server, *command], cwd=files.folder, env=environment(HOME=str(files.folder)), stderr=sink
        )
    try:
        awaited(lambda: '"serving"' in log.read_text() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield log
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
        assert '"fault"' not in log.read_text()


@needs_accounts
def test_three_accounts_on_another_machine_play_a_competition_by_munge() -> None:
    skip_without_munge()
    owner = pwd.getpwnam(OWNER).pw_uid
    with short_folder() as folder, linked_networks() as networks, munged(folder / "m", new_key(folder / "key")) as m:
        files = board_files(folder / "board", slurm=False)
        document = yaml.safe_load(files.settings.read_text())
        served = {
            "socket": str(socket_place(files, owner)),
            "munge": f"{SERVER_ADDRESS}:{PORT}",
            "munge_socket": str(m),
        }
        document |= {"roles": {"creators": [TEACHER], "admins": [TEACHER]}, "serve": served}
        files.settings.write_text(yaml.safe_dump(document))
        os.chown(files.folder, owner, -1)
        address = f"munge://{OWNER}@{SERVER_ADDRESS}:{PORT}?socket={m}"
        teacher, ada, bob = (Player(name, folder, networks, address) for name in (TEACHER, ADA, BOB))
        with service(files, networks, owner) as log:
            # The teacher makes a closed board of a folder at home, and only its member sees it.
            source = teacher.home / "doubling"
            subprocess.run(["cp", "-r", str(files.folder / "tasks" / "double"), str(source)], check=True)
            done = teacher.run("create", source, "--closed", "--member", ADA, "--reason", "the course")
            assert done.returncode == 0, done.stderr
            assert "doubling" in ada.run("list").stdout
            assert "doubling" not in bob.run("list").stdout

            # Each is ranked by the account of the process, not by the environment.
            for player, text in ((ada, RIGHT), (bob, FASTER)):
                player.environ["USER"] = player.environ["LOGNAME"] = "root"
                words = ("submit", player.file(text), "--task", "double", "--mode", "ranked", "--wait")
                (run,) = player.json(*words)["runs"]
                assert (run["verdict"], run["trust"]) == ("pass", "verified"), run
            rows = ada.json("show", "double")["boards"][0]["rows"]
            assert {row["user"] for row in rows} == {ADA, BOB}
            assert bob.run("code", "1").returncode == 5
            assert bob.run("admin", "ban", ADA, "--reason", "rival").returncode == 5
            assert f'"uid": {bob.uid}' in log.read_text()

            # The address of another account's service tells no account anything.
            bob.environ["HPC_BOARD_SERVICE"] = address.replace(OWNER, BOB)
            other = bob.run("runs")
            assert (other.returncode, "does not run as the account" in other.stderr) == (2, True)

            exported = teacher.run("admin", "export", "--format", "html", "-o", "final.html")
            assert exported.returncode == 0, exported.stderr
            assert "double" in (teacher.home / "final.html").read_text()
        gone = ada.run("runs")
        assert (gone.returncode, "Connection refused" in gone.stderr) == (3, True)
