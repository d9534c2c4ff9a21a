"""A task is somebody's code as well: the processes that import it reach no more of the node than a submission."""

import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_board.harness.confine import sandbox
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from tests.harness.evaluations import REFERENCE, a_task, evaluate

RIGHT = "def custom_kernel(data):\n    return [2 * x for x in data]\n"

TRIES = """
import os, signal, socket, tempfile
from pathlib import Path

here = Path(__file__).parent

def foreign_file():
    Path("@secret@").read_text()

def result():
    (here.parent / "result.json").write_text("{}")

def own_folder():
    (here / "reference.py").write_text("")

def others_folder():
    (Path(os.environ["HOME"]).parent / "worker" / "code" / "note").write_text("")

def network():
    socket.create_connection(("127.0.0.1", @port@))

def supervisor_signal():
    os.kill(os.getppid(), signal.SIGCONT)

def supervisor_environment():
    Path(f"/proc/{os.getppid()}/environ").read_bytes()

def reached():
    found = []
    for attempt in (
        foreign_file, result, own_folder, others_folder, network, supervisor_signal, supervisor_environment
    ):
        try:
            attempt()
        except OSError:
            continue
        found.append(attempt.__name__)
    return found
"""
NEEDS = """
def needs():
    with tempfile.TemporaryFile() as file:
        file.write(b"1")
    (Path.home() / "note").write_text("")
    return (here / "task.py").read_text() == "X = 1\\n" and Path("task.py").exists()
"""
CONFINED = (
    TRIES
    + NEEDS
    + REFERENCE.replace("    return True,", "    return needs() and not reached(), str(reached())\n    return True,")
)


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_reference_reaches_nothing_outside_and_all_that_it_needs(tmp_path: Path, port: int) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    reference = CONFINED.replace("@secret@", str(secret)).replace("@port@", str(port))
    result = evaluate(tmp_path / "job", RIGHT, a_task(reference), Mode.BENCHMARK, environ={"SECRET": "x"}).result
    level = result.provenance["judge_isolation"]
    if not sandbox.reaches(level, "S4"):
        pytest.skip(f"this node confines a judge at {level!r} only")
    assert result.verdict is Verdict.PASS, result.message
    assert level == result.provenance["isolation"]


def test_the_judge_opens_as_many_files_as_the_supervisor(tmp_path: Path) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    told = "import resource\n" + REFERENCE.replace(
        "    return True,",
        f"    limits = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        f"    return limits == ({most}, {most}) and resource.getrlimit(resource.RLIMIT_CORE)[0] == 0, str(limits)\n"
        f"    return True,",
    )
    result = evaluate(tmp_path, RIGHT, a_task(told)).result
    assert result.verdict is Verdict.PASS, result.message
