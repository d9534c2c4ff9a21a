"""Jobs of a served board under an account of their own, which the service reaches by sudo rules."""

import os
import pwd
import shutil
import stat
import subprocess

import pytest
import yaml

from hpc_board.transport.sudo import rules
from tests.accounts import command_as, needs_accounts
from tests.conftest import short_folder
from tests.e2e.boards import HANGING, RIGHT, BoardFiles, board_files, slurm_jobs
from tests.e2e.test_served_board import ADA, OWNER, Player, environment, service, socket_place
from tests.slurm.lab import SlurmLab
from tests.sudo import command_with_rules, skip_without_sudo
from tests.waiting import awaited

JOBS = "sys"
PYTHON = "/usr/bin/python3"
"""A Python that the account of the jobs may run, where this one lies in root's own home."""

CURIOUS = """\
import os

def custom_kernel(data):
    raise AssertionError(f"uid {os.getuid()}, board {os.access('BOARD', os.X_OK)}")
"""


def doctor(files: BoardFiles, uid: int, environ: dict[str, str], sudo_rules: str = "") -> str:
    """The words of `admin doctor` by the service's account, on one line."""
    command = command_as(uid, 0o022, [], files.command("admin", "doctor"))
    if sudo_rules:
        command = command_with_rules(sudo_rules, command)
    done = subprocess.run(command, cwd=files.folder, env=environ, capture_output=True, text=True, check=False)
    assert done.stderr == "Cluster lab: asking Slurm\n"
    return " ".join(done.stdout.split())


@pytest.mark.slurm
@needs_accounts
def test_jobs_belong_to_their_account_and_the_board_to_the_service(slurm_lab: SlurmLab) -> None:
    skip_without_sudo()
    if shutil.which(PYTHON) is None:
        pytest.skip(f"no {PYTHON}")
    owner, jobs_uid = (pwd.getpwnam(name).pw_uid for name in (OWNER, JOBS))
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

        # Without the folder and without the rules the run waits, and says so.
        with service(files, socket, owner, environ):
            (run,) = ada.json("submit", ada.file(RIGHT), "--task", "double", "--gpu", "CPU")["runs"]
            assert run["state"] == "created"
            assert "sudo does not run commands as sys" in run["reason"]
            told = doctor(files, owner, environ)
            assert f"into a file in /etc/sudoers.d: Defaults:{OWNER} !requiretty" in told

        jobs.mkdir(mode=0o700)
        os.chown(jobs, jobs_uid, -1)
        with service(files, socket, owner, environ, rules(OWNER, JOBS)):
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
            assert (job.stat().st_uid, stat.S_IMODE(job.stat().st_mode)) == (jobs_uid, 0o700)
            assert not list((files.folder / "board" / "runs").glob("*"))
            told = doctor(files, owner, environ, rules(OWNER, JOBS))
            assert f"sudo runs commands as {JOBS}" in told
            assert f"{jobs} belongs to {JOBS}" in told
            assert "and so may jobs" not in told
            (files.folder / "board").chmod(0o711)
            assert "and so may jobs" in doctor(files, owner, environ, rules(OWNER, JOBS))
            assert ada.run("cancel", number).returncode == 0
            assert ada.run("watch", number).returncode == 3
