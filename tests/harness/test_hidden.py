"""A node whose /proc hides what is not dumpable: what cannot be seen counts as running."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hpc_board.model.result import Result, Verdict
from hpc_board.model.task import Mode
from hpc_board.runs import job_folder
from tests.accounts import command_as, needs_accounts
from tests.harness.evaluations import QUICK, a_task, make_job_folder, result_in

pytestmark = needs_accounts

ROOT = Path(__file__).resolve().parents[2]
USER = 61001

HIDE = """
import os, sys
from tests import namespaces
namespaces.enter()
namespaces.hide_processes()
os.execvp(sys.argv[1], sys.argv[1:])
"""

FAMILY = """
import atexit, json, os, signal, subprocess, sys
from hpc_board.harness.processes import tree as process_tree

HIDES = "import ctypes, time; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); print(flush=True); time.sleep(60)"
child = subprocess.Popen([sys.executable, "-c", HIDES], stdout=subprocess.PIPE)
child.stdout.readline()
atexit.register(child.kill)
"""


def hiding(command: list[str]) -> list[str]:
    """The command that runs another as an ordinary user, on a node that hides processes."""
    return [sys.executable, "-c", HIDE, *command_as(USER, 0o077, [], command)]


def told(body: str) -> Any:
    """Return the last output of a program that has started a process which hides."""
    command = hiding([sys.executable, "-c", FAMILY + textwrap.dedent(body)])
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_hidden_process_counts_as_running_until_it_is_gone() -> None:
    found = told("""
        shown = os.path.exists(f"/proc/{child.pid}")
        def seen():
            process, thread_count = child.pid, process_tree.thread_count(child.pid)
            ran = process_tree.turns([process]) != process_tree.turns([process])
            return process_tree.all_stopped(process), ran, process_tree.ended(process), thread_count > 1000
        running = seen()
        os.kill(child.pid, signal.SIGSTOP)
        stopped = seen()
        os.kill(child.pid, signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        ended = seen()
        child.wait()
        print(json.dumps({"shown": shown, "running": running, "stopped": stopped, "ended": ended, "gone": seen()}))
    """)
    assert found.pop("shown") is False
    unseen, over = [False, True, False, True], [True, False, True, False]
    assert found == {"running": unseen, "stopped": unseen, "ended": over, "gone": over}


def test_a_hidden_process_is_found_and_killed_and_nothing_is_measured_beside_it() -> None:
    found = told("""
        others = [
            process_tree.children_of(os.getpid()) == [child.pid],
            process_tree.descendants_of(os.getpid()) == [child.pid],
            process_tree.below(os.getpid()) == [child.pid],
        ]
        try:
            with process_tree.stopped_but([]):
                said = "measured"
        except process_tree.StillRunning:
            said = "still running"
        print(json.dumps([*others, said, process_tree.kill_orphans([])]))
    """)
    assert found == [True, True, True, "still running", 0]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the ordinary user can reach, which is not true of tmp_path."""
    with tempfile.TemporaryDirectory(prefix="hb-hidden-") as name:
        yield Path(name)


def judged(folder: Path, source: str, mode: Mode) -> Result:
    """The result of a submission on a node that hides processes."""
    job = make_job_folder(folder, source, a_task(limits={**QUICK, "first_call_seconds": 10}), mode)
    for path in (folder, *folder.rglob("*")):
        shutil.chown(path, USER, USER)
    environ = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "42", "TMPDIR": str(folder), "HOME": str(folder)}
    command = hiding([shutil.which("bash") or "bash", "-c", f"cd {job} && bash {job_folder.SCRIPT}"])
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert (job / job_folder.RESULT).exists(), f"{done.stdout}{done.stderr}"
    return result_in(job)


def test_an_honest_kernel_is_ranked_on_a_node_that_hides_processes(folder: Path) -> None:
    result = judged(folder, "def custom_kernel(data):\n    return [2 * x for x in data]\n", Mode.RANKED)
    assert result.verdict is Verdict.PASS, result.message


HELPER = """
import os, shutil, sys

# A process that may run its program, but not read it, is not dumpable.
program = os.open("helper", os.O_WRONLY | os.O_CREAT, 0o100)
with open(shutil.which("sleep"), "rb") as source, open(program, "wb") as file:
    shutil.copyfileobj(source, file)
if os.fork() == 0:
    os.execv("helper", ["helper", "60"])

def custom_kernel(data):
    return [2 * x for x in data]
"""


def test_a_helper_that_runs_an_unreadable_program_is_not_taken_for_stopped(folder: Path) -> None:
    result = judged(folder, HELPER, Mode.TEST)
    assert result.verdict is Verdict.LATE_WRITE, result.message
