"""A competition on a served board: an account of its own has the board, and three others play through its socket."""

import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.accounts import command_as, needs_accounts
from tests.commands import UnixAccount, printed_json, run_hpc_board
from tests.conftest import short_folder
from tests.e2e.boards import HANGING, RIGHT, BoardFiles, board_files
from tests.slurm.lab import SlurmLab
from tests.sudo import command_with_rules
from tests.unit.recorded import REPOSITORY
from tests.waiting import awaited

PYTHON = "/usr/bin/python3"
"""A Python that every account may run, where this one lies in root's own home."""

OWNER, TEACHER, ADA, BOB = "games", "bin", "daemon", "nobody"
FASTER = RIGHT.replace("[2 * x for x in data]", "[x + x for x in data]")
SLOW = RIGHT.replace("    return", "    import time; time.sleep(1)\n    return")


def environment(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), **more}


class Player:
    """A client of the service under an account of its own."""

    def __init__(self, name: str, home: Path, socket: Path) -> None:
        self.account = UnixAccount(pwd.getpwnam(name).pw_uid)
        self.home = home / name
        self.home.mkdir(mode=0o700)
        os.chown(self.home, self.account.uid, -1)
        self.environ = environment(HOME=str(self.home), HPC_BOARD_SERVICE=str(socket))

    def run(self, *words: str | Path) -> "subprocess.CompletedProcess[str]":
        return run_hpc_board(words, environ=self.environ, folder=self.home, account=self.account)

    def json(self, *words: str | Path) -> Any:
        return printed_json(self.run(*words, "--json"))

    def file(self, text: str, name: str = "kernel.py") -> Path:
        path = self.home / name
        path.write_text(text)
        os.chown(path, self.account.uid, -1)
        return path


@contextmanager
def service(
    files: BoardFiles,
    socket: Path,
    uid: int,
    environ: dict[str, str],
    sudo_rules: str = "",
    groups: Sequence[int] = (),
) -> Iterator["subprocess.Popen[str]"]:
    """Run `hpc-board serve` as the account `uid` with these groups, for which sudo has these rules, in the block."""
    command = files.command("serve", "--socket", socket)
    if uid == 0:
        command.append("--allow-root")
    else:
        command = command_as(uid, 0o022, groups, command)
    if sudo_rules:
        command = command_with_rules(sudo_rules, command)
    log = files.folder / "serve.log"
    with log.open("w") as sink:
        process = subprocess.Popen(command, cwd=files.folder, env=environ, stderr=sink, text=True)
    try:
        awaited(lambda: '"serving"' in log.read_text() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
        assert '"fault"' not in log.read_text()


def socket_place(files: BoardFiles, uid: int) -> Path:
    """The path of a socket in a folder that only `uid` may write."""
    place = files.folder / "run"
    place.mkdir()
    os.chown(place, uid, -1)
    return place / "board.sock"


@pytest.fixture
def files() -> Iterator[BoardFiles]:
    """A board on the embedded scheduler, with a teacher."""
    with short_folder() as folder:
        made = board_files(folder / "board", slurm=False)
        document = yaml.safe_load(made.settings.read_text())
        document |= {"roles": {"creators": [TEACHER], "admins": [TEACHER]}, "serve": {"runs_per_user": 1}}
        made.settings.write_text(yaml.safe_dump(document))
        os.chown(made.folder, pwd.getpwnam(OWNER).pw_uid, -1)
        yield made


@needs_accounts
def test_three_accounts_play_a_competition_on_the_board_of_a_fourth(files: BoardFiles) -> None:
    owner = pwd.getpwnam(OWNER).pw_uid
    socket = socket_place(files, owner)
    teacher, ada, bob = (Player(name, files.folder, socket) for name in (TEACHER, ADA, BOB))
    with service(files, socket, owner, environment(HOME=str(files.folder))):
        folder = files.folder / "board"
        assert (folder.stat().st_uid, stat.S_IMODE(folder.stat().st_mode)) == (owner, 0o700)

        # The teacher makes a closed board of a folder at home, and only its member sees it.
        source = teacher.home / "doubling"
        subprocess.run(["cp", "-r", str(files.folder / "tasks" / "double"), str(source)], check=True)
        done = teacher.run("create", source, "--closed", "--member", ADA, "--reason", "the course")
        assert done.returncode == 0, done.stderr
        assert "doubling" in ada.run("list").stdout
        assert "doubling" not in bob.run("list").stdout

        # Two participants are ranked by their accounts, not by the environment, and every run is verified.
        for player, text in ((ada, RIGHT), (bob, FASTER)):
            player.environ["USER"] = player.environ["LOGNAME"] = "root"
            words = ("submit", player.file(text), "--task", "double", "--mode", "ranked", "--wait")
            (run,) = player.json(*words)["runs"]
            assert (run["state"], run["verdict"], run["trust"]) == ("finished", "pass", "verified"), run
        rows = ada.json("show", "double")["boards"][0]["rows"]
        assert {row["user"] for row in rows} == {ADA, BOB}
        assert bob.run("code", "1").returncode == 5

        # A submission that the teacher reruns stays its author's.
        assert bob.run("admin", "rerun", "double", "--submission", "1").returncode == 5
        (again,) = teacher.json("admin", "rerun", "double", "--submission", "1")["runs"]
        assert teacher.run("watch", str(again["id"])).returncode == 0
        newest = ada.json("runs")[0]
        assert (newest["id"], newest["account"], newest["trust"]) == (again["id"], OWNER, "verified")
        assert newest["rerun"]["by"] == TEACHER

        # A job belongs to the service's account; another's run is seen and left alone.
        (hanging,) = ada.json("submit", ada.file(HANGING, "slow.py"), "--task", "double")["runs"]
        number = str(hanging["id"])
        awaited(lambda: ada.json("run", number)["state"] == "running")
        job_folder = folder / "runs" / number
        assert job_folder.stat().st_uid == owner
        assert bob.run("cancel", number).returncode == 5
        assert bob.run("run", number).returncode == 0
        assert bob.run("run", number, "--log").returncode == 5

        # One run of a user is in flight at a time: the next one waits, says why, and is ended before it was sent.
        waiting = ada.run("submit", ada.file(RIGHT), "--task", "double")
        assert "1 run of the same user is ahead (limit 1 at a time)" in waiting.stderr
        assert "the service will send it" in waiting.stderr
        assert ada.run("cancel", "5", number).returncode == 0
        (ended,) = (ada.json("run", number) for _ in [ada.run("watch", number)])
        assert ended["state"] == "cancelled"

        # The service refuses with a reason, and the settings of a client give no role.
        mine = bob.file(f"service: {socket}\nroles: {{admins: [{BOB}]}}\n", "mine.yaml")
        assert bob.run("--config", mine, "list").returncode == 2
        direct = bob.run("--config", bob.file(f"board: {folder}\n", "direct.yaml"), "list")
        assert (direct.returncode, "`service: SOCKET`" in direct.stderr) == (2, True)
        assert bob.run("admin", "ban", ADA, "--reason", "rival").returncode == 5
        assert teacher.run("admin", "ban", BOB, "--reason", "a test").returncode == 0
        assert bob.run("submit", bob.home / "kernel.py", "--task", "double").returncode == 5
        restored = teacher.run("admin", "restore", "x.db", "--yes")
        assert "which a client of a service does not have" in restored.stderr

        exported = teacher.run("admin", "export", "--format", "html", "-o", "final.html")
        assert exported.returncode == 0, exported.stderr
        page = (teacher.home / "final.html").read_text()
        assert "double" in page
        assert "doubling" not in page
        assert (teacher.home / "final.html").stat().st_uid == teacher.account.uid
    assert not socket.exists()


CURIOUS = """\
import os, socket
from pathlib import Path

def tried(action, *words):
    try:
        action(*words)
    except PermissionError:
        return "no"
    return f"{action.__name__} works"

def connect(path):
    socket.socket(socket.AF_UNIX).connect(path)

def found():
    service, board, settings, door = PLACES
    database = Path(board, "board.db")
    # The filter of system calls lets a call for another mode succeed without an effect.
    for path in (board, database, settings):
        os.chmod(path, 0o777)
    return {
        tried(connect, door), tried(os.kill, service, 0), tried(os.listdir, board), tried(database.read_bytes),
        tried(Path(settings).read_text), tried(Path(f"/proc/{service}/environ").read_bytes),
        tried(Path(board, "x").write_text, "x"), tried(Path(settings).with_name("x").write_text, "x"),
    }

"""
OF_A_KERNEL = "def custom_kernel(data):\n    raise AssertionError(f'found {found()}')\n"
OF_A_JUDGE = "def check_implementation(data, output):\n    return False, f'found {found()}'\n"


@needs_accounts
def test_code_in_a_job_of_the_services_own_account_reaches_neither_the_service_nor_its_board(files: BoardFiles) -> None:
    owner = pwd.getpwnam(OWNER).pw_uid
    socket = socket_place(files, owner)
    ada, teacher = (Player(name, files.folder, socket) for name in (ADA, TEACHER))
    with service(files, socket, owner, environment(HOME=str(files.folder))) as process:
        places = process.pid, str(files.folder / "board"), str(files.settings), str(socket)
        curious = CURIOUS.replace("PLACES", repr(places))
        source = teacher.home / "spying"
        subprocess.run(["cp", "-r", str(files.folder / "tasks" / "double"), str(source)], check=True)
        with (source / "reference.py").open("a") as reference:
            reference.write(f"\n{curious}\n{OF_A_JUDGE}")
        assert teacher.run("create", source).returncode == 0
        for words in (
            ("submit", ada.file(f"{curious}\n{OF_A_KERNEL}"), "--task", "double", "--wait"),
            ("submit", ada.file(RIGHT.replace("double", "spying"), "right.py"), "--wait"),
        ):
            (run,) = ada.json(*words)["runs"]
            assert "found {'no'}" in ada.run("run", str(run["id"])).stdout
        modes = {stat.S_IMODE(path.stat().st_mode) for path in (files.folder / "board").glob("board.db*")}
        assert modes == {0o600}
        assert stat.S_IMODE((files.folder / "board").stat().st_mode) == 0o700


_WITH_GROUPS = """
import sys
from pathlib import Path
from tests import namespaces
namespaces.enter()
namespaces.replace_file(Path("/etc/group"), Path(sys.argv[1]))
from hpc_board import accounts
accounts.GROUPS_SECONDS = 0.0
from hpc_board.__main__ import main
sys.argv = ["hpc-board", *sys.argv[2:]]
sys.exit(main())
"""


@needs_accounts
def test_an_account_gains_and_loses_the_rights_of_its_groups_while_the_service_runs() -> None:
    with short_folder() as folder:
        made = board_files(folder / "board", slurm=False)
        document = yaml.safe_load(made.settings.read_text())
        made.settings.write_text(yaml.safe_dump(document | {"roles": {"participants": ["@course"]}}))
        groups, socket = folder / "group", folder / "board.sock"

        def members(names: str) -> None:
            groups.write_text(f"{Path('/etc/group').read_text()}course:x:61234:{names}\n")

        members("")
        words = ["serve", "--socket", str(socket), "--allow-root"]
        command = [sys.executable, "-c", _WITH_GROUPS, str(groups), *made.words(*words)]
        log = folder / "serve.log"
        with log.open("w") as sink:
            process = subprocess.Popen(command, cwd=folder, env=environment(HOME=str(folder)), stderr=sink)
        try:
            awaited(lambda: '"serving"' in log.read_text() or process.poll() is not None)
            ada = Player(ADA, folder, socket)
            assert ada.run("list").returncode == 5
            members(ADA)
            assert ada.run("list").returncode == 0
            members(BOB)
            assert ada.run("list").returncode == 5
        finally:
            process.terminate()
            assert process.wait(60) == 0, log.read_text()


@pytest.mark.slurm
@needs_accounts
def test_runs_of_several_users_take_turns_at_a_runner_of_the_service(slurm_lab: SlurmLab) -> None:
    if shutil.which(PYTHON) is None:
        pytest.skip(f"no {PYTHON}")
    owner = pwd.getpwnam(OWNER).pw_uid
    with short_folder() as folder:
        files = board_files(folder / "board", slurm=True, environ=slurm_lab.environment)
        document = yaml.safe_load(files.settings.read_text())
        document |= {"runners": {"auto": 1}, "serve": {"runs_per_user": 20}}
        document["gpus"]["H100"]["python"] = PYTHON
        files.settings.write_text(yaml.safe_dump(document))
        os.chown(files.folder, owner, -1)
        socket = socket_place(files, owner)
        ada, bob = (Player(name, files.folder, socket) for name in (ADA, BOB))
        environ = environment(HOME=str(files.folder), SLURM_CONF=slurm_lab.environment["SLURM_CONF"])
        with service(files, socket, owner, environ):
            # While the runner has this one in hand, the others wait for their turns.
            words = ("--task", "double", "--gpu", "H100")
            several = [ada.file(SLOW, f"slow{number}.py") for number in range(3)]
            several += [ada.file(RIGHT, f"k{number}.py") for number in range(9)]
            sent = [run["id"] for each in ada.json("submit", *several, *words) for run in each["runs"]]
            (late,) = bob.json("submit", bob.file(RIGHT), *words)["runs"]
            for number in (late["id"], *sent):
                assert ada.run("watch", str(number)).returncode == 0
            found = [ada.json("run", str(number)) for number in (*sent, late["id"])]
            assert {(run["verdict"], run["runner"]) for run in found} == {("pass", 1)}
            places = [run["provenance"]["runner_place"] for run in found]
            assert sorted(places) == list(range(1, 14))
            # Two of ada's were ahead; the turn after them is bob's.
            assert places[-1] <= 5
            assert ada.json("status")["runners"] == []
            assert ada.run("release", "1").returncode == 5
