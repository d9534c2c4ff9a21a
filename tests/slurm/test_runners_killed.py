"""Clients, the service and the processes of runners that are killed at random moments, under load, on a real Slurm.

No run is lost, judged twice or ranked twice, and only the run in hand of a killed runner has another end than its own.
"""

import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import count, cycle
from pathlib import Path

import pytest
import yaml

from hpc_board import settings as config
from hpc_board.board import Board
from hpc_board.domain.diagnostic import Severity
from hpc_board.domain.draft import SubmissionRequest
from hpc_board.domain.run import Run, RunState
from hpc_board.errors import BoardError
from hpc_board.harness.processes.tree import children_of, descendants_of, ended
from hpc_board.model.result import Verdict
from hpc_board.model.runner import DONE, QUEUE, STATE, TAKEN, is_entry
from hpc_board.runs import job_folder
from hpc_board.schedulers.slurm.kind import SlurmKind
from hpc_board.store.backup import contents
from tests.accounts import needs_accounts
from tests.conftest import short_folder
from tests.e2e.boards import RIGHT, BoardFiles, board_files, slurm_jobs
from tests.e2e.test_served_board import ADA, BOB, TEACHER, Player
from tests.slurm.lab import SlurmLab
from tests.unit.recorded import REPOSITORY
from tests.values import replace, requested
from tests.waiting import awaited

pytestmark = pytest.mark.slurm

_LOG = logging.getLogger(__name__)
"""The kills and their outcome, which `pytest --log-cli-level=INFO` shows."""

KILLS = int(os.environ.get("HPC_BOARD_KILLS", "6"))
"""The number of random moments of each test; more take longer, three seconds each."""

IN_FLIGHT_MAX = 8
LOOKUP_SECONDS = 5
"""The time after which an unclear sbatch is looked up; the command itself ends long before."""

PART_SECONDS = 20.0
"""The time in which a process of a runner is awaited that is to be killed."""

PARTS = ("batch script", "runner", "zygote", "supervisor", "judge or worker")


class Site:
    """A board on Slurm, the kills so far, and the runs that were in hand at a killed runner."""

    def __init__(self, lab: SlurmLab, folder: Path, **runners: int) -> None:
        self.lab = lab
        self.files = board_files(folder, slurm=True, environ={"SLURM_CONF": lab.environment["SLURM_CONF"]})
        document = yaml.safe_load(self.files.settings.read_text())
        document["runners"] = runners
        self.files.settings.write_text(yaml.safe_dump(document, sort_keys=False))
        self.folder = folder / "board"
        self.moments = random.Random(KILLS)
        self.kills: Counter[str] = Counter()
        self.in_hand: set[int] = set()
        self.acknowledged: list[str] = []
        self.unclear: list[str] = []
        self._notes = count(1)

    @property
    def board(self) -> Board:
        board = Board(config.load(self.files.settings, os.environ))
        impatient = {"lab": replace(board.settings.clusters[0], poll_seconds=0)}
        board.context.installation.__dict__["reconciler"] = replace(
            board.context.reconciler, lookup_delay=timedelta(seconds=LOOKUP_SECONDS), clusters=impatient
        )
        return board

    def note_kill(self, victim: str) -> None:
        self.kills[victim] += 1
        _LOG.info("killed: %s", victim)

    def victims(self, *names: str) -> Iterator[str]:
        """Yield KILLS of these names, all of them equally often, in a random order."""
        chosen = [name for name, _ in zip(cycle(self.moments.sample(names, len(names))), range(KILLS), strict=False)]
        self.moments.shuffle(chosen)
        yield from chosen

    def request(self) -> SubmissionRequest:
        """A further submission, by this process."""
        note, mode = self._choices()
        kernel = self.files.kernel()
        self.acknowledged.append(f"{note} {kernel.name}")
        return requested(kernel, gpus=("H100",), mode=mode, note=note)

    def words(self, *files: Path) -> list[str | Path]:
        """The words of a command with further submissions."""
        note, mode = self._choices()
        return ["submit", *files, "--task", "double", "--gpu", "H100", "--mode", mode, "--note", note]

    def _choices(self) -> tuple[str, str]:
        return f"note {next(self._notes)}", self.moments.choice(["test", "ranked"])

    def told(self, words: Sequence[str | Path], done: "subprocess.CompletedProcess[str] | None") -> None:
        """Remember whether the submission of these words was acknowledged; `done` is None for a killed client."""
        names = [f"{words[-1]} {word.name}" for word in words if isinstance(word, Path)]
        acknowledged = done is not None and done.returncode == 0
        (self.acknowledged if acknowledged else self.unclear).extend(names)

    def killed_client(self, words: Sequence[str | Path], seconds: float) -> None:
        """Run a client of the board that is killed after so many seconds."""
        done = None
        try:
            done = self.files.run(*words, timeout_seconds=seconds)
        except subprocess.TimeoutExpired:
            self.note_kill(str(words[0]))
        if words[0] == "submit":
            self.told(words, done)

    def kill_service_or_part(self, victim: str, served: "Served") -> None:
        if victim in PARTS:
            self.kill_part(victim)
        else:
            time.sleep(self.moments.uniform(0, 1.5))
            self.note_kill(victim)
            served.kill()

    def pass_over(self, board: Board) -> None:
        """A pass, in spite of another client that is at it."""
        with suppress(BoardError):
            board.runs.advance()

    def kill_part(self, part: str) -> None:
        """Kill a process of a runner at a random moment, and remember the run in hand; none if there is no such one."""
        deadline = time.monotonic() + PART_SECONDS
        time.sleep(self.moments.uniform(0, 1))
        while time.monotonic() < deadline:
            shells = [pid for pid in _processes() if self._is_batch_script(pid)]
            for shell in self.moments.sample(shells, len(shells)):
                if self._is_killed(shell, part):
                    self.note_kill(part)
                    return
            self.pass_over(self.board)
            time.sleep(0.05)

    def _is_killed(self, shell: int, part: str) -> bool:
        """Kill a process of the runner with this batch script, if it has one of this kind."""
        folder, below = _cwd(shell), descendants_of(shell)
        before = _entries(folder, TAKEN)
        found = _of_part(shell, part)
        if not found or not (folder / QUEUE / STATE).exists():
            return False
        with suppress(ProcessLookupError):
            os.kill(self.moments.choice(found), signal.SIGKILL)
        if part in ("batch script", "runner"):
            awaited(lambda: all(map(ended, below)), lambda: [_command(pid) for pid in below if not ended(pid)])
        self.in_hand |= before | _entries(folder, TAKEN)
        return True

    def _is_batch_script(self, pid: int) -> bool:
        folder = _cwd(pid)
        # Slurm does not find the orphan of a script that is killed before its runner has begun.
        has_begun = folder.parent == self.folder / "runs" and (folder / QUEUE / STATE).exists()
        return has_begun and _command(pid).startswith("/bin/bash")

    def over(self, monkeypatch: pytest.MonkeyPatch) -> list[Run]:
        """Every run, once nothing is in flight and all runners have ended."""
        monkeypatch.setattr(SlurmKind, "result_grace", timedelta(seconds=2))
        board = self.board
        store = board.context.store

        def is_over() -> bool:
            for runner in store.runners.live():
                with suppress(BoardError):
                    if not runner.status.cancel_requested:
                        board.runners.release(runner.id)
            self.pass_over(board)
            return not store.runs.has_in_flight()

        awaited(is_over, lambda: (store.runs.in_flight(), store.runners.live()), seconds=60 + KILLS)
        awaited(lambda: not self._is_used(), self._is_used)
        return [*store.runs.list()]

    def _is_used(self) -> list[str]:
        """The processes and jobs that work for the board."""
        used = [_command(pid) for pid in _processes() if _cwd(pid).is_relative_to(self.folder)]
        names = {name for _, name, _ in slurm_jobs(self.files.environ)}
        tokens = {runner.token for runner in self.board.context.store.runners.newest(1_000_000)}
        going = subprocess.run(
            ["squeue", "-h", "-o", "%j"], env=self.lab.environment, capture_output=True, text=True, check=True
        )
        return used + [name for name in going.stdout.split() if name in names & tokens]

    def check(self, runs: Sequence[Run]) -> None:
        """Nothing is lost, doubled or ranked twice."""
        board = self.board
        notes = [f"{run.note} {run.file_name}" for run in runs]
        assert len(notes) == len(set(notes)), "no submission is stored twice"
        assert set(self.acknowledged) <= set(notes), "no submission is lost that was acknowledged"
        assert set(notes) <= {*self.acknowledged, *self.unclear}
        judged = self._judged()
        places: list[tuple[object, object]] = []
        for run in runs:
            whole = board.runs.whole(run.id)
            told = f"run {run.id}: {run.state} {run.verdict} {run.explanation!r}, {whole.history}"
            assert sum(status.state.ended for status in whole.history) == 1, told
            assert len(judged[run.id]) == 1, (told, judged[run.id])
            if run.id in self.in_hand:
                # As in a job of its own: the batch script, or the supervisor, accounts for the killed process.
                assert run.state in (RunState.FINISHED, RunState.ERROR), told
            else:
                assert (run.state, run.verdict) == (RunState.FINISHED, Verdict.PASS), told
            if whole.result is not None and "runner" in whole.result.provenance:
                places.append((whole.result.provenance["runner"], whole.result.provenance["runner_place"]))
        assert len(places) == len(set(places)), "each run has a place of its own at its runner"
        assert places
        (page,) = board.standings.pages("double", ["H100"])
        assert len({row.user for row in page.rows}) == len(page.rows) > 0, "each user has one row"
        assert [each for each in board.admin.diagnose("") if each.severity is Severity.ERROR] == []
        board.admin.backup(self.files.folder / "whole.db")
        assert contents(self.files.folder / "whole.db").in_flight == 0
        _LOG.info(self._table(runs))

    def _table(self, runs: Sequence[Run]) -> str:
        outcomes = Counter(
            f"{run.state} {run.verdict or ''}{' (in hand)' if run.id in self.in_hand else ''}" for run in runs
        )
        runners = Counter(str(runner.state) for runner in self.board.context.store.runners.newest(1_000_000))
        at_runners = sum(run.status.runner is not None for run in runs)
        return (
            f"\nkills: {dict(self.kills)}\nruns: {len(runs)}, {at_runners} at runners: {dict(outcomes)}\n"
            f"runners: {dict(runners)}\nacknowledged: {len(self.acknowledged)}, unclear: {len(self.unclear)}"
        )

    def _judged(self) -> Mapping[int, set[str]]:
        """The judgements of each run: the runners that took it, and the outputs of jobs of its own."""
        store, folders = self.board.context.store, job_folder.Folders(self.folder)
        found: dict[int, set[str]] = {}
        for run in store.runs.list():
            tokens = enumerate(store.runs.tokens([run.id])[run.id])
            jobs = [replace(run, token=token, retry=retry) for retry, token in tokens]
            outputs = [path.stem for job in jobs for path in folders.of(job).glob("slurm-*.out")]
            # A runner writes the output of each run, too.
            found[run.id] = {name for name in outputs if "." not in name}
        for folder in (self.folder / "runs").iterdir():
            for number in _entries(folder, TAKEN) | _entries(folder, DONE):
                found[number].add(folder.name)
        return found


def _of_part(shell: int, part: str) -> list[int]:
    """The processes of a runner of one kind; `shell` is its batch script."""
    if part == "batch script":
        return [shell]
    runner = children_of(shell)
    if part == "runner":
        return runner
    zygotes = [pid for each in runner for pid in sorted(children_of(each))]
    if part == "zygote":
        return zygotes[:1]
    if part == "supervisor":
        return zygotes[1:]
    return [pid for supervisor in zygotes[1:] for pid in descendants_of(supervisor)]


def _entries(folder: Path, part: str) -> set[int]:
    """The numbers of the runs in a part of a runner's folder."""
    return {int(path.name[:8]) for path in (folder / part).glob("*") if is_entry(path.name)}


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def _cwd(pid: int) -> Path:
    try:
        return Path(f"/proc/{pid}/cwd").readlink()
    except OSError:
        return Path("/")


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


@pytest.fixture
def slurm(accounting_lab: SlurmLab, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmLab]:
    monkeypatch.setenv("SLURM_CONF", accounting_lab.environment["SLURM_CONF"])
    yield accounting_lab
    accounting_lab.cancel_jobs()


@pytest.mark.timeout(300 + 20 * KILLS)
def test_clients_and_runners_that_are_killed_lose_no_run_and_double_none(
    slurm: SlurmLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    with short_folder() as folder:
        site = Site(slurm, folder / "site", per_user=2)
        for victim in site.victims("submit", "poll", "watch", "hold", "release", *PARTS):
            board = site.board
            going, live = board.runs.in_flight(), board.context.store.runners.live()
            if not any(runner.takes_runs for runner in live):
                with suppress(BoardError):
                    board.runners.hold("H100")
            if len(going) < IN_FLIGHT_MAX:
                board.submissions.submit([site.request() for _ in range(3)])
            words: list[str | Path] = [victim]
            if victim == "submit":
                words = site.words(site.files.kernel())
            elif victim == "watch":
                words += [str(run.id) for run in going[:1]]
            elif victim == "hold":
                words += ["H100"]
            elif victim == "release":
                words += [str(runner.id) for runner in live[:1]]
            if victim in PARTS:
                site.kill_part(victim)
            else:
                client = threading.Thread(target=site.killed_client, args=(words, site.moments.uniform(0, 1)))
                client.start()
                while client.is_alive():
                    site.pass_over(board)
                    client.join(0.05)
            site.pass_over(board)
        site.check(site.over(monkeypatch))


class Served:
    """The service of a board, which is killed and started again."""

    def __init__(self, files: BoardFiles, socket: Path) -> None:
        self._files, self._socket = files, socket
        self.process = self._started()

    def _started(self) -> "subprocess.Popen[bytes]":
        words = [sys.executable, "-m", "tests.e2e.killed_service", self._files.settings, self._socket, LOOKUP_SECONDS]
        log = self._files.folder / "serve.log"
        with log.open("w") as sink:
            process = subprocess.Popen(
                list(map(str, words)), env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, stderr=sink
            )
        awaited(lambda: '"serving"' in log.read_text() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        return process

    def kill(self, *, again: bool = True) -> None:
        self.process.kill()
        self.process.wait()
        if again:
            self.process = self._started()


@needs_accounts
@pytest.mark.timeout(300 + 20 * KILLS)
def test_a_service_that_is_killed_with_its_runners_loses_no_run_and_doubles_none(
    slurm: SlurmLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    with short_folder() as folder:
        site = Site(slurm, folder / "site", auto=2)
        socket = folder / "board.sock"
        served = Served(site.files, socket)
        try:
            players = [Player(name, folder, socket) for name in (ADA, BOB, TEACHER)]
            # The board starts a runner for three runs that are sent at once.
            files = [[player.file(RIGHT, f"k{number}.py") for number in range(4)] for player in players]
            store = site.board.context.store
            for victim in site.victims("service", "service", "service", "service", "service", *PARTS):
                killing = threading.Thread(target=site.kill_service_or_part, args=(victim, served))
                killing.start()
                for player, sources in zip(players, files, strict=True):
                    if len(store.runs.in_flight()) < IN_FLIGHT_MAX:
                        site.told(words := site.words(*sources), player.run(*words))
                killing.join()
        finally:
            served.kill(again=False)
        site.check(site.over(monkeypatch))
