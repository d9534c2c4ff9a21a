"""The tests' own Slurm: it leaves nothing behind, and needs no privileges."""

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import short_folder, skip_without_slurm
from tests.slurm import chroot, lab
from tests.slurm.places import skip_without_chroot
from tests.waiting import awaited

pytestmark = pytest.mark.slurm

STARTER = """
import sys, time
from pathlib import Path
from tests.slurm.lab import SlurmLab
with SlurmLab(Path(sys.argv[1]), root=Path(sys.argv[2]) if sys.argv[2:] else None) as lab:
    lab.run("sbatch", "--output=/dev/null", "--wrap=setsid sleep 600 & sleep 600")
    while "R" not in lab.run("squeue", "--noheader", "--format=%t"):
        time.sleep(0.1)
    print("running", flush=True)
    time.sleep(600)
"""


def processes_of(folder: Path) -> list[int]:
    """The processes that have `folder` in their command or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue
            if bytes(folder) in text:
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize("place", ["host", "chroot"])
def test_nothing_is_left_when_the_starting_process_is_killed(place: str) -> None:
    skip_without_slurm() if place == "host" else skip_without_chroot()
    root = [] if place == "host" else [str(chroot.folder())]
    with short_folder() as folder:
        starter = subprocess.Popen(
            [sys.executable, "-c", STARTER, str(folder / "lab"), *root],
            cwd=Path(lab.__file__).parents[2],
            stdout=subprocess.PIPE,
            text=True,
        )
        with starter:
            assert starter.stdout is not None
            assert starter.stdout.readline() == "running\n"
            assert len(processes_of(folder)) > len(lab.NODES) + 2
            starter.kill()
        awaited(lambda: not processes_of(folder), lambda: processes_of(folder))
    assert str(chroot.folder()) not in Path("/proc/self/mounts").read_text()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_can_run_it() -> None:
    skip_without_slurm()
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None:
        pytest.skip("there is no Python that every user can run")
    user = pwd.getpwnam("nobody")
    with short_folder() as folder:
        os.chown(folder, user.pw_uid, user.pw_gid)
        program = shutil.copy(lab.__file__, folder)
        job = subprocess.run(
            [python, program, "sbatch", "--wait", f"--output={folder}/job.out", "--wrap=id --user --name"],
            user=user.pw_uid,
            group=user.pw_gid,
            extra_groups=[],
            cwd=folder,
            env={"PATH": os.environ["PATH"], "TMPDIR": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert job.returncode == 0, job.stderr
        assert (folder / "job.out").read_text() == "nobody\n"
