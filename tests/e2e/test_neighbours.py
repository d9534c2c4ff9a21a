"""Submissions of two users at one time on one node of a real Slurm, in jobs of one account."""

import os
import pwd
import shutil
from pathlib import Path

import pytest
import yaml

from tests.accounts import needs_accounts
from tests.conftest import short_folder
from tests.e2e.boards import board_files
from tests.e2e.test_served_board import ADA, BOB, OWNER, PYTHON, Player, environment, service, socket_place
from tests.slurm.lab import SlurmLab
from tests.waiting import awaited

MARK = "hb-secret-of-ada"

VICTIM = f"""\
import ctypes, os, tempfile, time
from multiprocessing import shared_memory

libc = ctypes.CDLL(None)
libc.prctl(15, b"hb-victim", 0, 0, 0)
for folder in (tempfile.gettempdir(), os.getcwd(), "/dev/shm", "/tmp", "/var/tmp"):
    try:
        with open(os.path.join(folder, "{MARK}"), "w") as file:
            file.write("{MARK}")
    except OSError:
        pass
try:
    memory = shared_memory.SharedMemory("{MARK}", create=True, size=4096)
except OSError:
    pass
libc.shmget(0x4842, 4096, 0o1666)

def custom_kernel(data):
    time.sleep(9)
    raise AssertionError("nobody has ended it")
"""

NEIGHBOUR = f"""\
import ctypes, os
from multiprocessing import shared_memory
from pathlib import Path

libc = ctypes.CDLL(None)

def tried(name, action, *words):
    try:
        return [name] if action(*words) not in (None, -1, False) else []
    except OSError:
        return []

def reached(process):
    yield from tried("signal", lambda: os.kill(process, 0) is None)
    yield from tried("ptrace", lambda: libc.ptrace(16, process, 0, 0))
    for name in ("environ", "mem", "maps", "io"):
        yield from tried(name, lambda: Path(f"/proc/{{process}}/{{name}}").open("rb").read(1))
    for name in ("cwd", "exe", "root"):
        yield from tried(name, os.readlink, f"/proc/{{process}}/{{name}}")
    yield from tried("pidfd_getfd", lambda: libc.syscall(438, libc.syscall(434, process, 0), 0, 0))
    buffer = ctypes.create_string_buffer(8)
    here = (ctypes.c_ulong * 2)(ctypes.addressof(buffer), 8)
    yield from tried("process_vm_readv", lambda: libc.process_vm_readv(process, here, 1, here, 1, 0))

def is_victim(comm):
    try:
        return comm.read_text() == "hb-victim\\n"
    except OSError:
        return False

def found():
    # A listing of /proc is refused.
    near = range(max(1, os.getpid() - 20_000), os.getpid() + 200)
    others = [process for process in near if is_victim(Path(f"/proc/{{process}}/comm"))]
    places = [
        where for top in ("/tmp", "/var/tmp", "/dev/shm", "RUNS")
        for where, _, names in os.walk(top) if "{MARK}" in names
    ]
    return {{
        "seen": bool(others),
        "reached": sorted({{each for process in others for each in reached(process)}}),
        "files": places,
        "memory": [*tried("shm", shared_memory.SharedMemory, "{MARK}"), *tried("shmget", libc.shmget, 0x4842, 0, 0)],
    }}

def custom_kernel(data):
    raise AssertionError(f"{{found()}}")
"""


def is_at_work() -> bool:
    """Return whether the kernel of the victim is running."""
    for each in Path("/proc").glob("[0-9]*/comm"):
        try:
            if each.read_text() == "hb-victim\n":
                return True
        except OSError:
            continue
    return False


@pytest.mark.slurm
@needs_accounts
def test_two_submissions_at_one_time_on_one_node_reach_nothing_of_each_other(slurm_lab: SlurmLab) -> None:
    if shutil.which(PYTHON) is None:
        pytest.skip(f"no {PYTHON}")
    owner = pwd.getpwnam(OWNER).pw_uid
    with short_folder() as folder:
        files = board_files(folder / "board", slurm=True, environ=slurm_lab.environment)
        document = yaml.safe_load(files.settings.read_text())
        document["gpus"]["CPU"] |= {"python": PYTHON, "cpus_per_task": 2}
        files.settings.write_text(yaml.safe_dump(document))
        os.chown(files.folder, owner, -1)
        socket = socket_place(files, owner)
        ada, bob = (Player(name, files.folder, socket) for name in (ADA, BOB))
        environ = environment(HOME=str(files.folder), SLURM_CONF=slurm_lab.environment["SLURM_CONF"])
        with service(files, socket, owner, environ):
            words = ("--task", "double", "--gpu", "CPU")
            (victim,) = ada.json("submit", ada.file(VICTIM), *words)["runs"]
            awaited(is_at_work)
            curious = bob.file(NEIGHBOUR.replace("RUNS", str(files.folder / "board" / "runs")))
            (run,) = bob.json("submit", curious, *words, "--wait")["runs"]
            told = bob.json("run", str(run["id"]))
            assert "{'seen': True, 'reached': [], 'files': [], 'memory': []}" in told["message"], told
            ada.run("watch", str(victim["id"]))
            ended = ada.json("run", str(victim["id"]))
            assert "nobody has ended it" in ended["message"], ended
            assert ended["job"]["node"] == told["job"]["node"]
