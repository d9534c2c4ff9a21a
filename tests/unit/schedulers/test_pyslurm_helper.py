"""The helper program, with a module in the place of pyslurm."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hpc_board.schedulers.slurm.pyslurm_client import HELPER
from hpc_board.transport.conversation import Conversation, ConversationOver

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


def helper(folder: Path, bindings: str | None = None, *, what: str = "pass", seconds: float = 20) -> Conversation:
    (folder / "pyslurm.py").write_text(bindings or BINDINGS.format(what=what))
    environment = {"PYTHONPATH": str(folder)}
    return Conversation([sys.executable, "-B", str(HELPER), str(seconds)], environment)


def said(conversation: Conversation, line: str = "") -> Any:
    return json.loads(conversation.ask(line, timeout_seconds=20))


def question(*names: str, number: int = 1, seconds: float = 20) -> str:
    return json.dumps({"id": number, "ask": "jobs", "names": names, "seconds": seconds})


def test_it_says_what_it_has_and_answers_about_the_jobs_with_these_names_alone(tmp_path: Path) -> None:
    conversation = helper(tmp_path)
    assert said(conversation) == {"id": 0, "ok": {"pyslurm": "25.11.2"}}
    assert said(conversation, question("hb-1", "hb-3", number=5)) == {
        "id": 5,
        "ok": [
            ["1", "hb-1", "RUNNING", 1, 2, "n1", None, 0],
            ["7", "hb-3", "RUNNING", 1, 2, "n1", "Priority", 2],
        ],
    }
    assert [row[0] for row in said(conversation, question("hb-2"))["ok"]] == ["3_[1-3]", "3_0", "3_5"]
    assert "a library prints at import" in conversation.complaints
    conversation.close()


@pytest.mark.parametrize(
    ("what", "answer"),
    [
        ("raise RPCError('no controller')", {"error": "no controller", "errno": 1800}),
        ("raise AttributeError('renamed')", {"error": "AttributeError: renamed"}),
    ],
)
def test_what_the_bindings_raise_is_an_answer_and_not_the_end(
    tmp_path: Path, what: str, answer: dict[str, object]
) -> None:
    conversation = helper(tmp_path, what=what)
    said(conversation)
    for number in (1, 2):
        assert said(conversation, question("hb-1", number=number)) == {"id": number, **answer}
    conversation.close()


def test_bindings_that_cannot_be_imported_are_an_answer(tmp_path: Path) -> None:
    conversation = helper(tmp_path, "raise ImportError('libslurm.so.45: no such file')")
    assert said(conversation) == {"id": 0, "error": "ImportError: libslurm.so.45: no such file"}
    conversation.close()


def test_bindings_that_end_the_process_say_so_in_their_own_words(tmp_path: Path) -> None:
    conversation = helper(tmp_path, "import os; os.write(2, b'fatal: no slurm.conf'); os._exit(1)")
    with pytest.raises(ConversationOver, match="ended with status 1"):
        said(conversation)
    assert conversation.complaints == "fatal: no slurm.conf"


HANG = "time.sleep(600)"


@pytest.mark.parametrize("where", ["import", "call"])
def test_it_ends_itself_when_a_call_hangs_and_nobody_is_there_to_kill_it(tmp_path: Path, where: str) -> None:
    (tmp_path / "pyslurm.py").write_text(
        f"import time\n{HANG}" if where == "import" else BINDINGS.format(what=HANG),
    )
    began = time.monotonic()
    done = _run(tmp_path, ["1" if where == "import" else "20"], question("hb-1", seconds=1))
    assert done.returncode == -14
    assert time.monotonic() - began < 15


def test_it_ends_with_its_input_and_is_not_hurried_while_it_waits(tmp_path: Path) -> None:
    (tmp_path / "pyslurm.py").write_text(BINDINGS.format(what="pass"))
    command = [sys.executable, "-B", str(HELPER), "0.5"]
    process = subprocess.Popen(
        command, env={"PYTHONPATH": str(tmp_path)}, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=2
    )
    with process, pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.5)
    assert process.returncode == 0


def _run(folder: Path, arguments: Sequence[str], line: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-B", str(HELPER), *arguments],
        env={"PYTHONPATH": str(folder)},
        input=f"{line}\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_no_file_of_its_folder_takes_the_place_of_a_library(tmp_path: Path) -> None:
    bindings = BINDINGS.format(what="pass") + "\ntry:\n    import refusals\nexcept ModuleNotFoundError:\n    pass\n"
    conversation = helper(tmp_path, bindings + "else:\n    raise ImportError('its own folder is searched')\n")
    assert "ok" in said(conversation)
    conversation.close()
