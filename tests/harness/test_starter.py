"""The start of a job: the shared harness is compared with its sha256, and a copy of its own is what a job runs."""

import ast
import io
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from hpc_board import bundled
from hpc_board.harness.bundle import harness_bytes
from hpc_board.harness.processes.tree import children_of
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.runs import job_folder
from tests.harness.evaluations import RIGHT, a_task, make_job_folder, result_in

HANGS = "import time\ndef custom_kernel(data):\n    time.sleep(60)\n"
SENT = {"job.json", "job.sh", "harness.py", "submission", "task"}
STARTER = bundled.folder("job_templates") / job_folder.HARNESS


def shared_file(job: Path) -> Path:
    """Return the one harness beside the job folders."""
    (file,) = job.parent.parent.joinpath("harness").iterdir()
    return file


def started(job: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        ["bash", job_folder.SCRIPT],
        cwd=job,
        env={"PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def ended(shell: "subprocess.Popen[str]") -> tuple[int, list[str]]:
    """Return the exit status of a job and the lines that it printed."""
    output, _ = shell.communicate(timeout=120)
    return shell.returncode, output.splitlines()


def await_file(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.002)


def names(job: Path) -> set[str]:
    return {path.name for path in job.iterdir()}


def hostile() -> bytes:
    """Return a harness that leaves a file in the job folder as soon as any of it runs."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("__main__.py", "open('REACHED', 'w')\n")
    return buffer.getvalue()


def test_a_job_folder_has_no_harness_before_the_job_nor_after_it(tmp_path: Path) -> None:
    job = make_job_folder(tmp_path, RIGHT, a_task(), Mode.TEST, harness=harness_bytes())
    assert names(job) == SENT
    assert shared_file(job).read_bytes() == harness_bytes()
    assert ended(started(job))[0] == 0
    assert names(job) == {*SENT, "progress.jsonl", "result.json"}
    assert result_in(job).verdict is Verdict.PASS


def test_a_harness_that_was_exchanged_does_not_run(tmp_path: Path) -> None:
    job = make_job_folder(tmp_path, RIGHT, a_task(), Mode.TEST)
    shared_file(job).write_bytes(hostile())
    status, lines = ended(started(job))
    assert status == 1
    assert lines[-1] == f"hpc-board: remove this file and submit again, it is not the judge: {shared_file(job)}"
    assert names(job) == SENT


def test_a_harness_that_is_not_there_says_so(tmp_path: Path) -> None:
    job = make_job_folder(tmp_path, RIGHT, a_task(), Mode.TEST)
    file = shared_file(job)
    file.unlink()
    status, lines = ended(started(job))
    words = f"hpc-board: submit again, the judge cannot be read (No such file or directory): {file}"
    assert (status, lines[-1], names(job)) == (1, words, SENT)


def test_a_job_folder_without_room_says_so(tmp_path: Path) -> None:
    job = make_job_folder(tmp_path, RIGHT, a_task(), Mode.TEST)
    (job / job_folder.SCRIPT).write_text(f"ulimit -f 100\n{(job / job_folder.SCRIPT).read_text()}")
    status, lines = ended(started(job))
    words = f"hpc-board: the job folder cannot be written (File too large): {job}"
    assert (status, lines[-1], names(job)) == (1, words, SENT)


def test_a_harness_that_is_exchanged_while_a_job_runs_does_not_come_into_it(tmp_path: Path) -> None:
    job = make_job_folder(tmp_path, RIGHT, a_task(), Mode.TEST)
    shell = started(job)
    await_file(job / "harness.pyz")
    shared_file(job).write_bytes(hostile())
    assert ended(shell)[0] == 0
    assert result_in(job).verdict is Verdict.PASS
    assert "REACHED" not in names(job)


@pytest.mark.parametrize(("signal_", "left"), [(signal.SIGKILL, "killed by signal 9"), (signal.SIGTERM, "by SIGTERM")])
def test_the_copy_of_a_supervisor_that_is_ended_goes_with_it(
    tmp_path: Path, signal_: signal.Signals, left: str
) -> None:
    job = make_job_folder(
        tmp_path,
        HANGS,
        a_task(limits={"first_call_seconds": 60, "test_call_seconds": 60, "call_seconds": 60}),
        Mode.TEST,
    )
    shell = started(job)
    try:
        await_file(job / job_folder.PROGRESS)
        while '"case": 1' not in (job / job_folder.PROGRESS).read_text():
            time.sleep(0.01)
        assert "harness.pyz" in names(job)
        os.kill(next(iter(children_of(shell.pid))), signal_)
        ended(shell)
    finally:
        if shell.poll() is None:
            os.killpg(shell.pid, signal.SIGKILL)
    assert left in result_in(job).message
    assert names(job) == {*SENT, "progress.jsonl", "result.json"}


def test_job_folders_may_lie_elsewhere_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "board").mkdir()
    (tmp_path / "roomy" / "runs").mkdir(parents=True)
    (tmp_path / "board" / "runs").symlink_to(tmp_path / "roomy" / "runs")
    job = make_job_folder(tmp_path / "board", RIGHT, a_task(), Mode.TEST)
    assert ended(started(job))[0] == 0
    assert (job / job_folder.RESULT).exists()


@pytest.mark.parametrize("data", [STARTER.read_bytes(), harness_bytes()], ids=["starter", "harness"])
def test_a_python_that_is_too_old_says_so_in_one_line(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "started"
    file.write_bytes(data)
    older = f"import runpy, sys\nsys.version_info = (3, 6, 8)\nrunpy.run_path({str(file)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", older], capture_output=True, text=True, check=False)
    words = f"hpc-board: the judge needs Python 3.10 or newer; {sys.executable} is 3.6\n"
    assert (done.returncode, done.stderr) == (1, words)


def test_an_old_python_reads_the_starter_as_far_as_that() -> None:
    assert ast.parse(STARTER.read_text(), feature_version=(3, 4)).body


def test_the_starter_without_a_job_says_how_it_is_called() -> None:
    done = subprocess.run([sys.executable, "-I", STARTER], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "usage: harness.py ROLE JOB.JSON ...\n")
