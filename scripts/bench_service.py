"""Measure a served board beside one that clients open by its files: commands, many clients, waiting.

Slurm is a real one, started on this machine (tests/slurm/lab.py); its controller counts the questions. Clients of
several accounts need root.
"""

import argparse
import asyncio
import itertools
import json
import os
import pwd
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from bench_judge import machine_facts
from bench_slurm import GPU, TASK, asked, cpu_seconds, in_flight, nothing_starts, table, written_at

from hpc_board.board import Board
from hpc_board.domain.run import RunState
from hpc_board.runs import job_folder
from hpc_board.service import routes, wire
from hpc_board.service.client import RemoteBoard
from tests.e2e.boards import RIGHT, BoardFiles, board_files
from tests.slurm.lab import SlurmLab
from tests.values import requested

ACCOUNTS = ("bin", "daemon", "games", "lp", "mail", "man", "news", "proxy", "sys", "uucp")
"""Accounts of any Linux, as users: one has 64 connections at most."""

ROUNDS = 40
COMMANDS = 60
AT_ONCE = 200
AT_ONCE_SECONDS = 10.0
WAITING = 500
FILE_CLIENTS = 20
WARM_SECONDS = 24.0
WINDOW_SECONDS = 60.0
RESULTS = 30
POLL_SECONDS = 2
START_SECONDS = 120.0

Question = tuple[str, dict[str, Any]]

MIX: tuple[Question, ...] = (
    ("runs.list", {}),
    ("runs.get", {"run": 1}),
    ("standings.pages", {"task": TASK, "gpus": [GPU], "limit": 20}),
)


@dataclass(frozen=True)
class Cost:
    """The elapsed time and the CPU time of a command, in seconds."""

    elapsed: float
    cpu: float


@dataclass(frozen=True)
class Served:
    """A board, the socket of its service, and the service's process."""

    files: BoardFiles
    socket: Path
    pid: int

    @property
    def memory_mib(self) -> float:
        """The service's memory now."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def main() -> int:
    """Print the tables; or be some clients of a measurement."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--window", type=float, default=WINDOW_SECONDS, help="seconds for which a load is measured")
    parser.add_argument("--clients", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.clients is not None:
        asyncio.run(clients(json.loads(options.clients)))
        return 0
    if os.geteuid() != 0:
        print("Only root can be clients of several accounts.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="bench-service-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with SlurmLab(folder / "lab") as lab:
            os.environ.update(lab.environment)
            # An installed program has its byte code; a checkout must not be compiled in each round.
            os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
            os.environ["PYTHONPYCACHEPREFIX"] = f"{folder}/bytecode"
            text = "\n".join(
                (
                    alone_section(lab, folder),
                    at_once_section(lab, folder),
                    waiting_section(lab, folder, options.window),
                    results_section(folder),
                )
            )
            version = lab.run("sinfo", "--version").strip()
    print(f"{machine_facts()}; {version}.\n\n{text}")
    return 0


# Boards


def board_of(folder: Path) -> BoardFiles:
    """Make a board for all accounts."""
    files = board_files(folder, slurm=True)
    settings = yaml.safe_load(files.settings.read_text())
    settings["clusters"]["lab"]["poll_seconds"] = POLL_SECONDS
    settings["roles"] = {"participants": list(ACCOUNTS)}
    settings["serve"] = {"runs_per_user": 100_000}
    for gpu in settings["gpus"].values():
        gpu["minimum_isolation"] = "S1"  # the lab's nodes are this machine, with any confinement or none
    files.settings.write_text(yaml.safe_dump(settings))
    return files


@contextmanager
def served(files: BoardFiles) -> Iterator[Served]:
    """Serve a board by a process of its own until the block ends."""
    path = files.folder / "run" / "board.sock"
    path.parent.mkdir(mode=0o755, exist_ok=True)
    argv = files.command("serve", "--socket", path, "--allow-root")
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + START_SECONDS
        while not path.is_socket():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no service of {files.folder}")
            time.sleep(0.05)
        try:
            yield Served(files, path, process.pid)
        finally:
            process.terminate()


# One client


def alone_section(lab: SlurmLab, folder: Path) -> str:
    """Return the tables of single commands; the doors take turns, so that a slow moment of the machine hits all."""
    by_files, behind = board_of(folder / "alone-files"), board_of(folder / "alone-service")
    kernel = by_files.kernel()
    for board in (by_files, behind):
        in_flight_ended(board)
    words = {
        "`runs`": ["runs"],
        "`show`": ["show", TASK, "--gpu", GPU],
        "`submit`": ["submit", str(kernel), "--task", TASK, "--gpu", GPU],
    }
    spent: dict[tuple[str, str], list[Cost]] = {}
    with nothing_starts(lab), served(behind) as service:
        client = behind.folder / "participant.yaml"
        client.write_text(f"service: {service.socket}\n")
        participant = [sys.executable, "-m", "hpc_board", "--config", str(client)]
        for name, given in words.items():
            ways = {
                "bare": ([sys.executable, "-c", "pass"], dict(os.environ)),
                "files": (by_files.command(*given), dict(os.environ)),
                "service": ([*participant, *given], dict(os.environ)),
            }
            for argv, variables in ways.values():
                cost(argv, variables)
            for _ in range(ROUNDS):
                for way, (argv, variables) in ways.items():
                    spent.setdefault((name, way), []).append(cost(argv, variables))
    elapsed = {key: statistics.median(each.elapsed for each in costs) for key, costs in spent.items()}
    cpu = {key: min(each.cpu for each in costs) for key, costs in spent.items()}
    head = ("", "bare Python, ms", "files, ms", "service, ms", "files x bare", "service x bare", "service x files")
    return "\n".join(
        [
            table("One client", head, [ratios(name, elapsed) for name in words]),
            table("CPU time of one client", head, [ratios(name, cpu) for name in words]),
        ]
    )


def ratios(name: str, seconds: Mapping[tuple[str, str], float]) -> tuple[str, ...]:
    """Return the row of a command: its milliseconds by each way, and their ratios."""
    bare, files, service = (seconds[name, way] for way in ("bare", "files", "service"))
    times = (f"{1e3 * each:.0f}" for each in (bare, files, service))
    return (name, *times, f"{files / bare:.1f}", f"{service / bare:.1f}", f"{service / files:.2f}")


def in_flight_ended(files: BoardFiles) -> None:
    """Make a finished board: some stored runs, cancelled before any job."""
    runs = in_flight(files, 50)
    store = Board.open(files.settings).context.store
    for run in runs:
        status = store.runs.get(run.id).status
        store.runs.record(run.id, type(status)(RunState.CANCELLED, datetime.now(UTC), job_id=status.job_id))


def cost(argv: Sequence[str], environ: dict[str, str]) -> Cost:
    """Return the cost of a command, which must succeed; no other child may end meanwhile."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
    elapsed, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{argv}: {done.stderr}")
    return Cost(elapsed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


# Many clients at once


def at_once_section(lab: SlurmLab, folder: Path) -> str:
    """Return the tables of many clients at once: as commands through both doors, and as connections that stay."""
    by_files, behind = board_of(folder / "once-files"), board_of(folder / "once-service")
    for board in (by_files, behind):
        in_flight_ended(board)
    with nothing_starts(lab), served(behind) as service:
        environ = {**os.environ, "HPC_BOARD_SERVICE": str(service.socket)}
        commands = [
            at_once_row(f"{COMMANDS} commands `runs`, files", commands_at_once(by_files.command("runs"), None)),
            at_once_row(
                f"{COMMANDS} commands `runs`, service",
                commands_at_once([sys.executable, "-m", "hpc_board", "runs"], environ),
            ),
        ]
        before_mib, before_s = service.memory_mib, cpu_seconds(service.pid)
        seconds = [
            each
            for found in asked_by_accounts(service, AT_ONCE, {"questions": MIX, "seconds": AT_ONCE_SECONDS})
            for each in found
        ]
        cpu_ms = 1e3 * (cpu_seconds(service.pid) - before_s) / len(seconds)
        memory = f"{before_mib:.0f} MiB before and {service.memory_mib:.0f} MiB after"
    connections = (
        f"{AT_ONCE} connections, service",
        f"{len(seconds) / AT_ONCE_SECONDS:.0f}",
        *quantiles_ms(seconds),
        f"{cpu_ms:.1f}",
    )
    head = ("", "answers a second", "p50, ms", "p99, ms", "CPU of the service, ms each")
    return table("Many clients at once", head, [*commands, connections]) + f"\nThe service has {memory}.\n"


def commands_at_once(argv: Sequence[str], environ: dict[str, str] | None) -> tuple[list[float], float]:
    """Start COMMANDS commands at once; return the time of each, and of all."""
    start = time.perf_counter()
    with ThreadPoolExecutor(COMMANDS) as pool:
        seconds = list(pool.map(lambda _: cost(argv, environ or dict(os.environ)).elapsed, range(COMMANDS)))
    return seconds, time.perf_counter() - start


def at_once_row(name: str, found: tuple[list[float], float]) -> tuple[str, ...]:
    """Return the row of commands."""
    seconds, whole_s = found
    return (name, f"{len(seconds) / whole_s:.0f}", *quantiles_ms(seconds), "")


def quantiles_ms(seconds: Sequence[float]) -> list[str]:
    """Return the median and the 99th percentile in milliseconds."""
    ordered = sorted(seconds)
    return [f"{1e3 * ordered[int(part * (len(ordered) - 1))]:.0f}" for part in (0.5, 0.99)]


@contextmanager
def accounts_clients(service: Served, count: int, given: dict[str, Any]) -> Iterator[list[subprocess.Popen[str]]]:
    """Have as many clients as `count`, in a process for each account, until the block ends."""
    with ExitStack() as stack:
        started = []
        for account in ACCOUNTS if count else ():
            told = {"socket": str(service.socket), "account": account, "count": count // len(ACCOUNTS), **given}
            argv = [sys.executable, __file__, "--clients", json.dumps(told)]
            client = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.callback(client.wait)
            stack.callback(client.terminate)
            started.append(client)
        yield started


def asked_by_accounts(service: Served, count: int, given: dict[str, Any]) -> list[list[float]]:
    """Return the times of the answers to each account's clients."""
    with accounts_clients(service, count, given) as started:
        return [json.loads(client.communicate()[0]) for client in started]


async def clients(given: dict[str, Any]) -> None:
    """Be the clients of one account: ask for some seconds, or wait until the end of stdin."""
    os.setresuid(-1, pwd.getpwnam(given["account"]).pw_uid, -1)
    told = await asyncio.gather(*(one_client(given) for _ in range(given["count"])))
    print(json.dumps([second for seconds in told for second in seconds]))


async def one_client(given: dict[str, Any]) -> list[float]:
    """Ask the questions in turn until the time is over; or ask one, and read its events for ever."""
    reader, writer = await asyncio.open_unix_connection(given["socket"], limit=2**24)
    writer.write(wire.HELLO + b"\n")
    if "user" not in json.loads(await reader.readline()):
        raise RuntimeError("refused")
    seconds: list[float] = []
    end = time.monotonic() + given.get("seconds", 0.0)
    for number, (route, args) in enumerate(itertools.cycle(given["questions"])):
        start = time.perf_counter()
        writer.write(json.dumps({"id": number, "route": route, "args": args}).encode() + b"\n")
        line = await reader.readline()
        if b'"error"' in line[:40]:
            raise RuntimeError(line.decode())
        if route == routes.CHANGES:
            print("waits", flush=True)
            while await reader.readline():
                pass
            return []
        seconds.append(time.perf_counter() - start)
        if time.monotonic() > end:
            break
    writer.close()
    return seconds


# Waiting clients


def waiting_section(lab: SlurmLab, folder: Path, window_s: float) -> str:
    """Return the table of waiting clients: their cost to the controller and the processors in a minute."""
    files, behind = board_of(folder / "waiting-files"), board_of(folder / "waiting-service")
    rows: list[tuple[str, ...]] = []
    with nothing_starts(lab):
        runs = in_flight(files, FILE_CLIENTS)
        found = asked(lab, files, runs, FILE_CLIENTS, window_s)
        rows.append(
            (
                f"{FILE_CLIENTS}, files (`watch`)",
                f"{found.questions:.0f}",
                f"{found.rpcs:.0f}",
                f"{found.cpu_s:.1f}",
                "",
            )
        )
        many = found.cpu_s * WAITING / FILE_CLIENTS
        rows.append((f"{WAITING}, files, computed", "the same", "the same", f"{many:.0f}", ""))
        lab.cancel_jobs()
        in_flight(behind, FILE_CLIENTS)
        with served(behind) as service:
            rows.append(waiting_row(lab, service, "no client, service", 0, [], window_s))
            streams: list[Question] = [(routes.CHANGES, {})]
            rows.append(waiting_row(lab, service, f"{WAITING}, service", WAITING, streams, window_s))
    head = ("waiting clients", "questions to Slurm", "RPCs", "CPU, s", "memory of the service, MiB")
    return table("Waiting, in a minute", head, rows)


def waiting_row(
    lab: SlurmLab, service: Served, name: str, count: int, questions: Sequence[Question], window_s: float
) -> tuple[str, ...]:
    """Measure the service while so many clients wait."""
    with accounts_clients(service, count, {"questions": questions}) as started:
        for client in started:
            for _ in range(count // len(ACCOUNTS)):
                if client.stdout is None or client.stdout.readline() != "waits\n":
                    raise RuntimeError("a client does not wait")
        time.sleep(WARM_SECONDS)
        before_s = cpu_seconds(service.pid)
        lab.forget_rpcs()
        start = time.monotonic()
        time.sleep(window_s)
        minutes = (time.monotonic() - start) / 60
        rpcs = lab.rpcs()
        cpu_s = (cpu_seconds(service.pid) - before_s) / minutes
        memory = service.memory_mib
    questions_asked = rpcs.get("REQUEST_JOB_INFO", 0) / minutes
    return (name, f"{questions_asked:.0f}", f"{sum(rpcs.values()) / minutes:.0f}", f"{cpu_s:.1f}", f"{memory:.0f}")


# Results


def results_section(folder: Path) -> str:
    """Return the table of the delays from a job's result to the client that waits for it."""
    by_files, behind = board_of(folder / "results-files"), board_of(folder / "results-service")
    with served(behind) as service:
        delays = {"files": delays_s(Board.open(by_files.settings), by_files)}
        remote = RemoteBoard(service.socket)
        with remote.session():
            delays["service"] = delays_s(remote, behind)
    rows = [(name, *quantiles_ms(found)) for name, found in delays.items()]
    return table(f"From a result to its client, {RESULTS} jobs", ("", "p50, ms", "p99, ms"), rows)


def delays_s(board: Board, files: BoardFiles) -> list[float]:
    """Return the time from the result of each job to its client, one job at a time."""
    found = []
    for number in range(RESULTS):
        kernel = files.kernel(f"{RIGHT}# {number}\n")
        (run,) = board.submissions.submit([requested(kernel, gpus=[GPU], mode="test")])
        for runs in board.runs.wait([run.id], timeout_seconds=120):
            (run,), seen = runs, time.time()
        if run.state is not RunState.FINISHED:
            raise RuntimeError(f"run {run.id} is {run.state}: {run.message or run.status.reason}")
        found.append(seen - written_at(job_folder.folder(files.folder / "board", run.id) / job_folder.RESULT))
    return found


if __name__ == "__main__":
    sys.exit(main())
