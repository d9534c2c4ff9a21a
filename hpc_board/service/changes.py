"""Changes of the board: new rows and new output, read once for all clients, and told as far as each user may see."""

import asyncio
import math
import threading
import time
import traceback
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec

from hpc_board.board import Board
from hpc_board.boards.editor import BoardUser
from hpc_board.domain.change import Change
from hpc_board.domain.roles import Role
from hpc_board.domain.run import Run, RunState
from hpc_board.errors import BoardError
from hpc_board.store.additions import Addition, Marks

PAUSE_SECONDS = 0.5
"""The least time between two changes of a stream; those in between become one."""

_LOOKS_SECONDS = 0.1
"""The least time between two looks at the board."""

_ANSWERS_SECONDS = 10.0
"""The least time between two answers of a scheduler that are told: they show by the age of the last one alone."""


class Viewer(msgspec.Struct, frozen=True):
    """A user with the names of the leaderboards that are hidden from them, now and at the look before."""

    person: BoardUser
    hidden: frozenset[str]
    hidden_before: frozenset[str]

    def sees(self, addition: Addition) -> bool:
        """Return whether the user may learn of a new row; the end of a leaderboard's sight is still seen."""
        if addition.everyone or self.person.role is Role.ADMIN or addition.user == self.person.name:
            return True
        hidden = self.hidden & self.hidden_before if addition.terms else self.hidden
        return bool(addition.task) and self.person.role.may_act_as(Role.PARTICIPANT) and addition.task not in hidden

    def change(self, additions: Sequence[Addition], answered: Sequence[Run], written: Sequence[Run]) -> Change | None:
        """Return the new rows, answers of schedulers and outputs that are for the user; None without any."""
        rows = [each for each in additions if self.sees(each)]
        answers, outputs = ([run.id for run in runs if run.user == self.person.name] for runs in (answered, written))
        if not rows and not answers and not any(self.sees(Addition(run.user, run.task)) for run in written):
            return None
        own = {*answers, *outputs, *(row.run for row in rows if row.run and row.user == self.person.name)}
        newest = max((row.entry for row in rows), default=0)
        return Change(tuple(sorted(own)), newest, facts=bool(rows))


class Changes:
    """The changes of a board, for the streams of its clients; `board` returns one that sees everything.

    One thread looks at the board after each `wake`. Without streams it reads nothing.
    """

    def __init__(self, board: Callable[[], Board], say: Callable[[str], object]) -> None:
        self._board = board
        self._say = say
        self._lock = threading.Lock()
        self._streams: set[_Stream] = set()
        self._asked: set[str] = set()
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="changes")
        self._loop: asyncio.AbstractEventLoop | None = None
        # Of the thread alone:
        self._marks: Marks | None = None
        self._viewers: dict[str, Viewer] = {}
        self._in_flight: dict[int, Run] = {}
        self._answered_at: dict[str, float] = {}
        self._outputs = _Outputs(board)

    @property
    def streams(self) -> int:
        """The number of streams."""
        return len(self._streams)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to tell changes to the streams of this loop."""
        self._loop = loop
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._woken.set()
        self._thread.join()
        self._outputs.close()

    def wake(self, asked: Collection[str] = ()) -> None:
        """Have the board looked at after a write, or after a pass that has `asked` the schedulers of these clusters."""
        with self._lock:
            self._asked.update(asked)
        self._woken.set()

    async def stream(self, user: str, gone: "asyncio.Future[bytes]") -> AsyncGenerator[Change, None]:
        """Yield the changes that `user` may see until `gone` is done; the first one stands for all before it."""
        stream = _Stream(user)
        with self._lock:
            self._streams.add(stream)
        self.wake()
        try:
            while not gone.done():
                if (change := stream.taken()) is not None:
                    yield change
                    await asyncio.wait((gone,), timeout=PAUSE_SECONDS)
                    continue
                news = asyncio.ensure_future(stream.news.wait())
                try:
                    await asyncio.wait((news, gone), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    news.cancel()
        finally:
            with self._lock:
                self._streams.discard(stream)

    def _look_on(self) -> None:
        told = ""
        while not self._stopping.is_set():
            self._woken.wait()
            self._woken.clear()
            problem = ""
            try:
                self._read_changes()
            except BoardError as error:
                problem = error.message
            except Exception:  # noqa: BLE001 - the service goes on, and its log has the fault
                problem = traceback.format_exc()
            if problem:
                # The changes of a look that failed are not known any more: the next one tells that all may be new.
                self._marks = None
                if problem != told:
                    self._say(problem)
            told = problem
            self._stopping.wait(_LOOKS_SECONDS)

    def _read_changes(self) -> None:
        with self._lock:
            streams, asked = list(self._streams), self._asked
            self._asked = set()
        if not streams:
            self._marks, self._viewers, self._in_flight = None, {}, {}
            return
        with self._board().session():
            found = self._found({stream.user for stream in streams}, asked)
        told = []
        for stream in streams:
            change = found[stream.user] if stream.has_begun else Change(anew=True)
            stream.has_begun = True
            if change is not None:
                told.append((stream, change))
        if told and self._loop is not None and not self._stopping.is_set():
            self._loop.call_soon_threadsafe(_add_changes, told)

    def _found(self, users: Collection[str], asked: Collection[str]) -> dict[str, Change | None]:
        """Return the change for each of `users` since the last look."""
        additions = self._additions()
        written = self._outputs.written([run for run in self._in_flight.values() if run.state is RunState.RUNNING])
        if additions is None:
            self._viewers = self._viewers_of(users)
            return dict.fromkeys(users, Change(anew=True))
        due = self._due(asked)
        answered = [run for run in self._in_flight.values() if run.cluster in due]
        if additions or written or not self._viewers.keys() >= set(users):
            self._viewers = self._viewers_of(users)
        return {user: self._viewers[user].change(additions, answered, written) for user in users}

    def _due(self, asked: Collection[str]) -> list[str]:
        now = time.monotonic()
        due = [cluster for cluster in asked if now - self._answered_at.get(cluster, -math.inf) >= _ANSWERS_SECONDS]
        self._answered_at |= dict.fromkeys(due, now)
        return due

    def _additions(self) -> tuple[Addition, ...] | None:
        """Return the rows since the last look; None if it is the first one, or if the database was replaced."""
        store, additions = self._board().context.store, None
        if self._marks is None:
            self._marks = store.additions.marks()
        else:
            self._marks, additions = store.additions.since(self._marks)
        changed = None if additions is None else {each.run for each in additions if each.run}
        if changed is None:
            self._in_flight = {}
        if changed is None or changed:
            found = {run.id: run for run in store.runs.in_flight(changed)}
            kept = {id_: run for id_, run in self._in_flight.items() if id_ not in (changed or ())}
            self._in_flight = kept | found
        return additions

    def _viewers_of(self, users: Collection[str]) -> dict[str, Viewer]:
        context = self._board().context
        people = [Board.seen_by(user, context.installation, self._say).context.person() for user in users]
        hidden = context.editor.hidden_from(people)
        return {
            person.name: Viewer(person, now, self._viewers[person.name].hidden if person.name in self._viewers else now)
            for person, now in zip(people, hidden, strict=True)
        }


class _Outputs:
    """The outputs of running jobs. Those on other machines are looked at in a thread of their own, which may hang."""

    def __init__(self, board: Callable[[], Board]) -> None:
        self._board = board
        self._marks: dict[int, object] = {}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="far output")
        self._far: Future[dict[int, object]] | None = None

    def written(self, running: Sequence[Run]) -> list[Run]:
        """Return those of the running runs whose jobs have written since the last call that had them."""
        clusters = self._board().context.clusters
        far = [run for run in running if clusters.folders_on(run.cluster).elsewhere]
        now = self._read_output_marks([run for run in running if run not in far])
        if self._far is not None and self._far.done():
            done, self._far = self._far, None
            now |= done.result()
        if far and self._far is None:
            self._far = self._pool.submit(self._read_output_marks, far)
        before = {run.id: self._marks[run.id] for run in running if run.id in self._marks}
        self._marks = before | now
        return [run for run in running if run.id in before and before[run.id] != self._marks[run.id]]

    def _read_output_marks(self, runs: Sequence[Run]) -> dict[int, object]:
        board = self._board()
        return {run.id: board.runs.output_mark(run) for run in runs}

    def close(self) -> None:
        """Let go of the thread."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Stream:
    """The untold changes of one client, which only the event loop's thread changes."""

    def __init__(self, user: str) -> None:
        self.user = user
        self.news = asyncio.Event()
        self.has_begun = False
        """True once a look knows the stream; of the thread of the looks alone."""
        self._change: Change | None = None

    def add(self, change: Change) -> None:
        """Add a change to those that are not told yet."""
        before = self._change or Change(facts=False)
        self._change = Change(
            runs=tuple(sorted({*before.runs, *change.runs})),
            entry=max(before.entry, change.entry),
            anew=before.anew or change.anew,
            facts=before.facts or change.facts,
        )
        self.news.set()

    def taken(self) -> Change | None:
        """Return the untold changes as one; None without any."""
        change, self._change = self._change, None
        self.news.clear()
        return change


def _add_changes(told: "Sequence[tuple[_Stream, Change]]") -> None:
    for stream, change in told:
        stream.add(change)
