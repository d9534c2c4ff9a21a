"""A service from `admin init --serve` to its first participant, by an ordinary account and by root."""

import json
import os
import pwd
import shlex
import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from hpc_board.domain.run import RunState
from hpc_board.model.result import Verdict
from tests.accounts import command_as, needs_accounts
from tests.commands import UnixAccount, run_hpc_board
from tests.conftest import short_folder
from tests.e2e.test_served_board import ADA, BOB, OWNER, Player, environment
from tests.unit.recorded import recorded, result_of, status_of, timed_case
from tests.waiting import awaited

GROUP = 61000

pytestmark = needs_accounts


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of the service's account."""
    with short_folder() as folder:
        os.chown(folder, pwd.getpwnam(OWNER).pw_uid, -1)
        yield folder


def owner(place: Path, *words: str | Path, groups: Sequence[int] = ()) -> "subprocess.CompletedProcess[str]":
    account = UnixAccount(pwd.getpwnam(OWNER).pw_uid, groups)
    return run_hpc_board(words, environ=environment(HOME=str(place)), folder=place, account=account)


def unit_in(folder: Path) -> Path:
    """Return the unit for an account's own manager in the folder of a service."""
    (unit,) = (folder / "systemd" / "user").glob("*.service")
    return unit


@contextmanager
def started(place: Path, unit: Path) -> Iterator[None]:
    """Start the command of a unit file under the service's account, with the unit's environment."""
    lines = dict(line.split("=", 1) for line in unit.read_text().splitlines() if "=" in line)
    command = shlex.split(lines["ExecStart"])
    # The programs of this machine's tests: the unit itself finds only those of the system.
    environ = environment(HOME=str(place))
    log = place / "serve.log"
    with log.open("w") as sink:
        process = subprocess.Popen(command_as(pwd.getpwnam(OWNER).pw_uid, 0o077, [], command), env=environ, stderr=sink)
    try:
        awaited(lambda: (place / "board-service" / "board.sock").is_socket() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield
    finally:
        process.terminate()
        assert process.wait(60) == 0, log.read_text()
        assert '"fault"' not in log.read_text()


def test_an_ordinary_account_sets_up_a_service_that_others_use(place: Path) -> None:
    made = owner(place, "admin", "init", place / "board", "--serve", "--json")
    assert made.returncode == 0, made.stderr
    settings = Path(json.loads(made.stdout)["settings"])
    examined = owner(place, "--config", settings, "admin", "doctor")
    assert (examined.returncode, "it is not running" in examined.stdout) == (3, True)
    with started(place, unit_in(settings.parent)):
        examined = owner(place, "--config", settings, "admin", "doctor")
        assert examined.returncode == 0, examined.stdout
        ada = Player(ADA, place, settings.parent / "board.sock")
        del ada.environ["HPC_BOARD_SERVICE"]
        participants = settings.parent / "participants.yaml"
        examined = ada.run("--config", participants, "admin", "doctor")
        assert (examined.returncode, f"under the account {OWNER}" in examined.stdout) == (0, True), examined.stdout
        assert f"{ADA}'s role is participant" in examined.stdout
        assert ada.run("--config", participants, "list").returncode == 0
        refused = ada.run("--config", settings, "runs")
        assert (refused.returncode, "permission denied" in refused.stderr) == (2, True), refused.stderr


def test_root_sets_up_a_service_for_an_account_without_its_own_rights(place: Path) -> None:
    place.chmod(0o700)
    made = run_hpc_board(
        ["admin", "init", place / "board", "--serve", "--user", OWNER],
        environ=environment(HOME="/root"),
        folder=place,
        account=UnixAccount(0),
    )
    assert made.returncode == 0, made.stderr
    uid = pwd.getpwnam(OWNER).pw_uid
    found = list(place.rglob("*"))
    assert {path.lstat().st_uid for path in found} == {uid}
    assert len([path for path in found if path.is_file()]) == 3
    assert f"\nUser={OWNER}\n" in made.stdout
    steps = made.stdout.splitlines()
    assert not [line for line in steps if line.startswith("install ") and str(place) in line]
    # The folder is the account's, which may put a link to any other in its place.
    as_account = f"runuser --pty -u {OWNER} -- env HOME={pwd.getpwnam(OWNER).pw_dir} "
    assert f"{as_account}chmod o+x {place}" in steps
    assert len([line for line in steps if line.startswith(as_account)]) == 3

    elsewhere = place / "of root"
    elsewhere.mkdir()
    refused = run_hpc_board(
        ["admin", "init", elsewhere / "board", "--serve", "--user", OWNER],
        environ=environment(HOME="/root"),
        folder=place,
        account=UnixAccount(0),
    )
    assert (refused.returncode, "Permission denied" in refused.stderr) == (2, True), refused.stderr
    assert "install -d -o" in refused.stderr
    assert list(elsewhere.iterdir()) == []


def test_a_group_s_board_moves_in_with_its_standings(place: Path) -> None:
    former = recorded(place / "former")
    for user, score_s in ((ADA, 2e-5), (BOB, 1e-5)):
        former.add(result=result_of(Verdict.PASS, timed_case()), score_s=score_s, user=user)
    waiting = former.add(status_of(RunState.QUEUED), user=BOB)
    shared = former.board.settings.board
    (shared / "users" / "61001" / "runs").mkdir(parents=True)
    for path in (shared, *shared.rglob("*")):
        os.chown(path, 61001, GROUP)
        path.chmod(0o2770 if path == shared else 0o700 if path.is_dir() else 0o660)
    words = ("admin", "init", place / "board", "--serve", "--from", shared)

    stranger = owner(place, *words)
    assert (stranger.returncode, "is not readable" in stranger.stderr) == (2, True), stranger.stderr
    refused = owner(place, *words, groups=[GROUP])
    assert (refused.returncode, f"are in flight: {waiting.id} of {BOB}" in refused.stderr) == (5, True), refused.stderr
    assert not [*(place / "board").iterdir()]

    with closing(sqlite3.connect(shared / "board.db")) as connection:
        connection.execute("CREATE TEMP TABLE last AS SELECT * FROM events WHERE run = ?", [waiting.id])
        connection.execute("DELETE FROM last WHERE id < (SELECT MAX(id) FROM last)")
        connection.execute("UPDATE last SET id = NULL, state = 'cancelled'")
        connection.execute("INSERT INTO events SELECT * FROM last")
        connection.execute("DELETE FROM in_flight")
        connection.commit()
    moved = owner(place, *words, groups=[GROUP])
    assert moved.returncode == 0, moved.stderr
    assert "3 submissions and 3 runs" in moved.stderr
    assert f"chmod 700 {shared}" in moved.stdout
    unit = unit_in(place / "board-service")
    with started(place, unit):
        ada = Player(ADA, place, place / "board-service" / "board.sock")
        rows = ada.json("show", "vectoradd_py", "--gpu", "CPU")["boards"][0]["rows"]
        assert [(row["user"], row["trust"]) for row in rows] == [(BOB, "self-run"), (ADA, "self-run")]
        assert [run["id"] for run in ada.json("runs")] == [1]
