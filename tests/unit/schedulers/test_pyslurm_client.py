"""PyslurmScheduler with stand-ins for its helper that hang, die, and print something else."""

import json
import os
import sys
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
from hpc_board.schedulers.slurm.pyslurm_client import PAUSE_SECONDS, PAUSE_SECONDS_MAX, PyslurmScheduler
from hpc_board.transport import Completed
from hpc_board.transport.this_host import OUTPUT_BYTES_MAX, ThisHost

CLUSTER = Cluster("main", "slurm", scheduler_options=ClusterOptions("pyslurm", "/opt/python", "/etc/slurm.conf"))
JOB = JobKey("hb-1", "7", datetime(2026, 1, 1, tzinfo=UTC))
ROW = ["7", "hb-1", "RUNNING", 1767225600, 1767225660, "n1", "None", 0, "/board/runs/7", ""]
SQUEUE = "JOBID|NAME\n7|hb-1|RUNNING|1767225600|1767225660|n1|0|None|/board/runs/7|\n"

STAND_IN = """
import os, pathlib, sys, time
acts = pathlib.Path(sys.argv[1])
what, *others = acts.read_text().splitlines(keepends=True)
acts.write_text("".join(others))
acts.with_name("asked").open("a").write(sys.stdin.read() + os.environ["SLURM_CONF"])
exec(what)
"""
DIE = "print('a library says why', file=sys.stderr); sys.exit(3)"


@dataclass
class Commands:
    """A host whose squeue lists the job, and on which the stand-in can be started."""

    ran: list[str] = field(default_factory=list)
    helpers: int = 0

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
        if argv[0].startswith("/"):
            self.helpers += 1
            return ThisHost(os.environ).run(
                argv, timeout_seconds=timeout_seconds, env=env, cwd=cwd, stdin=stdin, until=until
            )
        self.ran.append(argv[0])
        return Completed(0, SQUEUE if argv[0] == "squeue" else "JobID|JobName\n", "")


class Helped:
    """A scheduler with a stand-in that acts by one of these lines of Python each time."""

    def __init__(self, folder: Path, acts: Sequence[str], *, answer_seconds: float = 60) -> None:
        self.host = Commands()
        self.warnings: list[str] = []
        self.now = 0.0
        (folder / "stand_in.py").write_text(STAND_IN)
        (folder / "acts").write_text("".join(f"{act}\n" for act in acts))
        self.scheduler = PyslurmScheduler(
            CLUSTER,
            self.host,
            warn=self.warnings.append,
            helper=[sys.executable, "-I", str(folder / "stand_in.py"), str(folder / "acts")],
            answer_seconds=answer_seconds,
            clock=lambda: self.now,
        )

    def source(self) -> str:
        return self.scheduler.poll([JOB])["hb-1"].source


def say(text: str) -> str:
    return f"print({text!r})"


def answer(*rows: object) -> str:
    return say(json.dumps({"jobs": rows}))


def error(number: int | None, message: str = "Slurm's words") -> str:
    return say(json.dumps({"error": message, "errno": number}))


def test_the_queue_is_read_without_a_command(tmp_path: Path) -> None:
    helped = Helped(tmp_path, [answer(ROW)] * 2)
    news = helped.scheduler.poll([JOB])["hb-1"]
    assert (news.state, news.job_id, news.node) == (JobState.RUNNING, "7", "n1")
    assert news.source == "pyslurm: RUNNING"
    assert helped.scheduler.find(JobKey("hb-1", "", datetime(2025, 12, 31, 23, 55, tzinfo=UTC))) == "7"
    assert (tmp_path / "asked").read_text() == "/etc/slurm.conf" * 2
    assert (helped.host.ran, helped.warnings) == ([], [])


def test_a_waiting_job_has_its_reason_its_expected_start_and_its_attempt(tmp_path: Path) -> None:
    helped = Helped(tmp_path, [answer(["7", "hb-1", "PENDING", 1767225600, 1767229200, None, "Resources", 2, "", ""])])
    news = helped.scheduler.poll([JOB])["hb-1"]
    assert news.state is JobState.PENDING
    assert news.reason == "waiting for resources (Resources)"
    assert news.expected_start == datetime(2026, 1, 1, 1, tzinfo=UTC)
    assert news.source == "pyslurm: PENDING (Resources), restart 2"


def test_what_the_helper_says_is_made_printable(tmp_path: Path) -> None:
    row = ["7", "hb-1", "RUN\x1b[2JNING", 1, 10**18, "n\x1b]0;x\x071", "None", 0, "/board/runs/7", ""]
    helped = Helped(tmp_path, [answer(row)])
    news = helped.scheduler.poll([JOB])["hb-1"]
    assert (news.state, news.node, news.source) == (JobState.UNKNOWN, "n1", "pyslurm: RUNNING")


@pytest.mark.parametrize("rows", [[], [["7_0", *ROW[1:]]]], ids=["none", "a task of an array"])
def test_a_job_that_pyslurm_does_not_list_is_asked_of_the_accounts(tmp_path: Path, rows: Sequence[object]) -> None:
    helped = Helped(tmp_path, [answer(*rows)])
    assert helped.source() == "pyslurm: not listed; sacct: not listed"
    assert helped.host.ran == ["sacct"]


def test_a_job_is_looked_up_by_pyslurm_and_cancelled_by_the_command(tmp_path: Path) -> None:
    helped = Helped(tmp_path, [answer(ROW), answer(["7", "another", *ROW[2:]])])
    helped.scheduler.cancel([JOB])
    helped.scheduler.cancel([JOB])
    assert helped.host.ran == ["scancel"]


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        ("time.sleep(600)", "did not answer within 1 s"),
        (DIE, "exited with status 3 (a library says why)"),
        (say("no JSON"), "answered with something other than a list of jobs"),
        (say("[" * 100_000), "answered with something other than a list of jobs"),
        (f"print('x' * {OUTPUT_BYTES_MAX + 1})", "sent an answer that exceeds the limit"),
        (error(None, "ModuleNotFoundError: \x1b[31mno such thing"), "failed: ModuleNotFoundError: no such thing"),
        (error(1005, "Incompatible versions of client and server code"), "failed: Incompatible versions"),
        (answer(ROW[:-1]), "answered with something other than a list of jobs"),
        (answer([7, *ROW[1:]]), "answered with something other than a list of jobs"),
    ],
    ids=lambda value: value[:30],
)
def test_a_helper_that_fails_is_told_of_once_and_asked_again_after_a_pause(
    tmp_path: Path, act: str, reason: str
) -> None:
    helped = Helped(tmp_path, [act, act, answer(ROW)], answer_seconds=1 if "did not answer" in reason else 60)
    assert helped.source() == "squeue: RUNNING"
    (warning,) = helped.warnings
    assert f"hpc-board uses Slurm's commands for cluster main because pyslurm under /opt/python {reason}" in warning
    assert "clusters.main.pyslurm_python" in warning

    helped.now += PAUSE_SECONDS
    assert helped.source() == "squeue: RUNNING"
    helped.now += 2 * PAUSE_SECONDS
    assert helped.source() == "pyslurm: RUNNING"
    assert len(helped.warnings) == 1


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
    helped = Helped(tmp_path, [*[DIE] * len(pauses), answer(ROW), DIE, answer(ROW)])
    for failures, pause in enumerate(pauses, start=1):
        helped.source()
        helped.now += pause - 1
        helped.source()
        assert helped.host.helpers == failures
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
    assert helped.source() == "pyslurm: RUNNING"
