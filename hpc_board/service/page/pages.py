"""Pages that are made once for all readers, and again when the board has changed."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple
from weakref import ReferenceType, ref

from msgspec.structs import replace

from hpc_board.service.page.views import Content, content

if TYPE_CHECKING:
    from hpc_board.board import Board
    from hpc_board.board.context import Installation
    from hpc_board.store.overview import Mark

_KEPT_MAX = 600
"""The maximum number of pages that are kept: more than the streams of `PageBounds`, each of which may have its own."""

_ENDED_AGE = timedelta(hours=1)
"""The age from which the page of a run that has ended is made again: the settings' task folders may change."""


class PageMark(NamedTuple):
    """The settings' installation, the board's newest rows, and the minute: while these stay, so does every page."""

    installation: "ReferenceType[Installation]"
    rows: "Mark"
    minute: datetime


class _Kept(NamedTuple):
    mark: PageMark
    content: Content
    made: datetime


class Pages:
    """The pages of a board; every method may be called from any thread. `board` returns it as the public sees it."""

    def __init__(self, board: "Callable[[], Board]") -> None:
        self._board = board
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def session(self) -> AbstractContextManager[None]:
        """Keep the database open for the calls of this thread: to open it takes longer than to see no change."""
        return self._board().session()

    def mark(self) -> PageMark:
        """Return the present mark.

        A page says times by the minute alone, so that one that is made again for a closed board's rows stays the same.

        Raises:
            StorageError: the database cannot be read.
        """
        context = self._board().context
        minute = datetime.now(UTC).replace(second=0, microsecond=0)
        # A former installation ends although a page of its time is kept.
        return PageMark(ref(context.installation), context.store.overview.mark(), minute)

    def get(self, path: str) -> Content | None:
        """Return the present page at `path`; None if it does not exist, or is hidden from the public.

        Raises:
            StorageError: the database cannot be read.
        """
        with self.session():
            # The mark comes first: a change in between makes the page anew next time.
            mark, board = self.mark(), self._board()
            with self._lock:
                kept = self._kept.get(path)
            if kept is not None and _is_present(board, kept, mark):
                found: _Kept | None = kept._replace(mark=mark)
            else:
                made = content(board, path, mark.minute)
                found = None if made is None else _Kept(mark, made, mark.minute)
        with self._lock:
            self._kept.pop(path, None)
            if found is None:
                return None
            self._kept[path] = found
            if len(self._kept) > _KEPT_MAX:
                self._kept.popitem(last=False)
        return found.content


def _is_present(board: "Board", kept: _Kept, mark: PageMark) -> bool:
    """Return whether a page that was made before is still the present one."""
    if kept.mark == mark:
        return True
    ended = kept.content.ended
    same_rules = kept.mark.installation == mark.installation and kept.mark.rows.has_same_rules(mark.rows)
    if ended is None or not same_rules or mark.minute - kept.made >= _ENDED_AGE:
        return False
    # Only others' runs change the page, and only if this one counts on its board.
    if ended.placing is None:
        return True
    # The measurements behind `change_shown` do not change.
    return replace(ended.placing, change_shown=None) == board.context.store.standings.placing(ended.run)
