"""A competition on a real Slurm, from `admin init --serve` to the final export, its players at both doors."""

import json
import os
import pwd
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.accounts import command_as, needs_accounts
from tests.commands import printed_json, run_hpc_board
from tests.conftest import short_folder
from tests.e2e.boards import RIGHT, board_files
from tests.e2e.test_served_board import ADA, BOB, OWNER, PYTHON, TEACHER, Player, environment
from tests.e2e.test_service_setup import unit_in
from tests.slurm.lab import SlurmLab
from tests.slurm.sshd import Sshd, skip_without_sshd
from tests.unit.recorded import REPOSITORY
from tests.waiting import awaited

CYD = "sys"
PROGRAM = Path(sys.executable).parent / "hpc-board"

WITH_SHELLS = """
import os, sys
from pathlib import Path
from tests.accounts import enter_with_shells
enter_with_shells(Path(sys.argv[1]))
os.execv(sys.argv[2], sys.argv[2:])
"""

SLOWER = RIGHT.replace("    return", "    import time; time.sleep(0.02)\n    return")
SLOWEST = RIGHT.replace("    return", "    import time; time.sleep(0.1)\n    return")


class RemotePlayer:
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


@contextmanager
def started(folder: Path, unit: Path, environ: Mapping[str, str]) -> Iterator[None]:
    """Run the command of a unit file under the service's account until the block ends."""
    (line,) = (line for line in unit.read_text().splitlines() if line.startswith("ExecStart="))
    command = command_as(pwd.getpwnam(OWNER).pw_uid, 0o077, [], shlex.split(line.removeprefix("ExecStart=")))
    log = folder / "serve.log"
    with log.open("w") as sink:
        process = subprocess.Popen(command, env=dict(environ), stderr=sink, cwd="/")
    try:
        awaited(lambda: '"serving"' in log.read_text() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield
    finally:
        process.terminate()
        assert process.wait(60) == 0, log.read_text()
        assert '"fault"' not in log.read_text()


def adapted(settings: Path, folder: Path) -> None:
    """Change the settings of `admin init` to a task of milliseconds and a Python that the jobs' account may run."""
    document: dict[str, Any] = yaml.safe_load(settings.read_text())
    (cluster,) = document["clusters"]
    document["clusters"][cluster]["poll_seconds"] = 1
    document["tasks"] = [str(folder / "site" / "tasks")]
    document["gpus"] = {
        "CPU": {
            "cluster": cluster,
            "partition": "cpu",
            "request": {"style": "none"},
            "device": "cpu",
            "time": "00:05:00",
            "python": PYTHON,
        }
    }
    document["roles"] = {"creators": [TEACHER], "admins": [TEACHER], "participants": [ADA, BOB, CYD]}
    settings.write_text(yaml.safe_dump(document))


@pytest.mark.slurm
@needs_accounts
def test_players_at_both_doors_share_one_competition(accounting_lab: SlurmLab, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without_sshd()
    if shutil.which(PYTHON) is None:
        pytest.skip(f"no {PYTHON}")
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    owner = pwd.getpwnam(OWNER).pw_uid
    with short_folder() as folder:
        board_files(folder / "site", slurm=False)
        os.chown(folder, owner, -1)
        of_slurm = {name: accounting_lab.environment[name] for name in ("SLURM_CONF", "PATH")}
        environ = environment(HOME=str(folder), **of_slurm)
        words = [sys.executable, "-m", "hpc_board", "admin", "init", str(folder / "board"), "--serve", "--json"]
        made = subprocess.run(
            command_as(owner, 0o022, [], words), env=environ, cwd=folder, capture_output=True, text=True, check=False
        )
        assert made.returncode == 0, made.stderr
        told = json.loads(made.stdout)
        settings, socket = Path(told["settings"]), Path(told["socket"])
        adapted(settings, folder)

        shells = list_with_shells(folder / "passwd")
        begin = (sys.executable, "-c", WITH_SHELLS, str(shells))
        with (
            Sshd(folder / "d", {"PYTHONPATH": str(REPOSITORY), "USER": "root"}, begin=begin) as host,
            started(folder, unit_in(settings.parent), environ),
        ):
            teacher, ada, bob = (Player(name, folder, socket) for name in (TEACHER, ADA, BOB))
            home = host.client_home(folder / "client")
            cyd = RemotePlayer(CYD, home, f"ssh://USER@127.0.0.1:{host.port}{socket}?command={PROGRAM}")

            source = teacher.home / "final"
            shutil.copytree(folder / "site" / "tasks" / "double", source)
            members = [word for name in (ADA, BOB, CYD) for word in ("--member", name)]
            done = teacher.run("create", source, "--closed", *members, "--reason", "the final")
            assert done.returncode == 0, done.stderr

            for player, text in ((ada, SLOWEST), (bob, SLOWER), (cyd, RIGHT)):
                kernel = player.file(text.replace("leaderboard double", "leaderboard final"))
                (run,) = player.json("submit", kernel, "--mode", "ranked", "--wait")["runs"]
                assert (run["state"], run["verdict"], run["trust"]) == ("finished", "pass", "verified"), run
            assert cyd.run("code", "1").returncode == 5
            for player in (ada, bob, cyd):
                rows = player.json("show", "final")["boards"][0]["rows"]
                assert [row["user"] for row in rows] == [CYD, BOB, ADA]

            # The cluster's accounting has the service's account for every job, not the submitting user's.
            def jobs_of(*users: str) -> list[str]:
                fields = ("--noheader", "-P", "-X", "-o", "Partition,State")
                return accounting_lab.run("sacct", *fields, f"--user={','.join(users)}").splitlines()

            awaited(lambda: jobs_of(OWNER) == ["cpu|COMPLETED"] * 3)
            assert jobs_of(ADA, BOB, CYD) == []

            exported = teacher.run("admin", "export", "--format", "csv", "-o", "final.csv")
            assert exported.returncode == 0, exported.stderr
            lines = (teacher.home / "final.csv").read_text().splitlines()
            assert len(lines) == 4
            assert all(any(name in line for line in lines[1:]) for name in (ADA, BOB, CYD))
