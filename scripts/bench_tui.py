"""Measure the terminal app: time to first paint, key-to-screen latency on a busy board, frames dropped, memory.

Nothing is asserted: the numbers depend on the machine.
"""

import asyncio
import gc
import os
import pty
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from textual import events
from textual.pilot import Pilot

from hpc_board import settings as config
from hpc_board.__main__ import _GARBAGE_AFTER as COMMAND_GARBAGE_AFTER
from hpc_board.board import Board
from hpc_board.board.runs import Runs
from hpc_board.domain.run import Run, RunState, Status
from hpc_board.model.result import Case, Result, Verdict
from hpc_board.model.task import Mode
from hpc_board.store import Store
from hpc_board.store.database import DatabaseFile
from hpc_board.store.runs import RunGateway
from hpc_board.store.submissions import NewRun, NewSubmission
from hpc_board.tui.app import BoardApp
from tests.unit.open_database import OpenDatabase
from tests.values import replace

ROUNDS = 11
BARE_NAME, FRAME, LIST = "bare Textual app", "hpc-board, the frame", "hpc-board, the first list"
UNREAD = "hpc-board, the first list without a board"
OTHERS = {"posting": b"Posting", "harlequin": b"Query Editor"}
"""Other Textual apps, by the commands that `make bench-tui` installs, with words of their first paint."""

XDG_FOLDERS = ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")
GOALS = {FRAME: 1.5, LIST: 2.5, UNREAD: 2.5}
"""The times of a bare Textual app that the paints may take; printed beside their own times, and no limit."""
RUNS = 10_000
ROWS = 5_000
CHANGES_A_SECOND = 200
REPEAT_SECONDS = 1 / 30
"""The interval of the keys of a burst, as of a key that is held down."""
REST_SECONDS = 0.5
"""The pause after a burst, in which the details follow."""
SHORT_BURSTS = (("down", 12), ("up", 12)) * 4
"""The keys and their numbers in a list of a few rows."""
LONG_BURSTS = (("down", 30), ("down", 30), ("pagedown", 10), ("up", 30))
FRAME_SECONDS = 1 / 60
BEATS = 3600
"""The refreshes of an hour, one a second."""

TASK = "identity_py"
BARE = """
from textual.app import App
from textual.widgets import Static

class Bare(App):
    def compose(self):
        yield Static("first paint")

Bare().run()
"""


def main() -> None:
    """Print all tables, or those on keys alone."""
    if sys.argv[1:2] == ["churn"]:
        churn(Path(sys.argv[2]), int(sys.argv[3]))
        return
    if sys.argv[1:2] == ["keys"]:
        with tempfile.TemporaryDirectory() as folder:
            print(asyncio.run(latencies(filled_board(Path(folder)))))
        return
    others = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as folder:
        print(first_paint(Path(folder), others))
    with tempfile.TemporaryDirectory() as folder:
        board = filled_board(Path(folder))
        print(asyncio.run(latencies(board)))
        print(asyncio.run(memory(board)))


# First paint


def first_paint(folder: Path, others: Path | None) -> str:
    """Return the table of the times from the start of a process to its paints, beside a bare Textual app.

    `others` has a virtual environment for each of OTHERS.
    """
    environ = os.environ | {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}
    without_board = environ | {name: str(folder / "none") for name in XDG_FOLDERS}
    environ |= {name: str(folder) for name in XDG_FOLDERS}
    # A board without a folder keeps no tasks: each start reads their files, until the first submission.
    (folder / "hpc-board").mkdir()
    bare, app = [sys.executable, "-c", BARE], [sys.executable, "-m", "hpc_board"]
    paints: dict[str, list[Paint]] = {BARE_NAME: [], FRAME: [], LIST: [], UNREAD: []}
    for _ in range(ROUNDS):
        paints[BARE_NAME] += paints_of(bare, [b"first paint"], environ)
        frame, first_list = paints_of(app, [b"hpc-board", b"identity_py"], environ)
        paints[FRAME].append(frame)
        paints[LIST].append(first_list)
        paints[UNREAD] += paints_of(app, [b"identity_py"], without_board)
        for name, words in OTHERS.items() if others else ():
            command = str(Path(others or "", name, "bin", name))
            paints.setdefault(name, []).extend(paints_of([command], [words], environ))
    lines = [
        "| paint | least, ms | x bare | median, ms | x bare | processor, ms | x bare | goal |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    base = figures(paints[BARE_NAME])
    for name, measured_ in paints.items():
        cells = [f"{ms:.0f} | {ms / bare_ms:.2f}" for ms, bare_ms in zip(figures(measured_), base, strict=True)]
        lines.append(f"| {name} | {' | '.join(cells)} | {GOALS.get(name, '')} |")
    return "\n".join(["\n## First paint\n", *lines])


def figures(paints: Sequence["Paint"]) -> tuple[float, float, float]:
    """Return the least and the median time to a paint and its least processor time, in milliseconds."""
    seconds = [paint.seconds for paint in paints]
    processor = min(paint.processor_seconds for paint in paints)
    return min(seconds) * 1e3, statistics.median(seconds) * 1e3, processor * 1e3


class Paint(NamedTuple):
    """The time and the processor time until a paint, from the start of a process or from a key on."""

    seconds: float
    processor_seconds: float


def paints_of(command: Sequence[str], words: Sequence[bytes], environ: dict[str, str]) -> list[Paint]:
    """Return the paints of these words, each of which comes with or after the one before."""
    master, slave = pty.openpty()
    start = time.perf_counter()
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=environ, start_new_session=True
    ) as process:
        os.close(slave)
        shown, found = b"", []
        try:
            for word in words:
                while word not in shown:
                    if not select.select([master], [], [], 60)[0]:
                        raise TimeoutError(shown[-500:])
                    shown += os.read(master, 65536)
                found.append(Paint(time.perf_counter() - start, processor_seconds(process.pid)))
        finally:
            process.kill()
            os.close(master)
    return found


def processor_seconds(pid: int) -> float:
    """Return the processor time that the threads of a process have had."""
    nanoseconds = 0
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):  # the thread has ended meanwhile
            nanoseconds += int(file.read_text(encoding="ascii").split()[0])
    return nanoseconds / 1e9


# A board with much on it


class QuietRuns(Runs):
    """Runs that no client advances."""

    def advance(self, watched: object = None, *, within_seconds: float | None = None) -> bool:
        """Nothing to do."""
        del watched, within_seconds
        return True


class Quiet(Board):
    """A board whose runs only another process changes."""

    @cached_property
    def runs(self) -> Runs:
        """The runs, which other processes change."""
        return QuietRuns(self.context)


def filled_board(folder: Path) -> Board:
    """Make a board with ROWS users in one ranking, and RUNS runs of the user, the newest of them in flight."""
    settings = config.load(None, {**os.environ, "XDG_DATA_HOME": str(folder), "XDG_STATE_HOME": str(folder)})
    board = Quiet(settings)
    store = Store(settings.board / "board.db")
    settings.board.mkdir(parents=True)
    # Ages in hours, which do not change meanwhile.
    task, now = board.tasks.get(TASK), datetime.now(UTC) - timedelta(hours=2)

    def new(user: str, number: int) -> NewSubmission:
        run = NewRun("CPU", "local", "", f"hb-{user}-{number}", "n", "self-run", False, "h")
        at = now - timedelta(seconds=RUNS + ROWS - number)
        code = f"# {number}\n".encode()
        return NewSubmission(task, user, "kernel.py", code, Mode.RANKED, "a note", at, [run])

    users = [(f"user{number}", number) for number in range(ROWS)] + [(board.user, ROWS + n) for n in range(RUNS)]
    for start in range(0, len(users), 1000):
        added = store.submissions.add_all(
            [new(user, number) for user, number in users[start : start + 1000]], sender=None
        )
        runs = [run for _, each in added for run in each]
        with DatabaseFile(settings.board / "board.db").writing() as db:
            for run in runs:
                if run.id <= ROWS + RUNS - CHANGES_A_SECOND:
                    finish(RunGateway(OpenDatabase(db)), run, now)
    return board


def finish(runs: RunGateway, run: Run, at: datetime) -> None:
    """Record that a run has passed."""
    case = Case("benchmark", 0, "size: 1", Verdict.PASS)
    result = Result(run.id, run.nonce, str(run.mode), Verdict.PASS, "", (case,), score_s=1e-6 * (1 + run.id % 4999))
    runs.finish(run.id, Status(RunState.FINISHED, at, "1", "node1"), result, result.score_s, at)


def churn(database: Path, changes: int) -> None:
    """Change the states of the newest runs in flight each second, until killed."""
    store = Store(database)
    runs = [run.id for run in store.runs.in_flight()][-changes:]
    states = (RunState.QUEUED, RunState.RUNNING)
    for turn in range(1_000_000):
        start = time.monotonic()
        at = datetime.now(UTC)
        reason = "Priority" if turn % 3 else "Resources"
        store.runs.record_each({run: Status(states[turn % 2], at, "1", "node1", reason) for run in runs})
        print(turn, flush=True)
        time.sleep(max(0.0, 1 - (time.monotonic() - start)))


@contextmanager
def churning(board: Board, changes: int = CHANGES_A_SECOND) -> Iterator[None]:
    """Have another process change so many runs each second meanwhile."""
    command = [sys.executable, __file__, "churn", str(board.settings.board / "board.db"), str(changes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        if process.stdout is not None:
            process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


# Latency


async def latencies(board: Board) -> str:
    """Measure latency and lost frames of keys, on a quiet board and while runs change."""
    before = gc.get_threshold()
    lines = [
        f"| {RUNS:,} runs, {ROWS:,} rows | changes | median, ms | 95 %, ms | worst | 95 % CPU | frames | lost | late |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, ways in {"Tasks": (), "Runs": ("r",), "Standings": ("b",)}.items():
        for busy in (False, True):
            # As the command does.
            gc.set_threshold(COMMAND_GARBAGE_AFTER, 10, 10)
            with churning(board) if busy else nullcontext():
                app = BoardApp(lambda: board, now=lambda: datetime.now(UTC))
                async with app.run_test(size=(120, 40)) as pilot:
                    await asyncio.sleep(1.0)
                    await pilot.press(*ways)
                    await asyncio.sleep(3.0)
                    keys, frames = await measured(pilot, LONG_BURSTS if ways else SHORT_BURSTS)
            times, processor = [key.seconds for key in keys], [key.processor_seconds for key in keys]
            values = (statistics.median(times), percentile(times), max(times), percentile(processor))
            cells = [f"{value * 1e3:.1f}" for value in values]
            due = round(sum(frame.seconds for frame in frames) / FRAME_SECONDS)
            lost, late = sum(map(lost_frames, frames)), sum(map(late_frames, frames))
            cells += [f"{due}", f"{lost} ({lost / due:.1%})", f"{late} ({late / due:.1%})"]
            lines.append(f"| {name} | {'yes' if busy else 'no'} | {' | '.join(cells)} |")
    gc.set_threshold(*before)
    return "\n".join(["\n## From a key to the screen\n", *lines])


async def measured(pilot: Pilot[None], bursts: Sequence[tuple[str, int]]) -> tuple[list[Paint], list[Paint]]:
    """Return the paint after each key of some bursts, and the times between two frames meanwhile."""
    frames: list[Paint] = []
    ticker = asyncio.create_task(tick(frames))
    times = []
    for key, count in bursts:
        due = time.perf_counter()
        for _ in range(count):
            times.append(await paint_after(pilot, key))
            due += REPEAT_SECONDS
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
        await asyncio.sleep(REST_SECONDS)
    ticker.cancel()
    return times, frames


async def tick(frames: list[Paint]) -> None:
    """Append the time and the processor time of each frame."""
    last, processor = time.perf_counter(), time.process_time()
    while True:
        await asyncio.sleep(FRAME_SECONDS)
        now, used = time.perf_counter(), time.process_time()
        frames.append(Paint(now - last, used - processor))
        last, processor = now, used


def late_frames(frame: Paint) -> int:
    """Return the number of frames that did not come, whatever the reason."""
    return max(0, int(frame.seconds / FRAME_SECONDS) - 1)


def lost_frames(frame: Paint) -> int:
    """Return the number of frames for whose time the app's own threads used the processor.

    The others were late as another process had the processor.
    """
    return min(late_frames(frame), int(frame.processor_seconds / FRAME_SECONDS))


async def paint_after(pilot: Pilot[None], key: str) -> Paint:
    """Return the times from a key to the end of its refresh; the processor time is that of all threads."""
    shown = asyncio.Event()
    start, processor = time.perf_counter(), time.process_time()
    driver = pilot.app._driver  # noqa: SLF001 - the way of a key that is typed
    if driver is None:
        raise RuntimeError("the app has ended")
    driver.send_message(events.Key(key, None))
    # The key is handled before a later request.
    await asyncio.sleep(0)
    pilot.app.call_later(lambda: pilot.app.screen.call_after_refresh(shown.set))
    await shown.wait()
    return Paint(time.perf_counter() - start, time.process_time() - processor)


def percentile(times: Sequence[float], share: float = 0.95) -> float:
    """Return the value that a share of the times does not exceed."""
    return sorted(times)[int(share * (len(times) - 1))]


# Memory


class ReplayedRuns(QuietRuns):
    """The initial runs, in states that change with every question."""

    known: tuple[Run, ...] = ()
    turn = 0

    def list(self, *, everyone: bool = False, task: str | None = None, limit: int = 50, **_: object) -> tuple[Run, ...]:
        """Return the newest runs, every second one in a new state."""
        if not self.known:
            self.known = super().list(everyone=everyone, task=task, limit=200)
        self.turn += 1
        state, reason = (RunState.RUNNING, "") if self.turn % 2 else (RunState.QUEUED, f"Priority {self.turn}")
        return tuple(
            replace(run, status=replace(run.status, state=state, reason=reason)) if run.id % 2 else run
            for run in self.known[:limit]
        )


class Replayed(Quiet):
    """A board with the initial runs."""

    @cached_property
    def runs(self) -> Runs:
        """The runs, in changing states."""
        return ReplayedRuns(self.context)


async def memory(board: Board) -> str:
    """Measure the memory of the process during an hour's worth of refreshes."""
    app = BoardApp(lambda: Replayed(board.settings), tick_seconds=3600, follow_seconds=3600)
    points: list[tuple[int, float]] = []
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("r")
        for beat in range(BEATS + 1):
            if beat % (BEATS // 6) == 0:
                points.append((beat, resident_mib()))
            app._post_tick()  # noqa: SLF001 - time passes faster here
            while pilot.app.screen.busy:  # type: ignore[attr-defined]
                await asyncio.sleep(0.001)
            await asyncio.sleep(0)
    lines = [
        "| minutes replayed | memory, MiB |",
        "|---:|---:|",
        *(f"| {at // 60} | {mib:.1f} |" for at, mib in points),
    ]
    return "\n".join(["\n## Memory of the Runs screen\n", *lines])


def resident_mib() -> float:
    """Return the present memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    main()
