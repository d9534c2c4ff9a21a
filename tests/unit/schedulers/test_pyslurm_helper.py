"""The helper program, with a module in the place of pyslurm."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hpc_board.schedulers.slurm.pyslurm_client import HELPER

BINDINGS = """
import os, time
os.write(1, b"a library prints at import\\n")
__version__ = "25.11.2"

class RPCError(Exception):
    errno = 1800

class Job:
    array_id = array_task_id = array_tasks_waiting = None
    state, submit_time, start_time, allocated_nodes, state_reason, requeue_count = "RUNNING", 1, 2, "n1", None, 0
    user_id = os.getuid()
    command, comment = "/board/runs/1/job.sh", None

    def __init__(self, id, name, **other):
        self.id, self._name = id, name
        vars(self).update(other)

    @property
    def name(self):
        if self._name == "latin":
            raise UnicodeDecodeError("utf-8", b"\\xff", 0, 1, "invalid start byte")
        return self._name

class Jobs:
    @staticmethod
    def load():
        print("a library prints", flush=True)
        {what}
        return {{
            1: Job(1, "hb-1"),
            2: Job(2, "hb-1", user_id=os.getuid() + 1, state="PENDING", allocated_nodes=None, start_time=None),
            3: Job(3, "hb-2", array_id=3, array_tasks_waiting="1-3"),
            4: Job(4, "hb-2", array_id=3, array_task_id=None),
            5: Job(5, "hb-2", array_id=3, array_task_id=5),
            6: Job(6, "latin"),
            7: Job(7, "hb-3", requeue_count=2, state_reason="Priority"),
        }}
"""


def run_helper(
    folder: Path, *, bindings: str | None = None, what: str = "pass", seconds: float = 20
) -> "subprocess.CompletedProcess[str]":
    (folder / "pyslurm.py").write_text(bindings or BINDINGS.format(what=what))
    return subprocess.run(
        [sys.executable, "-B", str(HELPER), f"{seconds:g}"],
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_it_lists_the_jobs_of_its_account(tmp_path: Path) -> None:
    done = run_helper(tmp_path)
    jobs = json.loads(done.stdout)["jobs"]
    assert jobs[0] == ["1", "hb-1", "RUNNING", 1, 2, "n1", None, 0, "/board/runs/1/job.sh", ""]
    assert [row[:2] for row in jobs[1:]] == [
        ["3_[1-3]", "hb-2"],
        ["3_0", "hb-2"],
        ["3_5", "hb-2"],
        ["6", ""],
        ["7", "hb-3"],
    ]
    assert jobs[-1][6:8] == ["Priority", 2]
    assert done.stderr == "a library prints at import\na library prints\n"


@pytest.mark.parametrize(
    ("bindings", "what", "answer"),
    [
        (None, "raise RPCError('no controller')", {"error": "no controller", "errno": 1800}),
        (None, "raise AttributeError('renamed')", {"error": "AttributeError: renamed", "errno": None}),
        ("raise ImportError('libslurm.so.45')", "", {"error": "ImportError: libslurm.so.45", "errno": None}),
    ],
)
def test_what_the_bindings_raise_is_an_answer(
    tmp_path: Path, bindings: str | None, what: str, answer: dict[str, object]
) -> None:
    assert json.loads(run_helper(tmp_path, bindings=bindings, what=what).stdout) == answer


HANG = "time.sleep(600)"


@pytest.mark.parametrize("bindings", [f"import time\n{HANG}", BINDINGS.format(what=HANG)], ids=["import", "call"])
def test_it_ends_itself_when_a_call_hangs_and_nobody_is_there_to_kill_it(tmp_path: Path, bindings: str) -> None:
    assert run_helper(tmp_path, bindings=bindings, seconds=1).returncode == -signal.SIGALRM


def test_no_file_of_its_folder_takes_the_place_of_a_library(tmp_path: Path) -> None:
    bindings = BINDINGS.format(what="pass") + "\ntry:\n    import refusals\nexcept ModuleNotFoundError:\n    pass\n"
    done = run_helper(tmp_path, bindings=bindings + "else:\n    raise ImportError('its own folder is searched')\n")
    assert len(json.loads(done.stdout)["jobs"]) == 6
