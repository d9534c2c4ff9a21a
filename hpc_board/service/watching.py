"""Watched runs: one look at all of them after each pass, and an event for each client whose runs have changed."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

from hpc_board.domain.run import Progress, Run, RunState
from hpc_board.errors import BoardError, DamagedRowError, InputError
from hpc_board.runs.wait import ProblemReporter
from hpc_board.service.routes import RunsChanged

if TYPE_CHECKING:
    from hpc_board.board import Board
    from hpc_board.runs.reconciler import Pass


class Watching:
    """The runs that clients wait for, each read once for all of them; `board` returns one that sees every run."""

    def __init__(self, board: "Callable[[], Board]") -> None:
        self._board = board
        self._lock = threading.Lock()
        self._streams: set[_Stream] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send events to the streams of this loop."""
        self._loop = loop

    @property
    def waits(self) -> int:
        """The number of clients that wait."""
        return len(self._streams)

    async def changes(self, runs: Sequence[Run], gone: "asyncio.Future[bytes]") -> AsyncGenerator[RunsChanged, None]:
        """Yield these runs now and whenever they change, until all have ended or `gone` is done.

        Raises:
            BoardError: one of them has vanished, as by a restored backup, or its row is damaged.
        """
        stream = _Stream({run.id: (run, ()) for run in runs})
        with self._lock:
            self._streams.add(stream)
        try:
            yield stream.event()
            while not stream.ended and not gone.done():
                changed = asyncio.ensure_future(stream.changed.wait())
                try:
                    await asyncio.wait((changed, gone), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
                if stream.changed.is_set():
                    stream.changed.clear()
                    if stream.fault is not None:
                        raise stream.fault
                    yield stream.event()
        finally:
            with self._lock:
                self._streams.discard(stream)

    def look(self, pass_: "Pass | None", takes: Callable[[str], bool]) -> None:
        """Read the watched runs of the clusters that `takes` accepts after a pass, and wake the streams with news.

        Each cluster has a thread, which calls this: a far folder that hangs keeps no news of another cluster.
        """
        with self._lock:
            streams = {stream: stream.going(takes) for stream in self._streams}
        wanted = {id_ for ids in streams.values() for id_ in ids}
        if not wanted or self._loop is None:
            return
        board = self._board()
        store = board.context.store.runs
        # A damaged row is read again below, and raises its error.
        found = {run.id: run for run in store.in_flight(wanted, skip_damaged=True)}
        faults: dict[int, BoardError] = {}
        for id_ in wanted.difference(found):
            try:
                found[id_] = store.get(id_)
            except (InputError, DamagedRowError) as error:
                # The wait for this run ends, and those for others do not.
                faults[id_] = error
        now = {id_: (run, _progress(board, run)) for id_, run in found.items()}
        for stream, ids in streams.items():
            if ids:
                # The loop of a service that stops may have ended.
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(stream.take, now, pass_, faults)


class _Stream:
    """The runs of one waiting client; only the event loop's thread changes them."""

    def __init__(self, runs: Mapping[int, tuple[Run, Sequence[Progress]]]) -> None:
        self.runs = dict(runs)
        self.changed = asyncio.Event()
        self.fault: BoardError | None = None
        self._problems: list[str] = []
        self._problem = ProblemReporter(self._problems.append)

    @property
    def ended(self) -> bool:
        """True if all runs have ended."""
        return all(run.state.ended for run, _ in self.runs.values())

    def going(self, takes: Callable[[str], bool]) -> list[int]:
        """Return the numbers of the runs that have not ended, of the clusters that `takes` accepts."""
        return [id_ for id_, (run, _) in self.runs.items() if not run.state.ended and takes(run.cluster)]

    def take(
        self,
        found: Mapping[int, tuple[Run, Sequence[Progress]]],
        pass_: "Pass | None",
        faults: Mapping[int, BoardError] = MappingProxyType({}),
    ) -> None:
        """Take the changed runs of `found`, a new problem of the pass, and the fault of a run that cannot be read."""
        self.fault = next((faults[id_] for id_ in self.runs if id_ in faults), self.fault)
        news = {id_: found[id_] for id_, known in self.runs.items() if id_ in found and found[id_] != known}
        self.runs = {**self.runs, **news}
        if pass_ is not None:
            self._problem.after(pass_, [run for run, _ in self.runs.values()])
        if news or self._problems or self.fault is not None:
            self.changed.set()

    def event(self) -> RunsChanged:
        """Return the present state as an event."""
        runs, problems = tuple(run for run, _ in self.runs.values()), tuple(self._problems)
        self._problems.clear()
        return RunsChanged(runs, {id_: progress for id_, (_, progress) in self.runs.items() if progress}, problems)


def _progress(board: "Board", run: Run) -> Sequence[Progress]:
    return board.runs.progress(run.id) if run.state is RunState.RUNNING else ()
