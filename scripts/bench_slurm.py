"""Measure the load of hpc-board on a Slurm cluster: questions to the controller, time to send a run, delay of results.

hpc-board and submitit use a real Slurm, started on this machine (tests/slurm/lab.py). Its controller counts the
questions (`sdiag`).
"""

import argparse
import importlib.metadata
import importlib.util
import itertools
import logging
import os
import re
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from bench_judge import machine_facts

from hpc_board.board import Board
from hpc_board.domain.run import Run, RunState, Status
from hpc_board.model.gpu import Cluster
from hpc_board.model.task import Mode
from hpc_board.runs import job_folder
from hpc_board.schedulers import JobKey
from hpc_board.schedulers.slurm.client import SlurmScheduler
from hpc_board.schedulers.slurm.pyslurm_client import HELPER, PyslurmScheduler
from hpc_board.store import Store
from hpc_board.store.submissions import NewRun, NewSubmission
from hpc_board.transport import Completed
from hpc_board.transport.this_host import ThisHost
from tests.e2e.boards import RIGHT, BoardFiles, board_files
from tests.slurm import chroot
from tests.slurm.lab import SlurmLab
from tests.values import requested

IN_FLIGHT = (1, 100, 5000)
CLIENTS = (1, 20)
POLL_SECONDS = 2
WARM_SECONDS = 24.0
"""Longer than the growth of the pauses between questions takes."""

WINDOW_SECONDS = 60.0
ALONE = 20
BATCH = 100
WAITED_FOR = 10
ROUNDS = 3
POLLED = 20
OTHERS = 3000
OWN, OTHER = "daemon", "nobody"
BECOME = """\
import os, pwd, sys, warnings
entry = pwd.getpwnam(sys.argv[1])
os.setgroups([])
os.setgid(entry.pw_gid)
os.setuid(entry.pw_uid)
os.execvp(sys.argv[2], sys.argv[2:])
"""
ASKED_TIMES = 20
CANCELLED = (20, 300)
PARTITION = "cpu"
GPU = "CPU"
TASK = "double"

Row = tuple[str, ...]


@dataclass(frozen=True)
class Asked:
    """The questions of some clients to the controller in a minute, and their CPU time in seconds."""

    runs: int
    clients: int
    questions: float
    rpcs: float
    cpu_s: float


@dataclass(frozen=True)
class Sending:
    """The cost of sending: milliseconds for each run alone and in a batch, and the number of jobs."""

    way: str
    alone_ms: float
    batch_ms: float
    batch_rpcs: int


@dataclass(frozen=True)
class Waited:
    """The delays of results, and the total time from the first submission."""

    late_s: tuple[float, ...]
    whole_s: float


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--window", type=float, default=WINDOW_SECONDS, help="seconds for which questions are counted")
    parser.add_argument("--runs", type=int, nargs="+", default=IN_FLIGHT, help="how many runs are in flight")
    options = parser.parse_args()
    if not has_submitit():
        print("submitit is left out: `make bench-slurm` installs it", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="bench-slurm-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with SlurmLab(folder / "lab") as lab:
            os.environ.clear()
            os.environ.update(lab.environment)
            text = "\n".join(
                (
                    asked_section(lab, folder, options.runs, options.window),
                    queue_section(lab, folder),
                    cancel_section(lab, folder),
                    sending_section(lab, folder),
                    waited_section(folder),
                )
            )
            version = lab.run("sinfo", "--version").strip()
    print(f"{machine_facts()}; {version}.\n\n{text}")
    return 0


def has_submitit() -> bool:
    """Return whether submitit is installed."""
    return importlib.util.find_spec("submitit") is not None


# Questions to the controller


def asked_section(lab: SlurmLab, folder: Path, counts: Sequence[int], window_s: float) -> str:
    """Return the table of questions, with the cost of one question for each run."""
    with nothing_starts(lab):
        found = []
        for count in counts:
            board = board_files(folder / f"board-{count}", slurm=True)
            board.settings.write_text(
                board.settings.read_text().replace("poll_seconds: 1", f"poll_seconds: {POLL_SECONDS}")
            )
            runs = in_flight(board, count)
            found += [asked(lab, board, runs, clients, window_s) for clients in CLIENTS]
            lab.cancel_jobs()
        job_id = lab.run("sbatch", "--parsable", "--wrap=:").strip()
        one = rpcs_of(lab, lambda: lab.run("squeue", f"--job={job_id}"))
    rows = [
        (
            f"{each.runs:,}",
            f"{each.clients}",
            f"{each.questions:.1f}",
            f"{each.rpcs:.1f}",
            f"{60 * one * each.runs:,}",
            f"{each.cpu_s:.1f}",
        )
        for each in found
    ]
    head = ("runs in flight", "clients", "questions", "RPCs", "RPCs, naive", "CPU time of the clients, s")
    return "\n".join([table("Questions in a minute", head, rows), ASKED.format(one=one)])


def queue_section(lab: SlurmLab, folder: Path) -> str:
    """Return the table of one poll beside many jobs of others."""
    rows = polls(lab, AccountHost(lab, OWN))
    if hindrance := chroot.hindrance():
        print(f"the newer Slurm and pyslurm are left out: {hindrance}", file=sys.stderr)
    else:
        with SlurmLab(folder / "crowded", root=chroot.folder()) as newer:
            rows += polls(newer, AccountHost(newer, OWN))
    head = ("Slurm", "", "RPCs", "time of the controller, ms", "time of the client, ms")
    title = f"One question about {POLLED} runs, beside {OTHERS:,} jobs of others"
    return table(title, head, rows)


def polls(lab: SlurmLab, account: "AccountHost") -> list[Row]:
    """Return the rows of one release."""
    release = lab.run("sinfo", "--version").split()[-1]
    with nothing_starts(lab):
        # Root's squeue gets all jobs even with `--me`: it takes the user id 0 for none.
        cluster, now = Cluster("lab", "slurm"), datetime.now(UTC)
        tokens = [f"hb-{secrets.token_hex(8)}" for _ in range(POLLED)]
        sent = account.sent(tokens)
        keys = [JobKey(token, job_id, now) for token, job_id in zip(tokens, sent, strict=True)]
        names = ("--all", "--array", "--states=all", f"--name={','.join(tokens)}")
        ways: dict[str, Callable[[], object]] = {
            "hpc-board's poll (`squeue --me --name=...`)": partial(SlurmScheduler(cluster, account).poll, keys),
            "the same without `--me`": lambda: account.run(["squeue", *names], timeout_seconds=60),
            "plain `squeue`": lambda: account.run(["squeue"], timeout_seconds=60),
        }
        if lab.root is not None:
            helper = [chroot.PYTHON, "-B", str(HELPER)]
            ways["by `client: pyslurm`"] = partial(
                PyslurmScheduler(cluster, account, warn=complain, helper=helper).poll, keys
            )
        with jobs_of_others(lab):
            return [(release, name, *polled(lab, ask)) for name, ask in ways.items()]


def complain(words: str) -> None:
    """Print a warning."""
    print(words, file=sys.stderr)


class AccountHost(ThisHost):
    """The machine of a lab, with commands in the name of another account."""

    def __init__(self, lab: SlurmLab, name: str) -> None:
        super().__init__(lab.environment)
        by = [lab.pyslurm_python] if lab.root is not None else [sys.executable]
        self._prefix = [*by, "-c", BECOME, name]

    def run(self, argv: Sequence[str], **arguments: Any) -> Completed:
        """Run a command as `ThisHost.run` does."""
        return super().run([*self._prefix, *argv], **arguments)

    def sent(self, names: Sequence[str]) -> list[str]:
        """Send a job of each name, and return their ids."""
        job = f"sbatch --parsable --partition={PARTITION} --chdir=/tmp --output=/dev/null --wrap=:"
        words = f"for name in {' '.join(names)}; do {job} --job-name=$name || exit; done"
        done = self.run(["sh", "-c", words], timeout_seconds=900)
        if done.returncode:
            raise SystemExit(f"the jobs of {len(names)} names cannot be sent: {done.stderr}")
        return done.stdout.split()


def polled(lab: SlurmLab, ask: Callable[[], object]) -> Row:
    """Return the RPCs and the milliseconds of controller and client of one question, means of some."""
    lab.forget_rpcs()
    client_s = seconds_of(lambda: [ask() for _ in range(ASKED_TIMES)]) / ASKED_TIMES
    by_type = lab.run("sdiag").partition("statistics by user")[0]
    found = [
        (int(count), int(total_us))
        for name, count, total_us in re.findall(
            r"(\S+)\s+\(\s*\d+\) count:(\d+)\s+ave_time:\d+\s+total_time:(\d+)", by_type
        )
        if name != "REQUEST_STATS_INFO"
    ]
    rpcs, total_us = sum(count for count, _ in found), sum(each for _, each in found)
    return f"{rpcs / ASKED_TIMES:.1f}", f"{total_us / ASKED_TIMES / 1e3:.2f}", f"{1e3 * client_s:.1f}"


@contextmanager
def jobs_of_others(lab: SlurmLab) -> Iterator[None]:
    """Put waiting jobs of another account into the queue."""
    AccountHost(lab, OTHER).sent(["other"] * OTHERS)
    try:
        yield
    finally:
        for name in (OTHER, OWN):
            AccountHost(lab, name).run(["scancel", "--quiet", f"--partition={PARTITION}"], timeout_seconds=300)


def cancel_section(lab: SlurmLab, folder: Path) -> str:
    """Return the table of the cancellation of many runs by one command, beside one question for each run."""
    rows = cancelled(lab, folder / "cancel")
    if hindrance := chroot.hindrance():
        print(f"the newer Slurm is left out: {hindrance}", file=sys.stderr)
    else:
        with SlurmLab(folder / "newer", root=chroot.folder()) as newer, patched_environment(newer.environment):
            rows += cancelled(newer, folder / "cancel-newer")
    head = ("Slurm", "runs", "sent as", "RPCs", "RPCs, one question for each run", "s")
    return table("Cancelling runs", head, rows)


@contextmanager
def patched_environment(environ: Mapping[str, str]) -> Iterator[None]:
    """Have this process and its children talk to another Slurm."""
    before = dict(os.environ)
    os.environ.update(environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def cancelled(lab: SlurmLab, folder: Path) -> list[Row]:
    """Return the rows of one release."""
    rows: list[Row] = []
    release = lab.run("sinfo", "--version").split()[-1]
    with nothing_starts(lab):
        job_id = lab.run("sbatch", "--parsable", f"--partition={PARTITION}", "--wrap=:", "--job-name=one").strip()
        each = rpcs_of(lab, lambda: (lab.run("squeue", "--all", "--name=one"), lab.run("scancel", job_id)))
        for count in CANCELLED:
            for kind in ("single jobs", "a job array"):
                board = board_files(folder / f"{count}-{kind[:1]}{kind[2:3]}", slurm=True)
                opened = Board.open(board.settings)
                if kind == "single jobs":
                    ids = [run.id for run in in_flight(board, count)]
                else:
                    kernels = [board.kernel(f"{RIGHT}# {number}\n", f"kernel{number}.py") for number in range(count)]
                    drafts = [requested(kernel, gpus=[GPU]) for kernel in kernels]
                    ids = [run.id for run in opened.submissions.submit(drafts)]
                lab.forget_rpcs()
                took_s = seconds_of(partial(opened.runs.cancel_each, ids))
                rpcs = sum(lab.rpcs().values())
                rows.append((release, f"{count}", kind, f"{rpcs}", f"{each * count}", f"{took_s:.2f}"))
                lab.cancel_jobs()
    return rows


def in_flight(board: BoardFiles, count: int) -> tuple[Run, ...]:
    """Make waiting runs: rows of the board, their folders, and a job of each one's name in Slurm."""
    opened = Board.open(board.settings)
    store, gpu = Store(opened.settings.board / "board.db"), opened.gpus.get(GPU)
    _, runs = store.submissions.add(
        NewSubmission(
            task=opened.tasks.get(TASK),
            user=opened.user,
            file_name="kernel.py",
            code=RIGHT.encode(),
            mode=Mode.RANKED,
            note="",
            at=datetime.now(UTC),
            runs=[
                NewRun(
                    gpu.name, gpu.cluster.name, gpu.partition, f"hb-{secrets.token_hex(8)}", "", "self-run", True, ""
                )
                for _ in range(count)
            ],
        ),
        sender=None,
    )

    def send(run: Run) -> None:
        path = job_folder.folder(opened.settings.board, run.id)
        path.mkdir(parents=True)
        argv = ["sbatch", "--parsable", f"--partition={PARTITION}", f"--job-name={run.token}", "--wrap=:"]
        job_id = subprocess.run(argv, cwd=path, check=True, capture_output=True, text=True).stdout.strip()
        store.runs.record(run.id, Status(RunState.QUEUED, datetime.now(UTC), job_id=job_id))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(send, runs))
    opened.runs.advance()  # stores the first state of each run
    return runs


def asked(lab: SlurmLab, board: BoardFiles, runs: Sequence[Run], clients: int, window_s: float) -> Asked:
    """Count the questions to the controller while this many clients wait for runs of the board."""
    waiting = [
        subprocess.Popen(board.command("watch", str(runs[number % len(runs)].id)), stderr=subprocess.DEVNULL)
        for number in range(clients)
    ]
    try:
        time.sleep(WARM_SECONDS)
        before_s = sum(cpu_seconds(client.pid) for client in waiting)
        lab.forget_rpcs()
        start = time.monotonic()
        time.sleep(window_s)
        minutes = (time.monotonic() - start) / 60
        found = lab.rpcs()
        cpu_s = sum(cpu_seconds(client.pid) for client in waiting) - before_s
    finally:
        for client in waiting:
            client.terminate()
        for client in waiting:
            client.wait()
    return Asked(
        len(runs), clients, found.get("REQUEST_JOB_INFO", 0) / minutes, sum(found.values()) / minutes, cpu_s / minutes
    )


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and of its ended children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def rpcs_of(lab: SlurmLab, act: Callable[[], object]) -> int:
    """Count the questions to the controller while `act` runs."""
    lab.forget_rpcs()
    act()
    return sum(lab.rpcs().values())


@contextmanager
def nothing_starts(lab: SlurmLab) -> Iterator[None]:
    """Keep all jobs waiting."""
    lab.run("scontrol", "update", f"PartitionName={PARTITION}", "State=DOWN")
    try:
        yield
    finally:
        lab.cancel_jobs()
        lab.run("scontrol", "update", f"PartitionName={PARTITION}", "State=UP")


# Time of sending


@dataclass(frozen=True)
class Way:
    """A way to send a run or a batch."""

    name: str
    one: Callable[[], object]
    batch: Callable[[], object]


def sending_section(lab: SlurmLab, folder: Path) -> str:
    """Return the table of sending; the ways take turns, so that a slow moment of the machine hits all of them."""
    ways = [by_sbatch(folder / "bare"), by_board(folder / "sending")]
    if has_submitit():
        ways.append(by_submitit(folder / "submitit"))
    with nothing_starts(lab):
        alone: dict[str, list[float]] = {way.name: [] for way in ways}
        for _ in range(ALONE):
            for way in ways:
                alone[way.name].append(seconds_of(way.one))
        found = [sending(lab, way, alone[way.name]) for way in ways]
    bare = found[0]
    rows = [
        (
            each.way,
            f"{each.alone_ms:.1f}",
            f"{each.alone_ms / bare.alone_ms:.1f}",
            f"{each.batch_ms:.1f}",
            f"{each.batch_ms / bare.batch_ms:.1f}",
            f"{each.batch_rpcs}",
        )
        for each in found
    ]
    head = ("", "alone, ms", "x bare", f"in a batch of {BATCH}, ms", "x bare", "jobs sent for the batch")
    return table("Sending a run", head, rows)


def sending(lab: SlurmLab, way: Way, alone_s: Sequence[float]) -> Sending:
    """Return the median of sending one alone, and the time of each in a batch."""
    lab.forget_rpcs()
    batch_s = seconds_of(way.batch)
    sent = lab.rpcs()["REQUEST_SUBMIT_BATCH_JOB"]
    lab.cancel_jobs()
    return Sending(way.name, 1e3 * statistics.median(alone_s), 1e3 * batch_s / BATCH, sent)


def by_sbatch(folder: Path) -> Way:
    """Send an empty script by sbatch alone."""
    folder.mkdir()
    script = folder / "job.sh"
    script.write_text("#!/bin/sh\n:\n")
    argv = ["sbatch", "--parsable", f"--partition={PARTITION}", f"--chdir={folder}", str(script)]

    def send(count: int) -> None:
        for _ in range(count):
            subprocess.run(argv, check=True, capture_output=True)

    return Way("`sbatch`", lambda: send(1), lambda: send(BATCH))


def by_board(folder: Path) -> Way:
    """Send runs of checked files: stored, with a job folder each."""
    files = board_files(folder, slurm=True)
    board = Board.open(files.settings)
    kernels = [files.kernel(f"{RIGHT}# {number}\n", f"kernel{number}.py") for number in range(1 + ALONE + BATCH)]
    drafts = iter([requested(kernel, gpus=[GPU]) for kernel in kernels])
    board.submissions.submit([next(drafts)])  # the first one makes the database

    def send(count: int) -> None:
        board.submissions.submit([*itertools.islice(drafts, count)])

    return Way("hpc-board", lambda: send(1), lambda: send(BATCH))


def by_submitit(folder: Path) -> Way:
    """Send an empty function by submitit."""
    executor = submitit_executor(folder)

    def batch() -> None:
        with executor.batch():
            for _ in range(BATCH):
                executor.submit(work)

    return Way(submitit_name(), lambda: executor.submit(work), batch)


def seconds_of(act: Callable[[], object]) -> float:
    """Return the time of `act`."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


# Delay of results


def waited_section(folder: Path) -> str:
    """Return the table of the delays of results, from jobs that take turns as above."""
    ways: dict[str, Callable[[Path], Waited]] = {"hpc-board": waited_by_board}
    if has_submitit():
        ways[submitit_name()] = waited_by_submitit
    found: dict[str, list[Waited]] = {name: [] for name in ways}
    for number in range(ROUNDS):
        for name, wait in ways.items():
            found[name].append(wait(folder / f"{wait.__name__}-{number}"))
    rows = []
    for name, rounds in found.items():
        late_s = [each for waited in rounds for each in waited.late_s]
        whole_s = statistics.median(waited.whole_s for waited in rounds)
        rows.append((name, f"{statistics.median(late_s):.2f}", f"{max(late_s):.2f}", f"{whole_s:.1f}"))
    head = ("", "median, s", "worst, s", "all of it, s")
    title = f"From the result on the node to the client, {ROUNDS} times {WAITED_FOR} jobs"
    return table(title, head, rows)


def waited_by_board(folder: Path) -> Waited:
    """Measure ranked runs of a task of milliseconds."""
    files = board_files(folder, slurm=True)
    board = Board.open(files.settings)
    draft = requested(files.kernel(), gpus=[GPU])
    start = time.time()
    ids = [board.submissions.submit([draft])[0].id for _ in range(WAITED_FOR)]
    seen: dict[int, float] = {}
    for runs in board.runs.wait(ids):
        for run in runs:
            if run.state is RunState.FINISHED:
                seen.setdefault(run.id, time.time())
    late = [
        at - written_at(job_folder.folder(board.settings.board, id_) / job_folder.RESULT) for id_, at in seen.items()
    ]
    return Waited(tuple(late), max(seen.values()) - start)


def waited_by_submitit(folder: Path) -> Waited:
    """Measure an empty function; each job has a thread that waits for it, so that none waits for another."""
    executor = submitit_executor(folder)
    start = time.time()
    sent = [executor.submit(work) for _ in range(WAITED_FOR)]

    def late(job: Any) -> tuple[float, float]:
        job.result()
        seen = time.time()
        return seen, seen - written_at(job.paths.result_pickle)

    with ThreadPoolExecutor(WAITED_FOR) as pool:
        found = list(pool.map(late, sent))
    return Waited(tuple(each for _, each in found), max(at for at, _ in found) - start)


def written_at(file: Path) -> float:
    """Return the time at which a file was written."""
    return file.stat().st_mtime


def work() -> int:
    """Do the work of a submitit job."""
    return 1


def submitit_name() -> str:
    """Return submitit's name in the tables."""
    return f"submitit {importlib.metadata.version('submitit')}"


def submitit_executor(folder: Path) -> Any:
    """Return submitit's client for the lab's Slurm."""
    import submitit

    # Without accounting it says so on each of its questions, and goes on with the files that its jobs leave.
    logging.getLogger("submitit").setLevel(logging.ERROR)
    executor = submitit.SlurmExecutor(folder)
    executor.update_parameters(partition=PARTITION, time=5, cpus_per_task=1)
    return executor


# Output


def table(title: str, head: Row, rows: Sequence[Row]) -> str:
    """Return a Markdown table under a heading."""
    lines = [f"## {title}", "", f"| {' | '.join(head)} |", f"|{'---:|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows), ""])


ASKED = f"""\
Clients are processes of `hpc-board watch ID`; the runs' jobs wait in a partition that is down. Counting begins
{WARM_SECONDS:g} s after the start of the clients, with `poll_seconds` {POLL_SECONDS}; with the default of 15 the
numbers are {15 / POLL_SECONDS:g} times smaller. "Naive" is a `squeue --job` for each run each second ({{one}} RPCs).
"""


if __name__ == "__main__":
    sys.exit(main())
