"""PyslurmScheduler with stand-ins for its helper that hang, die, and give answers without a question."""

import gc
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hpc_board.domain.run import JobState
from hpc_board.errors import SchedulerError
from hpc_board.model.gpu import Cluster
from hpc_board.schedulers import JobKey
from hpc_board.schedulers.slurm import ClusterOptions
from hpc_board.schedulers.slurm.pyslurm_client import (
    PAUSE_SECONDS,
    PAUSE_SECONDS_MAX,
    PyslurmScheduler,
)
from hpc_board.transport import Completed
from hpc_board.transport.conversation import LINE_BYTES_MAX, Conversation

CLUSTER = Cluster("main", "slurm", scheduler_options=ClusterOptions("pyslurm", "/opt/python"))
JOB = JobKey("hb-1", "7", datetime(2026, 1, 1, tzinfo=UTC))
ROW = ["7", "hb-1", "RUNNING", 1767225600, 1767225660, "n1", "None", 0]
SQUEUE = "7|hb-1|RUNNING|1767225600|1767225660|n1|0|None\n"

STAND_IN = """
import json, os, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])

def act(words, id):
    what, _, value = words.partition(" ")
    if what == "say":
        print(value.replace("ID", str(id)), flush=True)
    elif what == "late":
        time.sleep(1.5)
        print(value.replace("ID", str(id)), flush=True)
    elif what == "hang":
        time.sleep(600)
    elif what == "huge":
        sys.stdout.write("x" * int(value))
        sys.stdout.flush()
        time.sleep(600)
    elif what == "die":
        print("a library says why", file=sys.stderr, flush=True)
        sys.exit(3)

def next_act(name):
    acts = (folder / name).read_text().splitlines()
    (folder / name).write_text("".join(f"{line}\\n" for line in acts[1:]))
    return acts[0]

with (folder / "started").open("a") as file:
    file.write(f"{os.getpid()}\\n")
act(next_act("hellos"), 0)
for line in sys.stdin:
    # First, since a test that sees the question may have this process killed.
    found = next_act("answers")
    (folder / "asked").open("a").write(line)
    act(found, json.loads(line)["id"])
"""


@dataclass
class Commands:
    """A host whose squeue lists the job, and on which the stand-in can be started."""

    ran: list[str] = field(default_factory=list)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_seconds: float,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: str = "",
        until: Sequence[str] = (),
    ) -> Completed:
        del timeout_seconds, env, cwd, stdin, until
        self.ran.append(argv[0])
        return Completed(0, SQUEUE if argv[0] == "squeue" else "", "")

    def converse(self, argv: Sequence[str]) -> Conversation:
        return Conversation(argv, os.environ)


class Helped:
    """A scheduler with a stand-in that says `hellos` when it starts, and then gives `answers`."""

    def __init__(
        self,
        folder: Path,
        answers: Sequence[str],
        hellos: Sequence[str] = (),
        *,
        start_seconds: float = 60,
        answer_seconds: float = 60,
    ) -> None:
        self.folder = folder
        self.host = Commands()
        self.warnings: list[str] = []
        self.now = 0.0
        (folder / "stand_in.py").write_text(STAND_IN)
        (folder / "answers").write_text("".join(f"{answer}\n" for answer in answers))
        good = 'say {"id": 0, "ok": {}}'
        (folder / "hellos").write_text("".join(f"{hello}\n" for hello in [*hellos, *[good] * 20]))
        self.scheduler = PyslurmScheduler(
            CLUSTER,
            self.host,
            warn=self.warnings.append,
            helper=[sys.executable, "-I", str(folder / "stand_in.py"), str(folder)],
            start_seconds=start_seconds,
            answer_seconds=answer_seconds,
            clock=lambda: self.now,
        )

    @property
    def started(self) -> list[int]:
        path = self.folder / "started"
        return [int(line) for line in path.read_text().splitlines()] if path.exists() else []

    def source(self) -> str:
        return self.scheduler.poll([JOB])["hb-1"].source


def answer(*rows: object) -> str:
    return f"say {answered(list(rows))}"


def answered(value: object) -> str:
    return f'{{"id": ID, "ok": {json.dumps(value)}}}'


def error(number: int | None, message: str = "Slurm's words") -> str:
    told = {"error": message} | ({} if number is None else {"errno": number})
    return f'say {{"id": ID, {json.dumps(told)[1:]}'


def is_gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


def test_the_queue_is_read_without_a_command(tmp_path: Path) -> None:
    helped = Helped(tmp_path, [answer(ROW)] * 2)
    news = helped.scheduler.poll([JOB])["hb-1"]
    assert (news.state, news.job_id, news.node) == (JobState.RUNNING, "7", "n1")
    assert news.source == "pyslurm: RUNNING"
    assert helped.scheduler.find("hb-1", datetime(2025, 12, 31, 23, 55, tzinfo=UTC)) == "7"
    asked = [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]
    assert [(question["ask"], question["names"]) for question in asked] == [("jobs", ["hb-1"])] * 2
    assert (helped.host.ran, helped.warnings, len(helped.started)) == ([], [], 1)


def test_a_waiting_job_has_its_reason_its_expected_start_and_its_attempt(tmp_path: Path) -> None:
    helped = Helped(tmp_path, [answer(["7", "hb-1", "PENDING", 1767225600, 1767229200, None, "Resources", 2])])
    news = helped.scheduler.poll([JOB])["hb-1"]
    assert news.state is JobState.PENDING
    assert news.reason == "waiting for resources (Resources)"
    assert news.expected_start == datetime(2026, 1, 1, 1, tzinfo=UTC)
    assert news.source == "pyslurm: PENDING (Resources), restart 2"


def test_what_the_helper_says_is_made_printable(tmp_path: Path) -> None:
    helped = Helped(tmp_path, [answer(["7", "hb-1", "RUN\x1b[2JNING", 1, 10**20, "n\x1b]0;x\x071", "None", 0])])
    news = helped.scheduler.poll([JOB])["hb-1"]
    assert (news.state, news.node, news.source) == (JobState.UNKNOWN, "n1", "pyslurm: RUNNING")


def test_a_job_that_pyslurm_does_not_list_is_asked_of_the_accounts(tmp_path: Path) -> None:
    helped = Helped(tmp_path, [answer()])
    assert helped.source() == "pyslurm: not listed; sacct: not listed"
    assert helped.host.ran == ["sacct"]


def test_a_task_of_an_array_is_no_job_of_its_own(tmp_path: Path) -> None:
    helped = Helped(tmp_path, [answer(["7_0", "hb-1", "RUNNING", 1, 1, "n1", "None", 0])])
    assert helped.source() == "pyslurm: not listed; sacct: not listed"


def test_a_job_is_looked_up_by_pyslurm_and_cancelled_by_the_command(tmp_path: Path) -> None:
    helped = Helped(tmp_path, [answer(ROW), answer(["7", "another", *ROW[2:]])])
    helped.scheduler.cancel([JOB])
    helped.scheduler.cancel([JOB])
    assert helped.host.ran == ["scancel"]


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        ("hang", "did not answer within 1 s"),
        (f"late {answered([ROW])}", "did not answer within 1 s"),
        ("die", "ended with status 3 (a library says why)"),
        ("say no JSON", "answered something that is no JSON"),
        ("say " + "[" * 100_000, "answered something that is no JSON"),
        ("say []", "answered something that was not asked for"),
        ('say {"id": 77, "ok": []}', "answered another question than it was asked"),
        (f"huge {LINE_BYTES_MAX + 1}", "sent an answer that exceeds the limit"),
        (error(None, "AttributeError: \x1b[31mno such thing"), "failed: AttributeError: no such thing"),
        (error(1005, "Incompatible versions of client and server code"), "failed: Incompatible versions"),
        ('say {"id": ID}', "answered something else than a list of jobs"),
        (answer(ROW[:-1]), "answered something else than a list of jobs"),
        (answer([7, *ROW[1:]]), "answered something else than a list of jobs"),
        (answer([*ROW[:-1], "0"]), "answered something else than a list of jobs"),
        (answer("12345678"), "answered something else than a list of jobs"),
    ],
    ids=lambda value: value[:30],
)
def test_a_helper_that_fails_is_killed_told_of_once_and_replaced_after_a_pause(
    tmp_path: Path, act: str, reason: str
) -> None:
    helped = Helped(tmp_path, [act, act, answer(ROW)], answer_seconds=1 if "did not answer" in reason else 60)
    assert helped.source() == "squeue: RUNNING"
    (warning,) = helped.warnings
    assert f"Cluster main is asked by Slurm's commands, as pyslurm under /opt/python {reason}" in warning
    assert "clusters.main.pyslurm_python" in warning
    assert is_gone(helped.started[0])

    helped.now += PAUSE_SECONDS - 1
    assert helped.source() == "squeue: RUNNING"
    assert len(helped.started) == 1
    helped.now += 1
    assert helped.source() == "squeue: RUNNING"
    helped.now += 2 * PAUSE_SECONDS
    assert helped.source() == "pyslurm: RUNNING"
    assert len(helped.started) == 3
    assert len(helped.warnings) == 1


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (
            'say {"id": 0, "error": "ModuleNotFoundError: No module named pyslurm"}',
            "cannot be imported: ModuleNotFound",
        ),
        ("die", "ended with status 3 (a library says why)"),
        ("hang", "did not answer within 5 s"),
    ],
    ids=lambda value: value[:30],
)
def test_a_helper_that_does_not_start_is_replaced_by_the_commands(tmp_path: Path, hello: str, reason: str) -> None:
    helped = Helped(tmp_path, [answer(ROW)], [hello], start_seconds=5 if "did not answer" in reason else 60)
    assert helped.source() == "squeue: RUNNING"
    assert reason in helped.warnings[0]
    assert is_gone(helped.started[0])
    helped.now += PAUSE_SECONDS
    assert helped.source() == "pyslurm: RUNNING"


def test_a_python_that_is_not_there_is_told(tmp_path: Path) -> None:
    warnings: list[str] = []
    missing = str(tmp_path / "python")
    scheduler = PyslurmScheduler(
        Cluster("main", "slurm", scheduler_options=ClusterOptions("pyslurm", missing)), Commands(), warn=warnings.append
    )
    assert scheduler.poll([JOB])["hb-1"].source == "squeue: RUNNING"
    assert f"pyslurm under {missing} cannot be used: {missing} cannot be started: " in warnings[0]


def test_the_pause_grows_up_to_half_an_hour_and_ends_with_an_answer(tmp_path: Path) -> None:
    pauses = [30, 60, 120, 240, 480, 960, PAUSE_SECONDS_MAX, PAUSE_SECONDS_MAX]
    helped = Helped(tmp_path, [*["die"] * len(pauses), answer(ROW), "die", answer(ROW)])
    for failures, pause in enumerate(pauses, start=1):
        helped.source()
        helped.now += pause - 1
        helped.source()
        assert len(helped.started) == failures
        helped.now += 1
    assert helped.source() == "pyslurm: RUNNING"
    assert helped.source() == "squeue: RUNNING"
    helped.now += PAUSE_SECONDS
    assert helped.source() == "pyslurm: RUNNING"


@pytest.mark.parametrize("number", [1001, 1800, 5004, 110])
def test_a_controller_that_cannot_be_reached_is_not_asked_again_by_a_command(tmp_path: Path, number: int) -> None:
    helped = Helped(tmp_path, [error(number), answer(ROW)])
    with pytest.raises(SchedulerError, match=r"^pyslurm failed: Slurm's words$") as failure:
        helped.scheduler.poll([JOB])
    assert "cluster main" in failure.value.hint
    assert (helped.host.ran, helped.warnings) == ([], [])
    assert is_gone(helped.started[0])
    assert helped.source() == "pyslurm: RUNNING"


def test_several_threads_get_their_own_answers(tmp_path: Path) -> None:
    rows = [[str(number), f"hb-{number}", *ROW[2:]] for number in range(8)]
    helped = Helped(tmp_path, [answer(*rows)] * 8)
    found: dict[int, str] = {}

    def ask(number: int) -> None:
        key = JobKey(f"hb-{number}", str(number), JOB.submitted_at)
        found[number] = helped.scheduler.poll([key])[key.name].job_id

    threads = [threading.Thread(target=ask, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: str(number) for number in range(8)}
    assert (len(helped.started), helped.warnings) == (1, [])


def test_an_answer_that_comes_after_an_interrupt_is_taken_for_no_other(tmp_path: Path) -> None:
    helped = Helped(tmp_path, ["hang", answer(ROW)])

    def interrupt() -> None:
        while not (tmp_path / "asked").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        helped.source()
    thread.join()
    assert is_gone(helped.started[0])
    assert helped.source() == "pyslurm: RUNNING"
    assert helped.warnings == []


def test_the_helper_ends_with_its_scheduler(tmp_path: Path) -> None:
    helped = Helped(tmp_path, [answer(ROW)])
    helped.source()
    (pid,) = helped.started
    del helped
    gc.collect()
    assert is_gone(pid)
