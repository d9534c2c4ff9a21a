"""A service that is killed between the storage of a submission and its answer."""

import os
import subprocess
import sys
from pathlib import Path

from tests.unit.recorded import Recorded
from tests.unit.service.clients import command
from tests.waiting import awaited

KILLED = """
import functools, os, signal, sys
from hpc_board.__main__ import main
from hpc_board.board.submissions import Submissions

store = Submissions.submit

@functools.wraps(store)
def killed(*args, **options):
    store(*args, **options)
    os.kill(os.getpid(), signal.SIGKILL)

Submissions.submit = killed
sys.exit(main())
"""


def test_a_submission_without_an_answer_may_have_been_accepted(board: Recorded, folder: Path) -> None:
    path = folder / "board.sock"
    words: list[str | Path] = ["--config", board.settings, "serve", "--socket", path, "--allow-root"]
    service = subprocess.Popen([sys.executable, "-c", KILLED, *words], stderr=subprocess.DEVNULL, env=os.environ)
    try:
        awaited(path.is_socket)
        done = command(path, "submit", str(board.kernel))
        assert service.wait(60) < 0
    finally:
        service.kill()
        service.wait(60)
    assert done.exit_code == 3
    said = " ".join(done.stderr.split())
    assert "the service has closed the connection" in said or "Connection reset by peer" in said
    assert (
        "hint: The service may have accepted it: check its effect, e.g. with `hpc-board runs`, before you retry."
        in said
    )
    assert [run.id for run in board.board.runs.list()] == [1]
    unanswered = command(path, "runs")
    assert "may have accepted" not in unanswered.stderr
