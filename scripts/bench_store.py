"""Measure the commands' questions to a board's database as it grows from a thousand runs to 100,000.

Steps are instructions of SQLite's own machine, and times are processor time: neither counts the computer's other work.
A process of its own asks each question, which gives its memory. The measurement leaves no file.
"""

import argparse
import json
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

from board_generator import END, GPUS, Size, generate, task_versions, user_name

from hpc_board.admin.export import Export
from hpc_board.boards.pages import page
from hpc_board.domain.moderation import GPU_SECONDS_MAX, GpuLimit, Period, Sender
from hpc_board.domain.run import Run, RunState, Status
from hpc_board.domain.run_order import RunOrder, RunPosition, SortColumn
from hpc_board.domain.standing import Page, Rows
from hpc_board.model.result import Case, Result, Timing, Verdict
from hpc_board.model.task import Mode
from hpc_board.store import Store
from hpc_board.store.export import RunSelection
from hpc_board.store.listing import RunQuery
from hpc_board.store.statistics import statistics as board_statistics
from hpc_board.store.submissions import NewRun, NewSubmission

SIZES = (1_000, 10_000, 100_000)
REPETITIONS = 15
_TASKS = [versions[-1] for versions in task_versions(Size(0))]
_BUSY = _TASKS[0]
_USER, _GPU = user_name(0), GPUS[0]
_PAGE = 20


@dataclass(frozen=True)
class Measured:
    """The cost of a question: steps of SQLite's machine, milliseconds, and the peak memory of its process in MiB."""

    steps: int
    median_ms: float
    worst_ms: float
    memory_mib: float


class Asker:
    """The questions behind the commands, for the busiest ranking and the busiest user."""

    def __init__(self, path: Path) -> None:
        self.store = Store(path)
        last = self.store.standings.list(_BUSY.name, _BUSY.version, _GPU)[-1]
        self.last_run = self.store.runs.get(last.run)
        self._number = 0

    def run(self) -> object:
        """Read all facts of one run."""
        number, store = self.last_run.id, self.store
        return (
            store.runs.get(number),
            store.runs.result(number),
            store.runs.history(number),
            store.standings.placing(self.last_run),
        )

    def by_outcome(self) -> object:
        """Read a page in the middle of the runs of all users in the order of their outcomes."""
        order = RunOrder(SortColumn.STATE)
        return self.runs(RunQuery(order=order, behind=order.position(self.last_run)), limit=20)

    def finish(self) -> object:
        """Store a submission, and its run's end with a rank and a line of the feed."""
        self._number += 1
        run = self.submit()
        timing = Timing(1, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, (1.0,))
        cases = (Case("benchmark", 0, "size: 1024", Verdict.PASS, "", timing),)
        result = Result(run=run.id, nonce=run.nonce, mode="ranked", verdict=Verdict.PASS, message="", cases=cases)
        return self.store.runs.finish(run.id, Status(RunState.FINISHED, END), result, 1e-9 / self._number, END)

    def export(self) -> object:
        """Export every run as CSV."""
        with Path(os.devnull).open("wb") as sink:
            return Export(self.store, {}, "csv", RunSelection(), END).write(sink)

    def runs(self, query: RunQuery, limit: int = 50) -> object:
        """Read a list of runs."""
        return self.store.runs.list(query, limit=limit)

    def page(self, rows: Rows) -> Page:
        """Read the first page of a ranking, the user's own row, the rows without a rank, and the number of users."""
        return page(self.store, _BUSY, _BUSY, _GPU, _USER, rows=rows, limit=_PAGE, offset=0)

    def submit(self) -> Run:
        """Store a submission with one run, in one transaction."""
        return self._submit(None)

    def submit_limited(self) -> Run:
        """Store a submission with one run by the rules of a board that limits the GPU time of a week."""
        if self.store.moderation.gpu_limit() is None:
            self.store.moderation.set_gpu_limit(GpuLimit(GPU_SECONDS_MAX, Period.WEEK), "admin", END)
        return self._submit(Sender())

    def _submit(self, sender: Sender | None) -> Run:
        new = NewRun(_GPU, "main", "gpu", f"bench-{os.getpid()}-{time.monotonic_ns()}", "", "self-run", False, "")
        code = f"# {time.monotonic_ns()}".encode()
        submission = NewSubmission(
            task=_BUSY, user=_USER, file_name="k.py", code=code, mode=Mode.RANKED, note="", at=END, runs=[new]
        )
        ((_, (run,)),) = self.store.submissions.add_all([submission], sender=sender)
        return run


QUESTIONS: dict[str, Callable[[Asker], object]] = {
    "`show`, first page": lambda asker: asker.page(Rows.USERS),
    "a rank, the last one's": lambda asker: asker.store.standings.placing(asker.last_run),
    "`show --own`, first page": lambda asker: asker.page(Rows.OWN),
    "`show --user`": lambda asker: asker.store.standings.of_user(_USER, _TASKS),
    "`runs`": lambda asker: asker.runs(RunQuery(user=_USER)),
    "`runs --task`": lambda asker: asker.runs(RunQuery(user=_USER, task=_BUSY.name)),
    "`runs --all`": lambda asker: asker.runs(RunQuery()),
    "runs, an old page": lambda asker: asker.runs(RunQuery(behind=RunPosition(100))),
    "`runs --all --task`": lambda asker: asker.runs(RunQuery(task=_BUSY.name)),
    "`runs --all --gpu`, a new one": lambda asker: asker.runs(RunQuery(gpu="unused")),
    "`runs --all --state collecting`": lambda asker: asker.runs(RunQuery(outcome=RunState.COLLECTING)),
    "`runs --all --state lost`": lambda asker: asker.runs(RunQuery(outcome=RunState.LOST), limit=20),
    "`runs --all --state crash`": lambda asker: asker.runs(RunQuery(outcome=Verdict.CRASH), limit=20),
    "`runs --all --state task_error`": lambda asker: asker.runs(RunQuery(outcome=Verdict.TASK_ERROR)),
    "`runs --all --sort score`": lambda asker: asker.runs(RunQuery(order=RunOrder(SortColumn.SCORE)), limit=20),
    "`runs --all --sort gpu`, the end": lambda asker: asker.runs(
        RunQuery(order=RunOrder(SortColumn.GPU), offset=asker.store.runs.count() - 20), limit=20
    ),
    "`runs --all --sort state`, an inner page": Asker.by_outcome,
    "runs with words, by score": lambda asker: asker.runs(
        RunQuery(words="pass", order=RunOrder(SortColumn.SCORE)), limit=20
    ),
    "feed": lambda asker: asker.store.standings.feed(limit=50),
    "feed of a board": lambda asker: asker.store.standings.feed(task=_BUSY.name, gpu=_GPU, limit=50),
    "`run ID`": Asker.run,
    "`submit`, the transaction": Asker.submit,
    "`submit`, under a limit on GPU time": Asker.submit_limited,
    "`submit` and the run's end": Asker.finish,
    "sent within the hour": lambda asker: asker.store.moderation.sent_since(END - timedelta(hours=1)),
    "users of the Admin screen": lambda asker: asker.store.moderation.people(limit=1_000, part=""),
    "`admin stats --days 1`": lambda asker: board_statistics(
        asker.store.file, RunSelection(since=END - timedelta(days=1))
    ),
    "`admin stats`": lambda asker: board_statistics(asker.store.file, RunSelection()),
    "`admin export --format csv`": Asker.export,
}
WHOLE = ("`admin stats --days 1`", "`admin stats`", "`admin export --format csv`")
"""The questions that read all rows, and run once."""


def ask(path: Path, name: str) -> Measured:
    """Ask the database at `path` one question, in this process, some times for its duration and once for its steps."""
    asker, question = Asker(path), QUESTIONS[name]
    # To count some steps at a time takes no time; to count each of them does.
    milliseconds = [] if name in WHOLE else [_milliseconds(question, asker) for _ in range(REPETITIONS)]
    with counted(every=1000 if name in WHOLE else 1) as steps:
        counting_ms = _milliseconds(question, asker)
    times = milliseconds or [counting_ms]
    return Measured(steps(), statistics.median(times), max(times), _peak_memory_mib())


def _peak_memory_mib() -> float:
    """Return the peak memory of this process; getrusage would include its parent's."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def _milliseconds(question: Callable[[Asker], object], asker: Asker) -> float:
    start = time.process_time()
    question(asker)
    return (time.process_time() - start) * 1e3


@contextmanager
def counted(every: int) -> Iterator[Callable[[], int]]:
    """Yield a function that returns the number of SQLite's steps, in connections opened meanwhile."""
    count = 0
    connect = sqlite3.connect

    def step() -> None:
        nonlocal count
        count += every

    class Counting(sqlite3.Connection):
        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(*args, **kwargs)  # type: ignore[arg-type]
            super().set_progress_handler(step, every)

    def counting(*args: object, **kwargs: object) -> sqlite3.Connection:
        return connect(*args, **kwargs, factory=Counting)  # type: ignore[call-overload,no-any-return]

    sqlite3.connect = counting  # type: ignore[assignment]
    try:
        yield lambda: count
    finally:
        sqlite3.connect = connect


def asked(path: Path, name: str) -> Measured:
    """Return the cost of a question in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--ask", name, str(path)], capture_output=True, text=True, check=True
    )
    return Measured(**json.loads(done.stdout)[name])


def measure(folder: Path, sizes: tuple[int, ...]) -> None:
    """Make boards of these sizes in `folder`, one after the other, ask them, and print tables for a page."""
    found: dict[int, dict[str, Measured]] = {}
    for runs in sizes:
        path = folder / f"{runs}.db"
        start = time.monotonic()
        generate(path, Size(runs))
        seconds = time.monotonic() - start
        print(f"{runs:,} runs: {path.stat().st_size / 1e6:,.0f} MB, made in {seconds:.0f} s", file=sys.stderr)
        found[runs] = {name: asked(path, name) for name in QUESTIONS}
        for each in folder.iterdir():
            each.unlink()
    print(
        f"{processor()}, {os.cpu_count()} CPUs, Linux {platform.release()}, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}; a load average of {os.getloadavg()[1]:.1f}\n"
    )
    table("steps", sizes, lambda runs, name: f"{found[runs][name].steps:,}")
    table("median (worst), ms", sizes, lambda runs, name: _times(found[runs][name]))
    table("peak memory, MiB", sizes, lambda runs, name: f"{found[runs][name].memory_mib:.0f}")


def table(title: str, sizes: tuple[int, ...], cell: Callable[[int, str], str]) -> None:
    """Print a table with a row for each question and a column for each size."""
    print(f"| {title} | " + " | ".join(f"{runs:,} runs" for runs in sizes) + " |")
    print("|---|" + "---:|" * len(sizes))
    for name in QUESTIONS:
        print(f"| {name} | " + " | ".join(cell(runs, name) for runs in sizes) + " |")
    print()


def _times(measured: Measured) -> str:
    if measured.median_ms == measured.worst_ms:
        return f"{measured.median_ms:,.0f}"
    return f"{measured.median_ms:.1f} ({measured.worst_ms:.1f})"


def processor() -> str:
    """Return the name of this machine's processor."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


def main() -> None:
    """Measure, or ask questions for the process that measures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", nargs="?", type=Path, help="with --ask, the database")
    parser.add_argument(
        "--ask", choices=QUESTIONS, action="append", help="a question; print its cost as JSON; may be repeated"
    )
    parser.add_argument("--folder", type=Path, help="folder for the boards; 100,000 runs take 0.3 GB")
    parser.add_argument("--runs", type=int, nargs="+", default=SIZES, metavar="N", help="the sizes of the boards")
    given = parser.parse_args()
    if given.ask:
        print(json.dumps({name: asdict(ask(given.file, name)) for name in given.ask}))
        return
    with tempfile.TemporaryDirectory(prefix="hpc-board-bench-", dir=given.folder) as folder:
        measure(Path(folder), tuple(given.runs))


if __name__ == "__main__":
    main()
