"""Notices: a command of the settings is notified of new first places, deadlines, and findings of the diagnosis.

A cursor in a file of the board's folder moves on before the command runs: a process that is killed repeats no notice,
and the next one goes on from there.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from hpc_board.board import Board
from hpc_board.board.context import PublicContext
from hpc_board.domain.board_options import is_past, utc_words
from hpc_board.domain.clock import span_words, utc_now
from hpc_board.domain.diagnostic import Severity
from hpc_board.domain.feed import FeedEntry, FeedKind
from hpc_board.domain.notify import NoticeKind, Notify
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
    from hpc_board.settings import Settings
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
_PAGE_ENTRIES = 100
_TEXT_CHARACTERS_MAX = 500
_BEFORE_DEADLINE = (timedelta(days=1), timedelta(hours=1), timedelta())


class _Cursor(msgspec.Struct, frozen=True):
    """The place of the last notices of these kinds: a change of the feed, a time, and the findings of a diagnosis.

    `frozen` has the last change with a notice of each frozen board, whose later ones come when its freeze has ended.
    """

    kinds: tuple[NoticeKind, ...]
    change: int
    deadline: datetime
    checked_at: datetime
    findings: tuple[str, ...] = ()
    frozen: dict[str, int] = msgspec.field(default_factory=dict)


_Notices = Iterator[tuple[_Cursor, NoticeView | None]]
"""Notices, each with the cursor after it; None moves the cursor alone."""


class Notices:
    """The notices of the installation of `board`, which may change; `warn` takes the failures of the command.

    Once `is_over`, no further one is sent.
    """

    def __init__(
        self, board: Callable[[], Board], warn: Callable[[str], object], is_over: Callable[[], bool] = lambda: False
    ) -> None:
        self._board = board
        self._warn = warn
        self._is_over = is_over
        self._seen: tuple[Settings, Marks, float] | None = None

    def send(self) -> None:
        """Run the command for each event since the last time, unless another process does so or nothing has changed.

        Raises:
            StorageError: the board's folder or its database cannot be used.
        """
        context, now = self._board().context, utc_now()
        settings, notify = context.settings, context.settings.notify
        if notify is None or context.installation.served_by_another():
            return
        seen = settings, context.store.additions.marks(), now.timestamp() // _LOOK_SECONDS
        if seen == self._seen:
            return
        shared = SharedValue(settings.board / _FILE, _Cursor, _FILE_BYTES_MAX)
        with writing(settings.board), shared.locked(0) as mine:
            if not mine:
                return
            cursor = shared.read()
            if cursor is None or cursor.kinds != notify.on:
                cursor = _Cursor(notify.on, self._newest_change(), now, checked_at=now - CHECKED_EVERY)
                shared.write(cursor)
            sources = {"records": self._records, "deadlines": self._deadlines, "doctor": self._findings}
            for kind in notify.on:
                for moved, notice in sources[kind](cursor, now):
                    if self._is_over():
                        return
                    cursor = moved
                    shared.write(cursor)
                    if notice is not None:
                        self._run(notify, notice)
        self._seen = seen

    def _newest_change(self) -> int:
        return max((entry.id for entry in self._board().context.store.standings.feed(limit=1)), default=0)

    def _records(self, cursor: _Cursor, now: datetime) -> _Notices:
        newest, context = self._newest_change(), self._board().context
        boards = context.editor.visible()
        frozen = {
            board.name: cursor.frozen.get(board.name, cursor.change)
            for board in boards
            if is_past(board.options.freeze_at, now)
        }
        if newest <= cursor.change and frozen == cursor.frozen:
            return
        # A guest of all boards: the command learns no more than their members see.
        names = frozenset(board.name for board in boards)
        guest = Board.within(PublicContext(context.installation, self._warn, names))
        for name in sorted(names & cursor.frozen.keys() - frozen.keys()):
            for entry in _first_places(guest, cursor.frozen[name], name):
                if entry.id <= cursor.change:
                    cursor = replace(cursor, frozen={**cursor.frozen, name: entry.id})
                    yield cursor, self._record(entry)
        for entry in _first_places(guest, cursor.change):
            if entry.task in frozen:
                frozen = {**frozen, entry.task: entry.id}
            cursor = replace(cursor, change=entry.id, frozen=frozen)
            yield cursor, self._record(entry)
        # The feed was read after its newest change.
        yield replace(cursor, change=max(newest, cursor.change), frozen=frozen), None

    def _record(self, entry: FeedEntry) -> NoticeView:
        change = FeedView.of(entry)
        return self._notice("records", feed_line(entry), change.task, change=change)

    def _deadlines(self, cursor: _Cursor, now: datetime) -> _Notices:
        for at, board, deadline in due_deadlines(self._board().context.editor.visible(), cursor.deadline, now):
            minutes = round((deadline - now).total_seconds() / 60)
            words = f"in {span_words(60 * minutes)}" if minutes > 0 else "it has passed"
            text = f"Deadline of {board}: {utc_words(deadline)}, {words}."
            yield replace(cursor, deadline=at), self._notice("deadlines", text, board, deadline=moment_of(deadline))

    def _findings(self, cursor: _Cursor, now: datetime) -> _Notices:
        if now - cursor.checked_at < CHECKED_EVERY:
            return
        bad = [each for each in self._board().admin.diagnose("") if each.severity is not Severity.OK]
        # Numbers in a message change while the finding stays.
        named = {one_line(re.sub(r"[0-9]+", "#", f"{each.subject}: {each.message}"), 200): each for each in bad}
        for name, each in named.items():
            if name not in cursor.findings:
                cursor = replace(cursor, findings=(*cursor.findings, name))
                text, found = f"Diagnosis, {each.subject}: {each.message}", view_of(DiagnosticView, each)
                yield cursor, self._notice("doctor", text, diagnostic=found)
        yield replace(cursor, checked_at=now, findings=tuple(named)), None

    def _notice(self, event: NoticeKind, text: str, board: str | None = None, **more: Any) -> NoticeView:
        closed = None if board is None else board in self._board().context.editor.closed()
        line = one_line(text, _TEXT_CHARACTERS_MAX)
        return NoticeView(event=event, text=line, at=moment_of(utc_now()), board=board, closed=closed, **more)

    def _run(self, notify: Notify, notice: NoticeView) -> None:
        """Run the command for a notice, and warn of its failure."""
        argv = [word.replace(TEXT, notice.text) for word in notify.command]
        line = f"{msgspec.json.encode(notice).decode()}\n"
        try:
            done = ThisHost().run(argv, timeout_seconds=SECONDS_MAX, stdin=line)
        except (CommandMissing, CommandTimeout, BoardError) as error:
            problem = str(error)
        else:
            if not done.returncode:
                return
            words = one_line(done.stderr or done.stdout, _TEXT_CHARACTERS_MAX)
            problem = f"{argv[0]} ended with exit code {done.returncode}: {words}"
        self._warn(f"notify: {problem}. Notice not delivered: {notice.text}")


def _first_places(board: Board, after: int, task: str | None = None) -> list[FeedEntry]:
    """Return the entries of the feed after the entry `after` that are worth a notice, oldest first."""
    found: list[FeedEntry] = []
    page = board.standings.feed(task=task, limit=_PAGE_ENTRIES)
    while page:
        found += [entry for entry in page if entry.id > after and _takes_first_place(entry)]
        oldest = page[-1].id
        page = board.standings.feed(task=task, before=oldest, limit=_PAGE_ENTRIES) if oldest > after else ()
    return found[::-1]


def _takes_first_place(entry: FeedEntry) -> bool:
    """Return whether a run gave the first place to its user, or improved it by more than noise."""
    return entry.news.kind is FeedKind.RECORD and (entry.news.former_rank != 1 or entry.beats_record)


def due_deadlines(
    boards: "Iterable[CreatedBoard]", after: datetime, now: datetime
) -> list[tuple[datetime, str, datetime]]:
    """Return the times of notices that are due after this time, in order, each with its board and deadline.

    Of each board it is the last one; a board that was created or changed later has none.
    """
    found = {
        board.name: (deadline - before, board.name, deadline)
        for board in boards
        if (deadline := board.options.deadline) is not None
        for before in _BEFORE_DEADLINE
        if max(after, board.change.at) < deadline - before <= now
    }
    return sorted(found.values())
