"""Jobs of a served board under an account of their own, which the service reaches by sudo rules."""

import os
import pwd
import shutil
import subprocess

import pytest
import yaml

from hpc_board.transport.sudo import FOLDER_MODE, rules
from tests.accounts import command_as, needs_accounts
from tests.conftest import short_folder
from tests.e2e.boards import HANGING, RIGHT, BoardFiles, board_files, slurm_jobs
from tests.e2e.test_served_board import ADA, OWNER, PYTHON, Player, environment, service, socket_place
from tests.slurm.lab import SlurmLab
from tests.sudo import command_with_rules, skip_without_sudo
from tests.waiting import awaited

JOBS = "sys"
CURIOUS = """\
import os

def custom_kernel(data):
    raise AssertionError(f"uid {os.getuid()}, board {os.access('BOARD', os.X_OK)}")
"""


def admin(files: BoardFiles, environ: dict[str, str], sudo_rules: str, *words: str, shared: bool = True) -> str:
    """The words of an `admin` command by the service's account, on one line; `shared` has it in the jobs' group."""
    groups = [pwd.getpwnam(JOBS).pw_gid] if shared else []
    command = command_as(pwd.getpwnam(OWNER).pw_uid, 0o077, groups, files.command("admin", *words))
    if sudo_rules:
        command = command_with_rules(sudo_rules, command)
    done = subprocess.run(command, cwd=files.folder, env=environ, capture_output=True, text=True, check=False)
    return " ".join((done.stdout + done.stderr).split())


@pytest.mark.slurm
@needs_accounts
def test_jobs_belong_to_their_account_and_the_board_to_the_service(slurm_lab: SlurmLab) -> None:
    skip_without_sudo()
    if shutil.which(PYTHON) is None:
        pytest.skip(f"no {PYTHON}")
    owner, jobs_uid, group = pwd.getpwnam(OWNER).pw_uid, pwd.getpwnam(JOBS).pw_uid, pwd.getpwnam(JOBS).pw_gid
    with short_folder() as folder:
        files = board_files(folder / "board", slurm=True, environ=slurm_lab.environment)
        jobs = folder / "jobs"
        document = yaml.safe_load(files.settings.read_text())
        document["jobs"] = {"account": JOBS, "folder": str(jobs)}
        document["gpus"]["CPU"]["python"] = PYTHON
        files.settings.write_text(yaml.safe_dump(document))
        os.chown(files.folder, owner, -1)
        socket = socket_place(files, owner)
        ada = Player(ADA, files.folder, socket)
        environ = environment(HOME=str(files.folder), SLURM_CONF=slurm_lab.environment["SLURM_CONF"])

        jobs.mkdir()
        os.chown(jobs, owner, group)
        jobs.chmod(FOLDER_MODE)
        # Without the rules the run waits, and says so.
        with service(files, socket, owner, environ, groups=[group]):
            (run,) = ada.json("submit", ada.file(RIGHT), "--task", "double", "--gpu", "CPU")["runs"]
            assert run["state"] == "created"
            assert "sudo does not run commands as sys" in run["reason"]
            told = admin(files, environ, "", "doctor")
            assert f"to a file in /etc/sudoers.d: Defaults:{OWNER} !requiretty" in told

        told = admin(files, environ, rules(OWNER, JOBS), "doctor", shared=False)
        assert "must be owned by games and readable by a group of games and sys" in told
        with service(files, socket, owner, environ, rules(OWNER, JOBS), [group]):
            assert ada.run("watch", str(run["id"])).returncode == 0
            assert ada.json("run", str(run["id"]))["account"] == JOBS
            words = ("--task", "double", "--gpu", "CPU")
            curious = ada.file(CURIOUS.replace("BOARD", str(files.folder / "board")), "curious.py")
            (looked,) = ada.json("submit", curious, *words, "--wait")["runs"]
            assert f"uid {jobs_uid}, board False" in ada.run("run", str(looked["id"])).stdout
            (hanging,) = ada.json("submit", ada.file(HANGING, "slow.py"), *words)["runs"]
            number = str(hanging["id"])
            awaited(lambda: ada.json("run", number)["state"] == "running")
            assert [JOBS] in slurm_jobs(slurm_lab.environment, ("%u",))
            assert [OWNER] not in slurm_jobs(slurm_lab.environment, ("%u",))
            (job,) = jobs.glob(f"runs/{number}-*")
            assert (job.stat().st_uid, job.stat().st_gid) == (owner, group)
            assert {path.owner() for path in job.iterdir()} == {OWNER, JOBS}
            assert not list((files.folder / "board" / "runs").glob("*"))
            told = admin(files, environ, rules(OWNER, JOBS), "doctor")
            assert f"sudo runs commands as {JOBS}" in told
            assert f"{OWNER} shares {jobs} with {JOBS}" in told
            assert "and so can jobs" not in told
            (files.folder / "board").chmod(0o711)
            assert "and so can jobs" in admin(files, environ, rules(OWNER, JOBS), "doctor")
            assert ada.run("cancel", number).returncode == 0
            assert ada.run("watch", number).returncode == 3
            assert ada.json("hold", "CPU", "--wait")["state"] == "running"
            (at_runner,) = ada.json("submit", ada.file(RIGHT), *words, "--wait")["runs"]
            assert (at_runner["verdict"], at_runner["runner"]) == ("pass", 1)
            (waiting,) = ada.json("submit", ada.file(HANGING, "slow.py"), *words)["runs"]
            assert ada.run("cancel", str(waiting["id"])).returncode == 0
            assert ada.run("release").returncode == 0
            awaited(lambda: ada.json("status")["runners"] == [])
            assert ada.run("watch", str(waiting["id"])).returncode == 3
            told = admin(files, environ, rules(OWNER, JOBS), "check", "CPU")
            assert "ok files appear on the other side" in told
        told = admin(files, environ, rules(OWNER, JOBS), "prune", "--older-than", "0d")
        assert told.startswith("Removed 6 job folders")
        assert {path.name for path in jobs.iterdir()} == {"cache", "cpu-peaks.json", "harness", "runs"}
        assert not list((jobs / "runs").iterdir())
