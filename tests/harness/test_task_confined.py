"""A task is untrusted code, too: the processes that import it reach no more of the node than a submission."""

import resource
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_board.harness.confine import sandbox
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from tests.harness.evaluations import REFERENCE, RIGHT, a_task, evaluate
from tests.harness.own_evals import own_task

TRIES = """
import os, signal, socket, tempfile
from pathlib import Path

here = Path(__file__).parent

def home_file():
    (Path("@home@") / ".ssh" / "id").read_text()

def home_written():
    (Path("@home@") / ".profile").write_text("")

def result():
    (here.parent / "result.json").write_text("{}")

def others_folder():
    (Path(os.environ["HOME"]).parent / "worker" / "code" / "note").write_text("")

def network():
    socket.create_connection(("127.0.0.1", @port@))

def other_memory():
    Path("/proc/@other@/mem").open("rb").close()

def supervisor_signal():
    os.kill(os.getppid(), signal.SIGCONT)

def reached():
    found = []
    for attempt in (home_file, home_written, result, others_folder, network, other_memory, supervisor_signal):
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


# An eval may write into its own folder of its account, and the submission is in its process.
CONFINED_EVAL = (
    TRIES
    + """
found = reached()
os.write(int(os.environ["POPCORN_FD"]), b"test-count: 1\\ntest.0.spec: size: 3\\n")
told = b"fail\\ntest.0.error: " + str(found).encode() + b"\\ncheck: fail" if found else b"pass\\ncheck: pass"
os.write(int(os.environ["POPCORN_FD"]), b"test.0.status: " + told + b"\\n")
raise SystemExit(112 if found else 0)
"""
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home folder of the account of the jobs, with a secret."""
    found = tmp_path / "home"
    (found / ".ssh").mkdir(parents=True)
    (found / ".ssh" / "id").write_text("secret")
    return found


@pytest.fixture
def other() -> Iterator[int]:
    """Another process of the account of the jobs."""
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        yield process.pid
        process.kill()


def aimed(text: str, home: Path, port: int, other: int) -> str:
    return text.replace("@home@", str(home)).replace("@port@", str(port)).replace("@other@", str(other))


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_reference_reaches_nothing_outside_and_all_that_it_needs(
    tmp_path: Path, home: Path, port: int, other: int
) -> None:
    reference = aimed(CONFINED, home, port, other)
    result = evaluate(tmp_path / "job", RIGHT, a_task(reference), Mode.BENCHMARK, environ={"SECRET": "x"}).result
    level = result.provenance["judge_isolation"]
    if not sandbox.reaches(level, "S4"):
        pytest.skip(f"this node confines a judge at {level!r} only")
    assert result.verdict is Verdict.PASS, result.message
    assert level == result.provenance["isolation"]


def test_an_eval_of_a_task_reaches_nothing_outside(tmp_path: Path, home: Path, port: int, other: int) -> None:
    task = own_task(aimed(CONFINED_EVAL, home, port, other), tests=({"size": 3, "seed": 1},))
    result = evaluate(tmp_path / "job", RIGHT, task, Mode.TEST, environ={"SECRET": "x"}).result
    level = str(result.provenance["isolation"])
    if not sandbox.reaches(level, "S4"):
        pytest.skip(f"this node confines an eval at {level!r} only")
    assert result.verdict is Verdict.PASS, (result.message, result.stderr.text)
    assert (home / ".ssh" / "id").read_text() == "secret"
    assert not (home / ".profile").exists()


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
