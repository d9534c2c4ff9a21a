"""Pages that are made once for all readers, and again when the board has changed."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple
from weakref import ReferenceType, ref

from hpc_board.service.page.views import page

if TYPE_CHECKING:
    from hpc_board.board import Board
    from hpc_board.board.context import Installation
    from hpc_board.store.overview import Mark

_KEPT_MAX = 500


class _PageMark(NamedTuple):
    """The settings' installation, the board's newest rows, and the minute: while these stay, so does every page."""

    installation: "ReferenceType[Installation]"
    rows: "Mark"
    minute: datetime


class Pages:
    """The pages of a board; `board` returns it as the public sees it."""

    def __init__(self, board: "Callable[[], Board]") -> None:
        self._board = board
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[_PageMark, bytes]] = OrderedDict()

    def get(self, path: str) -> bytes | None:
        """Return the present page at `path`; None if it does not exist, or is hidden from the public.

        It may be called from any thread.

        Raises:
            StorageError: the database cannot be read.
        """
        board = self._board()
        # One page at a time, so that many readers of a changed page make it once.
        with self._lock, board.session():
            # A page says times by the minute alone, so that one that is made again for a closed board's rows stays
            # the same. A former installation ends although a page of its time is kept.
            minute = datetime.now(UTC).replace(second=0, microsecond=0)
            mark = _PageMark(ref(board.context.installation), board.context.store.overview.mark(), minute)
            kept = self._kept.pop(path, None)
            if kept is None or kept[0] != mark:
                made = page(board, path, minute)
                kept = None if made is None else (mark, made.encode())
            if kept is None:
                return None
            self._kept[path] = kept
            if len(self._kept) > _KEPT_MAX:
                self._kept.popitem(last=False)
            return kept[1]
