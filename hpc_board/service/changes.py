"""Changes of the board: new rows and runs in flight, read once for all clients, told as far as each user may see."""

import asyncio
import math
import threading
import time
import traceback
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence

import msgspec

from hpc_board.board import Board
from hpc_board.board.context import Context
from hpc_board.boards.editor import BoardUser
from hpc_board.domain.board_options import is_past
from hpc_board.domain.change import Change
from hpc_board.domain.roles import Role
from hpc_board.domain.run import Run, RunState
from hpc_board.errors import BoardError
from hpc_board.store.additions import Addition, Marks
from hpc_board.store.readers import Withheld

PAUSE_SECONDS = 0.5
"""The least time between two changes of a stream; those in between become one."""

_LOOKS_SECONDS = 0.1
"""The least time between two looks at the board."""

_WAITING_SECONDS = 10.0
"""The time after which a run in flight is told again: an answer of its scheduler shows by the age of the last one."""

_RUNNING_SECONDS = 2.0
"""The time after which a run whose job runs, and may have written progress and output, is told again."""


class Viewer(msgspec.Struct, frozen=True):
    """A user with the names of the leaderboards that are hidden from them, now and at the look before.

    `restrictions` has the bounds that freezes set them, by leaderboard.
    """

    person: BoardUser
    hidden: frozenset[str]
    hidden_before: frozenset[str]
    restrictions: Mapping[str, Withheld] = msgspec.field(default_factory=dict)

    def sees(self, addition: Addition) -> bool:
        """Return whether the user may learn of a new row; the end of a leaderboard's sight is still seen."""
        if addition.everyone or self.person.role is Role.ADMIN or addition.user == self.person.name:
            return True
        hidden = self.hidden & self.hidden_before if addition.terms else self.hidden
        if not addition.task or addition.task in hidden or not self.person.role.may_act_as(Role.PARTICIPANT):
            return False
        bounds = self.restrictions.get(addition.task)
        if bounds is None or addition.at is None or addition.user in bounds.own:
            return True
        return not is_past(bounds.frozen_at, addition.at)

    def change(self, additions: Sequence[Addition], due: Sequence[Run]) -> Change | None:
        """Return the new rows for the user with their own runs that are due, and those of others that run, or None."""
        rows = [each for each in additions if self.sees(each)]
        own = {run.id for run in due if run.user == self.person.name}
        running = (Addition(run.user, run.task, at=run.created_at) for run in due if run.state is RunState.RUNNING)
        if not rows and not own and not any(map(self.sees, running)):
            return None
        own |= {row.run for row in rows if row.run and row.user == self.person.name}
        newest = max((row.entry for row in rows), default=0)
        runners = any(row.runner and row.user == self.person.name for row in rows)
        return Change(tuple(sorted(own)), newest, facts=bool(rows), runners=runners)


class Changes:
    """The changes of a board, for the streams of its clients; `board` returns one that sees everything.

    One thread looks at the board after each `wake`. Without streams it reads nothing.
    """

    def __init__(self, board: Callable[[], Board], say: Callable[[str], object]) -> None:
        self._board = board
        self._say = say
        self._lock = threading.Lock()
        self._streams: set[_Stream] = set()
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="changes")
        self._loop: asyncio.AbstractEventLoop | None = None
        # Only of the thread:
        self._marks: Marks | None = None
        self._viewers: dict[str, Viewer] = {}
        self._in_flight: dict[int, Run] = {}
        self._told_at: dict[int, float] = {}

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

    def wake(self) -> None:
        """Have the board looked at after a write or a pass."""
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
            streams = list(self._streams)
        if not streams:
            self._marks, self._viewers, self._in_flight = None, {}, {}
            return
        with self._board().session():
            found = self._found({stream.user for stream in streams})
        told = []
        for stream in streams:
            change = found[stream.user] if stream.has_begun else Change(anew=True)
            stream.has_begun = True
            if change is not None:
                told.append((stream, change))
        if told and self._loop is not None and not self._stopping.is_set():
            self._loop.call_soon_threadsafe(_add_changes, told)

    def _found(self, users: Collection[str]) -> dict[str, Change | None]:
        """Return the change for each of `users` since the last look."""
        additions = self._additions()
        due = self._due()
        if additions is None:
            self._viewers = self._viewers_of(users)
            return dict.fromkeys(users, Change(anew=True))
        # Leaderboards are hidden and shown only by new rows.
        if additions or not self._viewers.keys() >= set(users):
            self._viewers = self._viewers_of(users)
        return {user: self._viewers[user].change(additions, due) for user in users}

    def _due(self) -> list[Run]:
        """Return the runs in flight that are told again: answers of schedulers and output of jobs leave no rows."""
        now = time.monotonic()
        due = [run for run in self._in_flight.values() if now - self._told_at.get(run.id, -math.inf) >= _pause(run)]
        self._told_at = {id_: at for id_, at in self._told_at.items() if id_ in self._in_flight}
        self._told_at |= {run.id: now for run in due}
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
        people = [Context(context.installation, user, self._say).person() for user in users]
        hidden = context.editor.hidden_from(people)
        with context.store.file.reading() as db:
            restrictions = context.editor.restrictions_of(people, db)
        return {
            person.name: Viewer(
                person, now, self._viewers[person.name].hidden if person.name in self._viewers else now, bounds
            )
            for person, now, bounds in zip(people, hidden, restrictions, strict=True)
        }


def _pause(run: Run) -> float:
    return _RUNNING_SECONDS if run.state is RunState.RUNNING else _WAITING_SECONDS


class _Stream:
    """The untold changes of one client, which only the event loop's thread changes."""

    def __init__(self, user: str) -> None:
        self.user = user
        self.news = asyncio.Event()
        self.has_begun = False
        """True once a look knows the stream; only of the thread of the looks."""
        self._change: Change | None = None

    def add(self, change: Change) -> None:
        """Add a change to those that are not told yet."""
        before = self._change or Change(facts=False)
        self._change = Change(
            runs=tuple(sorted({*before.runs, *change.runs})),
            entry=max(before.entry, change.entry),
            anew=before.anew or change.anew,
            facts=before.facts or change.facts,
            runners=before.runners or change.runners,
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
