"""Notices: a command of the settings is told of new first places, of deadlines, and of findings of the diagnosis.

The last notice of each kind is in a file of the board's folder, and it is written before the command runs: a process
that is killed repeats none, and the next one goes on from there.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from hpc_board.board import Board
from hpc_board.board.context import PublicContext
from hpc_board.domain.board_options import Visibility, utc_words
from hpc_board.domain.clock import utc_now
from hpc_board.domain.diagnostic import Severity
from hpc_board.domain.feed import FeedEntry, FeedKind
from hpc_board.errors import BoardError
from hpc_board.model.text import one_line
from hpc_board.report.feeds import feed_line
from hpc_board.report.views import moment_of, view_of
from hpc_board.report.views.diagnostics import DiagnosticView
from hpc_board.report.views.notices import NoticeView
from hpc_board.report.views.standings import FeedView
from hpc_board.runs.backoff import SharedValue
from hpc_board.runs.clusters import writing
from hpc_board.transport import CommandMissing, CommandTimeout
from hpc_board.transport.this_host import ThisHost

if TYPE_CHECKING:
    from hpc_board.domain.user_board import CreatedBoard
    from hpc_board.settings import NoticeKind, Settings
    from hpc_board.store.additions import Marks

TEXT = "{text}"
"""The words in an argument of the command that stand for the event in one line."""

SECONDS_MAX = 30.0
"""The time-out of the command."""

CHECKED_EVERY = timedelta(hours=1)
"""The time between two diagnoses."""

_LOOK_SECONDS = 10.0
"""The time between two looks at the clock; changes of the board are seen at once."""

_FILE = "notices"
_FILE_BYTES_MAX = 64 * 1024
_CHANGES_MAX = 100
_TEXT_CHARACTERS_MAX = 500
_BEFORE_DEADLINE = (timedelta(days=1), timedelta(hours=1), timedelta())


class _Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last notice of each kind: an entry of the feed, the time and the board of a deadline's, and the findings.

    A kind of which the command is not told has None.
    """

    change: int | None = None
    deadline: tuple[datetime, str] | None = None
    checked_at: datetime | None = None
    findings: tuple[str, ...] = ()


class Notices:
    """The notices of the installation of `board`, which may change; `say` takes the failures of the command.

    Once `is_over`, no further one is told.
    """

    def __init__(
        self, board: Callable[[], Board], say: Callable[[str], object], is_over: Callable[[], bool] = lambda: False
    ) -> None:
        self._board = board
        self._say = say
        self._is_over = is_over
        self._seen: tuple[Settings, Marks, float] | None = None

    def send(self) -> None:
        """Run the command for each event since the last time, unless another process does so or nothing has changed.

        Raises:
            StorageError: the board's folder or its database cannot be used.
        """
        context, now = self._board().context, utc_now()
        settings = context.settings
        if not settings.notify or context.installation.served_by_another():
            return
        seen = settings, context.store.additions.marks(), now.timestamp() // _LOOK_SECONDS
        if seen == self._seen:
            return
        shared = SharedValue(settings.board / _FILE, _Told, _FILE_BYTES_MAX)
        with writing(settings.board), shared.locked(0) as mine:
            if not mine:
                return
            stored = shared.read() or _Told()
            told = self._begun(stored, settings.notify_on, now)
            if told != stored:
                shared.write(told)
            for then, notice in self._due(told, settings.notify_on, now):
                if self._is_over():
                    return
                shared.write(then)
                if notice is not None:
                    self._run(settings, notice)
        self._seen = seen

    def _begun(self, told: _Told, kinds: "tuple[NoticeKind, ...]", now: datetime) -> _Told:
        """Return the last notices, for new kinds as if all before had been told."""
        if "records" not in kinds:
            told = replace(told, change=None)
        elif told.change is None:
            told = replace(told, change=self._newest_change())
        if "deadlines" not in kinds:
            told = replace(told, deadline=None)
        elif told.deadline is None:
            told = replace(told, deadline=(now, ""))
        return told if "doctor" in kinds else replace(told, checked_at=None, findings=())

    def _due(
        self, told: _Told, kinds: "tuple[NoticeKind, ...]", now: datetime
    ) -> Iterator[tuple[_Told, NoticeView | None]]:
        """Yield each notice that is due, with the last notices once it is told."""
        boards = {board.name: board for board in self._board().context.editor.visible()}
        if told.change is not None and (newest := self._newest_change()) > told.change:
            # A guest of all boards: the command is told no more than their members see.
            context = PublicContext(self._board().context.installation, self._say, frozenset(boards))
            entries = Board.within(context).standings.feed(limit=_CHANGES_MAX)
            for entry in reversed(entries):
                if entry.id > told.change and _takes_first_place(entry):
                    told = replace(told, change=entry.id)
                    yield told, _of_change(entry, boards.get(entry.task), now)
            # One may have come in between.
            told = replace(told, change=max([newest, *(entry.id for entry in entries)]))
            yield told, None
        if told.deadline is not None:
            for due in due_deadlines(boards.values(), told.deadline, now):
                told = replace(told, deadline=due[:2])
                yield told, _of_deadline(due, now)
        if "doctor" in kinds and (told.checked_at is None or now - told.checked_at >= CHECKED_EVERY):
            yield from self._findings(told, now)

    def _newest_change(self) -> int:
        return max((entry.id for entry in self._board().context.store.standings.feed(limit=1)), default=0)

    def _findings(self, told: _Told, now: datetime) -> Iterator[tuple[_Told, NoticeView | None]]:
        bad = [each for each in self._board().admin.diagnose("") if each.severity is not Severity.OK]
        # Numbers in a message change while the finding stays.
        named = {one_line(re.sub(r"[0-9]+", "#", f"{each.subject}: {each.message}"), 200): each for each in bad}
        for name, each in named.items():
            if name not in told.findings:
                told = replace(told, findings=(*told.findings, name))
                text = one_line(f"Diagnosis, {each.subject}: {each.message}", _TEXT_CHARACTERS_MAX)
                found = view_of(DiagnosticView, each)
                yield told, NoticeView(event="doctor", text=text, at=moment_of(now), diagnostic=found)
        yield replace(told, checked_at=now, findings=tuple(named)), None

    def _run(self, settings: "Settings", notice: NoticeView) -> None:
        """Run the command for a notice, and tell its failure."""
        argv = [word.replace(TEXT, notice.text) for word in settings.notify]
        try:
            done = ThisHost().run(argv, timeout_seconds=SECONDS_MAX, stdin=msgspec.json.encode(notice).decode())
        except (CommandMissing, CommandTimeout) as error:
            problem = str(error)
        except BoardError as error:
            problem = error.message
        else:
            if not done.returncode:
                return
            words = one_line(done.stderr or done.stdout, _TEXT_CHARACTERS_MAX)
            problem = f"{argv[0]} ended with exit code {done.returncode}: {words}"
        self._say(f"notify: {problem}. It was not told: {notice.text}")


def _takes_first_place(entry: FeedEntry) -> bool:
    """Return whether a run gave the first place to its user, or improved it by more than noise."""
    return entry.news.kind is FeedKind.RECORD and (entry.news.former_rank != 1 or entry.beats_record)


def _of_change(entry: FeedEntry, board: "CreatedBoard | None", now: datetime) -> NoticeView:
    closed = board is not None and board.options.visibility is Visibility.CLOSED
    text = one_line(feed_line(entry), _TEXT_CHARACTERS_MAX)
    view = FeedView.of(entry)
    return NoticeView(event="record", text=text, at=moment_of(now), board=view.task, closed=closed, change=view)


class Due(NamedTuple):
    """A notice of a deadline, which is due at this time."""

    at: datetime
    board: str
    deadline: datetime
    closed: bool


def due_deadlines(boards: "Iterable[CreatedBoard]", after: tuple[datetime, str], now: datetime) -> list[Due]:
    """Return the notices of deadlines after the one of `after`, in their order, of each board only the last.

    A board that was created or changed later has none.
    """
    found: dict[str, Due] = {}
    for board in boards:
        deadline, closed = board.options.deadline, board.options.visibility is Visibility.CLOSED
        if deadline is None:
            continue
        for before in _BEFORE_DEADLINE:
            due = Due(deadline - before, board.name, deadline, closed)
            if due[:2] > after and board.change.at < due.at <= now:
                found[board.name] = due
    return sorted(found.values())


def _of_deadline(due: Due, now: datetime) -> NoticeView:
    minutes = round((due.deadline - now).total_seconds() / 60)
    words = f"in {round(minutes / 60)} h" if minutes > 90 else f"in {minutes} min" if minutes > 0 else "it has passed"
    return NoticeView(
        event="deadline",
        text=f"Deadline of {due.board}: {utc_words(due.deadline)}, {words}.",
        at=moment_of(now),
        board=due.board,
        closed=due.closed,
        deadline=moment_of(due.deadline),
    )
