"""A served board that its players reach by ssh: each is the account that has logged in, and no other."""

import os
import pwd
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.accounts import needs_accounts
from tests.commands import printed_json, run_hpc_board
from tests.conftest import short_folder
from tests.e2e.boards import RIGHT, board_files
from tests.e2e.test_served_board import ADA, BOB, FASTER, OWNER, TEACHER, environment, service, socket_place
from tests.slurm.sshd import Sshd, skip_without_sshd
from tests.unit.recorded import REPOSITORY

PROGRAM = Path(sys.executable).parent / "hpc-board"

WITH_SHELLS = """
import os, sys
from pathlib import Path
from tests.accounts import enter_with_shells
enter_with_shells(Path(sys.argv[1]))
os.execv(sys.argv[2], sys.argv[2:])
"""


class Player:
    """A person at another machine, whose key opens the account `name` on the service's machine."""

    def __init__(self, name: str, home: Path, address: str) -> None:
        self.home = home
        self.environ = environment(HOME=str(home), HPC_BOARD_SERVICE=address.replace("USER", name))

    def run(self, *words: str | Path) -> "subprocess.CompletedProcess[str]":
        return run_hpc_board(words, environ=self.environ, folder=self.home)

    def json(self, *words: str | Path) -> Any:
        return printed_json(self.run(*words, "--json"))

    def file(self, text: str) -> Path:
        path = self.home / "kernel.py"
        path.write_text(text)
        return path


def list_with_shells(path: Path) -> Path:
    """The machine's list of users, all with a shell."""
    lines = (line.split(":") for line in Path("/etc/passwd").read_text().splitlines())
    path.write_text("".join(":".join([*words[:6], "/bin/sh"]) + "\n" for words in lines if len(words) == 7))
    path.chmod(0o644)
    return path


@needs_accounts
def test_three_accounts_play_a_competition_by_ssh(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without_sshd()
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    owner = pwd.getpwnam(OWNER).pw_uid
    with short_folder() as folder:
        files = board_files(folder / "board", slurm=False)
        document = yaml.safe_load(files.settings.read_text())
        document |= {"roles": {"creators": [TEACHER], "admins": [TEACHER]}}
        files.settings.write_text(yaml.safe_dump(document))
        os.chown(files.folder, owner, -1)
        socket = socket_place(files, owner)
        begin = (sys.executable, "-c", WITH_SHELLS, str(list_with_shells(folder / "passwd")))
        monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
        with (
            Sshd(folder / "d", {"PYTHONPATH": str(REPOSITORY), "USER": "root"}, begin=begin) as host,
            service(files, socket, owner, environment(HOME=str(files.folder))),
        ):
            home = host.client_home(folder / "client")
            address = f"ssh://USER@127.0.0.1:{host.port}{socket}?command={PROGRAM}"
            teacher, ada, bob = (Player(name, home, address) for name in (TEACHER, ADA, BOB))
            for player, text in ((ada, RIGHT), (bob, FASTER)):
                words = ("submit", player.file(text), "--task", "double", "--mode", "ranked", "--wait")
                (run,) = player.json(*words)["runs"]
                assert (run["verdict"], run["trust"]) == ("pass", "verified"), run
            rows = ada.json("show", "double")["boards"][0]["rows"]
            assert {row["user"] for row in rows} == {ADA, BOB}
            assert bob.run("code", "1").returncode == 5
            assert bob.run("admin", "ban", ADA, "--reason", "rival").returncode == 5
            exported = teacher.run("admin", "export", "--format", "html", "-o", "final.html")
            assert exported.returncode == 0, exported.stderr
            assert "double" in (home / "final.html").read_text()
