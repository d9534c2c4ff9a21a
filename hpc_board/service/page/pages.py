"""Pages that are made once for all readers, and again when the board has changed."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from hpc_board.service.page.views import Content, content

if TYPE_CHECKING:
    from hpc_board.board import Board
    from hpc_board.board.context import Installation
    from hpc_board.store.overview import Mark

AGE_SECONDS_MAX = 60.0
"""The age from which a page is made again without news: deadlines pass, and the settings' task folders change."""

_KEPT_MAX = 100


class PageMark(NamedTuple):
    """The mark of what pages show: the board's newest rows, under the settings of an installation."""

    installation: "Installation"
    rows: "Mark"


class _Kept(NamedTuple):
    mark: PageMark
    content: Content


class Pages:
    """The pages of a board; every method may be called from any thread. `board` returns it as the public sees it."""

    def __init__(self, board: "Callable[[], Board]") -> None:
        self._board = board
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def mark(self) -> PageMark:
        """Return the present mark.

        Raises:
            StorageError: the database cannot be read.
        """
        context = self._board().context
        return PageMark(context.installation, context.store.overview.mark())

    def get(self, path: str) -> Content | None:
        """Return the present page at `path`; None if it does not exist, or is hidden from the public.

        Raises:
            StorageError: the database cannot be read.
        """
        board = self._board()
        with board.session():
            # The mark comes first: a change in between makes the page anew next time.
            mark, now = self.mark(), datetime.now(UTC)
            with self._lock:
                kept = self._kept.get(path)
            if kept is not None and kept.mark == mark and (now - kept.content.at).total_seconds() < AGE_SECONDS_MAX:
                return kept.content
            made = content(board, path, now)
        with self._lock:
            self._kept.pop(path, None)
            if made is not None:
                self._kept[path] = _Kept(mark, made)
                if len(self._kept) > _KEPT_MAX:
                    self._kept.popitem(last=False)
        return made
