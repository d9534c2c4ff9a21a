"""A service that is killed between the storage of a submission and its answer."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from hpc_board.service import client as client_module
from tests.service import serving
from tests.unit.recorded import Recorded
from tests.unit.service.clients import command
from tests.waiting import awaited

KILLED = """
import functools, os, signal, sys
from hpc_board.__main__ import main
from hpc_board.board.submissions import Submissions

name = sys.argv.pop(1)
store = getattr(Submissions, name)

@functools.wraps(store)
def killed(*args, **options):
    store(*args, **options)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(Submissions, name, killed)
sys.exit(main())
"""


@contextmanager
def killed_service(board: Recorded, path: Path, method: str = "submit") -> Iterator["subprocess.Popen[bytes]"]:
    """A service that dies once it has carried out a method of the submissions."""
    words: list[str | Path] = [method, "--config", board.settings, "serve", "--socket", path, "--allow-root"]
    service = subprocess.Popen([sys.executable, "-c", KILLED, *words], stderr=subprocess.DEVNULL, env=os.environ)
    try:
        awaited(path.is_socket)
        yield service
    finally:
        service.kill()
        service.wait(60)


@pytest.mark.parametrize("words", [(), ("--key", "a"), ("--if-new",)])
def test_a_client_submits_once_more_when_the_service_is_back(
    board: Recorded, folder: Path, words: tuple[str, ...]
) -> None:
    path = folder / "board.sock"
    with ThreadPoolExecutor() as pool:
        with killed_service(board, path) as service:
            asked = pool.submit(command, path, "submit", str(board.kernel), *words)
            assert service.wait(60) < 0
        with serving(board.board.settings, path):
            done = asked.result(60)
    assert done.exit_code == 0, done.output
    assert ("Submitted before: run 1." in done.stderr) is bool(words)
    assert [run.id for run in board.board.runs.list()] == [1]


def test_a_submission_without_an_answer_can_be_repeated_with_the_key_of_the_hint(
    board: Recorded, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "RETURN_SECONDS", 0.2)
    path = folder / "board.sock"
    with killed_service(board, path):
        done = command(path, "submit", str(board.kernel))
    assert done.exit_code == 3
    said = " ".join(done.stderr.split())
    assert "the service has closed the connection" in said or "Connection reset by peer" in said
    hint = re.search(
        r"hint: The service may have accepted it\. Repeat it with `(--key \w+)`: nothing is sent twi", said
    )
    assert hint, said
    assert "may have accepted" not in command(path, "runs").stderr
    with serving(board.board.settings, path):
        again = command(path, "submit", str(board.kernel), *hint[1].split())
    assert (again.exit_code, "Submitted before: run 1." in again.stderr) == (0, True), again.output
    assert [run.id for run in board.board.runs.list()] == [1]


def test_another_change_without_an_answer_is_left_to_the_user(board: Recorded, folder: Path) -> None:
    path = folder / "board.sock"
    board.add()
    with killed_service(board, path, "note"):
        done = command(path, "note", "1", "seen")
    hint = "hint: The service may have accepted it: check its effect, e.g. with `hpc-board runs`, before you retry."
    assert (done.exit_code, hint in " ".join(done.stderr.split())) == (3, True), done.output
